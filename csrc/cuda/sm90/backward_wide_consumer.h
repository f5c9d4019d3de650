// The scores of both kinds of blocks above head dim 128. wgmma is asynchronous: registers that it reads or
// writes are not touched between issue and wait.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../backward_walk.h"
#include "backward_group.h"
#include "backward_wide_tile.h"
#include "ptx.h"
#include "wgmma.h"

namespace flashbench::cuda::sm90 {

// Scores of a consumer's 64 keys, by halves of the dims.
template <typename Tile, Sums sums>
struct WideConsumer : BackwardGroup<Tile> {
    using T = typename Tile::Type;
    using Shared = BackwardWideShared<Tile, sums>;
    static constexpr int kQueries = Tile::kQueries;
    using KMajor = SharedOperand<Tile::kSwizzleBytes, 16>;
    using QueryMajor = SharedOperand<Tile::kSwizzleBytes, Tile::kQueryBoxBytes>;

    const Shared shared;
    Ring<Shared::kHalves> query;
    Ring<Shared::kStages> dout;
    int halves[2];  // of the tile in `scores`

    __device__ __forceinline__ WideConsumer(const BackwardPlan& plan, const Shared& shared_,
                                            const KeyBlock& keys, int consumer)
        : BackwardGroup<Tile>(plan, keys, consumer), shared(shared_) {}

    // d = a b, or for the second half d += a b: rows of K or V, and a tile of Q or dO.
    __device__ __forceinline__ void issue_half_product(float (&d)[kQueries / 2], uint32_t keys,
                                                       uint32_t queries, int half) const {
        // Hides that addresses do not change: descriptors kept from tile to tile would be spilled.
        asm volatile("" : "+r"(keys), "+r"(queries));
        const KMajor a(this->my_rows(keys) + half * Tile::kHalfBoxes * Tile::kKeyBoxBytes);
        const KMajor b(queries);
#pragma unroll
        for (int dim = 0; dim < Tile::kHalfDims; dim += 16) {
            const int box = dim / Tile::kBoxDims;
            const int offset = dim % Tile::kBoxDims * kElementBytes;
            Wgmma<T, kQueries>::ss(d, a.at(box * Tile::kKeyBoxBytes + offset),
                                   b.at(box * Tile::kQueryBoxBytes + offset),
                                   half > 0 || dim > 0);
        }
    }
    __device__ __forceinline__ void issue_half_scores(int half) {
        ptx::mbarrier_wait(shared.query_full(query.stage), query.parity);
        ptx::wgmma_fence();
        issue_half_product(this->scores, shared.key(), shared.query(query.stage), half);
        ptx::wgmma_commit_group();
        halves[half] = query.stage;
        query.advance();
    }
    __device__ __forceinline__ void exponentiate() {
        pin(this->scores);
        BackwardGroup<Tile>::exponentiate(shared.lse(halves[0]), shared.query_tile(halves[0]));
    }

    // Every lane arrives, because each has read lse or delta.
    __device__ __forceinline__ void release_half(int half) const {
        ptx::mbarrier_arrive(shared.query_empty(halves[half]));
    }
    __device__ __forceinline__ void release_dout() {
        ptx::mbarrier_arrive(shared.dout_empty(dout.stage));
        dout.advance();
    }
};

}  // namespace flashbench::cuda::sm90
