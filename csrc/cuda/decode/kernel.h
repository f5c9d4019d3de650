// Forward attention for a few query rows and many keys: reads K and V once, as fast as memory
// delivers them.
//
// The query heads that share a key head are rows of one tile: row r is query r / group of the group's
// head r % group ("pack-GQA"). The keys of a tile are divided among blocks of threads, and those of a
// block among groups of warps. A group streams its keys through its own ring of buffers, so it waits
// only for the ring's copies; the arithmetic is that of ../warp_tile.h. The copies are cp.async's, which
// start soonest, or on Hopper TMA's, which one lane starts (pick_tile.h): refills by cp.async queue, 16 bytes
// a lane, and meanwhile the warp computes nothing. The groups' results (output, base, sum) are merged in
// a fixed order:
//
//   groups of a block      through shared memory
//   blocks of a cluster    (sm_90) each block owns a part of the output and receives the others'
//                          contributions by st.async
//   clusters of a tile     through a workspace and a second kernel, `merge_partials`, used only if
//                          a cluster is too small to fill the GPU
//
// The causal masks here hide only the last keys: one aligned at the top left would leave a short query
// almost nothing to read. NaN and infinity as in ../sm80/kernel.h: a group scans V of the steps that the
// mask cuts. A row whose scores are all -inf gives NaN. `causal` is a template argument to save
// registers: with one kernel for both, full tiles took 5 to 16 more.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../../attention.h"
#include "../boxes.h"
#include "../constants.h"
#include "../ptx.h"
#include "../quad.h"
#include "../rows.h"
#include "../shared_tile.h"
#include "../sm90/ptx.h"
#include "../warp_tile.h"
#include "decode_launch.h"
#include "merge.h"
#include "tile.h"

namespace flashbench::cuda::decode {

// Copies the tile's rows of Q to shared memory, zeros past the last one.
template <typename Tile>
__device__ __forceinline__ void load_query(const DecodeLaunch& launch, uint32_t shared,
                                           unsigned batch, unsigned kv_head, int first_row) {
    using T = typename Tile::Type;
    using Layout = Swizzle<Tile::kHeadDim>;
    const Attention& problem = launch.problem;
    const int64_t stride = problem.q_strides.dim;
#pragma unroll
    for (int i = threadIdx.x; i < Tile::kRows * Layout::kChunks; i += Tile::kThreads) {
        const int row = i / Layout::kChunks;
        const int chunk = i % Layout::kChunks;
        const int column = chunk * kChunkElements;
        uint4 elements = make_uint4(0, 0, 0, 0);
        if (first_row + row < launch.rows && column < problem.head_dim) {
            const T* source = packed_row<const T>(problem.q, problem.q_strides, batch, kv_head,
                                                  launch.group, first_row + row);
            elements = launch.in_vectors.q ? *reinterpret_cast<const uint4*>(source + column)
                                        : gather_chunk(source + column * stride, stride);
        }
        ptx::st_shared_128(shared + Layout::offset(row, chunk), elements);
    }
}

template <typename Tile, bool causal, bool tensor_maps>
__device__ __forceinline__ void decode(const DecodeLaunch& launch) {
    using Warp = typename Tile::Warp;
    using T = typename Tile::Type;
    constexpr int kHeadDim = Tile::kHeadDim;
    constexpr int kKeys = Tile::kKeys;
    constexpr int kStages = Tile::kStages;
    constexpr int kGroups = Tile::kGroups;
    constexpr int kRowQuads = kHeadDim / 4;
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const Attention& problem = launch.problem;

    const unsigned batch_head =
        launch.row_tiles == 1 ? blockIdx.x : blockIdx.x / launch.row_tiles;
    const unsigned batch = batch_head / launch.kv_heads;
    const unsigned kv_head = batch_head - batch * launch.kv_heads;
    const int first_row = static_cast<int>(blockIdx.x - batch_head * launch.row_tiles) * Tile::kRows;
    const int rows = min(Tile::kRows, launch.rows - first_row);
    const int cluster = launch.division.cluster;

    // The shuffle makes it provably warp-uniform.
    const int warp = __shfl_sync(0xffffffffu, threadIdx.x / kWarpSize, 0);
    const int lane = static_cast<int>(threadIdx.x % kWarpSize);
    const int group = warp / (Tile::kGroupThreads / kWarpSize);
    const int warp_row = warp % (Tile::kGroupThreads / kWarpSize) * 16;
    const unsigned group_thread = threadIdx.x % Tile::kGroupThreads;
    const auto meet = [&] {
        if constexpr (Tile::kGroupThreads == kWarpSize) {
            __syncwarp();
        } else {
            sm90::ptx::bar_sync(1 + group, Tile::kGroupThreads);
        }
    };

    const auto any_of_group = [&](bool found) {
        if constexpr (Tile::kGroupThreads == kWarpSize) {
            return __any_sync(0xffffffffu, found) != 0;
        } else {
            return sm90::ptx::bar_red_or(1 + group, Tile::kGroupThreads, found);
        }
    };

    const uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory));
    const uint32_t ring = shared + Tile::kQueryBytes + group * Tile::kRingBytes;
    const auto key = key_rows<T>(problem, batch, kv_head, launch.in_vectors.k);
    const auto value = value_rows<T>(problem, batch, kv_head, launch.in_vectors.v);
    const int first_step = launch.division.first_step(blockIdx.y) + group;
    const int end_step = launch.division.first_step(blockIdx.y + 1);
    // The barriers at which TMA's copies of K and V of a stage arrive.
    const uint32_t barrier = shared + launch.barrier_offset;
    const auto key_full = [&](int stage) {
        return barrier + 16 + (group * kStages + stage) * 16;
    };
    const auto value_full = [&](int stage) { return key_full(stage) + 8; };
    // Requests the rows of K or V of a step, if it is this block's.
    const auto load = [&](uint32_t target, const CUtensorMap* map, uint32_t full,
                          const Rows<const T>& source, int step) {
        if (step >= end_step) {
            return;
        }
        if constexpr (tensor_maps) {
            if (group_thread == 0) {
                if (launch.whole_rows) {
                    issue_whole_rows<kHeadDim, kKeys>(target, map, full, step * kKeys, kv_head,
                                                      batch, launch.evict_first);
                } else {
                    issue_boxes<kHeadDim, kKeys>(target, map, full, step * kKeys, kv_head, batch,
                                                 launch.evict_first);
                }
            }
        } else if constexpr (Tile::kBoxes) {
            load_boxes<kHeadDim, kKeys, Tile::kGroupThreads>(target, source, step * kKeys,
                                                             group_thread);
        } else {
            load_tile<kHeadDim, kKeys, Tile::kGroupThreads>(target, source, step * kKeys,
                                                            group_thread);
        }
    };
    const auto load_keys = [&](int stage, int step) {
        load(ring + stage * Tile::kStageBytes, &launch.key, key_full(stage), key, step);
    };
    const auto load_values = [&](int stage, int step) {
        load(ring + stage * Tile::kStageBytes + Tile::kKeyBytes, &launch.value, value_full(stage),
             value, step);
    };

#if __CUDA_ARCH__ >= 900
    if (tensor_maps && group_thread == 0) {
#pragma unroll
        for (int stage = 0; stage < kStages; ++stage) {
            sm90::ptx::mbarrier_init(key_full(stage), 1);
            sm90::ptx::mbarrier_init(value_full(stage), 1);
        }
        sm90::ptx::fence_mbarrier_init();
    }
    __syncwarp();  // for racecheck, which sees the whole warp initialise them
#endif
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
        load_keys(stage, first_step + stage * kGroups);
        load_values(stage, first_step + stage * kGroups);
        ptx::cp_async_commit_group();
    }
    load_query<Tile>(launch, shared, batch, kv_head, first_row);
#if __CUDA_ARCH__ >= 900
    const int quads = rows * kRowQuads;
    const int quads_a_block = (quads + cluster - 1) / cluster;
    const int rank = cluster == 1 ? 0 : sm90::ptx::cluster_ctarank();
    const int own_quads = max(0, min(quads_a_block, quads - rank * quads_a_block));
    if (cluster > 1 && threadIdx.x == 0) {
        sm90::ptx::mbarrier_init(barrier, 1);
        sm90::ptx::fence_mbarrier_init();
        sm90::ptx::mbarrier_arrive_expect_tx(barrier,
                                             (cluster - 1) * own_quads * Tile::kQuadBytes);
    }
    if (launch.partial_values != nullptr) {
        sm90::ptx::griddepcontrol_launch_dependents();
    }
#endif
    // The last key that the lane's row of `half` (0 or 1) sees, if causal.
    const auto position_of = [&](int half) {
        const unsigned row = first_row + warp_row + half * 8 + lane / 4;
        return static_cast<int>(row / launch.group + problem.causal_offset);
    };
    WarpTile<Warp> part(lane, 0, shared + warp_row * Swizzle<kHeadDim>::kRowBytes);
    __syncthreads();  // Q has arrived
    part.load_query();

    // Zeroes NaN and infinity in a stage's V; returns whether there were any.
    const auto zero_nonfinite = [&](uint32_t values) {
        if constexpr (Tile::kBoxes) {
            return any_of_group(zero_nonfinite_boxes<kHeadDim, kKeys, Tile::kGroupThreads, T>(
                values, group_thread));
        } else {
            return any_of_group(zero_copied_nonfinite<kHeadDim, kKeys, Tile::kGroupThreads, T>(
                values, group_thread));
        }
    };

    int stage = 0;
    int parity = 0;
#pragma unroll 1
    for (int step = first_step; step < end_step; step += kGroups) {
        const uint32_t keys = ring + stage * Tile::kStageBytes;
        const uint32_t values = keys + Tile::kKeyBytes;
        const int next_step = step + kStages * kGroups;
        const bool computes = warp_row < rows;
        // Whether some row does not see all keys of this step.
        const bool cut = causal && (step + 1) * kKeys > launch.seen_by_all;
        bool nonfinite = false;
        if constexpr (tensor_maps) {
            sm90::ptx::mbarrier_wait(key_full(stage), parity);
        } else {
            ptx::cp_async_wait_group<kStages - 1>();
            meet();  // K and V of this step have arrived
        }
        if (computes) {
            part.multiply_keys(keys);
        }
        if constexpr (tensor_maps) {
            meet();  // all warps are done with K
            load_keys(stage, next_step);
        }
        if (computes) {
            if (cut || (!causal && (step + 1) * kKeys > problem.k_len)) {
                part.mask(step * kKeys, static_cast<int>(problem.k_len), causal, position_of);
            }
            part.softmax(launch.scale_log2);
        }
        if constexpr (tensor_maps) {
            sm90::ptx::mbarrier_wait(value_full(stage), parity);
        }
        if (cut) {
            nonfinite = zero_nonfinite(values);
            if constexpr (tensor_maps) {
                sm90::ptx::fence_proxy_async();  // before the next copy to the same place
            }
            meet();
        }
        if (computes) {
            part.multiply_values(values);
            if (nonfinite) {
                part.add_nonfinite_values(value, step * kKeys, position_of);
            }
        }
        meet();  // all warps are done with V
        if constexpr (!tensor_maps) {
            load_keys(stage, next_step);
        }
        load_values(stage, next_step);
        ptx::cp_async_commit_group();
        if (++stage == kStages) {
            stage = 0;
            parity ^= 1;
        }
    }
    __syncthreads();  // every group is done with its ring
#if __CUDA_ARCH__ >= 900
    if (cluster > 1) {
        sm90::ptx::cluster_arrive_relaxed();  // the other blocks may send
    }
#endif

    // The groups of this block.
    auto* parts = reinterpret_cast<float*>(shared_memory);
    auto* statistics = reinterpret_cast<float2*>(shared_memory + kGroups * Tile::kPartBytes);
    constexpr int kPartFloats = Tile::kRows * kHeadDim;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = warp_row + half * 8 + lane / 4;
        const float sum = quad_sum(part.row_sum[0][half]);
        if (row >= rows) {
            continue;
        }
        if (lane % 4 == 0) {
            statistics[group * Tile::kRows + row] = make_float2(part.row_max[0][half], sum);
        }
#pragma unroll
        for (int n = 0; n < kHeadDim / 8; ++n) {
            *reinterpret_cast<float2*>(parts + group * kPartFloats +
                                       part_offset<kHeadDim>(row, n * 8 + 2 * (lane % 4))) =
                make_float2(part.out[0][n][2 * half], part.out[0][n][2 * half + 1]);
        }
    }
    __syncthreads();
#if __CUDA_ARCH__ >= 900
    if (Tile::kGroupThreads > kWarpSize && cluster == 1) {
        // Repeats it for racecheck, which after named barriers no longer knows __syncthreads
        // (experiments/racecheck_barriers.cu).
        sm90::ptx::cluster_arrive_relaxed();
        sm90::ptx::cluster_wait();
    }
#endif
    const auto block_quad = [&](int row, int column) {
        return add_quads(
            kGroups, [&](int i) { return statistics[i * Tile::kRows + row]; },
            [&](int i) {
                return *reinterpret_cast<const float4*>(parts + i * kPartFloats +
                                                        part_offset<kHeadDim>(row, column));
            });
    };
    const auto finish = [&](int row, int column, const Quad& quad) {
        if (launch.partial_values != nullptr) {
            const int64_t index =
                (static_cast<int64_t>(batch_head) * launch.rows + first_row + row) *
                    launch.division.clusters() +
                blockIdx.y / cluster;
            reinterpret_cast<float4*>(launch.partial_values)[index * kRowQuads + column / 4] =
                quad.values;
            if (column == 0) {
                launch.partial_statistics[index] = make_float2(quad.base, quad.sum);
            }
        } else if (column < problem.head_dim) {
            const int64_t stride = problem.out_strides.dim;
            T* target = packed_row<T>(problem.out, problem.out_strides, batch, kv_head,
                                      launch.group, first_row + row);
            store_quad(target + column * stride, stride, launch.in_vectors.out, quad);
        }
    };

#if __CUDA_ARCH__ >= 900
    if (cluster > 1) {
        // The blocks of this cluster.
        const uint32_t received = shared + Tile::kPartsBytes;
        const uint32_t received_statistics =
            received + cluster * quads_a_block * static_cast<int>(sizeof(float4));
        sm90::ptx::cluster_wait();  // all blocks are done with their rings
#pragma unroll 1
        for (int i = threadIdx.x; i < quads; i += Tile::kThreads) {
            const Quad quad = block_quad(i / kRowQuads, i % kRowQuads * 4);
            const int owner = i / quads_a_block;
            const int index = rank * quads_a_block + i - owner * quads_a_block;
            const uint32_t to_values = received + index * static_cast<int>(sizeof(float4));
            const uint32_t to_statistics =
                received_statistics + index * static_cast<int>(sizeof(float2));
            if (owner == rank) {
                ptx::st_shared_float4(to_values, quad.values.x, quad.values.y, quad.values.z,
                                      quad.values.w);
                ptx::st_shared_64(to_statistics, make_float2(quad.base, quad.sum));
                continue;
            }
            const uint32_t far_barrier = sm90::ptx::mapa(barrier, owner);
            sm90::ptx::st_async_128(sm90::ptx::mapa(to_values, owner), far_barrier, quad.values);
            sm90::ptx::st_async_64(sm90::ptx::mapa(to_statistics, owner), far_barrier,
                                   make_float2(quad.base, quad.sum));
        }
        __syncthreads();  // this block's quads have arrived
        // The mbarrier signals that the others' have arrived. The cluster barrier repeats it for
        // racecheck, which does not know st.async.
        sm90::ptx::cluster_arrive_relaxed();
        sm90::ptx::mbarrier_wait(barrier, 0);
        sm90::ptx::cluster_wait();
        const auto* values = reinterpret_cast<const float4*>(shared_memory + Tile::kPartsBytes);
        const auto* pairs = reinterpret_cast<const float2*>(values + cluster * quads_a_block);
#pragma unroll 1
        for (int i = threadIdx.x; i < own_quads; i += Tile::kThreads) {
            const int quad = rank * quads_a_block + i;
            finish(quad / kRowQuads, quad % kRowQuads * 4,
                   add_quads(
                       cluster, [&](int part) { return pairs[part * quads_a_block + i]; },
                       [&](int part) { return values[part * quads_a_block + i]; }));
        }
        return;
    }
#endif
#pragma unroll 1
    for (int i = threadIdx.x; i < rows * kRowQuads; i += Tile::kThreads) {
        const int row = i / kRowQuads;
        const int column = i % kRowQuads * 4;
        finish(row, column, block_quad(row, column));
    }
}

template <typename Tile, bool causal, bool tensor_maps>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    forward_decode(const __grid_constant__ DecodeLaunch launch) {
#if __CUDA_ARCH__ >= 900
    decode<Tile, causal, tensor_maps>(launch);
#else
    if constexpr (!Tile::kHopperOnly) {
        decode<Tile, causal, false>(launch);
    }
#endif
}

}  // namespace flashbench::cuda::decode
