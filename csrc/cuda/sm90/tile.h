// The shape of a tile, where its parts lie in shared memory, and who waits for whom.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../constants.h"
#include "ptx.h"

namespace flashbench::cuda::sm90 {

constexpr int kWarpgroup = 128;
// Of the producer's threads all but the warp that issues copies look through V.
constexpr int kScannerThreads = kWarpgroup - kWarpSize;
// Rows of one warpgroup: m of wgmma.
constexpr int kGroupRows = 64;

// Shared memory that a block may have.
constexpr int kMostSharedBytes = 227 * 1024;
// Of these at most so many for barriers and what is said about the tiles.
constexpr int kControlBytes = 512;

// A tile of `consumers` warpgroups, 64 query rows each, by `keys` keys. K and V have
// two buffers each. One more warpgroup fills them (the producer). head_dim: the dims that are
// multiplied, a multiple of 16. `divided`: in launches with a divided tail (tail.h), never causal.
template <typename T, int head_dim, int consumers, int keys, bool divided = false>
struct Tile {
    using Type = T;
    using Divided = Tile<T, head_dim, consumers, keys, true>;
    static constexpr bool kDivided = divided;
    static constexpr int kHeadDim = head_dim;
    static constexpr int kConsumers = consumers;
    static constexpr int kRows = consumers * kGroupRows;
    static constexpr int kKeys = keys;
    static constexpr int kStages = 2;
    static constexpr int kThreads = (consumers + 1) * kWarpgroup;
    // 64 Ki registers an SM, given out in eights. The producer gives up what the consumers need.
    static constexpr int kProducerRegisters = consumers == 3 ? 32 : 40;
    static constexpr int kConsumerRegisters = consumers == 3 ? 160 : 232;
    // Beside scores, probabilities and output a consumer thread has registers to spare.
    static constexpr bool kRoomy =
        kConsumerRegisters - (keys / 2 + keys / 4 + head_dim / 2) >= 48;

    // Blocks of keys whose time a divided tail takes to start and to end its pieces; three consumers hide
    // most of it.
    static constexpr int kTailCost = consumers == 3 ? 0 : 4;

    // A row is cut into boxes of 64 dims, 128 bytes, as wide as the swizzle; each box of all rows
    // lies by itself. The last box may hold dims that no product reads: narrower boxes would copy
    // fewer of them, but cost more than they save.
    static constexpr int kBoxDims = 64;
    static constexpr int kBoxes = (head_dim + kBoxDims - 1) / kBoxDims;
    static constexpr int kStoredDims = kBoxes * kBoxDims;
    static constexpr int kSwizzleBytes = kBoxDims * kElementBytes;
    static constexpr int kAtomBytes = 8 * kSwizzleBytes;
    static_assert(head_dim % 16 == 0 && keys % 16 == 0);

    static constexpr int kQueryBytes = kRows * kStoredDims * kElementBytes;
    static constexpr int kKeyBytes = keys * kStoredDims * kElementBytes;  // of K or V, one stage
    static_assert(kKeyBytes % 1024 == 0 && kQueryBytes % 1024 == 0);
    // Two buffers for Q where there is room: the tiles are one stream of blocks then (consumer.h).
    static constexpr int kKeyStagesBytes = 2 * kStages * kKeyBytes;
    static constexpr bool kStream =
        2 * kQueryBytes + kKeyStagesBytes + kControlBytes <= kMostSharedBytes;
    static constexpr int kQueryStages = kStream ? 2 : 1;
    static constexpr int kTileBytes = kQueryStages * kQueryBytes + kKeyStagesBytes;
};

// A ring's position: which stage comes next, and the parity of the phase that its barriers are in.
template <int kStages>
struct Ring {
    int stage = 0;
    int parity = 0;

    __device__ __forceinline__ void advance() {
        if (++stage == kStages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// Shared memory: Q stages, K stages, V stages, what the consumers must know of the tile in each Q
// stage, barriers, flags.
template <typename Tile>
struct Shared {
    static constexpr int kStages = Tile::kStages;
    static constexpr int kQueryStages = Tile::kQueryStages;
    static constexpr int kWorkBytes = 32;
    static constexpr int kBarriers = 2 * kQueryStages + 5 * kStages;
    static constexpr int kBytes =
        Tile::kTileBytes + kQueryStages * kWorkBytes + kBarriers * 8 + kStages * 4;
    static_assert(kBytes - Tile::kTileBytes <= kControlBytes);

    uint32_t base;

    __device__ __forceinline__ uint32_t query(int stage) const {
        return base + stage * Tile::kQueryBytes;
    }
    __device__ __forceinline__ uint32_t key(int stage) const {
        return base + kQueryStages * Tile::kQueryBytes + stage * Tile::kKeyBytes;
    }
    __device__ __forceinline__ uint32_t value(int stage) const { return key(kStages + stage); }
    // The tile whose Q is there (a Work), and after the last one the end.
    __device__ __forceinline__ uint32_t work(int stage) const {
        return base + Tile::kTileBytes + stage * kWorkBytes;
    }

    // "full": the data is there; "empty": every consumer is done with it; "clean": V is there and
    // holds no NaN or infinity that a masked row could catch (see kernel.h).
    __device__ __forceinline__ uint32_t query_full(int stage) const { return barrier(stage); }
    __device__ __forceinline__ uint32_t query_empty(int stage) const {
        return barrier(kQueryStages + stage);
    }
    __device__ __forceinline__ uint32_t key_full(int stage) const { return ring(0, stage); }
    __device__ __forceinline__ uint32_t key_empty(int stage) const { return ring(1, stage); }
    __device__ __forceinline__ uint32_t value_full(int stage) const { return ring(2, stage); }
    __device__ __forceinline__ uint32_t value_empty(int stage) const { return ring(3, stage); }
    __device__ __forceinline__ uint32_t value_clean(int stage) const { return ring(4, stage); }
    // Whether V of this stage did hold one.
    __device__ __forceinline__ uint32_t nonfinite_flag(int stage) const {
        return barrier(kBarriers) + stage * 4;
    }

    // By one thread, before any other uses them.
    __device__ __forceinline__ void init_barriers() const {
        constexpr int kConsumerWarps = Tile::kConsumers * kWarpgroup / kWarpSize;
        for (int stage = 0; stage < kQueryStages; ++stage) {
            ptx::mbarrier_init(query_full(stage), 1);
            ptx::mbarrier_init(query_empty(stage), kConsumerWarps);
        }
        for (int stage = 0; stage < kStages; ++stage) {
            ptx::mbarrier_init(key_full(stage), 1);
            ptx::mbarrier_init(value_full(stage), 1);
            ptx::mbarrier_init(value_clean(stage), kScannerThreads / kWarpSize);
            ptx::mbarrier_init(key_empty(stage), kConsumerWarps);
            ptx::mbarrier_init(value_empty(stage), kConsumerWarps);
        }
        ptx::fence_mbarrier_init();
    }

private:
    __device__ __forceinline__ uint32_t ring(int kind, int stage) const {
        return barrier(2 * kQueryStages + kind * kStages + stage);
    }
    __device__ __forceinline__ uint32_t barrier(int index) const {
        return work(kQueryStages) + index * 8;
    }
};

// Names of bar_sync; 0 is __syncthreads.
constexpr int kTurnBarrier = 1;      // + consumer: its turn to issue products
constexpr int kProducerBarrier = 4;
constexpr int kScannerBarrier = 5;

}  // namespace flashbench::cuda::sm90
