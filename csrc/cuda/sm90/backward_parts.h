// How many blocks of threads share the query heads of a group, where there are few blocks of keys.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "../../attention.h"

namespace flashbench::cuda::sm90 {

// The work on a tile of queries and a block of keys: by all kinds of blocks of threads, and by the longest.
struct TileSteps {
    int all;
    int longest;
};

// Times are those of a tile of queries. What a block of threads takes besides its tiles: to begin, and to
// store sums in fp32 that another kernel adds.
constexpr double kBlockEnds = 4;
// More parts have to be faster than fewer by this factor.
constexpr double kWorthParts = 0.9;
// Bounds the scratch memory: parts of blocks of keys for each SM.
constexpr double kMostBlocks = 4;

// The share of all pairs of queries and keys that the mask shows.
inline double seen_share(const Attention& forward) {
    if (!forward.causal) {
        return 1;
    }
    const auto queries = static_cast<double>(forward.q_len);
    const auto keys = static_cast<double>(forward.k_len);
    const auto offset = static_cast<double>(std::max<int64_t>(forward.causal_offset, 0));
    // The first of these is hidden from one query, each from one more than the key before it.
    const double late = std::max(keys - offset, 0.0);
    const double hidden = late <= queries ? late * late / 2 : queries * (late - queries / 2);
    return 1 - hidden / (queries * keys);
}

// The parts into which a group's query heads are divided, for the shortest time. With the full mask, blocks
// run in rounds. If causal, the longest start first and the short ones fill the gaps: the time is that
// of the longest block or of all work spread evenly, whichever is more.
inline int parts_of_group(const Attention& forward, int64_t query_tiles, int64_t key_blocks,
                          TileSteps steps, int multiprocessors) {
    const auto group = static_cast<int>(forward.heads / forward.kv_heads);
    const double blocks =
        static_cast<double>(key_blocks * forward.batch * forward.kv_heads) / multiprocessors;
    const double tiles = static_cast<double>(group * query_tiles);
    const double seen = seen_share(forward);
    const auto time = [&](int parts) {
        const double longest = tiles / parts + kBlockEnds;
        const double mean = tiles * seen / parts + kBlockEnds;
        const double rounds = blocks * parts * steps.all;
        return forward.causal ? std::max(longest, rounds / steps.longest * mean)
                              : std::ceil(rounds) / steps.longest * longest;
    };
    int best = 1;
    for (int parts = 2; parts <= group && blocks * parts <= kMostBlocks; ++parts) {
        if (group % parts == 0 && time(parts) < kWorthParts * time(best)) {
            best = parts;
        }
    }
    return best;
}

}  // namespace flashbench::cuda::sm90
