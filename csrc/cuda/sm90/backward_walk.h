// The arguments of the backward kernel, and which keys and queries a block of threads takes.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "../../attention.h"
#include "backward_tile.h"

namespace flashbench::cuda::sm90 {

// lse, delta and dq are padded to whole tiles of queries: (batch, heads, query_tiles, ...).
struct BackwardLaunch {
    CUtensorMap query;
    CUtensorMap key;
    CUtensorMap value;
    CUtensorMap dout;
    const float* lse;    // in powers of two; infinity for rows that see no key
    const float* delta;  // rowsum(dout * out)
    float* dq;           // of each tile and consumer, in the order of its registers; not scaled
    unsigned* turns;     // for each tile and consumer, the block of keys that adds next; null: any
    void* dk;
    void* dv;
    Strides dk_strides;
    Strides dv_strides;
    int heads;
    int kv_heads;
    int group;
    int q_len;
    int k_len;
    int head_dim;
    int query_tiles;
    int key_blocks;
    int all_kv_heads;  // of all batches
    int section;
    int causal_offset;
    float scale;
    float scale_log2;
    bool causal;
    bool dk_vectors;
    bool dv_vectors;
};

// Heads (of keys) are taken in sections whose queries and dq fit the L2 cache. If causal, the blocks of
// keys that most queries see, the first ones, start first in all heads of a section, so that the last
// ones to finish are short.
constexpr int64_t kSectionBytes = 32 << 20;

inline int heads_in_backward_section(const Attention& forward, int dims, int64_t all_kv_heads) {
    constexpr int kBytesOfDim = 8;  // Q, dO and dq of one query head
    const int64_t head_bytes = forward.q_len * dims * kBytesOfDim;
    return static_cast<int>(
        std::clamp<int64_t>(kSectionBytes / std::max<int64_t>(head_bytes, 1), 1, all_kv_heads));
}

struct KeyBlock {
    int index;
    int batch;
    int kv_head;

    __device__ __forceinline__ explicit KeyBlock(const BackwardLaunch& launch) {
        const int section = blockIdx.x / (launch.section * launch.key_blocks);
        const int first_head = section * launch.section;
        const int in_section = blockIdx.x - first_head * launch.key_blocks;
        const int heads = min(launch.section, launch.all_kv_heads - first_head);
        index = launch.causal ? in_section / heads : in_section % launch.key_blocks;
        const int head =
            first_head + (launch.causal ? in_section % heads : in_section / launch.key_blocks);
        batch = head / launch.kv_heads;
        kv_head = head % launch.kv_heads;
    }
};

// The tiles of queries that see a block of keys, of one query head of its group after the other.
template <typename Tile>
struct QueryWalk {
    int first_tile;
    int end_tile;
    int left;
    int tile;
    int head;

    __device__ __forceinline__ QueryWalk(const BackwardLaunch& launch, const KeyBlock& keys) {
        const int first_query =
            launch.causal ? max(0, keys.index * Tile::kKeys - launch.causal_offset) : 0;
        end_tile = launch.query_tiles;
        first_tile = min(first_query / Tile::kQueries, end_tile);
        left = (end_tile - first_tile) * launch.group;
        tile = first_tile;
        head = keys.kv_head * launch.group;
    }

    __device__ __forceinline__ void advance() {
        --left;
        if (++tile == end_tile) {
            tile = first_tile;
            ++head;
        }
    }

    __device__ __forceinline__ QueryTile place(const BackwardLaunch& launch, int batch) const {
        return {tile, (batch * launch.heads + head) * launch.query_tiles + tile};
    }
};

}  // namespace flashbench::cuda::sm90
