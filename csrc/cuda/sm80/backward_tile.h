// The shape of a tile of the backward kernel, and its layout in shared memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../constants.h"

namespace flashbench::cuda::sm80 {

// A block of threads keeps `keys` keys and walks over tiles of `queries` queries. Its warps are a grid of
// key_warps by query_warps: of scores each has some keys and queries, of dk and dv some keys and dims, of
// dq some queries and dims. `blocks_per_sm` limits the registers.
template <typename T, int head_dim, int keys, int queries, int key_warps, int query_warps,
          int blocks_per_sm>
struct BackwardTile {
    using Type = T;
    static constexpr int kHeadDim = head_dim;
    static constexpr int kKeys = keys;
    static constexpr int kQueries = queries;
    static constexpr int kKeyWarps = key_warps;
    static constexpr int kQueryWarps = query_warps;
    static constexpr int kWarps = key_warps * query_warps;
    static constexpr int kThreads = kWarps * kWarpSize;
    static constexpr int kBlocksPerSm = blocks_per_sm;

    // A warp's part in 16x16 blocks: of the keys, of the queries, of the dims of dk and dv and of dq.
    static constexpr int kKeyBlocks = keys / 16 / key_warps;
    static constexpr int kQueryBlocks = queries / 16 / query_warps;
    static constexpr int kSumDimBlocks = head_dim / 16 / query_warps;
    static constexpr int kQueryDimBlocks = head_dim / 16 / key_warps;
    static_assert(kKeyBlocks * 16 * key_warps == keys && kQueryBlocks * 16 * query_warps == queries);
    static_assert(kSumDimBlocks * 16 * query_warps == head_dim);
    static_assert(kQueryDimBlocks * 16 * key_warps == head_dim);

    // A tile of queries: floats of dq, and parts that are added to in turns.
    static constexpr int kTileGradients = queries * head_dim;
    static constexpr int kTurns = 1;

    // K, V, Q, dO; P and dS, keys by queries; lse and delta.
    static constexpr int kKeyBytes = keys * head_dim * kElementBytes;
    static constexpr int kQueryBytes = queries * head_dim * kElementBytes;
    static constexpr int kPairBytes = keys * queries * kElementBytes;
    static constexpr int kRowBytes = queries * static_cast<int>(sizeof(float));
    static constexpr int kSharedBytes =
        2 * (kKeyBytes + kQueryBytes + kPairBytes + kRowBytes);
    static_assert(kSharedBytes <= kMaxSharedBytes);
};

template <typename Tile>
struct BackwardShared {
    uint32_t key;

    __device__ __forceinline__ uint32_t value() const { return key + Tile::kKeyBytes; }
    __device__ __forceinline__ uint32_t query() const { return value() + Tile::kKeyBytes; }
    __device__ __forceinline__ uint32_t dout() const { return query() + Tile::kQueryBytes; }
    __device__ __forceinline__ uint32_t probabilities() const {
        return dout() + Tile::kQueryBytes;
    }
    __device__ __forceinline__ uint32_t gradients() const {
        return probabilities() + Tile::kPairBytes;
    }
    __device__ __forceinline__ uint32_t lse() const { return gradients() + Tile::kPairBytes; }
    __device__ __forceinline__ uint32_t delta() const { return lse() + Tile::kRowBytes; }
};

}  // namespace flashbench::cuda::sm80
