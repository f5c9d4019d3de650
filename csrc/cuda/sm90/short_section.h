// Cuts the heads of a short launch into sections, whose tiles are scheduled together. Plain C++, so that a
// test includes it (tests/kernels/native/check_sections.cpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "../../attention.h"
#include "../both_sides.h"
#include "../constants.h"
#include "../problem_tiles.h"
#include "sections.h"

namespace flashbench::cuda::sm90 {

// The fewest tiles of a head for which several sections are faster than heads one after another: with 12 they
// take as long, with 4 to 8 2 to 20 % longer.
constexpr int64_t kFewestTilesOfSections = 16;

// Heads of a section; 1: the tiles of a head run together, and share its K and V in L2. Larger sections
// pay
//
//   full    where all tiles run at once and are wide: 3 % at 1,8,512,128 (at 1,8,384,128 they lose 3 %)
//   causal  while K and V of a section fit in L2: long and short tiles mix better. (On an H100 25 MB in one section
//           gain nothing, and with a cold L2 take a fifth longer.)
//
// More heads than a grid has rows are one section.
inline int64_t short_section(const Attention& problem, int64_t tiles, int64_t multiprocessors,
                             int64_t l2_bytes) {
    const int64_t all = problem.batch * problem.heads;
    if (tiles > kMaxGridRows) {
        return 1;
    }
    const int64_t least = all > kMaxGridRows ? all : 1;
    if (!is_uneven(problem)) {
        return problem.head_dim > 64 && tiles * all <= multiprocessors ? all : least;
    }
    const int64_t sections = parts_for_l2(problem, l2_bytes);
    if (sections > 1 && tiles < kFewestTilesOfSections) {
        return least;
    }
    const int64_t group = problem.heads / problem.kv_heads;
    return std::max((all / group + sections - 1) / sections * group, least);
}

// The place of a block of threads, or of a cluster, in the grid: a layer is a section, a row of it one tile of each of
// its heads; with sections of one head, a row is a head.
struct ShortPlace {
    unsigned batch_head;  // past the last one: no work
    int tile;
};
FLASHBENCH_BOTH_SIDES inline ShortPlace short_place(unsigned section, unsigned column,
                                                    unsigned row, unsigned layer) {
    const bool alone = section == 1;
    return {alone ? row : layer * section + column, static_cast<int>(alone ? column : row)};
}

// Columns, rows and layers of that grid.
struct ShortGrid {
    int64_t columns;
    int64_t rows;
    int64_t layers;
};
inline ShortGrid short_grid(int64_t section, int64_t batch_heads, int64_t tiles) {
    return section == 1 ? ShortGrid{tiles, batch_heads, 1}
                        : ShortGrid{section, tiles, (batch_heads + section - 1) / section};
}

}  // namespace flashbench::cuda::sm90
