// The shape of a tile of the backward kernel, its layout in shared memory, and its barriers.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../constants.h"
#include "backward_parts.h"
#include "ptx.h"
#include "tile.h"

namespace flashbench::cuda::sm90 {

// A block of threads keeps K and V of 128 keys, 64 for each of two consumer warpgroups, and walks over tiles
// of `kQueries` queries. Above head dim 128, see backward_wide_tile.h.
//
// head_dim: the dims that scores sum over, a multiple of 16. Those past the tensor's are zeros.
template <typename T, int head_dim>
struct BackwardTile {
    static_assert(head_dim % 16 == 0 && head_dim <= 128);
    using Type = T;
    static constexpr int kHeadDim = head_dim;
    static constexpr int kQueries = head_dim <= 64 ? 128 : 64;
    static constexpr int kConsumers = 2;
    static constexpr int kKeys = kConsumers * kGroupRows;
    static constexpr TileSteps kSteps{1, 1};
    // Whether the scores of the next tile are computed beside the gradients of this one.
    static constexpr bool kPipelined = head_dim > 64;
    static constexpr int kQueryStages = kPipelined ? 3 : 2;
    static constexpr int kStages = 2;  // of dO
    static constexpr int kThreads = (kConsumers + 1) * kWarpgroup;
    static constexpr int kProducerRegisters = 24;
    static constexpr int kConsumerRegisters = 240;

    static constexpr int kBoxDims = 64;
    static constexpr int kBoxes = (head_dim + kBoxDims - 1) / kBoxDims;
    static constexpr int kSwizzleBytes = kBoxDims * kElementBytes;
    static constexpr int kAtomBytes = 8 * kSwizzleBytes;
    static constexpr int kQueryBoxBytes = kQueries * kSwizzleBytes;
    static constexpr int kKeyBoxBytes = kKeys * kSwizzleBytes;
    static constexpr int kQueryBytes = kBoxes * kQueryBoxBytes;  // of Q or dO, one stage
    static constexpr int kKeyBytes = kBoxes * kKeyBoxBytes;      // of K or V
    static constexpr int kRowBytes = kQueries * 4;               // of lse or delta, one stage
    // dS, keys by queries, in boxes. Two buffers, taken in turns.
    static constexpr int kGradientBoxQueries = 64;
    static constexpr int kGradientSwizzleBytes = kGradientBoxQueries * kElementBytes;
    static constexpr int kGradientBoxBytes = kKeys * kGradientSwizzleBytes;
    static constexpr int kGradientBytes = kKeys * kQueries * kElementBytes;
    static constexpr int kGradientBuffers = 2;

    // What a consumer has of dq: 64 queries by `kQueryDims`.
    static constexpr int kQueryDims = 64;
    static constexpr int kQueryGradients = kGroupRows * kQueryDims;
    static constexpr int kLastQueryDims =  // of the last consumer; zeros follow
        kBoxes == 1 ? kQueryDims : head_dim - kQueryDims;
    // A tile of queries: floats of dq, and parts that are added to in turns.
    static constexpr int kTileGradients = kConsumers * kQueryGradients;
    static constexpr int kTurns = kConsumers;
    static_assert(kTileGradients == kQueries * kBoxes * kBoxDims);

    // Where a consumer's part of dq begins.
    static __device__ __forceinline__ int first_query(int consumer) {
        return kBoxes == 1 ? consumer * kGroupRows : 0;
    }
    static __device__ __forceinline__ int first_query_box(int consumer) {
        return kBoxes == 1 ? 0 : consumer;
    }
};

// Shared memory: K, V, Q stages, dO stages, dS buffers, lse and delta of each stage, which tile is in each
// Q stage, barriers.
template <typename Tile>
struct BackwardShared {
    static constexpr int kStages = Tile::kStages;
    static constexpr int kQueryStages = Tile::kQueryStages;
    static constexpr int kAllStages = kStages + kQueryStages;
    static constexpr int kTileBytes = 2 * Tile::kKeyBytes +
                                      kAllStages * (Tile::kQueryBytes + Tile::kRowBytes) +
                                      Tile::kGradientBuffers * Tile::kGradientBytes;
    static constexpr int kBytes = kTileBytes + 8 * (kQueryStages + 2 + 2 * kAllStages);
    static_assert(kBytes <= kMostSharedBytes);

    uint32_t base;

    __device__ __forceinline__ uint32_t key() const { return base; }
    __device__ __forceinline__ uint32_t value() const { return base + Tile::kKeyBytes; }
    __device__ __forceinline__ uint32_t query(int stage) const {
        return base + 2 * Tile::kKeyBytes + stage * Tile::kQueryBytes;
    }
    __device__ __forceinline__ uint32_t dout(int stage) const {
        return query(kQueryStages + stage);
    }
    __device__ __forceinline__ uint32_t gradients(int buffer) const {
        return query(kAllStages) + buffer * Tile::kGradientBytes;
    }
    __device__ __forceinline__ uint32_t lse(int stage) const {
        return gradients(Tile::kGradientBuffers) + stage * Tile::kRowBytes;
    }
    __device__ __forceinline__ uint32_t delta(int stage) const {
        return lse(kQueryStages + stage);
    }

    // The QueryTile whose Q is in this stage.
    __device__ __forceinline__ uint32_t query_tile(int stage) const {
        return base + kTileBytes + stage * 8;
    }

    // "full": the data has arrived, lse with Q and delta with dO; "empty": every consumer is done with it.
    __device__ __forceinline__ uint32_t key_full() const { return query_tile(kQueryStages); }
    __device__ __forceinline__ uint32_t value_full() const { return key_full() + 8; }
    __device__ __forceinline__ uint32_t query_full(int stage) const { return barrier(stage); }
    __device__ __forceinline__ uint32_t query_empty(int stage) const {
        return barrier(kQueryStages + stage);
    }
    __device__ __forceinline__ uint32_t dout_full(int stage) const {
        return barrier(2 * kQueryStages + stage);
    }
    __device__ __forceinline__ uint32_t dout_empty(int stage) const {
        return barrier(2 * kQueryStages + kStages + stage);
    }

    // Called by one thread before any other uses them.
    __device__ __forceinline__ void init_barriers() const {
        constexpr int kArrivals = Tile::kConsumers * kWarpgroup;
        ptx::mbarrier_init(key_full(), 1);
        ptx::mbarrier_init(value_full(), 1);
        for (int stage = 0; stage < kQueryStages; ++stage) {
            ptx::mbarrier_init(query_full(stage), 1);
            ptx::mbarrier_init(query_empty(stage), kArrivals);
        }
        for (int stage = 0; stage < kStages; ++stage) {
            ptx::mbarrier_init(dout_full(stage), 1);
            ptx::mbarrier_init(dout_empty(stage), kArrivals);
        }
        ptx::fence_mbarrier_init();
    }

private:
    __device__ __forceinline__ uint32_t barrier(int index) const {
        return value_full() + 8 + index * 8;
    }
};

}  // namespace flashbench::cuda::sm90
