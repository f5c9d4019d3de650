// The shapes of the short kernel's tiles, and the choice among them. Plain C++, so that a test compares
// the choice with measurements (tests/kernels/native/check_choice.cpp).
//
// Head dims are rounded up to 64 or 128; the extra dims are zeros. A tile has 64 query rows; `keys` is
// the number that a warpgroup takes at a time, or only as many as in brackets if the rows see no more
// of a block. "Late": bases move late (softmax.h), which pays where most blocks of keys are not a row's
// first ones. Registers are those of ptxas 13.0 for sm_90a, without spills. "At once": the tiles of all heads are no
// more than the SMs.
//
//   head dim  when                              keys      groups  cluster  registers  shared memory
//         64  k_len > 256, tiles at once;
//             k_len > 1024                      128          2        2        122         105 KB
//         64  k_len 65 to 80                     80          1        1        102          28 KB
//         64  k_len <= 64; 128 if causal         64          1        1         94          24 KB
//         64  k_len <= 112; full and 209 to 224 112          1        1        114          36 KB
//         64  causal                            128 (64)     1        1        126          40 KB
//         64  full, k_len % 128 from 1 to 80    128 (80)     1        1        126          40 KB
//         64  the same, k_len > 512             128 (80) late 1       1        123          40 KB
//         64  else                              128          1        1        122          40 KB
//         64  the same, k_len > 512             128 late     1        1        123          40 KB
//        128  k_len > 256, half as many at once 128          2        2        154         209 KB
//        128  k_len > 256, tiles at once;
//             k_len > 128, half as many at once 128          1        2        154         113 KB
//        128  full, k_len 65 to 112, 129 to 224 112          1        1        146          72 KB
//        128  causal                             64          1        1        124          48 KB
//        128  else                               64          1        1        128          48 KB
//
// Measured: results/h200.json and h200-models.json, the cells of up to 1024 queries or few keys.
#pragma once

#include <cstdint>

#include "../../attention.h"

namespace flashbench::cuda::sm90 {

// The parameters of a ShortTile, which explains them.
template <int head_dim, int keys, int groups, int cluster, int blocks_per_sm, int few_keys = keys,
          int late_bases = 0>
struct ShortShape {
    static constexpr bool kLateBases = late_bases != 0;
    static constexpr int kKeys = keys;
    static constexpr int kFewKeys = few_keys;
    static constexpr int kParts = groups * cluster;
};

// Calls `take` with the shape for a problem.
template <typename Take>
void take_short_shape(const Attention& problem, int64_t multiprocessors, const Take& take) {
    const int64_t keys = problem.k_len;
    const int64_t tiles = (problem.q_len + 63) / 64 * problem.batch * problem.heads;
    const bool half_at_once = 2 * tiles <= multiprocessors;
    const bool at_once = tiles <= multiprocessors;
    const bool full = !problem.causal;
    if (problem.head_dim <= 64) {
        if (keys > 1024 || (keys > 256 && at_once)) {
            take(ShortShape<64, 128, 2, 2, 1>{});
        } else if (keys > 64 && keys <= 80) {
            take(ShortShape<64, 80, 1, 1, 4>{});
        } else if (keys <= 64 || (problem.causal && keys <= 128)) {
            take(ShortShape<64, 64, 1, 1, 5>{});
        } else if (keys <= 112 || (full && keys > 208 && keys <= 224)) {
            take(ShortShape<64, 112, 1, 1, 4>{});
        } else if (problem.causal) {
            take(ShortShape<64, 128, 1, 1, 4, 64>{});
        } else if (keys % 128 != 0 && keys % 128 <= 80) {
            keys > 512 ? take(ShortShape<64, 128, 1, 1, 4, 80, 1>{})
                       : take(ShortShape<64, 128, 1, 1, 4, 80>{});
        } else {
            keys > 512 ? take(ShortShape<64, 128, 1, 1, 4, 128, 1>{})
                       : take(ShortShape<64, 128, 1, 1, 4>{});
        }
    } else {
        if (keys > 256 && half_at_once) {
            take(ShortShape<128, 128, 2, 2, 1>{});
        } else if ((keys > 256 && at_once) || (keys > 128 && half_at_once)) {
            take(ShortShape<128, 128, 1, 2, 2>{});
        } else if (full && ((keys > 64 && keys <= 112) || (keys > 128 && keys <= 224))) {
            take(ShortShape<128, 112, 1, 1, 3>{});
        } else if (problem.causal) {
            take(ShortShape<128, 64, 1, 1, 4>{});
        } else {
            take(ShortShape<128, 64, 1, 1, 3>{});
        }
    }
}

}  // namespace flashbench::cuda::sm90
