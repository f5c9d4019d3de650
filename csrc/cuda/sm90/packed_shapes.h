// How packed rows fill tiles, and their keys the SMs. Plain C++, for the choice of kernels (../families.h) and
// its test.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../../attention.h"

namespace flashbench::cuda::sm90 {

constexpr int kPackedTileRows = 128;

struct PackedTiles {
    int64_t rows;    // of a tile that are used: all heads of a key head for each of its queries
    int64_t tiles;   // of all key heads
    int64_t blocks;  // of keys, in a tile
    int64_t shares;  // blocks of threads

    int64_t parts() const { return shares + tiles; }  // places in scratch memory (tail.h)
};

// For up to kPackedTileRows query heads of a key head.
inline PackedTiles packed_tiles(const Attention& problem, int keys, int64_t multiprocessors) {
    const int64_t group = problem.heads / problem.kv_heads;
    const int64_t queries = std::min(kPackedTileRows / group, problem.q_len);
    const int64_t tiles =
        (problem.q_len + queries - 1) / queries * problem.batch * problem.kv_heads;
    const int64_t blocks = (problem.k_len + keys - 1) / keys;
    // With as many shares for every tile, those that read the same keys do so at the same time, and memory
    // is read once. Not if that leaves more than a tenth of the SMs without work.
    const int64_t each = std::max<int64_t>(multiprocessors / tiles, 1) * tiles;
    const int64_t shares = 10 * each >= 9 * multiprocessors ? each : multiprocessors;
    return {queries * group, tiles, blocks, std::min(shares, tiles * blocks)};
}

}  // namespace flashbench::cuda::sm90
