// The choice for few heads under a causal mask: packed tiles, whose keys all SMs share (packed_launch.h), or a tile an
// SM, of which the last one sees all keys. Times are those of an H200 (docs/lab/cuda-kernels.md, "Few heads under a
// causal mask"). Plain C++, so that a test compares it with measurements (tests/kernels/native/check_choice.cpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "../../attention.h"
#include "../problem_tiles.h"
#include "packed_shapes.h"

namespace flashbench::cuda::sm90 {

// Microseconds by packed tiles: both kernels, then what each tile leaves to be merged, then the steps of a share. A
// share of fewer than three takes as long.
inline double packed_causal_time(const Attention& problem, int64_t sms) {
    const int keys = packed_keys(problem.head_dim);
    const auto tiles = static_cast<double>(packed_tiles(problem).tiles);
    const double share =
        static_cast<double>(problem.batch * problem.kv_heads * packed_head_steps(problem, keys)) /
        static_cast<double>(sms);
    return problem.head_dim > 128
               ? 12 + 0.07 * tiles + (problem.head_dim > 192 ? 1.38 : 1.33) * std::max(share, 3.0)
           : problem.head_dim > 64 ? 14 + 1.5 * share
                                   : 11 + 1.3 * share;
}

// The same by the family that takes them otherwise: the time of the tile that sees the most keys, also with two tiles an
// SM, of which the other one sees few. To 128 dims that is the short kernel where its tiles of 64 rows fit the SMs; with
// half as many, clusters of blocks share their keys.
inline double whole_causal_time(const Attention& problem, int64_t sms) {
    const auto keys =
        static_cast<double>(std::min(problem.k_len, problem.q_len + problem.causal_offset));
    if (problem.head_dim > 128) {
        return 7 + 7.2e-5 * static_cast<double>(problem.head_dim) * keys;
    }
    if (tiles_of(problem, 64) > sms) {
        const double dims =
            problem.head_dim <= 64 ? 72.0 : std::max(static_cast<double>(problem.head_dim), 88.0);
        return 7 + (0.0058 + 3.5e-5 * dims) * keys;
    }
    return 5.3 + (problem.head_dim > 64 ? 1.0 : 0.8) *
                     (tiles_of(problem, 32) > sms ? 0.0068 : 0.0038) * keys;
}

// Head dims to 64 in multiples of 16 are the short kernel's with any number of keys.
inline bool packed_causal_is_faster(const Attention& problem, int64_t sms) {
    const int64_t group = problem.heads / problem.kv_heads;
    if (!is_uneven(problem) || problem.causal_offset < 0 || group > kPackedTileRows / 2 ||
        (problem.head_dim <= 64 && problem.head_dim % 16 == 0)) {
        return false;
    }
    return packed_tiles(problem).tiles <= 2 * sms &&
           1.02 * packed_causal_time(problem, sms) <= whole_causal_time(problem, sms);
}

}  // namespace flashbench::cuda::sm90
