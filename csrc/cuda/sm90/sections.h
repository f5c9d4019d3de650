// Cuts the heads of a causal launch into sections (tile_scheduler.h), on the host.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../../attention.h"
#include "../key_value_bytes.h"

namespace flashbench::cuda::sm90 {

// The parts of K and V of which each fits in L2 beside what else is there: of an H200's 60 MB it may take 28, of an
// H100's 50 MB 23.
inline int64_t parts_for_l2(const Attention& problem, int64_t l2_bytes) {
    const bool expanded = problem.k_strides.batch == 0 && problem.v_strides.batch == 0;
    const int64_t bytes = key_value_bytes(problem, expanded ? 1 : problem.batch);
    const int64_t part = std::max<int64_t>(1, 7 * l2_bytes);
    return std::max<int64_t>(1, (15 * bytes + part - 1) / part);
}

// The fewest key heads of a section: few enough for several blocks to share each one's keys.
constexpr int64_t kMinSectionHeads = 12;
constexpr int64_t kMaxSectionHeads = 32;
// A larger section must save more than this share of the time.
constexpr double kWorthwhile = 0.03;

// The time of a section of `heads`: the sum over its rounds of the longest tile, in tiles. A tile takes
// its index plus `seen_by_all`.
inline int64_t section_time(int64_t heads, int64_t tiles, int64_t blocks, int64_t seen_by_all) {
    if (heads == 0) {
        return 0;
    }
    // first / heads and first % heads, updated without divisions, which at 16k tokens would be most
    // of a call's host time.
    const int64_t step = blocks / heads;
    const int64_t step_rest = blocks % heads;
    int64_t time = 0;
    int64_t shorter = 0;
    int64_t rest = 0;
    while (shorter < tiles) {
        time += seen_by_all + tiles - shorter;
        shorter += step;
        rest += step_rest;
        if (rest >= heads) {
            rest -= heads;
            ++shorter;
        }
    }
    return time;
}

// The work of the longest tile of a head and of its shortest one, in tiles of keys, and that of whole heads.
inline int64_t pair_work(int64_t tiles, int64_t seen_by_all) { return 2 * seen_by_all + tiles + 1; }
inline int64_t work_of(int64_t heads, int64_t tiles, int64_t seen_by_all) {
    return heads * tiles * pair_work(tiles, seen_by_all) / 2;
}

// How the tiles of a causal launch are ordered.
struct Sections {
    int64_t heads;  // query heads of a section
    bool by_head;   // its tiles head by head in one round; otherwise the longest ones of all its heads first
    int64_t rest;   // heads from this one on are one section, longest tiles first; the number of heads if there is none
};

inline Sections one_section(int64_t heads) { return {heads, false, heads}; }

// Query heads of a section that is one round of whole heads; none if the SM with the most work would then have over
// a twentieth more than its share. Where memory decides, the long tiles of all SMs at once would wait for it, and
// the short ones leave it idle.
inline int64_t heads_of_a_round(int64_t all, int64_t tiles, int64_t blocks, int64_t seen_by_all) {
    const int64_t heads = std::min(all, blocks / tiles);
    if (heads == 0) {
        return 0;
    }
    // A block has the longest tile of one round and the shortest of the next, and so on.
    const int64_t rounds = (all + heads - 1) / heads;
    const int64_t busiest =
        rounds / 2 * pair_work(tiles, seen_by_all) + rounds % 2 * (seen_by_all + tiles);
    return 20 * busiest * blocks <= 21 * work_of(all, tiles, seen_by_all) ? heads : 0;
}

// The same for most heads, if for all of them the busiest SM would have more: in an even number of rounds, so that each
// SM has long tiles and short ones, with one to three rounds of heads left to be balanced. All heads are one section if
// they do not fill three rounds, or whole heads not nine tenths of the SMs.
inline Sections most_by_rounds(int64_t all, int64_t tiles, int64_t blocks) {
    const int64_t heads = blocks / tiles;
    const bool fill = 10 * heads * tiles >= 9 * blocks;
    const int64_t rounds = fill ? (all / heads - 1) / 2 * 2 : 0;
    return rounds == 0 ? one_section(all) : Sections{heads, true, rounds * heads};
}

// A few heads are one section. Others of few tiles go round by round, or most of them do unless all K and V stay in L2
// anyway. Heads of many tiles: as many as share the keys that L2 holds.
inline Sections sections_of(const Attention& problem, int64_t tiles, int64_t blocks,
                            int64_t l2_bytes) {
    const int64_t all = problem.batch * problem.heads;
    const int64_t group = problem.heads / problem.kv_heads;
    constexpr int64_t kFewestTiles = 8;
    if (!problem.causal || tiles == 1 || all <= kMinSectionHeads * group) {
        return one_section(all);
    }
    const int64_t seen_by_all = problem.causal_offset * tiles / problem.q_len;
    if (tiles < kFewestTiles) {
        if (const int64_t heads = heads_of_a_round(all, tiles, blocks, seen_by_all)) {
            return {heads, true, all};
        }
        return parts_for_l2(problem, l2_bytes) == 1 ? one_section(all)
                                                    : most_by_rounds(all, tiles, blocks);
    }
    const auto time_with = [&](int64_t heads) {
        return static_cast<double>(
            all / heads * section_time(heads, tiles, blocks, seen_by_all) +
            section_time(all % heads, tiles, blocks, seen_by_all));
    };
    int64_t best = kMinSectionHeads * group;
    double best_time = time_with(best);
    const int64_t most = std::min(all, kMaxSectionHeads * group);
    for (int64_t heads = best + group; heads <= most; heads += group) {
        const double time = time_with(heads);
        if (time < (1.0 - kWorthwhile) * best_time) {
            best = heads;
            best_time = time;
        }
    }
    return {best, false, all};
}

}  // namespace flashbench::cuda::sm90
