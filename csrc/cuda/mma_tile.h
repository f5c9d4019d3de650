// The shape of a tile that mma.sync computes: how warps divide its rows and keys, and its shared memory.
#pragma once

#include <cuda_runtime.h>

#include "constants.h"
#include "shared_tile.h"

namespace flashbench::cuda {

// A tile of `rows` queries by `keys` keys. Its warps divide the rows evenly; with several `groups` of
// such warps, each group takes an equal part of every tile's keys, and the groups are merged at the
// end. `blocks_per_sm` limits the registers; K and V have `stages` buffers, each laid out as `KeyLayout_`.
template <typename T, int head_dim, int rows, int keys, int warps, int blocks_per_sm,
          bool query_in_registers, int stages = 1, int groups = 1,
          typename KeyLayout_ = Swizzle<head_dim>>
struct MmaTile {
    using Type = T;
    using KeyLayout = KeyLayout_;
    static constexpr int kHeadDim = head_dim;
    static constexpr int kRows = rows;
    static constexpr int kKeys = keys;
    static constexpr int kThreads = warps * kWarpSize;
    static constexpr int kBlocksPerSm = blocks_per_sm;
    static constexpr bool kQueryInRegisters = query_in_registers;
    static constexpr int kStages = stages;
    static constexpr int kGroups = groups;
    static constexpr int kRowWarps = warps / groups;  // of a group
    static constexpr int kWarpRows = rows / kRowWarps;
    static constexpr int kWarpKeys = keys / groups;
    static_assert(kWarpRows % 16 == 0 && kWarpKeys % 16 == 0 && head_dim % 16 == 0);
    static_assert(kRowWarps * groups == warps && (groups & (groups - 1)) == 0);
    static_assert(stages == 1 || stages == 2);

    // Numbers of 16x16 blocks: of a warp's query rows and keys, of the head dim.
    static constexpr int kRowBlocks = kWarpRows / 16;
    static constexpr int kKeyBlocks = kWarpKeys / 16;
    static constexpr int kDimBlocks = head_dim / 16;

    // Q, then K and V of each stage; the output is laid out over Q.
    static constexpr int kQueryBytes = rows * head_dim * kElementBytes;
    static constexpr int kKeyBytes = keys * head_dim * kElementBytes;
    static constexpr int kStageBytes = 2 * kKeyBytes;
    static constexpr int kLoopBytes = kQueryBytes + stages * kStageBytes;
    // A warp passes output, bases and sums to the same warp of another group, half of the groups at a
    // time, in place of everything else.
    static constexpr int kRowBlockPartBytes =
        (2 * kDimBlocks + 1) * kWarpSize * static_cast<int>(sizeof(float4));
    static constexpr int kPartBytes = kRowBlocks * kRowBlockPartBytes;
    static constexpr int kPartsBytes = groups / 2 * kRowWarps * kPartBytes;
    static constexpr int kSharedBytes = kLoopBytes > kPartsBytes ? kLoopBytes : kPartsBytes;
    static_assert(kSharedBytes <= kMaxSharedBytes);
};

}  // namespace flashbench::cuda
