// A consumer warpgroup of the backward kernel. wgmma is asynchronous: registers that it reads or writes
// are not touched between issue and wait.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../backward_walk.h"
#include "../constants.h"
#include "../types.h"
#include "backward_sums.h"
#include "backward_tile.h"
#include "ptx.h"
#include "wgmma.h"

namespace flashbench::cuda::sm90 {

// Scores and their gradients are keys by queries: a lane has two keys, lane / 4 of each warp's 16 and the
// one 8 below, and queries 8n + 2 * (lane % 4) and the next.
template <typename Tile>
struct BackwardConsumer {
    using T = typename Tile::Type;
    static constexpr int kQueries = Tile::kQueries;
    static constexpr int kHeadDim = Tile::kHeadDim;
    static constexpr int kQueryDims = Tile::kQueryDims;
    using KMajor = SharedOperand<Tile::kSwizzleBytes, 16>;
    using QueryMajor = SharedOperand<Tile::kSwizzleBytes, Tile::kQueryBoxBytes>;
    using KeyMajor = SharedOperand<Tile::kSwizzleBytes, Tile::kKeyBoxBytes>;
    using Gradients = SharedOperand<Tile::kGradientSwizzleBytes, 16>;

    const BackwardPlan& plan;
    const BackwardShared<Tile> shared;
    const int key_block;
    int left;  // tiles of queries
    const int consumer;
    const int thread;
    const int warp;
    const int lane;
    const uint32_t stored_at;  // this lane's first chunk of dS in its buffer

    Ring<Tile::kQueryStages> query;
    Ring<Tile::kStages> dout;
    int buffer = 0;

    float dk[kHeadDim / 2];
    float dv[kHeadDim / 2];
    float scores[kQueries / 2];    // S, then P, then dS
    float products[kQueries / 2];  // dP
    Pair probabilities[kQueries / 4];
    Pair gradients[kQueries / 4];
    float dq[kQueryDims / 2];

    __device__ __forceinline__ BackwardConsumer(const BackwardPlan& plan_,
                                                const BackwardShared<Tile>& shared_,
                                                const KeyBlock& keys, int consumer_)
        : plan(plan_),
          shared(shared_),
          key_block(keys.index),
          left(QueryWalk<Tile>(plan_, keys).left),
          consumer(consumer_),
          thread(threadIdx.x % kWarpgroup),
          warp(thread / kWarpSize),
          lane(thread % kWarpSize),
          stored_at(stored_offset()) {
#pragma unroll
        for (int i = 0; i < kHeadDim / 2; ++i) {
            dk[i] = 0.0f;
            dv[i] = 0.0f;
        }
    }

    __device__ __forceinline__ int first_key() const {
        return key_block * Tile::kKeys + consumer * kGroupRows;
    }
    // Every lane arrives, because each has read lse or delta.
    __device__ __forceinline__ void release(uint32_t barrier) const {
        ptx::mbarrier_arrive(barrier);
    }

    // d = a b of this consumer's rows of K or V, and a tile of Q or dO.
    static __device__ __forceinline__ void issue_product(float (&d)[kQueries / 2],
                                                         uint32_t a_address, uint32_t b_address) {
        const KMajor a(a_address);
        const KMajor b(b_address);
#pragma unroll
        for (int dim = 0; dim < Tile::kHeadDim; dim += 16) {
            const int box = dim / Tile::kBoxDims;
            const int offset = dim % Tile::kBoxDims * kElementBytes;
            Wgmma<T, kQueries>::ss(d, a.at(box * Tile::kKeyBoxBytes + offset),
                                   b.at(box * Tile::kQueryBoxBytes + offset), dim > 0);
        }
        ptx::wgmma_commit_group();
    }
    __device__ __forceinline__ void issue_scores() {
        ptx::mbarrier_wait(shared.query_full(query.stage), query.parity);
        ptx::wgmma_fence();
        issue_product(scores,
                      shared.key() + consumer * kGroupRows * Tile::kSwizzleBytes,
                      shared.query(query.stage));
    }
    __device__ __forceinline__ void issue_products() {
        ptx::mbarrier_wait(shared.dout_full(dout.stage), dout.parity);
        ptx::wgmma_fence();
        issue_product(products,
                      shared.value() + consumer * kGroupRows * Tile::kSwizzleBytes,
                      shared.dout(dout.stage));
    }

    // d += a b, a from registers, b a tile of Q or dO.
    __device__ __forceinline__ void issue_sum(float (&d)[kHeadDim / 2], const Pair* a,
                                              uint32_t b_address) const {
        const QueryMajor b(b_address);
        ptx::wgmma_fence();
#pragma unroll
        for (int block = 0; block < kQueries / 16; ++block) {
            Wgmma<T, kHeadDim>::rs(d, a + 4 * block, b.at(block * 2 * Tile::kAtomBytes));
        }
        ptx::wgmma_commit_group();
    }
    __device__ __forceinline__ void issue_dv() {
#pragma unroll
        for (int i = 0; i < kQueries / 4; ++i) {
            probabilities[i] = Element<T>::pack(scores[2 * i], scores[2 * i + 1]);
        }
        issue_sum(dv, probabilities, shared.dout(dout.stage));
    }
    __device__ __forceinline__ void issue_dk(int query_stage) {
        issue_sum(dk, gradients, shared.query(query_stage));
    }
    __device__ __forceinline__ void issue_dq() {
        const Gradients a(shared.gradients(buffer) +
                          Tile::first_query(consumer) / Tile::kGradientBoxQueries * Tile::kGradientBoxBytes);
        const KeyMajor b(shared.key() + Tile::first_query_box(consumer) * Tile::kKeyBoxBytes);
        ptx::wgmma_fence();
#pragma unroll
        for (int block = 0; block < Tile::kKeys / 16; ++block) {
            Wgmma<T, kQueryDims>::template ss<1, 1>(dq, a.at(block * 16 * Tile::kGradientSwizzleBytes),
                                                    b.at(block * 2 * Tile::kAtomBytes),
                                                    block > 0);
        }
        ptx::wgmma_commit_group();
    }

    // S -> P of the tile where the walk is.
    __device__ __forceinline__ void exponentiate() {
#pragma unroll
        for (int n = 0; n < kQueries / 8; ++n) {
            const float2 lse = row_pair(shared.lse(query.stage), n);
#pragma unroll
            for (int i = 4 * n; i < 4 * n + 4; ++i) {
                scores[i] = ptx::ex2(fmaf(scores[i], plan.scale_log2, i % 2 ? -lse.y : -lse.x));
            }
        }
        const int first_query =
            static_cast<int>(ptx::ld_shared_32(shared.query_tile(query.stage))) * kQueries;
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

    // dS = P * (dP - delta), as an operand in registers and, for dq, in shared memory.
    __device__ __forceinline__ void store_gradients() {
#pragma unroll
        for (int n = 0; n < kQueries / 8; ++n) {
            const float2 delta = row_pair(shared.delta(dout.stage), n);
#pragma unroll
            for (int i = 4 * n; i < 4 * n + 4; ++i) {
                scores[i] *= products[i] - (i % 2 ? delta.y : delta.x);
            }
        }
        const uint32_t target = shared.gradients(buffer) + stored_at;
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

    // A buffer of dS is complete once both consumers have stored their keys. Each waits for the other's
    // barrier, and arrives at its own as soon as it has stored.
    __device__ __forceinline__ void announce_gradients() const {
        ptx::bar_arrive(kGradientsBarrier + 2 * buffer + consumer, 2 * kWarpgroup);
    }
    __device__ __forceinline__ void wait_for_gradients() const {
        ptx::bar_sync(kGradientsBarrier + 2 * buffer + (consumer ^ 1), 2 * kWarpgroup);
    }

    // Adds this consumer's dq, of the tile in this stage of Q, to that of the other blocks of keys.
    __device__ __forceinline__ void add_dq(int query_stage) const {
        const int64_t tile = ptx::ld_shared_32(shared.query_tile(query_stage) + 4);
        const int64_t part = tile * Tile::kConsumers + consumer;
        unsigned* const turn = plan.turns == nullptr ? nullptr : plan.turns + part;
        if (turn != nullptr) {
            if (thread == 0) {
                while (ptx::ld_acquire(turn) != static_cast<unsigned>(key_block)) {
                }
            }
            ptx::bar_sync(kConsumerBarrier + consumer, kWarpgroup);
        }
        float* const target = plan.dq + part * Tile::kQueryGradients + 4 * thread;
#pragma unroll
        for (int i = 0; i < kQueryDims / 2; i += 4) {
            // The dims after the last are zeros. Where the tile has none, a branch would cost 5 %.
            if (2 * i == Tile::kLastQueryDims && consumer == Tile::kConsumers - 1) {
                break;
            }
            ptx::red_add_128(target + i * kWarpgroup, dq[i], dq[i + 1], dq[i + 2], dq[i + 3]);
        }
        if (turn != nullptr) {
            __threadfence();
            ptx::bar_sync(kConsumerBarrier + consumer, kWarpgroup);
            if (thread == 0) {
                ptx::st_release(turn, key_block + 1);
            }
        }
    }

    // Every tile of queries, if there is one.
    __device__ __forceinline__ void take_all() {
        if (left == 0) {
            return;
        }
        ptx::mbarrier_wait(shared.key_full(), 0);
        ptx::mbarrier_wait(shared.value_full(), 0);
        if constexpr (Tile::kPipelined) {
            take_tiles_pipelined();
        } else {
            take_tiles();
        }
    }

    __device__ __forceinline__ void store(const KeyBlock& keys) const {
        store_sum<Tile, KeySum::dv>(*this, keys, dv, 0);
        store_sum<Tile, KeySum::dk>(*this, keys, dk, 0);
    }

private:
    // stmatrix takes the address of row lane % 8 of matrix lane / 8 of each four: two of keys by two of
    // queries. Chunks of 16 bytes are where TMA's swizzle would put them.
    __device__ __forceinline__ uint32_t stored_offset() const {
        const int key = consumer * kGroupRows + warp * 16 + lane / 8 % 2 * 8 + lane % 8;
        return key * Tile::kGradientSwizzleBytes + ((lane / 16) ^ (key % 8)) * kChunkBytes;
    }

    // One tile after the other.
    __device__ __forceinline__ void take_tiles() {
#pragma unroll 1
        for (; left > 0; --left) {
            issue_scores();
            issue_products();
            ptx::wgmma_wait_group<1>();
            pin(scores);
            exponentiate();
            issue_dv();
            ptx::wgmma_wait_group<1>();
            pin(products);
            store_gradients();
            announce_gradients();
            wait_for_gradients();
            issue_dq();
            issue_dk(query.stage);
            ptx::wgmma_wait_group<1>();
            pin(dv);
            pin(dq);
            release(shared.dout_empty(dout.stage));
            add_dq(query.stage);
            ptx::wgmma_wait_group<0>();
            pin(dk);
            release(shared.query_empty(query.stage));
            query.advance();
            dout.advance();
            buffer ^= 1;
        }
    }

    // The scores of the next tile are issued before the dq of this one, and dP after it, so that the tensor
    // cores have work during the exponentials. A round of the loop leaves nothing in flight: ptxas would
    // wait after every product otherwise.
    __device__ __forceinline__ void take_tiles_pipelined() {
        issue_scores();
        issue_products();
        ptx::wgmma_wait_group<1>();
        pin(scores);
        exponentiate();
        finish_scores();
#pragma unroll 1
        for (; left > 1; --left) {
            const int query_stage = query.stage;
            query.advance();
            issue_scores();
            wait_for_gradients();
            issue_dq();
            issue_dk(query_stage);
            ptx::wgmma_wait_group<1>();
            pin(dq);
            pin(scores);
            add_dq(query_stage);
            issue_products();
            buffer ^= 1;
            exponentiate();
            ptx::wgmma_wait_group<1>();
            pin(dk);
            release(shared.query_empty(query_stage));
            finish_scores();
        }
        wait_for_gradients();
        issue_dq();
        issue_dk(query.stage);
        ptx::wgmma_wait_group<1>();
        pin(dq);
        add_dq(query.stage);
        ptx::wgmma_wait_group<0>();
        pin(dk);
    }
    __device__ __forceinline__ void finish_scores() {
        issue_dv();
        ptx::wgmma_wait_group<1>();
        pin(products);
        store_gradients();
        announce_gradients();
        ptx::wgmma_wait_group<0>();
        pin(dv);
        release(shared.dout_empty(dout.stage));
        dout.advance();
    }

    // The lse or delta of this lane's queries 8n + 2 * (lane % 4) and the next.
    __device__ __forceinline__ float2 row_pair(uint32_t rows, int n) const {
        return ptx::ld_shared_float2(rows + (8 * n + 2 * (lane % 4)) * 4);
    }
};

}  // namespace flashbench::cuda::sm90
