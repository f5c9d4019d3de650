// Picks the tile for a problem. Included by the dtype units only.
//
// Head dims are rounded up to the next one in the table; the extra dims are zeros and are not read. On
// Hopper, for up to 16 rows of a key head:
//
//   Many     up to 64 keys (a round of its groups); head dim 64 with more tiles than fit as Several, where
//            Long is not faster
//   Several  more tiles than SMs, but for some numbers of them at head dim 64 from memory; from memory also
//            some smaller numbers (blocks_an_sm.h): two blocks an SM, one computes while the
//            other waits
//   Few      the keys of a block fit its rings, or half of them with more blocks than half of the SMs: all are
//            requested at once, by cp.async
//   Long     longer: eight warps an SM compute what TMA refills
//
// Other chips (up to 16 rows, families.h) take Few16 where a block has its shared memory, as on sm_80 but not on
// sm_86 and sm_89, and tiles do not outnumber SMs; else Many, or Other of head dim 256. More rows on Hopper
// take the tile with the fewest that hold all rows of a key head, or several of the largest. K and V of
// Several and Long come by TMA if it supports their strides, else by cp.async, with the same bits. Where the
// head dim is the tile's, one copy brings whole rows: 0.4 to 3 % less time than a copy for each 64 dims.
// Registers are those of ptxas 13.0 for sm_90a, by TMA where there is, without spills; a causal mask takes
// up to 16 more. In sm_80's code Few16 has 149, 182 and 255, without spills; a causal mask takes up to 13 more.
//
//   head dim  tile     rows  groups x keys  stages  blocks an SM  shared memory  registers
//         64  Many       16      4 x 16          2             4          34 KB        114
//         64  Several    16      4 x 32          3             2          98 KB        121
//         64  Few16      16      4 x 64          2             1         130 KB        183
//         64  Long       16      8 x 64          1             1         130 KB        137
//         64  Few32      32      4 x 64          2             1         132 KB        150
//        128  Many       16      4 x 16          2             3          68 KB        168
//        128  Several    16      4 x 32          1             2          68 KB        185
//        128  Few16      16      4 x 32          2             1         132 KB        190
//        128  Long       16      8 x 32          1             1         132 KB        185
//        128  Few32      32      4 x 32          2             1         136 KB        191
//        128  Few64      64      2 x 64          2             1         144 KB        210
//        256  Other      16      4 x 16          1             2          72 KB        255
//        256  Several    16      4 x 16          1             2          72 KB        255
//        256  Few16      16      4 x 16          2             1         136 KB        255
//        256  Long       16      8 x 16          1             1         136 KB        255
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "../../attention.h"
#include "../device.h"
#include "blocks_an_sm.h"
#include "launch.h"
#include "split.h"
#include "tile.h"

namespace flashbench::cuda::decode {

// Tile arguments: dtype, head dim, warps for rows, groups, keys, stages, blocks per SM, boxes.
template <typename T, int head_dim>
struct Tiles;
template <typename T>
struct Tiles<T, 64> {
    using Many = DecodeTile<T, 64, 1, 4, 16, 2, 4>;
    using Other = Many;
    using Several = DecodeTile<T, 64, 1, 4, 32, 3, 2, true>;
    using Long = DecodeTile<T, 64, 1, 8, 64, 1, 1, true>;
    using Few16 = DecodeTile<T, 64, 1, 4, 64, 2, 1>;
    using Few32 = DecodeTile<T, 64, 2, 4, 64, 2, 1>;
    using Few64 = Few32;
};
template <typename T>
struct Tiles<T, 128> {
    using Many = DecodeTile<T, 128, 1, 4, 16, 2, 3>;
    using Other = Many;
    using Several = DecodeTile<T, 128, 1, 4, 32, 1, 2, true>;
    using Long = DecodeTile<T, 128, 1, 8, 32, 1, 1, true>;
    using Few16 = DecodeTile<T, 128, 1, 4, 32, 2, 1>;
    using Few32 = DecodeTile<T, 128, 2, 4, 32, 2, 1>;
    using Few64 = DecodeTile<T, 128, 4, 2, 64, 2, 1>;
};
template <typename T>
struct Tiles<T, 256> {
    using Several = DecodeTile<T, 256, 1, 4, 16, 1, 2, true>;
    using Many = Several;
    using Other = DecodeTile<T, 256, 1, 4, 16, 1, 2>;
    using Long = DecodeTile<T, 256, 1, 8, 16, 1, 1, true>;
    using Few16 = DecodeTile<T, 256, 1, 4, 16, 2, 1>;
    using Few32 = Few16;
    using Few64 = Few16;
};

// Up to 16 rows on Hopper; see the table.
template <typename T, int head_dim>
void forward_few_rows(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    using Tile = Tiles<T, head_dim>;
    using Many = typename Tile::Many;
    using Several = typename Tile::Several;
    using Long = typename Tile::Long;
    using Few = typename Tile::Few16;
    const int index = current_device();
    const Device& device = device_at(index);
    const int64_t tiles = problem.batch * problem.kv_heads;
    if (two_blocks_an_sm(head_dim, tiles, l2_share(problem, device.l2_bytes),
                         device.multiprocessors)) {
        const bool fits_many_alone = tiles > clusters_at_once<Several, false>(index).of[1] &&
                                     tiles <= clusters_at_once<Many, false>(index).of[1];
        head_dim == 64 && fits_many_alone ? launch<Many>(problem, scratch, stream)
                                          : launch<Several>(problem, scratch, stream);
        return;
    }
    if (!std::is_same_v<Many, Several> && problem.k_len <= Many::kGroups * Many::kKeys) {
        launch<Many>(problem, scratch, stream);
        return;
    }
    const Division division = problem.causal ? division_of<Long, true>(problem, true)
                                             : division_of<Long, false>(problem, true);
    // Where blocks on most SMs queue copies, those that fill the rings take longer by cp.async.
    const bool crowded = 2 * tiles * division.splits > device.multiprocessors;
    const int keys = division.most_steps() * Long::kKeys * (crowded ? 2 : 1);
    keys <= Few::kRingKeys ? launch<Few>(problem, scratch, stream)
                           : launch<Long>(problem, scratch, stream);
}

// Up to 16 rows on other chips; see above the table.
template <typename T, int head_dim>
void forward_other(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    using Alone = typename Tiles<T, head_dim>::Few16;
    const Device& device = device_at(current_device());
    const int64_t tiles = problem.batch * problem.kv_heads;
    const bool alone = one_block_an_sm_on_other_chips(tiles, device.multiprocessors) &&
                       Alone::shared_bytes(1) <= device.shared_bytes;
    alone ? launch<Alone>(problem, scratch, stream)
          : launch<typename Tiles<T, head_dim>::Other>(problem, scratch, stream);
}

template <typename T, int head_dim>
void forward_head_dim(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    const int64_t rows = rows_of_key_head(problem);
    if (!device_at(current_device()).takes_sm90) {
        forward_other<T, head_dim>(problem, scratch, stream);
    } else if (rows <= 16) {
        forward_few_rows<T, head_dim>(problem, scratch, stream);
    } else if (rows <= 32) {
        launch<typename Tiles<T, head_dim>::Few32>(problem, scratch, stream);
    } else {
        launch<typename Tiles<T, head_dim>::Few64>(problem, scratch, stream);
    }
}

template <typename T>
void forward_any(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    if (problem.head_dim <= 64) {
        forward_head_dim<T, 64>(problem, scratch, stream);
    } else if (problem.head_dim <= 128) {
        forward_head_dim<T, 128>(problem, scratch, stream);
    } else {
        forward_head_dim<T, 256>(problem, scratch, stream);
    }
}

}  // namespace flashbench::cuda::decode
