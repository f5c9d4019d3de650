// What goes before a backward kernel: delta and lse of the queries, and zeros in dq.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "../attention.h"
#include "backward_queries.h"
#include "constants.h"
#include "rows.h"
#include "sm90/ptx.h"
#include "types.h"

namespace flashbench::cuda {

constexpr int kRowThreads = 256;

// One block for each tile of queries of a head. Writes lse_scale * lse, in powers of two, and delta, and sets
// the tile's part of dq and its turns to zero.
template <typename Tile>
__global__ void __launch_bounds__(kRowThreads)
    prepare_backward(const AttentionBackward problem, float* lse, float* delta, float* dq,
                     unsigned* turns, float lse_scale, bool out_vectors, bool dout_vectors) {
    using T = typename Tile::Type;
#if __CUDA_ARCH__ >= 900
    sm90::ptx::griddepcontrol_launch_dependents();
#endif
    // Lanes of a row; a power of two.
    constexpr int kLanes =
        (Tile::kHeadDim <= 64 ? 64 : Tile::kHeadDim <= 128 ? 128 : 256) / kChunkElements;
    const Attention& forward = problem.forward;
    const QueryBlock queries(forward, Tile::kQueries);
    const int64_t tile = queries.in_all;
    auto* vectors = reinterpret_cast<float4*>(dq + tile * Tile::kTileGradients);
    for (int i = threadIdx.x; i < Tile::kTileGradients / 4; i += kRowThreads) {
        vectors[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    if (turns != nullptr && threadIdx.x < Tile::kTurns) {
        turns[tile * Tile::kTurns + threadIdx.x] = 0;
    }
    const Rows<const T> out = out_rows<const T>(forward, queries.batch, queries.head, out_vectors);
    const Rows<const T> dout =
        rows_of<const T>(problem.dout, problem.dout_strides, queries.batch, queries.head,
                         forward.q_len, forward.head_dim, dout_vectors);
    const int column = threadIdx.x % kLanes * kChunkElements;
    for (int i = threadIdx.x / kLanes; i < Tile::kQueries; i += kRowThreads / kLanes) {
        const int row = queries.first_row + i;
        float sum = 0.0f;
        if (row < forward.q_len && column < forward.head_dim) {
            const uint4 a = load_chunk(out, row, column);
            const uint4 b = load_chunk(dout, row, column);
            sum = dot_of_chunks<T>(a, b);
        }
#pragma unroll
        for (int distance = kLanes / 2; distance > 0; distance /= 2) {
            sum += __shfl_xor_sync(0xffffffffu, sum, distance);
        }
        if (column == 0) {
            float lse_of_row = INFINITY;  // exp(score - lse) is 0 then
            if (row < forward.q_len && !(forward.causal && row + forward.causal_offset < 0)) {
                const int64_t first =
                    (queries.batch * forward.heads + queries.head) * forward.lse_rows;
                lse_of_row = forward.lse[first + row] * lse_scale;
            }
            lse[tile * Tile::kQueries + i] = lse_of_row;
            delta[tile * Tile::kQueries + i] = sum;
        }
    }
}

}  // namespace flashbench::cuda
