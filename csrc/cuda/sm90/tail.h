// The tail of a launch: its last tiles, too few for a round over the SMs, divided among all SMs by keys.
// ("Stream-K": Osama et al. 2023.)
//
// The tail's blocks of keys, tile after tile, are one sequence. Every block of threads takes an equal
// share of it: the end of one tile, the start of another, and short ones between them. Its part of a tile
// goes to scratch memory, and a second kernel (tail_kernel.h) adds up the parts.
//
// Under an uneven causal mask (../problem_tiles.h) the tiles have different numbers of blocks, and many are short. To
// start and end a part takes as long as 256 keys, so a tile's steps then begin with as many that hold no block.
#pragma once

#include <cstdint>
#include <limits>

#include "../both_sides.h"

struct float4;  // CUDA's

namespace flashbench::cuda::sm90 {

template <typename Int>
FLASHBENCH_BOTH_SIDES constexpr Int blocks_of(Int keys, int of_a_block) {
    return (keys + of_a_block - 1) / of_a_block;
}

// A launch of full attention as rounds of tiles over the SMs.
struct Rounds {
    int64_t tiles;      // of all heads
    int64_t blocks;     // of keys, in a tile
    int64_t keys;       // of a block
    int64_t tail_cost;  // as in Tile
    int64_t sms;

    int64_t whole() const { return tiles / sms; }
    int64_t tail() const { return tiles % sms; }
    // The number of shares of a divided tail; none is empty.
    int64_t shares() const { return tail() * blocks < sms ? tail() * blocks : sms; }
    int64_t parts() const { return shares() + tail(); }
    // The time of a divided tail, in blocks: the largest share; the start and end of its pieces; writing
    // and reading the parts, each as long as two keys of every SM; and a sixteenth of a tile, because
    // SMs at different keys share less of L2. Measured on an H200.
    int64_t divided_blocks() const {
        return (tail() * blocks + sms - 1) / sms + tail_cost + 2 * parts() / keys + blocks / 16;
    }
    bool divide() const {
        return tail() > 0 && divided_blocks() < blocks &&
               tail() * blocks <= std::numeric_limits<int>::max();
    }
};

// Steps of a tile before its first block, if tiles have different numbers of blocks.
FLASHBENCH_BOTH_SIDES constexpr int start_steps(int of_a_block) { return 256 / of_a_block; }

struct Tail {
    int first_tile;  // of all heads' tiles; earlier ones are computed whole
    int tiles;
    int steps;       // of the sequence
    int head_steps;  // in the tiles of one head; for tiles with different numbers of blocks
    int shares;      // one for each of this many blocks of threads, the first ones
    // In register order: by part and warpgroup, then quads of a thread's values by thread; then a
    // thread's two bases and two sums.
    float4* values;
    float4* statistics;

    // The start of a share in the sequence.
    FLASHBENCH_BOTH_SIDES int first_step(int share) const {
        return static_cast<int>(static_cast<int64_t>(share) * steps / shares);
    }
    // The share with a step of the sequence.
    FLASHBENCH_BOTH_SIDES int share_of(int step) const {
        return static_cast<int>((static_cast<int64_t>(step + 1) * shares - 1) / steps);
    }
    // From one part to the next, the share or the tile advances, so places are unique.
    FLASHBENCH_BOTH_SIDES static int part(int share, int tile) { return share + tile; }
};

}  // namespace flashbench::cuda::sm90
