// What goes after the backward kernel: dq from its parts, and dk and dv if blocks share a group.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../../attention.h"
#include "../backward_prepare.h"
#include "../backward_queries.h"
#include "../constants.h"
#include "../rows.h"
#include "backward_sums.h"
#include "epilogue.h"
#include "ptx.h"

namespace flashbench::cuda::sm90 {

// One block for each tile of queries of a head: dq = scale * the sum of its parts, or 0 times that, which
// leaves NaN, in `row_of_one_key`.
template <typename Tile>
__global__ void __launch_bounds__(kRowThreads)
    store_query_gradients(const AttentionBackward problem, const float* dq, int row_of_one_key,
                          bool dq_vectors) {
    using T = typename Tile::Type;
    const Attention& forward = problem.forward;
    const int consumer = threadIdx.x / kWarpgroup;
    const int thread = threadIdx.x % kWarpgroup;
    const QueryBlock queries(forward, Tile::kQueries);
    // This kernel is launched before the one that adds to dq has ended.
    ptx::griddepcontrol_wait();
    const auto* parts = reinterpret_cast<const float4*>(
        dq + (queries.in_all * Tile::kConsumers + consumer) * Tile::kQueryGradients);
    float values[Tile::kQueryDims / 2];
#pragma unroll
    for (int i = 0; i < Tile::kQueryDims / 2; i += 4) {
        const float4 four = parts[i / 4 * kWarpgroup + thread];
        values[i] = four.x;
        values[i + 1] = four.y;
        values[i + 2] = four.z;
        values[i + 3] = four.w;
    }
    Rows<T> rows = rows_of<T>(problem.dq, problem.dq_strides, queries.batch, queries.head,
                              forward.q_len, forward.head_dim, dq_vectors);
    const int first_dim = Tile::first_query_box(consumer) * Tile::kBoxDims;
    rows.first += first_dim * rows.dim_stride;
    rows.head_dim -= first_dim;
    const int first_row = queries.first_row + Tile::first_query(consumer);
    RowState state;
    state.warp = thread / kWarpSize;
    state.lane = thread % kWarpSize;
    const auto scale_of = [&](int half) {
        const int row = first_row + state.row_in_group(half);
        return row == row_of_one_key ? 0.0f : forward.scale;
    };
    store_weighted_rows(values, scale_of, rows, state, first_row);
}

// dk or dv of a block of keys: the sum of the parts of a group.
template <typename Tile, KeySum which>
__device__ __forceinline__ void store_sum_of_parts(const BackwardPlan& plan, int head) {
    using T = typename Tile::Type;
    constexpr int kDims = Tile::kHeadDim <= 128 ? Tile::kHeadDim : Tile::kHeadDim / 2;  // at a time
    const int consumer = threadIdx.x / kWarpgroup;
    const int thread = threadIdx.x % kWarpgroup;
    const auto* parts = reinterpret_cast<const float4*>(
        parts_of_keys<Tile>(plan, head, blockIdx.x, which, consumer));
    RowState state;
    state.warp = thread / kWarpSize;
    state.lane = thread % kWarpSize;
    for (int first_dim = 0; first_dim < Tile::kHeadDim; first_dim += kDims) {
        float sum[kDims / 2] = {};
        for (int part = 0; part < plan.parts; ++part) {
            const auto* vectors =
                parts + (part * Tile::kHeadDim + first_dim) * (kGroupRows / 4) + thread;
#pragma unroll
            for (int i = 0; i < kDims / 2; i += 4) {
                const float4 four = vectors[i / 4 * kWarpgroup];
                sum[i] += four.x;
                sum[i + 1] += four.y;
                sum[i + 2] += four.z;
                sum[i + 3] += four.w;
            }
        }
        Rows<T> rows = rows_of_keys<T, which>(plan, head / plan.kv_heads, head % plan.kv_heads,
                                              first_dim);
        store_scaled_rows(sum, scale_of_keys<which>(plan), rows, state,
                          blockIdx.x * Tile::kKeys + consumer * kGroupRows);
    }
}

// One block of threads for each block of keys of a head, for dk and for dv.
template <typename Tile>
__global__ void __launch_bounds__(kRowThreads) store_key_gradients(const BackwardPlan plan) {
    // This kernel is launched before the one that writes the parts has ended.
    ptx::griddepcontrol_wait();
    const int head = blockIdx.y / 2;
    if (blockIdx.y % 2 == 0) {
        store_sum_of_parts<Tile, KeySum::dk>(plan, head);
    } else {
        store_sum_of_parts<Tile, KeySum::dv>(plan, head);
    }
}

}  // namespace flashbench::cuda::sm90
