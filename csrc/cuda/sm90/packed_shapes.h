// How packed rows fill tiles, and their keys the SMs. Plain C++, for the choice of kernels (../families.h) and
// its test.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../../attention.h"
#include "../problem_tiles.h"
#include "tail.h"

namespace flashbench::cuda::sm90 {

constexpr int kPackedTileRows = 128;

// The keys of a block.
constexpr int packed_keys(int64_t head_dim) { return head_dim <= 128 ? 128 : 64; }

// For up to kPackedTileRows query heads of a key head.
struct PackedTiles {
    int64_t queries;  // of a tile, with all heads of their key head
    int64_t of_head;  // tiles of a key head
    int64_t tiles;    // of all key heads
};

inline PackedTiles packed_tiles(const Attention& problem) {
    const int64_t group = problem.heads / problem.kv_heads;
    const int64_t queries = std::min(kPackedTileRows / group, problem.q_len);
    const int64_t of_head = (problem.q_len + queries - 1) / queries;
    return {queries, of_head, of_head * problem.batch * problem.kv_heads};
}

// The steps of the tiles of a key head (tail.h), with blocks of `keys` keys.
inline int64_t packed_head_steps(const Attention& problem, int keys) {
    const PackedTiles packed = packed_tiles(problem);
    if (!is_uneven(problem)) {
        return packed.of_head * blocks_of(problem.k_len, keys);
    }
    int64_t steps = packed.of_head * start_steps(keys);
    for (int64_t tile = 0; tile < packed.of_head; ++tile) {
        const int64_t end = std::min((tile + 1) * packed.queries, problem.q_len);
        steps += blocks_of(std::min(problem.k_len, end + problem.causal_offset), keys);
    }
    return steps;
}

// How many blocks of threads share the steps. With as many for every tile, those that read the same keys do so at
// the same time, and memory is read once. Not if that leaves more than a tenth of the SMs without work, nor if tiles
// have different numbers of steps.
inline int64_t packed_shares(const Attention& problem, int64_t steps, int64_t multiprocessors) {
    const int64_t tiles = packed_tiles(problem).tiles;
    const int64_t each = multiprocessors / tiles * tiles;
    const bool alike = !is_uneven(problem) && 10 * each >= 9 * multiprocessors;
    return std::min(alike ? each : multiprocessors, steps);
}

}  // namespace flashbench::cuda::sm90
