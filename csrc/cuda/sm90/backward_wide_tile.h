// The shape of a tile of the backward kernel above head dim 128, and its layouts in shared memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../constants.h"
#include "backward_parts.h"
#include "ptx.h"
#include "tile.h"

namespace flashbench::cuda::sm90 {

// dk and dv of 128 keys would fill all registers of an SM. So one kind of block of threads has dk and
// dq, another dv; each computes the scores that it needs.
enum class Sums { keys, values };

// `skips_zeros`: a branch around each addition to dq leaves out the dims past the tensor's. It gains 4 % at
// head dim 160, and costs 1 to 7 % where there are none.
template <typename T, int head_dim, bool skips_zeros>
struct BackwardWideTile {
    static_assert(head_dim == 192 || head_dim == 256);
    using Type = T;
    static constexpr int kHeadDim = head_dim;
    static constexpr bool kSkipsZeros = skips_zeros;
    static constexpr int kQueries = 64;
    static constexpr int kConsumers = 2;
    static constexpr int kKeys = kConsumers * kGroupRows;
    // In pairs of products: dk and dq take four, dv two.
    static constexpr TileSteps kSteps{3, 2};
    // Whether the kinds alternate in the grid if causal, so that fewer blocks add to dq at once: up to 4 %
    // faster at head dim 256, 1 % slower at 192. With the full mask it costs 2 to 41 %.
    static constexpr bool kAlternatesCausal = head_dim == 256;
    static constexpr int kThreads = (kConsumers + 1) * kWarpgroup;
    static constexpr int kProducerRegisters = 24;
    static constexpr int kConsumerRegisters = 240;

    // Half of the dims are whole boxes: Q is copied and released by halves.
    static constexpr int kHalfDims = head_dim / 2;
    static constexpr int kBoxDims = kHalfDims % 64 == 0 ? 64 : 32;
    static constexpr int kBoxes = head_dim / kBoxDims;
    static constexpr int kHalfBoxes = kBoxes / 2;
    static constexpr int kSwizzleBytes = kBoxDims * kElementBytes;
    static constexpr int kAtomBytes = 8 * kSwizzleBytes;
    static constexpr int kQueryBoxBytes = kQueries * kSwizzleBytes;
    static constexpr int kKeyBoxBytes = kKeys * kSwizzleBytes;
    static constexpr int kHalfBytes = kHalfBoxes * kQueryBoxBytes;  // of Q
    static constexpr int kQueryBytes = 2 * kHalfBytes;              // of Q or dO
    static constexpr int kKeyBytes = kBoxes * kKeyBoxBytes;         // of K or V
    static constexpr int kRowBytes = kQueries * 4;                  // of lse or delta
    // dS, keys by queries.
    static constexpr int kGradientSwizzleBytes = kQueries * kElementBytes;
    static constexpr int kGradientBoxBytes = kKeys * kGradientSwizzleBytes;
    static constexpr int kGradientBytes = kGradientBoxBytes;

    // A consumer has dk or dv of 64 keys, and of dq half of the dims, summed in `kPasses` parts.
    static constexpr int kQueryDims = kHalfDims;
    static constexpr int kPasses = head_dim == 256 ? 2 : 1;
    static constexpr int kPassDims = kQueryDims / kPasses;
    static_assert(kPassDims % kBoxDims == 0);
    // Whether the first half of Q is released before dq is computed, and all scores of the next tile are
    // issued before dq is added: 1.5 to 2.5 % faster at head dim 192, 1 to 7 % slower at 256.
    static constexpr bool kReleasesHalves = kPasses == 1 && !skips_zeros;
    static constexpr int kQueryGradients = kGroupRows * kQueryDims;
    // A tile of queries: floats of dq, and parts that are added to in turns.
    static constexpr int kTileGradients = kConsumers * kQueryGradients;
    static constexpr int kTurns = kConsumers * kPasses;

    // Where a consumer's part of dq begins.
    static __device__ __forceinline__ int first_query(int /*consumer*/) { return 0; }
    static __device__ __forceinline__ int first_query_box(int consumer) {
        return consumer * kHalfBoxes;
    }
};

// A block that sums dk and dq has K, V, halves of Q, dO stages, dS, lse and delta, which tile is in each
// half of Q, barriers. One that sums dv has K, Q and dO.
template <typename Tile, Sums sums>
struct BackwardWideShared {
    static constexpr bool kForKeys = sums == Sums::keys;
    // At head dim 256, only half of the next tile's Q has a place before this tile's is released.
    static constexpr bool kLateHalf = kForKeys && Tile::kHeadDim == 256;
    static constexpr int kHalves = kLateHalf ? 3 : 4;
    static constexpr int kStages = kLateHalf ? 1 : 2;  // of dO
    static constexpr int kRowsAt = (kForKeys ? 2 : 1) * Tile::kKeyBytes +
                                   kHalves * Tile::kHalfBytes + kStages * Tile::kQueryBytes +
                                   (kForKeys ? Tile::kGradientBytes : 0);
    static constexpr int kTilesAt = kRowsAt + (kHalves + kStages) * Tile::kRowBytes;
    static constexpr int kBarriersAt = kTilesAt + kHalves * 8;
    static constexpr int kBytes = kBarriersAt + 8 * (2 + 2 * kHalves + 2 * kStages);
    static_assert(kBytes <= kMostSharedBytes);

    uint32_t base;

    __device__ __forceinline__ uint32_t key() const { return base; }
    __device__ __forceinline__ uint32_t query(int half) const {
        return base + Tile::kKeyBytes + half * Tile::kHalfBytes;
    }
    __device__ __forceinline__ uint32_t dout(int stage) const {
        return query(kHalves) + stage * Tile::kQueryBytes;
    }
    __device__ __forceinline__ uint32_t value() const { return dout(kStages); }
    __device__ __forceinline__ uint32_t gradients() const { return value() + Tile::kKeyBytes; }
    __device__ __forceinline__ uint32_t lse(int half) const {
        return base + kRowsAt + half * Tile::kRowBytes;
    }
    __device__ __forceinline__ uint32_t delta(int stage) const { return lse(kHalves + stage); }
    // The QueryTile that this half belongs to.
    __device__ __forceinline__ uint32_t query_tile(int half) const {
        return base + kTilesAt + half * 8;
    }

    // "full": the data has arrived, lse with the first half of Q and delta with dO; "empty": every
    // consumer is done with it.
    __device__ __forceinline__ uint32_t key_full() const { return barrier(0); }
    __device__ __forceinline__ uint32_t value_full() const { return barrier(1); }
    __device__ __forceinline__ uint32_t query_full(int half) const { return barrier(2 + half); }
    __device__ __forceinline__ uint32_t query_empty(int half) const {
        return barrier(2 + kHalves + half);
    }
    __device__ __forceinline__ uint32_t dout_full(int stage) const {
        return barrier(2 + 2 * kHalves + stage);
    }
    __device__ __forceinline__ uint32_t dout_empty(int stage) const {
        return barrier(2 + 2 * kHalves + kStages + stage);
    }

    // Called by one thread before any other uses them.
    __device__ __forceinline__ void init_barriers() const {
        constexpr int kArrivals = Tile::kConsumers * kWarpgroup;
        ptx::mbarrier_init(key_full(), 1);
        ptx::mbarrier_init(value_full(), 1);
        for (int half = 0; half < kHalves; ++half) {
            ptx::mbarrier_init(query_full(half), 1);
            ptx::mbarrier_init(query_empty(half), kArrivals);
        }
        for (int stage = 0; stage < kStages; ++stage) {
            ptx::mbarrier_init(dout_full(stage), 1);
            ptx::mbarrier_init(dout_empty(stage), kArrivals);
        }
        ptx::fence_mbarrier_init();
    }

private:
    __device__ __forceinline__ uint32_t barrier(int index) const {
        return base + kBarriersAt + index * 8;
    }
};

}  // namespace flashbench::cuda::sm90
