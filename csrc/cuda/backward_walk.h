// What a backward kernel is asked for, and which keys and queries a block of threads takes.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "../attention.h"

namespace flashbench::cuda {

// What the backward kernels of every family take. lse, delta and dq are padded to whole tiles of queries:
// (batch, heads, query_tiles, ...).
struct BackwardPlan {
    const float* lse;    // in powers of two; infinity for rows that see no key
    const float* delta;  // rowsum(dout * out)
    float* dq;           // of each tile, in the order of the kernel's registers; not scaled
    unsigned* turns;     // for each part of a tile, the block of keys that adds next; null: any
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
    int parts;    // of a group's query heads, which blocks of threads share; 1: `sums` is not used
    float* sums;  // dk and dv of each part of a group, in the order of the kernel's registers
};

// A tile of queries: its index among those of its head, and of all heads.
struct QueryTile {
    int in_head;
    int in_all;
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
    int kind;  // of blocks of threads: each kind sums other gradients
    int index;
    int batch;
    int kv_head;
    int part;
    int parts;  // of the group

    // A grid has a block of threads of each kind for each block of keys and part of a group. In a section
    // the kinds follow each other, or `alternate`.
    __device__ __forceinline__ explicit KeyBlock(const BackwardPlan& plan, int kinds = 1,
                                                 int parts_ = 1, bool alternate = false)
        : parts(parts_) {
        const int section = blockIdx.x / (kinds * parts * plan.section * plan.key_blocks);
        const int first_head = section * plan.section;
        int in_section = blockIdx.x - kinds * parts * first_head * plan.key_blocks;
        const int heads = min(plan.section, plan.all_kv_heads - first_head) * parts;
        if (kinds == 1) {
            kind = 0;
        } else if (alternate) {
            kind = in_section % kinds;
            in_section /= kinds;
        } else {
            kind = in_section / (heads * plan.key_blocks);
            in_section -= kind * heads * plan.key_blocks;
        }
        index = plan.causal ? in_section / heads : in_section % plan.key_blocks;
        const int in_heads = plan.causal ? in_section % heads : in_section / plan.key_blocks;
        part = in_heads % parts;
        const int head = first_head + in_heads / parts;
        batch = head / plan.kv_heads;
        kv_head = head % plan.kv_heads;
    }
};

// The tiles of queries that see a block of keys, of one query head of its part after the other.
template <typename Tile>
struct QueryWalk {
    int first_tile;
    int end_tile;
    int left;
    int tile;
    int head;

    __device__ __forceinline__ QueryWalk(const BackwardPlan& plan, const KeyBlock& keys) {
        const int first_query =
            plan.causal ? max(0, keys.index * Tile::kKeys - plan.causal_offset) : 0;
        end_tile = plan.query_tiles;
        first_tile = min(first_query / Tile::kQueries, end_tile);
        const int heads = plan.group / keys.parts;
        left = (end_tile - first_tile) * heads;
        tile = first_tile;
        head = keys.kv_head * plan.group + keys.part * heads;
    }

    __device__ __forceinline__ void advance() {
        --left;
        if (++tile == end_tile) {
            tile = first_tile;
            ++head;
        }
    }

    __device__ __forceinline__ QueryTile place(const BackwardPlan& plan, int batch) const {
        return {tile, (batch * plan.heads + head) * plan.query_tiles + tile};
    }
};

}  // namespace flashbench::cuda
