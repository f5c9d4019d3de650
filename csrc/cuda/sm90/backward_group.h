// What the consumer warpgroups of both kinds of blocks above head dim 128 do: probabilities, their gradients,
// turns. backward_consumer.h has its own for the others, where these make ptxas spill registers.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../backward_walk.h"
#include "../constants.h"
#include "../types.h"
#include "backward_sums.h"
#include "ptx.h"
#include "tile.h"

namespace flashbench::cuda::sm90 {

// Scores and their gradients are keys by queries: a lane has two keys, lane / 4 of each warp's 16 and the
// one 8 below, and queries 8n + 2 * (lane % 4) and the next.
template <typename Tile>
struct BackwardGroup {
    using T = typename Tile::Type;
    static constexpr int kQueries = Tile::kQueries;

    const BackwardPlan& plan;
    const int key_block;
    int left;  // tiles of queries
    const int consumer;
    const int thread;
    const int warp;
    const int lane;

    float scores[kQueries / 2];  // S, then P, then dS

    __device__ __forceinline__ BackwardGroup(const BackwardPlan& plan_, const KeyBlock& keys,
                                             int consumer_)
        : plan(plan_),
          key_block(keys.index),
          left(QueryWalk<Tile>(plan_, keys).left),
          consumer(consumer_),
          thread(threadIdx.x % kWarpgroup),
          warp(thread / kWarpSize),
          lane(thread % kWarpSize) {}

    __device__ __forceinline__ int first_key() const {
        return key_block * Tile::kKeys + consumer * kGroupRows;
    }
    // This consumer's rows of K or V.
    __device__ __forceinline__ uint32_t my_rows(uint32_t keys) const {
        return keys + consumer * kGroupRows * Tile::kSwizzleBytes;
    }

    // S -> P, with the tile's lse and QueryTile.
    __device__ __forceinline__ void exponentiate(uint32_t lse_rows, uint32_t query_tile) {
#pragma unroll
        for (int n = 0; n < kQueries / 8; ++n) {
            const float2 lse = row_pair(lse_rows, n);
#pragma unroll
            for (int i = 4 * n; i < 4 * n + 4; ++i) {
                scores[i] = ptx::ex2(fmaf(scores[i], plan.scale_log2, i % 2 ? -lse.y : -lse.x));
            }
        }
        const int first_query = static_cast<int>(ptx::ld_shared_32(query_tile)) * kQueries;
        const int end_key = (key_block + 1) * Tile::kKeys;
        if (first_query + kQueries > plan.q_len || end_key > plan.k_len ||
            (plan.causal && end_key - 1 > first_query + plan.causal_offset)) {
            mask(first_query);
        }
    }

    // The probabilities of keys and queries past the end, and of pairs that the mask hides, become 0.
    __device__ __forceinline__ void mask(int first_query) {
        const int my_query = first_query + 2 * (lane % 4);
        const int end = plan.q_len - my_query;
        int first[2];  // of the queries that see each of this lane's keys, counted from my_query
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int key = first_key() + warp * 16 + lane / 4 + 8 * half;
            const int seen_from = plan.causal ? key - plan.causal_offset - my_query : 0;
            first[half] = key < plan.k_len ? seen_from : end;
        }
#pragma unroll
        for (int i = 0; i < kQueries / 2; ++i) {
            const int row = i / 4 * 8 + i % 2;
            if (row < first[i / 2 % 2] || row >= end) {
                scores[i] = 0.0f;
            }
        }
    }

    __device__ __forceinline__ void pack_scores(Pair (&pairs)[kQueries / 4]) const {
#pragma unroll
        for (int i = 0; i < kQueries / 4; ++i) {
            pairs[i] = Element<T>::pack(scores[2 * i], scores[2 * i + 1]);
        }
    }

    // P -> dS = P * (dP - delta).
    __device__ __forceinline__ void differentiate(const float (&products)[kQueries / 2],
                                                  uint32_t delta_rows) {
#pragma unroll
        for (int n = 0; n < kQueries / 8; ++n) {
            const float2 delta = row_pair(delta_rows, n);
#pragma unroll
            for (int i = 4 * n; i < 4 * n + 4; ++i) {
                scores[i] *= products[i] - (i % 2 ? delta.y : delta.x);
            }
        }
    }

    // Where this lane's first chunk of dS is in its buffer. stmatrix takes the address of row lane % 8 of
    // matrix lane / 8 of each four: two of keys by two of queries. Chunks of 16 bytes are where TMA's
    // swizzle would put them.
    __device__ __forceinline__ uint32_t stored_offset() const {
        const int key = consumer * kGroupRows + warp * 16 + lane / 8 % 2 * 8 + lane % 8;
        return key * Tile::kGradientSwizzleBytes + ((lane / 16) ^ (key % 8)) * kChunkBytes;
    }
    // dS as an operand in registers and, for dq, in shared memory, from this lane's first chunk on.
    __device__ __forceinline__ void store_gradients(Pair (&gradients)[kQueries / 4],
                                                    uint32_t target) const {
#pragma unroll
        for (int block = 0; block < kQueries / 16; ++block) {
#pragma unroll
            for (int i = 4 * block; i < 4 * block + 4; ++i) {
                gradients[i] = Element<T>::pack(scores[2 * i], scores[2 * i + 1]);
            }
            const int box = block / 4;
            ptx::stmatrix_x4((target ^ block % 4 * 2 * kChunkBytes) + box * Tile::kGradientBoxBytes,
                             gradients + 4 * block);
        }
        ptx::fence_proxy_async();
    }

    // Calls `add`, which adds to a part of dq; if deterministic, blocks of keys take turns.
    template <typename Add>
    __device__ __forceinline__ void in_turn(int64_t part, const Add& add) const {
        unsigned* const turn = plan.turns == nullptr ? nullptr : plan.turns + part;
        if (turn != nullptr) {
            if (thread == 0) {
                while (ptx::ld_acquire(turn) != static_cast<unsigned>(key_block)) {
                }
            }
            ptx::bar_sync(kConsumerBarrier + consumer, kWarpgroup);
        }
        add();
        if (turn != nullptr) {
            __threadfence();
            ptx::bar_sync(kConsumerBarrier + consumer, kWarpgroup);
            if (thread == 0) {
                ptx::st_release(turn, key_block + 1);
            }
        }
    }

    // The lse or delta of this lane's queries 8n + 2 * (lane % 4) and the next.
    __device__ __forceinline__ float2 row_pair(uint32_t rows, int n) const {
        return ptx::ld_shared_float2(rows + (8 * n + 2 * (lane % 4)) * 4);
    }
};

}  // namespace flashbench::cuda::sm90
