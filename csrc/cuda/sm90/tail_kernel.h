// The second kernel of a divided tail (tail.h): adds up the parts of each tile and stores its rows.
// A block of threads takes 32 dims of a warpgroup's 64 rows, in the layout of its accumulators, with 128
// threads for each group that adds up some of the parts.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

#include "../overlapped.h"
#include "../rows.h"
#include "epilogue.h"
#include "ptx.h"
#include "tail.h"
#include "tile.h"
#include "tile_scheduler.h"

namespace flashbench::cuda::sm90 {

constexpr int kMergeDims = 32;
constexpr int kMergeFloats = kMergeDims / 2 + 2;  // of a thread: outputs and two sums
// The most groups that share the parts of a tile: few heads have dozens, and each takes the time of a load.
constexpr int kMergeGroups = 4;

// Two groups from eight parts a tile on, four from sixteen. More would wait for each other longer.
inline int merge_groups(int64_t parts, int64_t tiles) {
    int groups = 1;
    while (groups < kMergeGroups && parts >= 8 * groups * tiles) {
        groups *= 2;
    }
    return groups;
}

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
__global__ void __launch_bounds__(kMergeGroups * kWarpgroup)
    merge_tail(const __grid_constant__ Launch launch) {
    using T = typename Tile::Type;
    constexpr int kQuads = Tile::kHeadDim / 8;
    constexpr int kMergeQuads = kMergeDims / 8;
    const Tail& tail = launch.tail;
    const Attention& problem = launch.problem;
    const int tile = blockIdx.x / Tile::kConsumers;
    const int consumer = blockIdx.x % Tile::kConsumers;
    const int index = tail.first_tile + tile;
    const int batch_head = index / launch.tiles;
    const int heads = tiled_heads<Tile>(launch);
    const int first_row_of_tile = index % launch.tiles * used_rows<Tile>(launch);
    const int first_row = first_row_of_tile + consumer * kGroupRows;
    if (first_row >= rows_of_head<Tile>(launch)) {
        return;
    }
    const int first_step = steps_before<Tile>(launch, tile) + start_of_tile<Tile>();
    const int first_share = tail.share_of(first_step);
    const int last_share =
        tail.share_of(first_step + blocks_of_tile<Tile>(launch, index % launch.tiles) - 1);
    const int thread = threadIdx.x % kWarpgroup;
    const int group = threadIdx.x / kWarpgroup;
    const auto group_of = [&](int share) {
        return static_cast<int64_t>(Tail::part(share, tile)) * Tile::kConsumers + consumer;
    };
    const auto statistics_of = [&](int share) {
        return tail.statistics[group_of(share) * kWarpgroup + thread];
    };
    ptx::griddepcontrol_wait();
    float base[2] = {-INFINITY, -INFINITY};
    // Eight at a time: their loads do not wait for each other.
    for (int share = first_share; share <= last_share; share += 8) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float4 part = statistics_of(min(share + i, last_share));
            base[0] = fmaxf(base[0], part.x);
            base[1] = fmaxf(base[1], part.y);
        }
    }
    // As in Softmax: any finite base will do while all scores are -inf.
    base[0] = base[0] == -INFINITY ? 0.0f : base[0];
    base[1] = base[1] == -INFINITY ? 0.0f : base[1];
    float out[4 * kMergeQuads] = {};
    float sums[2] = {};
    // The groups take parts in turns; the first one then adds what the others have.
    const int groups = blockDim.x / kWarpgroup;
#pragma unroll 2
    for (int share = first_share + group; share <= last_share; share += groups) {
        const float4 part = statistics_of(share);
        const float weight[2] = {ptx::ex2(part.x - base[0]), ptx::ex2(part.y - base[1])};
        sums[0] = fmaf(part.z, weight[0], sums[0]);
        sums[1] = fmaf(part.w, weight[1], sums[1]);
        const float4* values =
            tail.values + (group_of(share) * kQuads + blockIdx.y * kMergeQuads) * kWarpgroup + thread;
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
    if (groups > 1) {
        extern __shared__ float others[];  // [groups - 1][kMergeFloats][kWarpgroup]
        const auto of_group = [&](int other, int i) -> float& {
            return others[((other - 1) * kMergeFloats + i) * kWarpgroup + thread];
        };
        if (group > 0) {
#pragma unroll
            for (int i = 0; i < kMergeFloats; ++i) {
                of_group(group, i) = i < 2 ? sums[i % 2] : out[i - 2];
            }
        }
        __syncthreads();
        if (group > 0) {
            return;
        }
        for (int other = 1; other < groups; ++other) {
#pragma unroll
            for (int i = 0; i < kMergeFloats; ++i) {
                (i < 2 ? sums[i % 2] : out[i - 2]) += of_group(other, i);
            }
        }
    }
    const int first_dim = blockIdx.y * kMergeDims;
    RowState state{};
    state.warp = thread / kWarpSize;
    state.lane = thread % kWarpSize;
    const auto store = [&](auto rows) {
        rows.first += first_dim * rows.dim_stride;
        rows.head_dim -= first_dim;
        store_group_rows(out, sums, rows, state, first_row);
    };
    const int batch = batch_head / heads;
    const int head = batch_head % heads;
    if constexpr (Tile::kPacked) {
        PackedRows<T> rows =
            packed_out_rows<T>(problem, batch, head, launch.group, launch.out_vectors);
        rows.count = min(rows.count, first_row_of_tile + used_rows<Tile>(launch));
        store(rows);
    } else {
        store(out_rows<T>(problem, batch, head, launch.out_vectors));
    }
}

// The second kernel's blocks start while the first kernel ends, and wait for it.
template <typename Tile>
void launch_merge(const Launch& arguments, cudaStream_t stream) {
    const Tail& tail = arguments.tail;
    const int groups = merge_groups(tail.shares + tail.tiles, tail.tiles);
    launch_overlapped(merge_tail<Tile>,
                      dim3(static_cast<unsigned>(tail.tiles * Tile::kConsumers),
                           (Tile::kHeadDim + kMergeDims - 1) / kMergeDims),
                      groups * kWarpgroup,
                      (groups - 1) * kMergeFloats * kWarpgroup * static_cast<int>(sizeof(float)),
                      stream, arguments);
}

}  // namespace flashbench::cuda::sm90
