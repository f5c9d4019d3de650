// How long the main kernel takes with one tile or another. Plain C++, so that a test compares it with
// measurements (tests/kernels/native/check_choice.cpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "../../attention.h"
#include "tail.h"

namespace flashbench::cuda::sm90 {

// A tile's time on an H200 (head dim 32: an H100), in microseconds: `block` per block of keys, plus `tile`.
struct TileCost {
    double block;
    double tile;
};
struct Cost {
    TileCost full;
    TileCost causal;
    double launch;
    double divided = 0.0;  // what a divided tail adds to its share of blocks
};

// A launch's time in microseconds: full tiles run in rounds over the SMs; causal ones balance each
// other, but take at least as long as the longest.
inline double predicted_time(const Attention& problem, const Rounds& rounds, int rows,
                             const Cost& cost) {
    const double all_blocks = static_cast<double>(rounds.blocks);
    if (!problem.causal) {
        const double last = rounds.tail() == 0 ? 0.0
                            : rounds.divide() ? static_cast<double>(rounds.divided_blocks())
                                              : all_blocks;
        const double blocks = static_cast<double>(rounds.whole()) * all_blocks + last;
        const int64_t tiles = rounds.whole() + (rounds.tail() > 0 ? 1 : 0);
        return cost.launch + (rounds.divide() ? cost.divided : 0.0) + blocks * cost.full.block +
               static_cast<double>(tiles) * cost.full.tile;
    }
    const double keys = static_cast<double>(rounds.keys);
    const int64_t heads = problem.batch * problem.heads;
    const int64_t tiles = rounds.tiles / heads;
    // Tile i has the blocks that all rows see, plus those up to its last row's position.
    const double seen_by_all = static_cast<double>(problem.causal_offset) / keys;
    const double longest = std::min(all_blocks, static_cast<double>(tiles * rows) / keys + seen_by_all);
    const double most = longest - seen_by_all;
    const double growing = std::min(static_cast<double>(tiles), most * keys / rows);
    const double blocks = seen_by_all * static_cast<double>(tiles) +
                          most * (static_cast<double>(tiles) - growing / 2) +
                          0.5 * growing;  // the last block of a tile counts whole
    const auto [block, tile] = cost.causal;
    const double share = (blocks * block + static_cast<double>(tiles) * tile) *
                         static_cast<double>(heads) / static_cast<double>(rounds.sms);
    return cost.launch + std::max(share, longest * block + tile);
}

// The same of full attention by the short kernel's tiles of 64 rows and 128 keys (short_shapes.h), head dim 64 and 257
// to 1024 keys: an SM computes its share of them one after another, four at a time.
inline double predicted_short_time(const Attention& problem, int64_t sms) {
    const int64_t tiles = (problem.q_len + 63) / 64 * problem.batch * problem.heads;
    const double blocks = static_cast<double>(problem.k_len) / 128;
    return 3.7 + static_cast<double>((tiles + sms - 1) / sms) * (0.40 + 0.52 * blocks);
}

// Tiles of 192 rows take less time a row, tiles of 128 rows fill the SMs better. Those of head dims 32 and 64
// are fitted to the cells of check_choice.cpp, that of 48 is 64's with blocks a tenth cheaper, those of 80
// are fitted to 4,16,1024, 2,16,4096 and 1,8,16384 when every block looked for its largest scores, those of
// 88 to 2,16,4096, 64,12,128 and 4,16,4096 x 77.
constexpr Cost kCost32x192{{1.13, 1.0}, {1.20, 1.7}, 3.7, 5.0};
constexpr Cost kCost32x128{{0.97, 0.8}, {0.98, 1.3}, 3.7, 5.0};
constexpr Cost kCost48x192{{1.16, 1.4}, {1.28, 2.7}, 3.7, 5.0};
constexpr Cost kCost64x192{{1.29, 1.4}, {1.42, 2.7}, 3.7, 5.0};
constexpr Cost kCost64x128{{1.07, 1.1}, {1.19, 1.3}, 3.7, 5.0};
constexpr Cost kCost80x192{{1.40, 0.3}, {1.45, 2.05}, 5.5};
constexpr Cost kCost80x128{{1.35, 0.6}, {1.40, 1.9}, 4.5};
constexpr Cost kCost88x192{{1.53, 3.1}, {1.58, 3.2}, 5.5};
constexpr Cost kCost88x128{{1.62, 2.3}, {1.65, 2.4}, 4.5};

// The main kernel with tiles of 192 or 128 rows, at head dims to 32 or at 64.
inline double predicted_main_time(const Attention& problem, int rows, int64_t sms) {
    const bool large = rows == 192;
    const int64_t tiles = (problem.q_len + rows - 1) / rows * problem.batch * problem.heads;
    const Rounds rounds{tiles, (problem.k_len + 127) / 128, 128, large ? 0 : 4, sms};
    if (problem.head_dim <= 32) {
        return predicted_time(problem, rounds, rows, large ? kCost32x192 : kCost32x128);
    }
    return predicted_time(problem, rounds, rows, large ? kCost64x192 : kCost64x128);
}

}  // namespace flashbench::cuda::sm90
