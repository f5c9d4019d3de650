// The shape of a decode tile and its layout in shared memory.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "../boxes.h"
#include "../constants.h"
#include "../mma_tile.h"
#include "../shared_tile.h"

namespace flashbench::cuda::decode {

constexpr int larger(int a, int b) { return a > b ? a : b; }

// 16 query rows for each of `row_warps` warps. `groups` of such warps take turns of `keys` keys, each
// group through its own ring of `stages` buffers of K and V. `blocks_per_sm` limits the registers. `boxes`:
// K and V lie in shared memory as TMA stores them.
template <typename T, int head_dim, int row_warps, int groups, int keys, int stages,
          int blocks_per_sm, bool boxes = false>
struct DecodeTile {
    using Type = T;
    static constexpr bool kBoxes = boxes;
    // Compiled for Hopper alone: code for other chips uses no TMA, and has up to 16 rows here (families.h).
    static constexpr bool kHopperOnly = boxes || row_warps > 1;
    using Keys = std::conditional_t<boxes, Boxes<head_dim, keys>, Swizzle<head_dim>>;
    using Warp = MmaTile<T, head_dim, 16 * row_warps, keys, row_warps, 1, true, 1, 1, Keys>;
    static constexpr int kHeadDim = head_dim;
    static constexpr int kRows = 16 * row_warps;
    static constexpr int kKeys = keys;
    static constexpr int kGroups = groups;
    static constexpr int kStages = stages;
    static constexpr int kBlocksPerSm = blocks_per_sm;
    static constexpr int kGroupThreads = row_warps * kWarpSize;
    static constexpr int kThreads = groups * kGroupThreads;
    static constexpr int kRingKeys = groups * stages * keys;  // requested at once

    // During the loop over keys: Q, then each group's ring.
    static constexpr int kQueryBytes = kRows * head_dim * kElementBytes;
    static constexpr int kKeyBytes = keys * head_dim * kElementBytes;
    static constexpr int kStageBytes = 2 * kKeyBytes;
    static constexpr int kRingBytes = stages * kStageBytes;
    static constexpr int kWalkBytes = kQueryBytes + groups * kRingBytes;

    // After it, in the same place: output (fp32), base and sum of each group's rows, then what the
    // blocks of a cluster send each other: quads of four dims of a row with their base and sum.
    static constexpr int kQuads = kRows * head_dim / 4;
    static constexpr int kPartBytes = kRows * head_dim * static_cast<int>(sizeof(float));
    static constexpr int kStatisticsBytes = kRows * static_cast<int>(sizeof(float2));
    static constexpr int kPartsBytes = groups * (kPartBytes + kStatisticsBytes);
    static constexpr int kQuadBytes = static_cast<int>(sizeof(float4) + sizeof(float2));

    // Shared memory of a block in a cluster of this size.
    static constexpr int shared_bytes(int cluster) {
        const int received = cluster == 1 ? 0 : (kQuads + cluster) * kQuadBytes;
        return larger(kWalkBytes, kPartsBytes + received) + kBarrierBytes;
    }
    // mbarriers: the cluster's and, for TMA, that of K and that of V of each group and stage.
    static constexpr int kBarrierBytes = 16 + (boxes ? groups * stages * 2 * 8 : 0);
};

}  // namespace flashbench::cuda::decode
