// The consumer of the blocks that sum dk and dq above head dim 128.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../backward_walk.h"
#include "../types.h"
#include "backward_sums.h"
#include "backward_wide_consumer.h"
#include "backward_wide_tile.h"
#include "ptx.h"
#include "wgmma.h"

namespace flashbench::cuda::sm90 {

// dk of a block of keys, and its part of dq.
template <typename Tile>
struct KeyConsumer : WideConsumer<Tile, Sums::keys> {
    using Base = WideConsumer<Tile, Sums::keys>;
    using T = typename Tile::Type;
    using Base::consumer;
    using Base::dout;
    using Base::halves;
    using Base::kQueries;
    using Base::left;
    using Base::plan;
    using Base::shared;
    using Base::thread;
    using KeyMajor = SharedOperand<Tile::kSwizzleBytes, Tile::kKeyBoxBytes>;
    using Gradients = SharedOperand<Tile::kGradientSwizzleBytes, 16>;

    const uint32_t stored_at;  // this lane's first chunk of dS
    float dk[2][Tile::kHalfDims / 2];
    float products[kQueries / 2];  // dP
    Pair gradients[kQueries / 4];
    float dq[Tile::kPassDims / 2];  // of one pass

    __device__ __forceinline__ KeyConsumer(const BackwardPlan& plan_,
                                           const typename Base::Shared& shared_,
                                           const KeyBlock& keys, int consumer_)
        : Base(plan_, shared_, keys, consumer_),
          stored_at(shared_.gradients() + this->stored_offset()) {
#pragma unroll
        for (int i = 0; i < Tile::kHalfDims / 2; ++i) {
            dk[0][i] = 0.0f;
            dk[1][i] = 0.0f;
        }
    }

    // The first scores of the next tile are issued before the last dq of this one is added, so that the
    // tensor cores have work meanwhile.
    __device__ __forceinline__ void take_all() {
        if (left == 0) {
            return;
        }
        ptx::mbarrier_wait(shared.key_full(), 0);
        ptx::mbarrier_wait(shared.value_full(), 0);
        this->issue_half_scores(0);
        this->issue_half_scores(1);
        issue_products();
        finish_scores();
        store_gradients();
#pragma unroll 1
        for (; left > 1; --left) {
            const int64_t part = part_of_tile();
            issue_gradients(part);
            ptx::wgmma_wait_group<1>();
            pin(dk[0]);
            pin(dk[1]);
            if constexpr (!Tile::kReleasesHalves) {
                this->release_half(0);
            }
            this->release_half(1);
            this->issue_half_scores(0);
            ptx::wgmma_wait_group<1>();
            pin(dq);
            ptx::bar_arrive(kReadBarrier + consumer, 2 * kWarpgroup);
            if constexpr (Tile::kReleasesHalves) {
                this->issue_half_scores(1);
                add_dq(part, Tile::kPasses - 1);
            } else {
                add_dq(part, Tile::kPasses - 1);
                this->issue_half_scores(1);
            }
            issue_products();
            finish_scores();
            ptx::bar_sync(kReadBarrier + (consumer ^ 1), 2 * kWarpgroup);
            store_gradients();
        }
        const int64_t part = part_of_tile();
        issue_gradients(part);
        ptx::wgmma_wait_group<0>();
        pin(dk[0]);
        pin(dk[1]);
        pin(dq);
        add_dq(part, Tile::kPasses - 1);
    }

    __device__ __forceinline__ void store(const KeyBlock& keys) const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            store_sum<Tile, KeySum::dk>(*this, keys, dk[half], half * Tile::kHalfDims);
        }
    }

private:
    // + consumer: its dS is in shared memory; it has read all of dS.
    static constexpr int kStoredBarrier = kGradientsBarrier;
    static constexpr int kReadBarrier = kGradientsBarrier + 2;

    __device__ __forceinline__ void issue_products() {
        ptx::mbarrier_wait(shared.dout_full(dout.stage), dout.parity);
        ptx::wgmma_fence();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            this->issue_half_product(products, shared.value(),
                                     shared.dout(dout.stage) + half * Tile::kHalfBytes, half);
        }
        ptx::wgmma_commit_group();
    }

    // The tile whose scores are issued: everything up to dS in registers.
    __device__ __forceinline__ void finish_scores() {
        ptx::wgmma_wait_group<1>();
        this->exponentiate();
        ptx::wgmma_wait_group<0>();
        pin(products);
        this->differentiate(products, shared.delta(dout.stage));
        this->release_dout();
    }
    __device__ __forceinline__ void store_gradients() {
        Base::store_gradients(gradients, stored_at);
        ptx::bar_arrive(kStoredBarrier + consumer, 2 * kWarpgroup);
    }

    // The tile whose dS is in shared memory: dk and dq. The last pass of dq is issued, not added.
    __device__ __forceinline__ void issue_gradients(int64_t part) {
        ptx::bar_sync(kStoredBarrier + (consumer ^ 1), 2 * kWarpgroup);
        if constexpr (Tile::kPasses == 2) {
            issue_dq(0);
        }
        issue_dk(0);
        issue_dk(1);
        if constexpr (Tile::kPasses == 2) {
            ptx::wgmma_wait_group<2>();
            pin(dq);
            add_dq(part, 0);
        }
        if constexpr (Tile::kReleasesHalves) {
            ptx::wgmma_wait_group<1>();
            this->release_half(0);
        }
        issue_dq(Tile::kPasses - 1);
    }
    __device__ __forceinline__ void issue_dk(int half) {
        const typename Base::QueryMajor b(shared.query(halves[half]));
        ptx::wgmma_fence();
#pragma unroll
        for (int block = 0; block < kQueries / 16; ++block) {
            Wgmma<T, Tile::kHalfDims>::rs(dk[half], gradients + 4 * block,
                                          b.at(block * 2 * Tile::kAtomBytes));
        }
        ptx::wgmma_commit_group();
    }
    __device__ __forceinline__ void issue_dq(int pass) {
        const Gradients a(shared.gradients());
        const int first_box =
            Tile::first_query_box(consumer) + pass * (Tile::kPassDims / Tile::kBoxDims);
        const KeyMajor b(shared.key() + first_box * Tile::kKeyBoxBytes);
        ptx::wgmma_fence();
#pragma unroll
        for (int block = 0; block < Tile::kKeys / 16; ++block) {
            Wgmma<T, Tile::kPassDims>::template ss<1, 1>(
                dq, a.at(block * 16 * Tile::kGradientSwizzleBytes),
                b.at(block * 2 * Tile::kAtomBytes), block > 0);
        }
        ptx::wgmma_commit_group();
    }

    // The first part of dq that this consumer adds to, of the tile in `scores`.
    __device__ __forceinline__ int64_t part_of_tile() const {
        const int64_t tile = ptx::ld_shared_32(shared.query_tile(halves[0]) + 4);
        return tile * Tile::kTurns + consumer * Tile::kPasses;
    }
    __device__ __forceinline__ void add_dq(int64_t first_part, int pass) const {
        const int64_t part = first_part + pass;
        this->in_turn(part, [&] {
            float* const target = plan.dq + part * (Tile::kPassDims * kGroupRows) + 4 * thread;
            [[maybe_unused]] const int dims =
                plan.head_dim - consumer * Tile::kQueryDims - pass * Tile::kPassDims;
#pragma unroll
            for (int i = 0; i < Tile::kPassDims / 2; i += 4) {
                if (Tile::kSkipsZeros && 2 * i >= dims) {
                    break;
                }
                ptx::red_add_128(target + i * kWarpgroup, dq[i], dq[i + 1], dq[i + 2], dq[i + 3]);
            }
        });
    }
};

}  // namespace flashbench::cuda::sm90
