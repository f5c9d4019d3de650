// The shape of an fp8 tile, its layout in shared memory, and its barriers.
//
// 128 rows by 128 keys, four stages of K and V; 168 registers at launch, 240 a consumer thread after
// it; 72 KB of shared memory at head dim 64, 144 KB at 128, and the barriers.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "../../attention.h"
#include "../constants.h"
#include "ptx.h"
#include "tile.h"

namespace flashbench::cuda::sm90::fp8 {

constexpr int kConsumers = 2;
constexpr int kRows = kConsumers * kGroupRows;
constexpr int kKeys = 128;
constexpr int kThreads = (kConsumers + 1) * kWarpgroup;
// An SM has 64 Ki registers: the producer gives up what the consumers need.
constexpr int kProducerRegisters = 24;
constexpr int kConsumerRegisters = 240;
// A tile's rows share one scale, as do a block's keys.
static_assert(kRows == kE4m3Block && kKeys == kE4m3Block);

// 128 query rows by 128 keys, `width` dims of one byte each. K has rows of `width` bytes; V is
// transposed, with rows of 128 keys. `shifted`: the causal mask is shifted by causal_offset; a template
// argument, because no registers are left.
template <int width, int stages, bool shifted>
struct Tile {
    static constexpr bool kShifted = shifted;
    static constexpr int kWidth = width;
    static constexpr int kStages = stages;
    static constexpr int kQueryBytes = kRows * width;
    static constexpr int kKeyBytes = kKeys * width;  // of K or V, one stage
    static constexpr int kTileBytes = kQueryBytes + 2 * stages * kKeyBytes;
    static_assert(width == 64 || width == 128, "the width of a swizzle");

    static __device__ __forceinline__ bool causal(const AttentionE4m3& problem) {
        return shifted || problem.causal;
    }
    static __device__ __forceinline__ int causal_offset(const AttentionE4m3& problem) {
        return shifted ? static_cast<int>(problem.causal_offset) : 0;
    }
};

// Shared memory: Q, K stages, V stages, barriers. "full": the data is there; "empty": every warp
// that computes is done with it.
template <typename Tile>
struct Shared {
    static constexpr int kStages = Tile::kStages;
    static constexpr int kBytes = Tile::kTileBytes + (2 + 4 * kStages) * 8;

    uint32_t base;

    __device__ __forceinline__ uint32_t query() const { return base; }
    __device__ __forceinline__ uint32_t key(int stage) const {
        return base + Tile::kQueryBytes + stage * Tile::kKeyBytes;
    }
    __device__ __forceinline__ uint32_t value(int stage) const { return key(kStages + stage); }

    __device__ __forceinline__ uint32_t query_full() const { return barrier(0); }
    __device__ __forceinline__ uint32_t query_empty() const { return barrier(1); }
    __device__ __forceinline__ uint32_t key_full(int stage) const { return barrier(2 + stage); }
    __device__ __forceinline__ uint32_t key_empty(int stage) const {
        return barrier(2 + kStages + stage);
    }
    __device__ __forceinline__ uint32_t value_full(int stage) const {
        return barrier(2 + 2 * kStages + stage);
    }
    __device__ __forceinline__ uint32_t value_empty(int stage) const {
        return barrier(2 + 3 * kStages + stage);
    }

    // Called by one thread before any other uses them.
    __device__ __forceinline__ void init_barriers() const {
        constexpr int kConsumerWarps = kConsumers * kWarpgroup / kWarpSize;
        ptx::mbarrier_init(query_full(), 1);
        ptx::mbarrier_init(query_empty(), kConsumerWarps);
        for (int stage = 0; stage < kStages; ++stage) {
            ptx::mbarrier_init(key_full(stage), 1);
            ptx::mbarrier_init(value_full(stage), 1);
            ptx::mbarrier_init(key_empty(stage), kConsumerWarps);
            ptx::mbarrier_init(value_empty(stage), kConsumerWarps);
        }
        ptx::fence_mbarrier_init();
    }

private:
    __device__ __forceinline__ uint32_t barrier(int index) const {
        return base + Tile::kTileBytes + index * 8;
    }
};

struct Launch {
    CUtensorMap query;
    CUtensorMap key;
    CUtensorMap value;
    AttentionE4m3 problem;
    float scale_log2;
    int tiles;  // of a head
    int heads;  // of the batch
};

// One tile of one head, and the blocks of keys that it sees. Heads are counted through the batch.
struct Work {
    int first_row;
    int head;
    int kv_head;
    int blocks;
};

// A block of threads walks over tiles, forward in one round over the grid and backward in the next, so
// that every SM gets equal work. Causal tiles come longest first, all heads of a length together.
template <typename Tile>
struct TileScheduler {
    const Launch& launch;
    int round = 0;

    __device__ __forceinline__ bool next(Work& work) {
        const int blocks = gridDim.x;
        const int place = round % 2 == 0 ? blockIdx.x : blocks - 1 - blockIdx.x;
        const int index = round * blocks + place;
        const AttentionE4m3& problem = launch.problem;
        const bool causal = Tile::causal(problem);
        if (round * blocks >= launch.tiles * launch.heads) {
            return false;
        }
        ++round;
        const int head = causal ? index % launch.heads : index / launch.tiles;
        const int tile = causal ? launch.tiles - 1 - index / launch.heads : index % launch.tiles;
        const int all_blocks = (static_cast<int>(problem.k_len) + kKeys - 1) / kKeys;
        work.first_row = tile * kRows;
        work.head = head;
        work.kv_head = head / static_cast<int>(problem.heads / problem.kv_heads);
        const int end_key = work.first_row + kRows + Tile::causal_offset(problem);
        // At least one, even if the tile sees no key.
        work.blocks = !causal         ? all_blocks
                      : Tile::kShifted ? max(1, min(all_blocks, (end_key + kKeys - 1) / kKeys))
                                       : min(all_blocks, tile + 1);
        return index < launch.tiles * launch.heads;
    }
};

}  // namespace flashbench::cuda::sm90::fp8
