// Which kernels compute a problem. Plain C++, so that a test compares the choice with measurements
// (tests/kernels/native/check_choice.cpp).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "../attention.h"
#include "problem_tiles.h"
#include "sm90/few_heads.h"
#include "sm90/packed_shapes.h"
#include "sm90/short_or_main.h"

namespace flashbench::cuda {

enum class Kernels { simt, decode, split, short_tiles, main, wide, packed, sm80 };

// The simt rows of the table below.
inline bool is_simt(const Attention& problem, int64_t multiprocessors) {
    const int64_t rows = problem.batch * problem.heads * problem.q_len;
    if (problem.k_len <= 8) {
        return problem.k_len >= 1 && rows * problem.k_len <= 32768;
    }
    return problem.k_len <= (problem.head_dim <= 128 ? 64 : 32) && rows <= 2 * multiprocessors;
}

// Whether the mask is full and the main kernel, whose tiles have the head dim's own width, multiplies less than
// packed rows would: their tiles are 128 or 256 wide, and hold fewer rows if a group does not divide them.
inline bool main_multiplies_less(const Attention& problem, int64_t packed_tiles,
                                 int64_t multiprocessors) {
    const int64_t width = (problem.head_dim + 15) / 16 * 16;
    const int64_t packed_width = problem.head_dim > 128 ? 256 : 128;
    if (problem.causal || 100 * tiles_of(problem, sm90::kPackedTileRows) * width >
                              94 * packed_tiles * packed_width) {
        return false;
    }
    return problem.head_dim > 128
               ? problem.head_dim <= 240
               : problem.head_dim > 64 && problem.head_dim <= 112 &&
                     (problem.k_len >= 8192 || is_crowded(problem, multiprocessors));
}

// The packed rows of the table below.
inline bool is_packed(const Attention& problem, int64_t multiprocessors) {
    const int64_t group = problem.heads / problem.kv_heads;
    const int64_t rows = group * problem.q_len;
    if (is_uneven(problem) || rows <= 32 || group > sm90::kPackedTileRows / 2) {
        return false;
    }
    const int64_t k_len = problem.k_len;
    const int64_t tiles = sm90::packed_tiles(problem).tiles;
    if (tiles * k_len > std::numeric_limits<int>::max() ||
        main_multiplies_less(problem, tiles, multiprocessors)) {
        return false;
    }
    const bool few_queries = problem.q_len <= 16;
    if (problem.head_dim > 128) {
        return 2 * tiles <= multiprocessors && (tiles >= 4 || !few_queries) &&
               k_len >= (!few_queries && 4 * tiles <= multiprocessors ? 512 : 4096);
    }
    if (tiles < 4) {
        return false;
    }
    const bool narrow = problem.head_dim <= 64;
    if (8 * tiles <= multiprocessors) {
        return k_len >= (narrow && rows <= 64 ? 16384 : 4096);
    }
    const bool crowded = is_crowded(problem, multiprocessors);
    if (narrow) {
        return k_len >= 8192 && 4 * tiles <= multiprocessors && crowded;
    }
    const int64_t used_rows = problem.batch * problem.kv_heads * rows;
    return k_len >= (crowded ? 4096 : 5 * tiles <= multiprocessors ? 8192 : 16384) &&
           4 * tiles <= 3 * multiprocessors &&
           4 * used_rows >= 3 * sm90::kPackedTileRows * tiles;
}

// The decode rows of the table below.
inline bool is_decode(const Attention& problem, bool takes_sm90, int64_t multiprocessors) {
    const int64_t group = problem.heads / problem.kv_heads;
    const int64_t rows = group * problem.q_len;
    const bool top_left = problem.causal && problem.causal_offset == 0;
    if (top_left || problem.k_len < 1 || !(problem.scale > 0.0f) ||
        !std::isfinite(problem.scale)) {
        return false;
    }
    if (!takes_sm90) {
        return rows <= 16 && problem.k_len > 256;
    }
    const bool narrow = problem.head_dim <= 64;
    if (!is_uneven(problem) && problem.q_len <= 256 && problem.head_dim <= 128 &&
        (problem.causal || narrow)) {
        const int64_t tiles = tiles_of(problem, 64);
        if (8 * tiles <= multiprocessors && problem.k_len >= (!problem.causal  ? 8192
                                                              : rows <= 64 ? 2048
                                                                           : 4096)) {
            return true;
        }
        if (problem.causal && narrow && 4 * tiles <= multiprocessors && problem.k_len >= 8192) {
            return true;
        }
    }
    if (group == 1) {
        const bool few = 4 * problem.batch * problem.heads <= multiprocessors;
        if (problem.head_dim > 128 && problem.q_len <= 8) {
            return true;
        }
        return problem.k_len > 512 &&
               (problem.q_len <= 8 || (problem.q_len <= 32 && (few || problem.k_len > 2048)));
    }
    return problem.q_len <= 16 && (rows <= 16 || problem.k_len > (rows <= 32 ? 256 : 1024));
}

// The kernels that compute a problem, with scratch memory or without, as measured on an H200
// (docs/lab/cuda-kernels.md). The first matching row wins; ";" separates alternatives. "Tiles of N rows"
// counts those of all heads, and "an SM" is their number divided by the number of SMs; a bare number is the
// most. Rows are q_len times the query heads of a key head (GQA), and packed tiles hold up to 128 of them,
// those of whole queries (sm90/packed_shapes.h).
//
//   GPU   head dim  when                                                         family
//   any        any  k_len <= 8, k_len times the queries of all heads: 32768      simt
//   any     <= 128  k_len <= 64, queries of all heads: 2 an SM                   simt
//   any      > 128  k_len <= 32, queries of all heads: 2 an SM                   simt
//   9.0      > 128  packable: packed tiles: 1/2 an SM and k_len >= 4096;         packed
//                     q_len > 16, 1/4 an SM and k_len >= 512
//   9.0     <= 128  packable: at least 4 packed tiles, 1/8 an SM, and            packed
//                     k_len >= 4096 (16384 if head_dim <= 64 and rows <= 64)
//   9.0   65 - 128  packable, 3/4 of the rows of packed tiles used: more than    packed
//                     1/8 to 1/5 an SM and k_len >= 8192; to 3/4 an SM and
//                     k_len >= 16384, or k_len >= 4096 if tiles of 64 rows:
//                     more than 1/2 an SM
//   9.0      <= 64  packable: packed tiles: more than 1/8 to 1/4 an SM, tiles    packed
//                     of 64 rows: more than 1/2 an SM, k_len >= 8192
//   9.0        any  causal, uneven, packed tiles: 2 an SM: as predicted          packed
//                     (sm90/few_heads.h)
//   9.0        any  full, GQA, q_len <= 16: rows <= 16;                          decode
//                     rows <= 32 and k_len > 256; k_len > 1024
//   9.0        any  full, no GQA, k_len > 512: q_len <= 8; q_len <= 32 and       decode
//                     k_len > 2048 or heads: 1/4 an SM
//   9.0      > 128  full, no GQA: q_len <= 8                                     decode
//   9.0     <= 128  even, q_len <= 256: tiles of 64 rows: 1/8 an SM and          decode
//                     k_len >= 4096 (2048 if rows <= 64); 1/4 an SM,
//                     head_dim <= 64 and k_len >= 8192
//   9.0      <= 64  full, q_len <= 256, k_len >= 8192: tiles of 64 rows:         decode
//                     1/8 an SM
//   other      any  full: rows <= 16 and k_len > 256                             decode
//   9.0     <= 128  tiles of 32 rows: 1 an SM, and k_len <= 256                  sm90, split
//   9.0     <= 128  few tiles of 64 rows, or few keys (sm90/short_or_main.h)     sm90, short
//   9.0     <= 128  else                                                         sm90
//   9.0      > 128  at least 64 tiles of 128 rows; any number if q_len > 256     sm90
//                     or full and k_len > 512
//   any        any                                                               sm80
//
// "Full" in the rows of decode with q_len up to 32 is any mask but a causal one at the top left.
//
// Causal: keys that no query sees do not count. "Even": causal, with at least half of the keys seen by all queries;
// it counts as full too, except for the tails that the main kernel divides, which only full calls have.
//
// "Packable": full or even, more than 32 rows, groups of up to 64 query heads, scratch memory, packed tiles
// times k_len below 2^31; of more than 128 head dims at least 4 packed tiles if q_len <= 16. Packed tiles round
// head dims up to 64, 128 or 256. So attention without a mask is not packable with head dims 129 to 240, nor with
// 65 to 112 if k_len >= 8192 or tiles of 64 rows are more than 1/2 an SM, where tiles of 128 rows of one head,
// times the head dim in multiples of 16, are at most .94 of the packed tiles times 256 or 128: the main kernel
// divides its own tiles of these head dims.
//
// A Hopper GPU counts as "other" where this build has no code of sm_90a (Device::takes_sm90).
//
// The sm90, packed and decode kernels need at least one key and a positive finite scale.
inline Kernels kernels_for(const Attention& problem, bool takes_sm90, int64_t multiprocessors,
                           bool scratch = true) {
    if (is_simt(problem, multiprocessors)) {
        return Kernels::simt;
    }
    const bool sm90_takes = takes_sm90 && problem.k_len > 0 && problem.scale > 0.0f &&
                            std::isfinite(problem.scale);
    if (sm90_takes && scratch &&
        (is_packed(problem, multiprocessors) ||
         sm90::packed_causal_is_faster(problem, multiprocessors))) {
        return Kernels::packed;
    }
    if (is_decode(problem, takes_sm90, multiprocessors)) {
        return Kernels::decode;
    }
    if (!sm90_takes) {
        return Kernels::sm80;
    }
    const auto tiles = [&problem](int64_t rows) { return tiles_of(problem, rows); };
    if (problem.head_dim <= 128) {
        if (tiles(32) <= multiprocessors && problem.k_len <= 256) {
            return Kernels::split;
        }
        return sm90::short_is_faster(problem, multiprocessors) ? Kernels::short_tiles
                                                               : Kernels::main;
    }
    const bool wide = tiles(128) >= 64 || problem.q_len > 256 ||
                      (!is_uneven(problem) && problem.k_len > 512);
    return wide ? Kernels::wide : Kernels::sm80;
}

}  // namespace flashbench::cuda
