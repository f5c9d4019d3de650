// Forward attention for short sequences, where a tile of 64 query rows has so little work that its time
// is that of its first copies.
//
// So nothing precedes them: one thread locates the tile, with 32-bit divisions, and starts TMA copies of
// Q and the first K while the other threads set up. There is no producer; a block of threads is one
// warpgroup (or two, see below) with one buffer each for K and V, and three to five such blocks per SM
// hide each other's waits. Products are wgmma; scores, probabilities and output stay in registers; exp
// is ex2 with scale * log2(e) folded in. V is fetched once K has arrived, the next K once this one is
// used. ShortTile is in short_tile.h; tiles, registers, shared memory and their choice in
// short_shapes.h.
//
// If the tile sees only the first part of a block (a diagonal one, or the last one), a second copy of the
// loop's body computes only that part.
//
// With fewer tiles than SMs, the warpgroups of a cluster of two blocks of threads divide the blocks of
// keys and merge their results at the end (short_merge.h): all SMs have work, and each fetches half of
// K and V.
//
// NaN and infinity: keys past the end are zeros in shared memory and -inf in the scores, so they never
// count. But diagonal blocks contain causally masked keys, and 0 * NaN would let their V into rows that
// must not see it. Each warpgroup scans V of those blocks before P V and zeroes nonfinite values; it
// adds them at the end to the rows that do see them. A row whose scores are all -inf gives NaN, as a
// softmax does.
//
// Strides that TMA does not support (not 16-byte aligned, negative, or head vectors that are not
// contiguous) are read by plain loads of all threads into the same places, and results are stored from the same boxes
// by plain stores: slower, with the same bits.
//
// What each step gained on an H200, bf16, full, in us: 8,12,197,64 and 1,8,512,64 (SDPA: 11.3, 9.2;
// CUDA-graph replays)
//
//   the sm80 and split kernels                                              10.1   6.0
//   wgmma, copies by cp.async of all threads; cluster barrier at the end     7.2   6.2
//   copies by TMA, 32-bit divisions, parts sent by st.async                  7.1   5.4
//   V after K, mask only where it cuts, parts added a row at a time,
//     the own part not sent                                                  6.7   5.2
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "../../attention.h"
#include "../boxes.h"
#include "../constants.h"
#include "../rows.h"
#include "../shared_tile.h"
#include "out_boxes.h"
#include "ptx.h"
#include "short_merge.h"
#include "short_section.h"
#include "short_tile.h"

namespace flashbench::cuda::sm90 {

// Counts are 32-bit, because a 64-bit division takes longer than a product.
struct ShortLaunch {
    CUtensorMap query;
    CUtensorMap key;
    CUtensorMap value;
    OutMap out;        // if a tile has one part
    Attention problem;
    float scale_log2;  // scale * log2(e), positive
    int q_len;
    int k_len;
    unsigned heads;
    unsigned heads_a_kv_head;
    unsigned batch_heads;
    int tiles;         // of one head
    unsigned section;  // heads whose first tiles come before all second ones (short_place)
    bool tensor_maps;  // else plain loads
    InVectors in_vectors;  // as in Rows
};

// Run by all threads of a group: the same by plain loads, for strides that TMA does not support. They
// meet at named barrier 1 + group before and after.
template <typename Tile, int rows, typename T>
__device__ __forceinline__ void load_boxes(uint32_t shared, Rows<const T> source, int first_row,
                                           int group) {
    ptx::bar_sync(1 + group, Tile::kGroupThreads);
#pragma unroll 1
    for (int box = 0; box < Tile::kBoxes; ++box) {
        load_tile<Tile::kBoxDims, rows, Tile::kGroupThreads>(
            shared + box * rows * Tile::kSwizzleBytes, source, first_row,
            threadIdx.x % Tile::kGroupThreads);
        source.first += Tile::kBoxDims * source.dim_stride;
        source.head_dim -= Tile::kBoxDims;
    }
    ptx::cp_async_wait_all();
    ptx::fence_proxy_async();
    ptx::bar_sync(1 + group, Tile::kGroupThreads);
}

// Run by all threads of a group: zeroes every NaN and infinity in a block of V; returns whether there
// were any.
template <typename Tile>
__device__ __forceinline__ bool zero_nonfinite_boxes(uint32_t shared, int group) {
    bool found = false;
#pragma unroll 1
    for (int box = 0; box < Tile::kBoxes; ++box) {
        found |= zero_copied_nonfinite<Tile::kBoxDims, Tile::kKeys, Tile::kGroupThreads,
                                       typename Tile::Type>(
            shared + box * Tile::kKeys * Tile::kSwizzleBytes, threadIdx.x % Tile::kGroupThreads);
    }
    ptx::fence_proxy_async();
    return ptx::bar_red_or(1 + group, Tile::kGroupThreads, found);
}

template <typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    forward_short(const __grid_constant__ ShortLaunch launch) {
    using T = typename Tile::Type;
    constexpr int kKeys = Tile::kKeys;
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const ShortShared<Tile> shared{static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory))};
    const Attention& problem = launch.problem;
    const int k_len = launch.k_len;
    const bool causal = problem.causal;

    const int rank = static_cast<int>(blockIdx.x % Tile::kCluster);
    const ShortPlace place =
        short_place(launch.section, blockIdx.x / Tile::kCluster, blockIdx.y, blockIdx.z);
    const unsigned batch_head = place.batch_head;
    const int tile = place.tile;
    if (batch_head >= launch.batch_heads) {  // the last section is smaller; true for whole clusters
        return;
    }
    const int batch = static_cast<int>(batch_head / launch.heads);
    const unsigned head = batch_head % launch.heads;
    const int kv_head =
        static_cast<int>(launch.heads_a_kv_head == 1 ? head : head / launch.heads_a_kv_head);
    // If causal, the tiles with the most keys come first.
    const int first_row = (causal ? launch.tiles - 1 - tile : tile) * Tile::kRows;
    const int first_position = first_row + static_cast<int>(problem.causal_offset);
    const int end_key = causal ? min(k_len, first_position + Tile::kRows) : k_len;
    const int blocks = (end_key + kKeys - 1) / kKeys;

    if (threadIdx.x == 0) {
        ptx::mbarrier_init(shared.query_full(), 1);
        ptx::mbarrier_init(shared.merge_full(), 1);
#pragma unroll
        for (int group = 0; group < Tile::kGroups; ++group) {
            ptx::mbarrier_init(shared.key_full(group), 1);
            ptx::mbarrier_init(shared.value_full(group), 1);
        }
        ptx::fence_mbarrier_init();
        if (launch.tensor_maps) {
            issue_boxes<Tile::kHeadDim, Tile::kRows>(shared.query(), &launch.query,
                                                     shared.query_full(), first_row,
                                                     static_cast<int>(head), batch);
#pragma unroll
            for (int group = 0; group < Tile::kGroups; ++group) {
                const int block = rank * Tile::kGroups + group;
                if (block < blocks) {
                    issue_boxes<Tile::kHeadDim, kKeys>(shared.key(group), &launch.key,
                                                       shared.key_full(group), block * kKeys,
                                                       kv_head, batch);
                }
            }
        }
        if constexpr (Tile::kCluster > 1) {
            ptx::mbarrier_arrive_expect_tx(shared.merge_full(), Tile::kReceivedBytes);
        }
    }
    __syncthreads();
    if constexpr (Tile::kCluster > 1) {
        ptx::cluster_arrive_relaxed();  // this block is ready for parts
    }
    // The same in all lanes: the shuffle makes it provably warp-uniform.
    const int warp = __shfl_sync(0xffffffffu, threadIdx.x / kWarpSize, 0);
    const int lane = threadIdx.x % kWarpSize;
    const int group = warp / 4;
    const int row_in_tile = warp % 4 * 16;
    const int warp_row = first_row + row_in_tile;
    const bool leader = threadIdx.x % Tile::kGroupThreads == 0;
    if (launch.tensor_maps) {
        ptx::mbarrier_wait(shared.query_full(), 0);
    } else {
        if (group == 0) {
            load_boxes<Tile, Tile::kRows>(
                shared.query(),
                query_rows<T>(problem, batch, head, launch.in_vectors.q),
                first_row, group);
        }
        __syncthreads();
    }

    ShortPart<Tile> part(lane, first_position + row_in_tile);
    bool nonfinite = false;
    int parity = 0;
    constexpr int kStep = Tile::kParts;
    const int first_block = rank * Tile::kGroups + group;
#pragma unroll 1
    for (int block = first_block; block < blocks; block += kStep) {
        const int first_key = block * kKeys;
        const bool more = block + kStep < blocks;
        if (launch.tensor_maps) {
            ptx::mbarrier_wait(shared.key_full(group), parity);
            // Not earlier: the keys of all blocks on the SM are more urgent.
            if (leader) {
                issue_boxes<Tile::kHeadDim, kKeys>(shared.value(group), &launch.value,
                                         shared.value_full(group), first_key, kv_head, batch);
            }
        } else {
            load_boxes<Tile, kKeys>(
                shared.key(group),
                key_rows<T>(problem, batch, kv_head, launch.in_vectors.k),
                first_key, group);
        }
        const auto compute = [&](auto seen) {
            constexpr int kSeen = decltype(seen)::value;
            float scores[kSeen / 2];
            part.multiply_keys(scores, shared.query(), shared.key(group));
            if (more && launch.tensor_maps) {
                ptx::bar_sync(1 + group, Tile::kGroupThreads);  // all warps are done with K
                if (leader) {
                    issue_boxes<Tile::kHeadDim, kKeys>(shared.key(group), &launch.key,
                                             shared.key_full(group), (block + kStep) * kKeys,
                                             kv_head, batch);
                }
            }
            if (warp_row < launch.q_len) {
                if (first_key + kSeen > k_len ||
                    (causal && first_key + kSeen - 1 > part.first_position)) {
                    part.mask(scores, first_key, k_len, causal);
                }
                if constexpr (Tile::kLateBases) {
                    part.softmax_late(scores, launch.scale_log2);
                } else {
                    part.softmax(scores, launch.scale_log2);
                }
            }
            Pair probabilities[kSeen / 4];
            part.pack(scores, probabilities);
            if (launch.tensor_maps) {
                ptx::mbarrier_wait(shared.value_full(group), parity);
            } else {
                load_boxes<Tile, kKeys>(
                    shared.value(group),
                    value_rows<T>(problem, batch, kv_head, launch.in_vectors.v), first_key, group);
            }
            if (causal && first_key + kKeys - 1 > first_position) {
                nonfinite |= zero_nonfinite_boxes<Tile>(shared.value(group), group);
            }
            part.multiply_values(probabilities, shared.value(group));
        };
        // Asked in terms of what lives anyway: end_key would cost registers and spill.
        const int end_of_few = first_key + Tile::kFewKeys;
        if (Tile::kFewKeys < kKeys &&
            (end_of_few >= k_len || (causal && end_of_few >= first_position + Tile::kRows))) {
            compute(std::integral_constant<int, Tile::kFewKeys>{});
        } else {
            compute(std::integral_constant<int, kKeys>{});
        }
        if (more) {
            ptx::bar_sync(1 + group, Tile::kGroupThreads);  // all warps are done with V
        }
        parity ^= 1;
    }

    if (nonfinite) {
        const auto value = value_rows<T>(problem, batch, kv_head, false);
#pragma unroll 1
        for (int block = first_block; block < blocks; block += kStep) {
            if ((block + 1) * kKeys - 1 > first_position) {
                part.add_nonfinite_values(value, block * kKeys);
            }
        }
    }
    if constexpr (Tile::kParts == 1) {
        ptx::bar_sync(1, Tile::kGroupThreads);  // all warps are done with Q
        if (warp_row < launch.q_len) {
            store_boxes<T, Tile::kBoxes, Tile::kRows * Tile::kSwizzleBytes>(
                part.out, part.row_sum, lane, shared.query() + row_in_tile * Tile::kSwizzleBytes,
                launch.out, problem, warp_row, static_cast<int>(head), batch);
            wait_for_boxes<0>();  // before shared memory is given away
        }
    } else {
        if constexpr (Tile::kCluster > 1) {
            ptx::cluster_wait();  // every block is ready
        }
        send_part(part, shared, rank, group, row_in_tile);
        __syncthreads();  // this block's parts have arrived
        if constexpr (Tile::kCluster > 1) {
            // The mbarrier signals that the others' parts have arrived. The cluster barrier repeats
            // it for racecheck, which does not know st.async.
            ptx::cluster_arrive_relaxed();
            ptx::mbarrier_wait(shared.merge_full(), 0);
            ptx::cluster_wait();
        }
        add_parts<Tile>(out_rows<T>(problem, batch, head, launch.in_vectors.out),
                        first_row + rank * Tile::kOwnRows, shared_memory + Tile::kTileBytes);
    }
}

}  // namespace flashbench::cuda::sm90
