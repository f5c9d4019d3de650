// Backward attention on the tensor cores of sm_80 and later: dq, dk and dv.
//
// Method: FlashAttention-2 (Dao 2023). With S = scale Q K^T, P = exp(S - lse), dP = dO V^T and
// delta = rowsum(dO * O),
//
//   dS = P * (dP - delta),  dV = P^T dO,  dK = scale dS^T Q,  dQ = scale dS K
//
// A block of threads keeps some keys and walks over the queries that see them, of all query heads of its
// key head, so that dk and dv stay in registers. S and dP are computed transposed, keys by queries; P and dS
// pass through shared memory, so that each product divides its own result among the warps. Each block adds
// its part of dq to a tensor of fp32; the order of these additions, and so the last bits of dq, differ from
// call to call unless blocks take turns. ../backward_prepare.h has the kernel before this one.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../../attention.h"
#include "../backward_queries.h"
#include "../backward_walk.h"
#include "../constants.h"
#include "../ptx.h"
#include "../rows.h"
#include "../shared_tile.h"
#include "backward_tile.h"
#include "warp_product.h"

namespace flashbench::cuda::sm80 {

// A tensor that the backward kernel reads.
struct BackwardInput {
    const void* base;
    Strides strides;
    bool vectors;
};

struct BackwardLaunch {
    BackwardPlan plan;
    BackwardInput q;
    BackwardInput k;
    BackwardInput v;
    BackwardInput dout;
};

// A warp's place among the warps of its block.
template <typename Tile>
struct WarpPlace {
    int lane;
    int key_part;
    int query_part;

    __device__ __forceinline__ WarpPlace() {
        // The shuffle makes it provably warp-uniform.
        const int warp = __shfl_sync(0xffffffffu, threadIdx.x / kWarpSize, 0);
        lane = threadIdx.x % kWarpSize;
        key_part = warp / Tile::kQueryWarps;
        query_part = warp % Tile::kQueryWarps;
    }
};

// Writes a tile of `kTileRows` rows, that store_part has put into shared memory, after a barrier.
template <typename Tile, int kTileRows, typename T>
__device__ __forceinline__ void store_tile(uint32_t shared, const Rows<T>& rows, int first_row) {
    constexpr int kShare = kTileRows / Tile::kWarps;
    constexpr int kWarpRows = kShare < 8 ? 8 : kShare;  // a multiple of what the swizzle repeats in
    const int row = static_cast<int>(threadIdx.x) / kWarpSize * kWarpRows;
    if (row < kTileRows) {
        store_rows<Tile::kHeadDim, kWarpRows>(shared + row * Tile::kHeadDim * kElementBytes, rows,
                                              first_row + row, threadIdx.x % kWarpSize);
    }
}

template <typename Tile>
struct BackwardBlock {
    using T = typename Tile::Type;
    static constexpr int kHeadDim = Tile::kHeadDim;
    static constexpr int kKeyWarps = Tile::kKeyWarps;
    static constexpr int kQueryWarps = Tile::kQueryWarps;
    using Scores = float[Tile::kKeyBlocks][2 * Tile::kQueryBlocks][4];
    using Sums = float[Tile::kKeyBlocks][2 * Tile::kSumDimBlocks][4];
    using QueryGradients = float[Tile::kQueryBlocks][2 * Tile::kQueryDimBlocks][4];

    const BackwardLaunch& launch;
    const BackwardPlan& plan;
    const BackwardShared<Tile> shared;
    const KeyBlock keys;
    const WarpPlace<Tile> place;
    QueryWalk<Tile> walk;
    Sums dk;
    Sums dv;

    __device__ __forceinline__ BackwardBlock(const BackwardLaunch& launch_, uint32_t shared_)
        : launch(launch_),
          plan(launch_.plan),
          shared{shared_},
          keys(launch_.plan),
          walk(launch_.plan, keys) {
        set_zero(dk);
        set_zero(dv);
    }

    __device__ __forceinline__ int first_key() const { return keys.index * Tile::kKeys; }

    template <int kTileRows>
    __device__ __forceinline__ void load(uint32_t target, const BackwardInput& input, int head,
                                         int count, int first_row) const {
        load_tile<kHeadDim, kTileRows, Tile::kThreads>(
            target,
            rows_of<const T>(input.base, input.strides, keys.batch, head, count, plan.head_dim,
                             input.vectors),
            first_row, threadIdx.x);
    }
    __device__ __forceinline__ void load_keys() const {
        load<Tile::kKeys>(shared.key, launch.k, keys.kv_head, plan.k_len, first_key());
        load<Tile::kKeys>(shared.value(), launch.v, keys.kv_head, plan.k_len, first_key());
    }
    // Q, dO, lse and delta of the tile where the walk is.
    __device__ __forceinline__ void load_queries() const {
        const int first_row = walk.tile * Tile::kQueries;
        load<Tile::kQueries>(shared.query(), launch.q, walk.head, plan.q_len, first_row);
        load<Tile::kQueries>(shared.dout(), launch.dout, walk.head, plan.q_len, first_row);
        constexpr int kFloats = kChunkBytes / sizeof(float);
        constexpr int kRowThreads = Tile::kQueries / kFloats;  // for each of lse and delta
        if (threadIdx.x < 2 * kRowThreads) {
            const bool of_delta = threadIdx.x >= kRowThreads;
            const int first = threadIdx.x % kRowThreads * kFloats;
            const int64_t tile = walk.place(plan, keys.batch).in_all;
            ptx::cp_async_16((of_delta ? shared.delta() : shared.lse()) + first * sizeof(float),
                             (of_delta ? plan.delta : plan.lse) + tile * Tile::kQueries + first,
                             true);
        }
    }

    // The first of this lane's two queries in accumulator n of the scores.
    __device__ __forceinline__ int query_of(int n) const {
        return first_of<kQueryWarps, 2>(n, place.query_part) + 2 * (place.lane % 4);
    }
    // This lane's key in half r of the scores' accumulators.
    __device__ __forceinline__ int key_of(int r) const {
        return first_key() + first_of<kKeyWarps, 2>(r, place.key_part) + place.lane / 4;
    }

    // scores = rows of `keys_tile` times rows of `queries_tile`
    __device__ __forceinline__ void multiply_rows(Scores& scores, uint32_t keys_tile,
                                                  uint32_t queries_tile) const {
        set_zero(scores);
        multiply<T, kHeadDim / 16>(
            scores, Operand<kHeadDim, true, false, kKeyWarps>(keys_tile, place.key_part, place.lane),
            Operand<kHeadDim, false, false, kQueryWarps>(queries_tile, place.query_part,
                                                         place.lane));
    }

    // S -> P. The probabilities of keys and queries past the end, and of pairs that the mask hides, are 0.
    __device__ __forceinline__ void exponentiate(Scores& scores) const {
#pragma unroll
        for (int n = 0; n < 2 * Tile::kQueryBlocks; ++n) {
            const float2 lse =
                ptx::ld_shared_float2(shared.lse() + query_of(n) * sizeof(float));
#pragma unroll
            for (int r = 0; r < Tile::kKeyBlocks; ++r) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    float& score = scores[r][n][i];
                    score = ptx::ex2(fmaf(score, plan.scale_log2, i % 2 ? -lse.y : -lse.x));
                }
            }
        }
        const int first_query = walk.tile * Tile::kQueries;
        const int end_key = first_key() + Tile::kKeys;
        if (first_query + Tile::kQueries > plan.q_len || end_key > plan.k_len ||
            (plan.causal && end_key - 1 > first_query + plan.causal_offset)) {
            mask(scores, first_query);
        }
    }
    __device__ __forceinline__ void mask(Scores& scores, int first_query) const {
#pragma unroll
        for (int r = 0; r < 2 * Tile::kKeyBlocks; ++r) {
            const int key = key_of(r);
            const int end = plan.q_len - first_query;
            // The first query of the tile that sees the key.
            const int first = key >= plan.k_len ? end
                              : plan.causal     ? key - plan.causal_offset - first_query
                                                : 0;
#pragma unroll
            for (int n = 0; n < 2 * Tile::kQueryBlocks; ++n) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int query = query_of(n) + i;
                    if (query < first || query >= end) {
                        scores[r / 2][n][r % 2 * 2 + i] = 0.0f;
                    }
                }
            }
        }
    }

    // dP -> dS = P * (dP - delta)
    __device__ __forceinline__ void differentiate(Scores& products, const Scores& scores) const {
#pragma unroll
        for (int n = 0; n < 2 * Tile::kQueryBlocks; ++n) {
            const float2 delta =
                ptx::ld_shared_float2(shared.delta() + query_of(n) * sizeof(float));
#pragma unroll
            for (int r = 0; r < Tile::kKeyBlocks; ++r) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    float& product = products[r][n][i];
                    product = scores[r][n][i] * (product - (i % 2 ? delta.y : delta.x));
                }
            }
        }
    }

    // P and dS of the tile, to shared memory.
    __device__ __forceinline__ void take_scores() const {
        Scores scores;
        Scores products;
        multiply_rows(scores, shared.key, shared.query());
        multiply_rows(products, shared.value(), shared.dout());
        exponentiate(scores);
        differentiate(products, scores);
        const auto store = [this](uint32_t target, const Scores& part) {
            store_part<T, Tile::kQueries, kKeyWarps, kQueryWarps>(
                target, part, [](int) { return 1.0f; }, place.key_part, place.query_part,
                place.lane);
        };
        store(shared.probabilities(), scores);
        store(shared.gradients(), products);
    }

    // sums += keys by queries of `pairs`, times rows of `queries_tile`
    __device__ __forceinline__ void add_sums(Sums& sums, uint32_t pairs,
                                             uint32_t queries_tile) const {
        multiply<T, Tile::kQueries / 16>(
            sums, Operand<Tile::kQueries, true, false, kKeyWarps>(pairs, place.key_part, place.lane),
            Operand<kHeadDim, false, true, kQueryWarps>(queries_tile, place.query_part,
                                                        place.lane));
    }

    // Adds dS K to dq of a tile: all blocks in any order, or each after the one of the keys before.
    __device__ __forceinline__ void add_query_gradients(int64_t tile) const {
        QueryGradients dq;
        set_zero(dq);
        multiply<T, Tile::kKeys / 16>(
            dq,
            Operand<Tile::kQueries, true, true, kQueryWarps>(shared.gradients(), place.query_part,
                                                             place.lane),
            Operand<kHeadDim, false, true, kKeyWarps>(shared.key, place.key_part, place.lane));
        unsigned* const turn = plan.turns == nullptr ? nullptr : plan.turns + tile;
        if (turn != nullptr) {
            if (threadIdx.x == 0) {
                while (ptx::ld_acquire(turn) != static_cast<unsigned>(keys.index)) {
                }
            }
            __syncthreads();
        }
        float* const target = plan.dq + tile * Tile::kTileGradients + threadIdx.x;
        constexpr int kColumns = 2 * Tile::kQueryDimBlocks;
#pragma unroll
        for (int r = 0; r < Tile::kQueryBlocks; ++r) {
#pragma unroll
            for (int n = 0; n < kColumns; ++n) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    atomicAdd(target + ((r * kColumns + n) * 4 + i) * Tile::kThreads, dq[r][n][i]);
                }
            }
        }
        if (turn != nullptr) {
            __threadfence();
            __syncthreads();
            if (threadIdx.x == 0) {
                ptx::st_release(turn, keys.index + 1);
            }
        }
    }

    // Every tile of queries, if there is one. Those of the next tile are copied beside dq of this one.
    __device__ __forceinline__ void take_all() {
        if (walk.left == 0) {
            return;
        }
        load_keys();
        load_queries();
#pragma unroll 1
        while (walk.left > 0) {
            ptx::cp_async_wait_all();
            __syncthreads();  // the copies have arrived, and every warp is done with the last dS
            take_scores();
            __syncthreads();
            add_sums(dv, shared.probabilities(), shared.dout());
            add_sums(dk, shared.gradients(), shared.query());
            __syncthreads();
            const int64_t tile = walk.place(plan, keys.batch).in_all;
            walk.advance();
            if (walk.left > 0) {
                load_queries();
            }
            add_query_gradients(tile);
        }
        __syncthreads();  // dk and dv go where K and V were
    }

    __device__ __forceinline__ void store() const {
        const auto put = [this](uint32_t target, const Sums& sums, float scale) {
            store_part<T, kHeadDim, kKeyWarps, kQueryWarps>(
                target, sums, [scale](int) { return scale; }, place.key_part, place.query_part,
                place.lane);
        };
        const auto rows = [this](void* base, const Strides& strides, bool vectors) {
            return rows_of<T>(base, strides, keys.batch, keys.kv_head, plan.k_len, plan.head_dim,
                              vectors);
        };
        put(shared.key, dk, plan.scale);
        put(shared.value(), dv, 1.0f);
        __syncthreads();
        store_tile<Tile, Tile::kKeys>(shared.key, rows(plan.dk, plan.dk_strides, plan.dk_vectors),
                                      first_key());
        store_tile<Tile, Tile::kKeys>(shared.value(),
                                      rows(plan.dv, plan.dv_strides, plan.dv_vectors), first_key());
    }
};

template <typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    backward(const __grid_constant__ BackwardLaunch launch) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    BackwardBlock<Tile> block(launch,
                              static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory)));
    block.take_all();
    block.store();
}

// One block for each tile of queries of a head: dq = scale * the sum of its parts, or 0 times that, which
// leaves NaN, in `row_of_one_key`.
template <typename Tile>
__global__ void __launch_bounds__(Tile::kThreads)
    store_query_gradients(const AttentionBackward problem, const float* dq, int row_of_one_key,
                          bool dq_vectors) {
    using T = typename Tile::Type;
    __shared__ __align__(1024) unsigned char shared_memory[Tile::kQueryBytes];
    const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory));
    const WarpPlace<Tile> place;
    const Attention& forward = problem.forward;
    const QueryBlock queries(forward, Tile::kQueries);
    const float* const source = dq + queries.in_all * Tile::kTileGradients + threadIdx.x;
    constexpr int kColumns = 2 * Tile::kQueryDimBlocks;
    float values[Tile::kQueryBlocks][kColumns][4];
#pragma unroll
    for (int i = 0; i < Tile::kQueryBlocks * kColumns * 4; ++i) {
        values[i / 4 / kColumns][i / 4 % kColumns][i % 4] = source[i * Tile::kThreads];
    }
    store_part<T, Tile::kHeadDim, Tile::kQueryWarps, Tile::kKeyWarps>(
        shared, values,
        [&](int row) {
            return queries.first_row + row == row_of_one_key ? 0.0f : forward.scale;
        },
        place.query_part, place.key_part, place.lane);
    __syncthreads();
    const Rows<T> rows =
        rows_of<T>(problem.dq, problem.dq_strides, queries.batch, queries.head, forward.q_len,
                   forward.head_dim, dq_vectors);
    store_tile<Tile, Tile::kQueries>(shared, rows, queries.first_row);
}

}  // namespace flashbench::cuda::sm80
