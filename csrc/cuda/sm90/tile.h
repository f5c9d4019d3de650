// The shape of a tile, its layout in shared memory, and its barriers.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../constants.h"
#include "out_boxes.h"
#include "ptx.h"

namespace flashbench::cuda::sm90 {

constexpr int kWarpgroup = 128;
// All threads of the producer scan V, except the warp that issues copies.
constexpr int kScannerThreads = kWarpgroup - kWarpSize;
// Rows of one warpgroup: m of wgmma.
constexpr int kGroupRows = 64;

// The most shared memory of a block.
constexpr int kMostSharedBytes = 227 * 1024;
// The most of it for barriers and descriptions of tiles.
constexpr int kControlBytes = 512;

// A tile of `consumers` warpgroups, 64 query rows each, by `keys` keys. K and V have
// two buffers each. One more warpgroup fills them (the producer). head_dim: the dims that are
// multiplied, a multiple of 16. `divided`: in launches with a divided tail (tail.h), not causal.
// `with_lse`: also stores the log-sum-exp of each row, which costs others up to 4 % where they only ask.
// `packed`: divided, of packed rows (../rows.h), with any mask; all tiles are of the tail. `uneven`: packed tiles with
// different numbers of blocks (tail.h), whose places in the tail are searched for: beside it, others lost up to 5 %.
template <typename T, int head_dim, int consumers, int keys, bool divided = false,
          bool with_lse = false, bool packed = false, bool uneven = false>
struct Tile {
    using Type = T;
    using Divided = Tile<T, head_dim, consumers, keys, true>;
    using WithLse = Tile<T, head_dim, consumers, keys, false, true>;
    using Packed = Tile<T, head_dim, consumers, keys, true, false, true>;
    using Uneven = Tile<T, head_dim, consumers, keys, true, false, true, true>;
    static constexpr bool kDivided = divided;
    static constexpr bool kPacked = packed;
    static constexpr bool kUneven = uneven;
    static constexpr bool kTakesCausal = !divided || packed;
    static constexpr bool kWithLse = with_lse;
    static constexpr int kHeadDim = head_dim;
    static constexpr int kConsumers = consumers;
    static constexpr int kRows = consumers * kGroupRows;
    static constexpr int kKeys = keys;
    static constexpr int kStages = 2;
    static constexpr int kThreads = (consumers + 1) * kWarpgroup;
    // An SM has 64 Ki registers, allocated in eights. The producer gives up what the consumers need.
    static constexpr int kProducerRegisters = consumers == 3 ? 32 : 40;
    static constexpr int kConsumerRegisters = consumers == 3 ? 160 : 232;
    // Whether a consumer thread has registers to spare beside scores, probabilities and output.
    static constexpr bool kRoomy =
        kConsumerRegisters - (keys / 2 + keys / 4 + head_dim / 2) >= 48;

    // The cost of starting and ending the pieces of a divided tail, in blocks of keys; three consumers
    // hide most of it.
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
    // Two buffers for Q if there is room; the tiles are then one stream of blocks (consumer.h).
    static constexpr int kKeyStagesBytes = 2 * kStages * kKeyBytes;
    static constexpr bool kStream =
        2 * kQueryBytes + kKeyStagesBytes + kControlBytes <= kMostSharedBytes;
    static constexpr int kQueryStages = kStream ? 2 : 1;
    // The room that is left holds boxes of results (out_boxes.h): so many for each warp. Packed tiles are all
    // parts (tail.h) and have none.
    static constexpr int kInputBytes = kQueryStages * kQueryBytes + kKeyStagesBytes;
    static constexpr int kRoomForBoxes = (kMostSharedBytes - kControlBytes - kInputBytes) /
                                         (kRows / OutBox::kRows * OutBox::kBytes);
    static constexpr int kOutBoxes = packed                   ? 0
                                     : kRoomForBoxes < kBoxes ? kRoomForBoxes
                                                              : kBoxes;
    static_assert(packed || kOutBoxes > 0);
    static constexpr int kWarpOutBytes = kOutBoxes * OutBox::kBytes;
    static constexpr int kTileBytes = kInputBytes + kRows / OutBox::kRows * kWarpOutBytes;
};

// A position in a ring: the next stage, and the parity of its barriers' phase.
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

// Shared memory: Q stages, K stages, V stages, boxes of results, a description of the tile in each Q stage,
// barriers, flags.
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
    // The boxes of results of a warp, counted over all consumers.
    __device__ __forceinline__ uint32_t out(int warp) const {
        return base + Tile::kInputBytes + warp * Tile::kWarpOutBytes;
    }
    // The Work of the tile whose Q is in this stage, or the end mark after the last one.
    __device__ __forceinline__ uint32_t work(int stage) const {
        return base + Tile::kTileBytes + stage * kWorkBytes;
    }

    // "full": the data has arrived; "empty": every consumer is done with it; "clean": V has arrived
    // and has no NaN or infinity that a masked row could catch (see kernel.h).
    __device__ __forceinline__ uint32_t query_full(int stage) const { return barrier(stage); }
    __device__ __forceinline__ uint32_t query_empty(int stage) const {
        return barrier(kQueryStages + stage);
    }
    __device__ __forceinline__ uint32_t key_full(int stage) const { return ring(0, stage); }
    __device__ __forceinline__ uint32_t key_empty(int stage) const { return ring(1, stage); }
    __device__ __forceinline__ uint32_t value_full(int stage) const { return ring(2, stage); }
    __device__ __forceinline__ uint32_t value_empty(int stage) const { return ring(3, stage); }
    __device__ __forceinline__ uint32_t value_clean(int stage) const { return ring(4, stage); }
    // Whether V of this stage had one.
    __device__ __forceinline__ uint32_t nonfinite_flag(int stage) const {
        return barrier(kBarriers) + stage * 4;
    }

    // Called by one thread before any other uses them.
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
