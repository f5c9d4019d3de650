// Forward attention on the tensor cores of sm_80 and later: one block of threads computes one tile
// of query rows of one head.
//
// Method: FlashAttention-2 (Dao 2023). Keys and values pass through shared memory in tiles; scores,
// softmax and output stay in registers, all fp32. exp is ex2 with scale * log2(e) folded in. The
// accumulators of Q K^T, as probabilities, are the operands of P V without a copy. With one buffer each
// for K and V, V is prefetched during Q K^T and the next K during softmax and P V; with two, both are
// prefetched a whole tile ahead. For few tiles, the warps of a block also divide the keys of each tile
// and merge their parts at the end; where SMs would still wait, blocks divide a tile's keys ("splits") and
// merge_kernel.h adds up what they leave in a workspace. launch.h lists the tiles with their registers and
// shared memory; docs/lab/cuda-kernels.md has the gain of each step.
//
// NaN and infinity: keys past the end are zeros in shared memory and -inf in the scores, so they never
// count. But a diagonal tile contains causally masked keys, and 0 * NaN would let their V into rows
// that must not see it. Such tiles are scanned; nonfinite values are zeroed before P V and added after
// it to the rows that do see them. A row whose scores are all -inf gives NaN, as a softmax does.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "../../attention.h"
#include "../constants.h"
#include "../ptx.h"
#include "../rows.h"
#include "../shared_tile.h"
#include "../warp_tile.h"

namespace flashbench::cuda::sm80 {

// The arguments of a launch.
struct Launch {
    Attention problem;
    int tiles;
    InVectors in_vectors;  // as in Rows
    // The blocks that divide the keys of a tile, and what each leaves of every row of all heads: values, base
    // and sum, those of the first split before those of the second.
    int splits;
    float* partial_values;
    float2* partial_statistics;
};

// `split`: a grid of several rows, one for each split.
template <typename Tile, bool split>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    forward(const __grid_constant__ Launch launch) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // code of sm_90a, which no other chip runs
    if constexpr (split) {  // never launched where the sm90 kernels are (launch.h), and slow to compile
        return;
    }
#endif
    using T = typename Tile::Type;
    constexpr int kHeadDim = Tile::kHeadDim;
    constexpr int kThreads = Tile::kThreads;
    extern __shared__ __align__(1024) unsigned char shared_memory[];

    const Attention& problem = launch.problem;
    const int heads = static_cast<int>(problem.heads);
    const int q_len = static_cast<int>(problem.q_len);
    const int k_len = static_cast<int>(problem.k_len);
    const bool causal = problem.causal;
    const int causal_offset = static_cast<int>(problem.causal_offset);

    // Full: the tiles of a head together, to share its keys in L2. Causal: the tiles with the most keys
    // first, so that short ones fill the end.
    int tile = blockIdx.x % launch.tiles;
    int batch_head = blockIdx.x / launch.tiles;
    if (causal) {
        const int batch_heads = gridDim.x / launch.tiles;
        tile = launch.tiles - 1 - blockIdx.x / batch_heads;
        batch_head = blockIdx.x % batch_heads;
    }
    const int batch = batch_head / heads;
    const int head = batch_head % heads;
    const int kv_head = head / (heads / static_cast<int>(problem.kv_heads));
    const auto query = query_rows<T>(problem, batch, head, launch.in_vectors.q);
    const auto key = key_rows<T>(problem, batch, kv_head, launch.in_vectors.k);
    const auto value = value_rows<T>(problem, batch, kv_head, launch.in_vectors.v);

    const int first_row = tile * Tile::kRows;
    const int end_row = min(first_row + Tile::kRows, q_len);
    int first_tile_key = 0;
    int end_key = causal ? min(k_len, end_row + causal_offset) : k_len;
    if constexpr (split) {
        const int key_tiles = (end_key + Tile::kKeys - 1) / Tile::kKeys;
        const auto first_of = [&](unsigned i) {
            return static_cast<int>(i * key_tiles / launch.splits) * Tile::kKeys;
        };
        first_tile_key = first_of(blockIdx.y);
        end_key = min(end_key, first_of(blockIdx.y + 1));
    }
    const int first_position = first_row + causal_offset;
    // The shuffle makes it provably warp-uniform.
    const int warp = __shfl_sync(0xffffffffu, threadIdx.x / kWarpSize, 0);
    const int group = Tile::kGroups == 1 ? 0 : warp / Tile::kRowWarps;
    const int row_warp = warp - group * Tile::kRowWarps;
    const int warp_first_row = first_row + row_warp * Tile::kWarpRows;
    const int warp_first_position = warp_first_row + causal_offset;
    const int warp_last_position = warp_first_position + Tile::kWarpRows - 1;

    const uint32_t shared_query = static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory));
    const uint32_t shared_key = shared_query + Tile::kQueryBytes;
    const uint32_t shared_value = shared_key + Tile::kKeyBytes;
    WarpTile<Tile> part(threadIdx.x % kWarpSize, warp_first_position,
                        shared_query + row_warp * Tile::kWarpRows * Swizzle<kHeadDim>::kRowBytes);
    // The first key of the warp's group in a tile of keys.
    const int group_key = group * Tile::kWarpKeys;
    const uint32_t group_offset = group_key * Swizzle<kHeadDim>::kRowBytes;

    // A negative scale would make the largest score the smallest, so Q is negated instead. A scale of
    // zero must not turn masked scores into 0 * -inf.
    const bool negative = problem.scale < 0.0f;
    const float magnitude = fabsf(problem.scale) * kLog2E;
    const float scale_log2 = magnitude == 0.0f ? 1.401298464e-45f : magnitude;

    // Opaque to the compiler, so that what depends only on the thread is computed on use and
    // takes no registers in the loop.
    const auto this_thread = [] {
        unsigned thread = threadIdx.x;
        asm volatile("" : "+r"(thread));
        return thread;
    };
    const auto load_keys = [&](uint32_t shared, const Rows<const T>& rows, int first_key) {
        load_tile<kHeadDim, Tile::kKeys, kThreads>(shared, rows, first_key, this_thread());
    };
    // A barrier; before it, zeroes nonfinite values in V of a diagonal tile.
    const auto meet = [&](bool diagonal, uint32_t shared_value) {
        if (diagonal) {
            return __syncthreads_or(zero_copied_nonfinite<kHeadDim, Tile::kKeys, kThreads, T>(
                       shared_value, threadIdx.x)) != 0;
        }
        __syncthreads();
        return false;
    };

    constexpr int kMostQueryThreads = Tile::kRows * Swizzle<kHeadDim>::kGroup;
    constexpr int kQueryThreads = kThreads < kMostQueryThreads ? kThreads : kMostQueryThreads;
    if (end_key > first_tile_key) {
        if (threadIdx.x < kQueryThreads) {
            load_tile<kHeadDim, Tile::kRows, kQueryThreads>(shared_query, query, first_row,
                                                            threadIdx.x);
            if (negative) {
                ptx::cp_async_wait_all();
                negate_copied<kHeadDim, Tile::kRows, kQueryThreads>(shared_query, threadIdx.x);
            }
        }
        load_keys(shared_key, key, first_tile_key);
        if constexpr (Tile::kStages == 2) {
            load_keys(shared_value, value, first_tile_key);
        }
    }
    if constexpr (Tile::kQueryInRegisters) {
        ptx::cp_async_wait_all();
        __syncthreads();
        part.load_query();
    }

    uint32_t stage = 0;  // the offset of its buffers
    for (int first_key = first_tile_key; first_key < end_key; first_key += Tile::kKeys) {
        const int next_key = first_key + Tile::kKeys;
        const int warp_key = first_key + group_key;
        const bool active = warp_first_row < q_len && warp_key < end_key &&
                            (!causal || warp_key <= warp_last_position);
        const bool diagonal = causal && next_key - 1 > first_position;
        const auto score = [&] {
            part.multiply_keys(shared_key + stage + group_offset);
            if (diagonal || next_key > k_len) {
                part.mask(warp_key, k_len, causal);
            }
        };
        const auto add_values = [&](bool nonfinite) {
            // Nothing between these two, so that exp and mma can overlap.
            part.softmax(scale_log2);
            part.multiply_values(shared_value + stage + group_offset);
            if (nonfinite) {
                part.add_nonfinite_values(value, warp_key);
            }
        };

        ptx::cp_async_wait_all();
        if constexpr (Tile::kStages == 2) {
            // K and V have arrived, and every warp is done with the last ones.
            const bool nonfinite = meet(diagonal, shared_value + stage);
            const uint32_t next_stage = stage ^ Tile::kStageBytes;
            if (next_key < end_key) {
                load_keys(shared_key + next_stage, key, next_key);
                load_keys(shared_value + next_stage, value, next_key);
            }
            if (active) {
                score();
                add_values(nonfinite);
            }
            stage = next_stage;
        } else {
            __syncthreads();  // K has arrived, and every warp is done with the last V
            load_keys(shared_value, value, first_key);
            if (active) {
                score();
            }
            ptx::cp_async_wait_all();
            const bool nonfinite = meet(diagonal, shared_value);  // V has arrived; K is free
            if (next_key < end_key) {
                load_keys(shared_key, key, next_key);
            }
            if (active) {
                add_values(nonfinite);
            }
        }
    }

    // Half of the remaining groups pass their parts to the other half, until one group has them all.
#pragma unroll
    for (int left = Tile::kGroups / 2; left > 0; left /= 2) {
        const auto slot = [&](int taker) {
            return shared_query + (taker * Tile::kRowWarps + row_warp) * Tile::kPartBytes;
        };
        __syncthreads();
        if (group >= left && group < 2 * left) {
            part.put_part(slot(group - left));
        }
        __syncthreads();
        if (group < left) {
            part.add_part(slot(group));
        }
    }
    if constexpr (Tile::kGroups > 1) {
        __syncthreads();  // the output goes where the parts were
    }

    if (group != 0 || warp_first_row >= q_len) {
        return;
    }
    if constexpr (split) {
        const int64_t first = (static_cast<int64_t>(blockIdx.y) * problem.batch * heads + batch_head) *
                              problem.q_len;
        part.store_part(launch.partial_values + first * kHeadDim, launch.partial_statistics + first,
                        warp_first_row, q_len);
    } else {
        const auto out = out_rows<T>(problem, batch, head, launch.in_vectors.out);
        part.finish(out, warp_first_row, end_key == 0);
        if (problem.lse != nullptr) {
            part.store_lse(problem.lse + batch_head * problem.lse_rows, warp_first_row, q_len);
        }
    }
}

}  // namespace flashbench::cuda::sm80
