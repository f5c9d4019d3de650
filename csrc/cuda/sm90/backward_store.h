// What goes after the backward kernel: dq from its parts.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../../attention.h"
#include "../backward_prepare.h"
#include "../constants.h"
#include "../rows.h"
#include "backward_tile.h"
#include "epilogue.h"
#include "ptx.h"

namespace flashbench::cuda::sm90 {

// One block for each tile of queries of a head: dq = scale * the sum of its parts.
template <typename Tile>
__global__ void __launch_bounds__(kRowThreads)
    store_query_gradients(const AttentionBackward problem, const float* dq, bool dq_vectors) {
    using T = typename Tile::Type;
    const Attention& forward = problem.forward;
    const int consumer = threadIdx.x / kWarpgroup;
    const int thread = threadIdx.x % kWarpgroup;
    const int64_t tile = static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x;
    // This kernel is launched before the one that adds to dq has ended.
    ptx::griddepcontrol_wait();
    const auto* parts = reinterpret_cast<const float4*>(
        dq + (tile * Tile::kConsumers + consumer) * Tile::kQueryGradients);
    float values[Tile::kQueryDims / 2];
#pragma unroll
    for (int i = 0; i < Tile::kQueryDims / 2; i += 4) {
        const float4 four = parts[i / 4 * kWarpgroup + thread];
        values[i] = four.x;
        values[i + 1] = four.y;
        values[i + 2] = four.z;
        values[i + 3] = four.w;
    }
    Rows<T> rows = rows_of<T>(problem.dq, problem.dq_strides, blockIdx.y / forward.heads,
                              blockIdx.y % forward.heads, forward.q_len, forward.head_dim,
                              dq_vectors);
    const int first_dim = Tile::first_query_box(consumer) * Tile::kBoxDims;
    rows.first += first_dim * rows.dim_stride;
    rows.head_dim -= first_dim;
    const int first_row = blockIdx.x * Tile::kQueries + Tile::first_query(consumer);
    RowState state;
    state.warp = thread / kWarpSize;
    state.lane = thread % kWarpSize;
    store_scaled_rows(values, forward.scale, rows, state, first_row);
}

}  // namespace flashbench::cuda::sm90
