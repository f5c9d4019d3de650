// The consumer of the blocks that sum dv above head dim 128.
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

// dv of a block of keys.
template <typename Tile>
struct ValueConsumer : WideConsumer<Tile, Sums::values> {
    using Base = WideConsumer<Tile, Sums::values>;
    using T = typename Tile::Type;
    using Base::dout;
    using Base::kQueries;
    using Base::left;
    using Base::plan;
    using Base::scores;
    using Base::shared;

    float dv[Tile::kHeadDim / 2];
    Pair probabilities[kQueries / 4];

    __device__ __forceinline__ ValueConsumer(const BackwardPlan& plan_,
                                             const typename Base::Shared& shared_,
                                             const KeyBlock& keys, int consumer_)
        : Base(plan_, shared_, keys, consumer_) {
#pragma unroll
        for (int i = 0; i < Tile::kHeadDim / 2; ++i) {
            dv[i] = 0.0f;
        }
    }

    // The scores of the next tile beside the sum of this one. A round leaves nothing in flight: ptxas
    // would wait after every product otherwise.
    __device__ __forceinline__ void take_all() {
        if (left == 0) {
            return;
        }
        ptx::mbarrier_wait(shared.key_full(), 0);
        issue_scores();
        ptx::wgmma_wait_group<0>();
        finish_scores();
#pragma unroll 1
        for (; left > 1; --left) {
            this->pack_scores(probabilities);
            issue_scores();
            issue_dv();
            ptx::wgmma_wait_group<1>();
            finish_scores();
            ptx::wgmma_wait_group<0>();
            pin(dv);
            this->release_dout();
        }
        this->pack_scores(probabilities);
        issue_dv();
        ptx::wgmma_wait_group<0>();
        pin(dv);
    }

    __device__ __forceinline__ void store(const KeyBlock& keys) const {
        store_sum<Tile, KeySum::dv>(*this, keys, dv, 0);
    }

private:
    __device__ __forceinline__ void issue_scores() {
        this->issue_half_scores(0);
        this->issue_half_scores(1);
    }
    __device__ __forceinline__ void finish_scores() {
        this->exponentiate();
        this->release_half(0);
        this->release_half(1);
    }
    __device__ __forceinline__ void issue_dv() {
        ptx::mbarrier_wait(shared.dout_full(dout.stage), dout.parity);
        const typename Base::QueryMajor b(shared.dout(dout.stage));
        ptx::wgmma_fence();
#pragma unroll
        for (int block = 0; block < kQueries / 16; ++block) {
            Wgmma<T, Tile::kHeadDim>::rs(dv, probabilities + 4 * block,
                                         b.at(block * 2 * Tile::kAtomBytes));
        }
        ptx::wgmma_commit_group();
    }
};

}  // namespace flashbench::cuda::sm90
