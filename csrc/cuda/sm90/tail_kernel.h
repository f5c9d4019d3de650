// The second kernel of a divided tail (tail.h): adds up the parts of each tile and stores its rows.
// A block of threads takes 32 dims of a warpgroup's 64 rows, in the layout of its accumulators.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

#include "../rows.h"
#include "epilogue.h"
#include "ptx.h"
#include "tail.h"
#include "tile.h"
#include "tile_scheduler.h"

namespace flashbench::cuda::sm90 {

constexpr int kMergeDims = 32;

// Stores a warpgroup's rows of a part: bases, sums, and the accumulators relative to the bases.
template <typename Tile>
__device__ __forceinline__ void store_part_statistics(const Tail& tail, int part, int consumer,
                                                      const RowState& rows) {
    const int64_t group = part * Tile::kConsumers + consumer;
    tail.statistics[group * kWarpgroup + threadIdx.x % kWarpgroup] =
        make_float4(rows.row_base[0], rows.row_base[1], rows.row_sum[0], rows.row_sum[1]);
}

template <typename Tile>
__device__ __forceinline__ void store_part_values(const Tail& tail, int part, int consumer,
                                                  const float (&out)[Tile::kHeadDim / 2]) {
    constexpr int kQuads = Tile::kHeadDim / 8;
    const int64_t group = part * Tile::kConsumers + consumer;
    float4* values =
        tail.values + group * kQuads * kWarpgroup + threadIdx.x % kWarpgroup;
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
        values[i * kWarpgroup] =
            make_float4(out[4 * i], out[4 * i + 1], out[4 * i + 2], out[4 * i + 3]);
    }
}

template <typename Tile>
__global__ void __launch_bounds__(kWarpgroup) merge_tail(const __grid_constant__ Launch launch) {
    using T = typename Tile::Type;
    constexpr int kQuads = Tile::kHeadDim / 8;
    constexpr int kMergeQuads = kMergeDims / 8;
    const Tail& tail = launch.tail;
    const Attention& problem = launch.problem;
    const int tile = blockIdx.x / Tile::kConsumers;
    const int consumer = blockIdx.x % Tile::kConsumers;
    const int first_share = tail.share_of(tile * tail.blocks);
    const int last_share = tail.share_of((tile + 1) * tail.blocks - 1);
    const auto group_of = [&](int share) {
        return static_cast<int64_t>(Tail::part(share, tile)) * Tile::kConsumers + consumer;
    };
    const auto statistics_of = [&](int share) {
        return tail.statistics[group_of(share) * kWarpgroup + threadIdx.x];
    };
    ptx::griddepcontrol_wait();
    float base[2] = {-INFINITY, -INFINITY};
    for (int share = first_share; share <= last_share; ++share) {
        const float4 part = statistics_of(share);
        base[0] = fmaxf(base[0], part.x);
        base[1] = fmaxf(base[1], part.y);
    }
    // As in Softmax: any finite base will do while all scores are -inf.
    base[0] = base[0] == -INFINITY ? 0.0f : base[0];
    base[1] = base[1] == -INFINITY ? 0.0f : base[1];
    float out[4 * kMergeQuads] = {};
    float sums[2] = {};
    for (int share = first_share; share <= last_share; ++share) {
        const float4 part = statistics_of(share);
        const float weight[2] = {ptx::ex2(part.x - base[0]), ptx::ex2(part.y - base[1])};
        sums[0] = fmaf(part.z, weight[0], sums[0]);
        sums[1] = fmaf(part.w, weight[1], sums[1]);
        const float4* values =
            tail.values +
            (group_of(share) * kQuads + blockIdx.y * kMergeQuads) * kWarpgroup + threadIdx.x;
#pragma unroll
        for (int i = 0; i < kMergeQuads; ++i) {
            if (kQuads % kMergeQuads != 0 && blockIdx.y * kMergeQuads + i >= kQuads) {
                break;
            }
            const float4 quad = values[i * kWarpgroup];
            out[4 * i] = fmaf(quad.x, weight[0], out[4 * i]);
            out[4 * i + 1] = fmaf(quad.y, weight[0], out[4 * i + 1]);
            out[4 * i + 2] = fmaf(quad.z, weight[1], out[4 * i + 2]);
            out[4 * i + 3] = fmaf(quad.w, weight[1], out[4 * i + 3]);
        }
    }
    const int index = tail.first_tile + tile;
    const int batch_head = index / launch.tiles;
    const int heads = static_cast<int>(problem.heads);
    Rows<T> rows = out_rows<T>(problem, batch_head / heads, batch_head % heads, launch.out_vectors);
    const int first_dim = blockIdx.y * kMergeDims;
    rows.first += first_dim * rows.dim_stride;
    rows.head_dim -= first_dim;
    RowState state{};
    state.warp = threadIdx.x / kWarpSize;
    state.lane = threadIdx.x % kWarpSize;
    store_group_rows(out, sums, rows, state,
                     index % launch.tiles * Tile::kRows + consumer * kGroupRows);
}

}  // namespace flashbench::cuda::sm90
