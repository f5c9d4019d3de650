// How many blocks share an SM, which decides on the tile for up to 16 rows (pick_tile.h). Plain C++, so that a test
// compares the choice with measurements.
#pragma once

#include <cstdint>

#include "l2.h"
#include "split.h"

namespace flashbench::cuda::decode {

// K and V of more times L2 than this are much to read.
constexpr double kMuchToRead = 2.5;

// Whether tiles of up to 16 rows take the tile of which two blocks share an SM, rather than one that has it alone.
// `share`: of L2 that K and V would take. From memory two are chosen at head dim 128 where clusters of eight give two
// thirds of the SMs a block, up to a tile for two fifths of them, and from a tile for two thirds of them on; at head
// dim 64 in the first of these ranges, with much to read, and at head dim 256 from a tile for a sixth of the SMs to two
// fifths. With more tiles than SMs one is chosen at head dim 64 from memory, to 1.25 times as many, where some SMs would
// have two blocks and others one, and with much to read to three times.
inline bool two_blocks_an_sm(int head_dim, int64_t tiles, double share, int64_t multiprocessors) {
    const bool from_memory = share > kStaysInL2;
    const bool narrow = head_dim == 64;
    if (tiles > multiprocessors) {
        const bool alone_is_faster = 4 * tiles <= 5 * multiprocessors ||
                                     (share > kMuchToRead && tiles <= 3 * multiprocessors);
        return !(narrow && from_memory && alone_is_faster);
    }
    const bool few = 3 * kMergedCluster * tiles >= 2 * multiprocessors &&
                     5 * tiles <= 2 * multiprocessors;
    return narrow            ? few && share > kMuchToRead
           : head_dim == 128 ? from_memory && (few || 3 * tiles >= 2 * multiprocessors)
                             : from_memory && few && 6 * tiles > multiprocessors;
}

// Whether such tiles have an SM alone on other chips than Hopper, where a block may have the shared memory.
inline bool one_block_an_sm_on_other_chips(int64_t tiles, int64_t multiprocessors) {
    return tiles <= multiprocessors;
}

}  // namespace flashbench::cuda::decode
