// Forward attention on the tensor cores of sm_80 and later: one block of threads computes one tile
// of query rows of one head.
//
// Method: FlashAttention-2 (Dao 2023). Keys and values pass through shared memory in tiles while
// the scores, the softmax and the output stay in registers, all fp32; exp is ex2 with
// scale * log2(e) folded in; the probabilities go from the accumulators of Q K^T straight into the
// operands of P V. K and V have one buffer each: V is fetched while Q K^T runs, the next K while
// P V runs. Which tiles there are, and what they take of registers and shared memory, stands in
// launch.h.
//
// What NaN and infinity do: keys past the end are zeros in shared memory and -inf in the scores, so
// they never count. A causally masked key is inside the diagonal tile, though, and 0 * NaN would
// let its V into rows that must not see it: such tiles are looked through, and what is not finite
// in them is zeroed before P V and added by hand, after it, to the rows that do see it.
// A row whose scores are all -inf gives NaN, as a softmax does.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "../../attention.h"
#include "../constants.h"
#include "../rows.h"
#include "ptx.h"
#include "shared_tile.h"
#include "warp_tile.h"

namespace flashbench::cuda::sm80 {

// The arguments of a launch. `*_vectors` as in Rows.
struct Launch {
    Attention problem;
    int tiles;
    bool q_vectors;
    bool k_vectors;
    bool v_vectors;
    bool out_vectors;
};

template <typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    forward(const __grid_constant__ Launch launch) {
    using T = typename Tile::Type;
    constexpr int kHeadDim = Tile::kHeadDim;
    constexpr int kThreads = Tile::kThreads;
    extern __shared__ __align__(1024) unsigned char shared_memory[];

    const Attention& problem = launch.problem;
    const int heads = static_cast<int>(problem.heads);
    const int q_len = static_cast<int>(problem.q_len);
    const int k_len = static_cast<int>(problem.k_len);
    const bool causal = problem.causal;

    // Full: the tiles of a head side by side, so that they share its keys in L2. Causal: the tiles
    // with the most keys first, so that the short ones fill up the end.
    int tile = blockIdx.x % launch.tiles;
    int batch_head = blockIdx.x / launch.tiles;
    if (causal) {
        const int batch_heads = gridDim.x / launch.tiles;
        tile = launch.tiles - 1 - blockIdx.x / batch_heads;
        batch_head = blockIdx.x % batch_heads;
    }
    const int batch = batch_head / heads;
    const int head = batch_head % heads;
    const int kv_head = head / static_cast<int>(problem.heads / problem.kv_heads);
    const auto query = rows_of<const T>(problem.q, problem.q_strides, batch, head, problem.q_len,
                                        problem.head_dim, launch.q_vectors);
    const auto key = rows_of<const T>(problem.k, problem.k_strides, batch, kv_head, problem.k_len,
                                      problem.head_dim, launch.k_vectors);
    const auto value = rows_of<const T>(problem.v, problem.v_strides, batch, kv_head,
                                        problem.k_len, problem.head_dim, launch.v_vectors);

    const int first_row = tile * Tile::kRows;
    const int end_row = min(first_row + Tile::kRows, q_len);
    const int end_key = causal ? min(k_len, end_row) : k_len;
    const int warp = threadIdx.x / kWarpSize;
    const int warp_first_row = first_row + warp * Tile::kWarpRows;
    const int warp_last_row = warp_first_row + Tile::kWarpRows - 1;

    const uint32_t shared_query = static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory));
    const uint32_t shared_key = shared_query + Tile::kQueryBytes;
    const uint32_t shared_value = shared_key + Tile::kKeyBytes;
    WarpTile<Tile> part(threadIdx.x % kWarpSize, warp_first_row,
                        shared_query + warp * Tile::kWarpRows * Swizzle<kHeadDim>::kRowBytes);

    // The largest score is wanted, also where a negative scale turns it into the smallest; and a
    // scale of zero must not turn the masked scores into 0 * -inf.
    const bool negative = problem.scale < 0.0f;
    const float magnitude = fabsf(problem.scale) * kLog2E;
    const float scale_log2 = magnitude == 0.0f ? 1.401298464e-45f : magnitude;

    if (end_key > 0) {
        load_tile<kHeadDim, Tile::kRows, kThreads>(shared_query, query, first_row, threadIdx.x);
        load_tile<kHeadDim, Tile::kKeys, kThreads>(shared_key, key, 0, threadIdx.x);
    }
    if constexpr (Tile::kQueryInRegisters) {
        ptx::cp_async_wait_all();
        __syncthreads();
        part.load_query();
    }

    for (int first_key = 0; first_key < end_key; first_key += Tile::kKeys) {
        const bool active = warp_first_row < q_len && (!causal || first_key <= warp_last_row);
        const bool diagonal = causal && first_key + Tile::kKeys - 1 > first_row;

        ptx::cp_async_wait_all();
        __syncthreads();  // K is here, and every warp is done with the last V
        load_tile<kHeadDim, Tile::kKeys, kThreads>(shared_value, value, first_key, threadIdx.x);
        if (active) {
            part.multiply_keys(shared_key);
            if (negative) {
                part.negate_scores();
            }
            if (diagonal || first_key + Tile::kKeys > k_len) {
                part.mask(first_key, k_len, causal);
            }
            if constexpr (!Tile::kPrefetchBeforeSoftmax) {
                part.softmax(scale_log2);
            }
        }

        ptx::cp_async_wait_all();
        bool nonfinite = false;
        // The barrier: V is here, and every warp is done with K.
        if (diagonal) {
            nonfinite = __syncthreads_or(
                zero_copied_nonfinite<kHeadDim, Tile::kKeys, kThreads, T>(shared_value,
                                                                          threadIdx.x));
        } else {
            __syncthreads();
        }
        if (first_key + Tile::kKeys < end_key) {
            load_tile<kHeadDim, Tile::kKeys, kThreads>(shared_key, key, first_key + Tile::kKeys,
                                                       threadIdx.x);
        }
        if (active) {
            // Nothing stands between these two, so that exp and mma can overlap.
            if constexpr (Tile::kPrefetchBeforeSoftmax) {
                part.softmax(scale_log2);
            }
            part.multiply_values(shared_value);
            if (nonfinite) {
                part.add_nonfinite_values(value, first_key);
            }
        }
    }

    if (warp_first_row < q_len) {
        const auto out = rows_of<T>(problem.out, problem.out_strides, batch, head, problem.q_len,
                                    problem.head_dim, launch.out_vectors);
        part.finish(out, end_key == 0);
    }
}

}  // namespace flashbench::cuda::sm80
