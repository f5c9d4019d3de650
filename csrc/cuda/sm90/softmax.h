// Mask and softmax of a warpgroup's 64 rows, on the accumulators of Q K^T. Spread over the lanes as in
// wgmma.h: a lane has two rows ("halves"), lane / 4 and the one 8 below, of each warp's 16.
#pragma once

#include <cuda_runtime.h>

#include <climits>
#include <cmath>

#include "../constants.h"
#include "../quad.h"
#include "../types.h"
#include "ptx.h"

namespace flashbench::cuda::sm90 {

// Sets the accumulators of a half (0: row lane / 4, 1: 8 below) to -inf from column `left` on, counted
// from this lane's first column, in the chunks of eight columns [first, last).
template <int count>
__device__ __forceinline__ void hide_columns(float (&scores)[count], int half, int left, int first,
                                             int last) {
#pragma unroll
    for (int n = first; n < last; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (n * 8 + i >= left) {
                scores[4 * n + 2 * half + i] = -INFINITY;
            }
        }
    }
}

// The largest accumulator of a half's whole row, in all four lanes that share it.
template <int count>
__device__ __forceinline__ float largest_of_row(const float (&scores)[count], int half) {
    const int e = 2 * half;
    float largest = fmaxf(scores[e], scores[e + 1]);
    float other = fmaxf(scores[4 + e], scores[4 + e + 1]);
#pragma unroll
    for (int n = 2; n < count / 4; n += 2) {
        largest = fmaxf(largest, fmaxf(scores[4 * n + e], scores[4 * n + e + 1]));
        other = fmaxf(other, fmaxf(scores[4 * n + 4 + e], scores[4 * n + 4 + e + 1]));
    }
    return quad_max(fmaxf(largest, other));
}

// The two rows of a lane: where they are, and the state of their online softmax.
struct RowState {
    float row_base[2];  // the reference of the exponents
    float row_sum[2];   // this lane's part
    float rescale[2];   // factor on the output for the last change of the base

    int warp;  // in the warpgroup
    int lane;

    __device__ __forceinline__ int row_in_group(int half) const {
        return warp * 16 + half * 8 + lane / 4;
    }

    // Hides the keys from `key_count` on and, if causal, those after each row's own position,
    // position_of(row in the group).
    template <int count, typename Position>
    __device__ __forceinline__ void mask(float (&scores)[count], const Position& position_of,
                                         int first_key, int key_count, bool causal) const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int position = position_of(row_in_group(half));
            const int end = causal ? min(key_count, position + 1) : key_count;
            hide_columns(scores, half, end - first_key - 2 * (lane % 4), 0, count / 4);
        }
    }

    // Starts new rows if `fresh`.
    __device__ __forceinline__ void reset(bool fresh) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            row_base[half] = fresh ? -INFINITY : row_base[half];
            row_sum[half] = fresh ? 0.0f : row_sum[half];
        }
    }

    template <int count>
    __device__ __forceinline__ void rescale_output(float (&out)[count]) const {
        if (__all_sync(0xffffffffu, rescale[0] == 1.0f && rescale[1] == 1.0f)) {
            return;
        }
#pragma unroll
        for (int i = 0; i < count; ++i) {
            out[i] *= rescale[i / 2 % 2];
        }
    }
};

// The bits of a float as an integer: nonnegative floats are ordered like their bits, negative ones have
// negative bits. Every score reaches this limit.
constexpr int kNoLimit = INT_MIN;

// Whether one of a lane's scores reaches the limit, the bits of a positive float or kNoLimit. Hopper
// compares three integers in one instruction, but only two floats.
template <int count>
__device__ __forceinline__ bool reaches(const float (&scores)[count], int limit) {
    static_assert(count % 4 == 0);
    int largest = __float_as_int(scores[0]);
    int other = __float_as_int(scores[1]);
#pragma unroll
    for (int i = 2; i + 3 < count; i += 4) {
        largest = __vimax3_s32(largest, __float_as_int(scores[i]), __float_as_int(scores[i + 1]));
        other = __vimax3_s32(other, __float_as_int(scores[i + 2]), __float_as_int(scores[i + 3]));
    }
    largest = __vimax3_s32(largest, __float_as_int(scores[count - 2]),
                           __float_as_int(scores[count - 1]));
    return max(largest, other) >= limit;
}

// A limit that every score reaches that would move one of the two bases, that is, for which
// score * scale_log2 > base + kBaseSlack. (Some that move none reach it too.) With a base below
// 1 - kBaseSlack such a score may be negative, and with one of -inf any will do: no limit then.
//
// Why no other score moves a base: let b be the lesser base and s the scale. __fdividef has an error of
// 2 ulp, so the limit is at most (b (1 - 2^-20) + 7.5) / s * (1 + 2^-22) (1 + 2^-24), and a score below
// it has s * score, rounded, of at most b (1 - 2^-21) + 7.6 (b + 7.6 if b < 0). The rounded b + 8 is
// larger: at least b (1 - 2^-24) + 7.9.
__device__ __forceinline__ int limit_of(const float (&base)[2], float scale_log2) {
    const float least = fminf(base[0], base[1]);
    constexpr float kBelow = 1.0f - 1.0f / (1 << 20);
    const float limit = __fdividef(fmaf(least, kBelow, kBaseSlack - 0.5f), scale_log2);
    return least >= 1.0f - kBaseSlack ? __float_as_int(limit) : kNoLimit;
}

// The softmax of fp16 and bf16. The base is the largest score so far * scale_log2, or up to
// kBaseSlack less, so probabilities are at most 2^8: far below fp16's largest, 65504, and with a
// rounding error relative to themselves, as the sum's in fp32. A row's base depends on its own scores
// only; its warp's just decide whether the largest ones are looked for.
template <typename T, int kKeys>
struct Softmax : RowState {
    int limit;  // of the lane's scores: below it, no base moves

    __device__ __forceinline__ void reset(bool fresh) {
        RowState::reset(fresh);
        limit = fresh ? kNoLimit : limit;
    }

    // Makes row_base follow the largest score; the sums follow row_base.
    __device__ __forceinline__ void update_base(const float (&scores)[kKeys / 2],
                                                float scale_log2) {
        if (!__any_sync(0xffffffffu, reaches(scores, limit))) {
            rescale[0] = 1.0f;
            rescale[1] = 1.0f;
            return;
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float largest = largest_of_row(scores, half);

            const float old_base = row_base[half];
            const float new_max = largest * scale_log2;
            row_base[half] = new_max > old_base + kBaseSlack ? new_max : old_base;
            rescale[half] = ptx::ex2(old_base - finite_base(half));
            row_sum[half] *= rescale[half];
        }
        limit = limit_of(row_base, scale_log2);
    }

    // Any finite base does while all scores are -inf; -inf - (-inf) would be NaN.
    __device__ __forceinline__ float finite_base(int half) const {
        return row_base[half] == -INFINITY ? 0.0f : row_base[half];
    }

    // scores -> probabilities relative to row_base, as the operand of the next product, which has the
    // layout of the accumulators of 16 keys. `pairwise` sums: fewer additions wait for the exponential
    // unit.
    template <bool pairwise>
    __device__ __forceinline__ void exponentiate(float (&scores)[kKeys / 2],
                                                 Pair (&probabilities)[kKeys / 4],
                                                 float scale_log2) {
        const float base[2] = {finite_base(0), finite_base(1)};
#pragma unroll
        for (int i = 0; i < kKeys / 2; i += 8) {
#pragma unroll
            for (int j = i; j < i + 8; ++j) {
                scores[j] = ptx::ex2(fmaf(scores[j], scale_log2, -base[j / 2 % 2]));
            }
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float* pair = scores + i + 2 * half;
                if (pairwise) {
                    row_sum[half] += (pair[0] + pair[1]) + (pair[4] + pair[5]);
                } else {
                    row_sum[half] = row_sum[half] + pair[0] + pair[1] + pair[4] + pair[5];
                }
            }
#pragma unroll
            for (int j = i; j < i + 8; j += 2) {
                probabilities[j / 2] = Element<T>::pack(scores[j], scores[j + 1]);
            }
        }
    }
};

}  // namespace flashbench::cuda::sm90
