// The choice between the short and the main kernel for head dims to 128, as measured on an H200
// (docs/lab/cuda-kernels.md, "Results stored by the copy engine"). Plain C++, so that a test compares it with
// measurements (tests/kernels/native/check_choice.cpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "../../attention.h"
#include "../problem_tiles.h"
#include "cost.h"

namespace flashbench::cuda::sm90 {

// What the choice looks at. The short kernel's tiles have 64 rows and 64 or 128 dims; the main one's 128 rows, or up to
// 88 dims 192, and most head dims in multiples of 16.
struct FewKeys {
    const Attention& problem;
    int64_t sms;
    int64_t q_len = problem.q_len;
    int64_t k_len = problem.k_len;
    // Copies of rows that are no multiple of 32 bytes are slow, and tiles of 64 rows copy the most.
    bool slow_copies = problem.head_dim % 16 != 0;
    bool narrower = problem.head_dim <= 48;  // than the short kernel's 64 dims
    // Tiles of 128 rows waste no more rows than two of 64.
    bool pairs = (q_len + 63) / 64 % 2 == 0;
    bool many = more_than(128, 3);
    bool very_many = more_than(128, 5);

    // Whether all heads have more than `an_sm` tiles of `rows` rows for each SM.
    bool more_than(int64_t rows, double an_sm) const {
        return static_cast<double>(tiles_of(problem, rows)) > an_sm * static_cast<double>(sms);
    }
    // Whether tiles of `rows` rows leave few SMs idle: more than `an_sm` each, or at most one.
    bool fill_sms(int64_t rows, double an_sm) const {
        return more_than(rows, an_sm) || !more_than(rows, 1);
    }
};

// Head dims above 64, causal: up to 256 keys.
inline bool short_is_faster_wide_causal(const FewKeys& few) {
    const bool grouped = few.problem.heads != few.problem.kv_heads;
    const bool main_is_faster =
        few.q_len > 128 ? few.many || (few.slow_copies && few.fill_sms(128, 1.6))
        : few.slow_copies ? few.many
                          : grouped && few.very_many;
    return few.k_len <= 256 && !(few.pairs && main_is_faster);
}

// Head dims above 64 without a mask, or with an even one (../families.h): up to 256 keys.
inline bool short_is_faster_wide_full(const FewKeys& few) {
    const bool whole_tiles = few.q_len >= 256 && few.q_len % 128 == 0;
    const bool pairs_are_faster =
        few.pairs && (whole_tiles ? few.fill_sms(128, 1.6) : few.more_than(128, 1.6));
    // One tile of 192 rows for three of 64.
    const bool threes = few.problem.head_dim <= 88 && few.q_len > 128 && few.q_len <= 192 &&
                        few.more_than(192, 0.75) && few.fill_sms(192, 1.25);
    return few.k_len <= 256 && !pairs_are_faster && !threes;
}

// Head dims to 64, causal: up to 1024 keys, and any number with up to two tiles an SM; with slow copies up to 128, 256
// or 384.
inline bool short_is_faster_narrow_causal(const FewKeys& few) {
    if (few.slow_copies) {
        return few.k_len <= (!few.many ? 384 : few.very_many || few.narrower ? 128 : 256);
    }
    const bool two_an_sm = !few.more_than(64, 2);
    const bool main_is_faster =
        few.narrower && (two_an_sm ? few.k_len > 768 && few.k_len <= 1024
                                   : few.k_len > 512 && few.q_len % 192 == 0);
    return (few.k_len <= 1024 || two_an_sm) && !main_is_faster;
}

// Head dims to 64 without a mask, or with an even one: up to 256 keys; with up to 1.5 tiles an SM below 4096, or any
// number if the mask is even; and to 1024 as predicted for head dim 64.
inline bool short_is_faster_narrow_full(const FewKeys& few) {
    if (!few.more_than(64, 1.5) && (few.problem.causal || few.k_len < 4096)) {
        return true;
    }
    if (few.k_len > 256) {
        return few.k_len <= 1024 && !few.slow_copies && !few.narrower &&
               predicted_short_time(few.problem, few.sms) <=
                   std::min(predicted_main_time(few.problem, 192, few.sms),
                            predicted_main_time(few.problem, 128, few.sms));
    }
    if (few.slow_copies) {
        // The short kernel computes only 80 keys of a second block where no row sees more: up to 208 in all.
        const bool few_keys = few.k_len <= 128 ||
                              (!few.narrower && few.q_len > 192 && few.k_len <= 208);
        return few_keys && !(few.many && few.q_len % 128 == 0);
    }
    if (few.narrower) {
        return !(few.many && few.q_len % 192 == 0);
    }
    const bool grouped = few.problem.heads != few.problem.kv_heads;
    return !(few.very_many && few.q_len == 128 && !grouped);
}

// With up to one tile of 64 rows an SM the short kernel is the faster with any number of causal keys, and with several
// thousands without a mask, as clusters of blocks divide the keys of a tile.
inline bool short_is_faster(const Attention& problem, int64_t sms) {
    const FewKeys few{problem, sms};
    const bool narrow = problem.head_dim <= 64;
    if (!few.more_than(64, 1)) {
        if (problem.causal || (narrow && few.more_than(128, 0.25))) {
            return true;
        }
        return problem.k_len < (!narrow && is_crowded(problem, sms) ? 4096 : 8192);
    }
    if (is_uneven(problem)) {
        return narrow ? short_is_faster_narrow_causal(few) : short_is_faster_wide_causal(few);
    }
    return narrow ? short_is_faster_narrow_full(few) : short_is_faster_wide_full(few);
}

}  // namespace flashbench::cuda::sm90
