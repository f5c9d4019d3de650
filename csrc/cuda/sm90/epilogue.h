// Stores 64 rows of accumulators, spread over the lanes as in wgmma.h, from registers: merged parts of results, and
// gradients; and the log-sum-exp of a warpgroup's rows. Results of whole tiles go by out_boxes.h.
#pragma once

#include <cuda_runtime.h>

#include "../constants.h"
#include "../quad.h"
#include "../rows.h"
#include "../types.h"
#include "softmax.h"

namespace flashbench::cuda::sm90 {

// Accumulators of a lane, half a head dim, up to which rows are stored in half lines of memory: stores of whole ones
// gained up to 7 % above 96 dims where memory decides, and now gained, now lost below (docs/lab/cuda-kernels.md).
constexpr int kMostHalfLines = 48;

// Pair i of lane j becomes pair j of lane i, in each four neighbouring lanes.
__device__ __forceinline__ void transpose_4x4(Pair (&pairs)[4], int quad_lane) {
#pragma unroll
    for (int distance = 1; distance <= 2; distance *= 2) {
        const bool upper = (quad_lane & distance) != 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if ((i & distance) == 0) {
                const Pair sent = upper ? pairs[i] : pairs[i + distance];
                const Pair received = __shfl_xor_sync(0xffffffffu, sent, distance);
                pairs[i] = upper ? received : pairs[i];
                pairs[i + distance] = upper ? pairs[i + distance] : received;
            }
        }
    }
}

// A chunk of `row` from `column` on, if there is one.
template <typename Rows>
__device__ __forceinline__ void store_chunk(const Rows& rows, int row, int column,
                                            const Pair (&pairs)[4]) {
    if (row >= rows.count || column >= rows.head_dim) {
        return;
    }
    auto* const target = rows.at(row);
    const uint4 chunk = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    if (rows.vectors) {
        *reinterpret_cast<uint4*>(target + column) = chunk;
    } else {
        scatter_chunk(target + column * rows.dim_stride, rows.dim_stride, chunk);
    }
}

// Multiplies by `weight(half)` of a lane's two rows and stores the 64 rows from `first_row` on.
template <typename T, template <typename> class Rows, int count, typename Weight>
__device__ __forceinline__ void store_weighted_rows(const float (&out)[count],
                                                    const Weight& weight_of, const Rows<T>& rows,
                                                    const RowState& state, int first_row) {
    const int quad_lane = state.lane % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float weight = weight_of(half);
        const int row = first_row + state.row_in_group(half);
        // Each of a row's four lanes has two of every eight of 32 columns: exchange them so
        // that each lane has a whole chunk.
        const auto take_chunk = [&](int i, Pair(&pairs)[4]) {
#pragma unroll
            for (int chunk = 0; chunk < 4 && i + 4 * chunk < count; ++chunk) {
                pairs[chunk] = Element<T>::pack(out[i + 4 * chunk] * weight,
                                                out[i + 4 * chunk + 1] * weight);
            }
            transpose_4x4(pairs, quad_lane);
        };
        const int quad_column = quad_lane * kChunkElements;
        if constexpr (count <= kMostHalfLines) {
#pragma unroll
            for (int i = 2 * half; i < count; i += 16) {
                Pair pairs[4] = {};
                take_chunk(i, pairs);
                store_chunk(rows, row, i / 16 * 32 + quad_column, pairs);
            }
        } else {
            // 64 bytes of a row in one store are half a line of memory. Exchanged with the lanes of the next row, a
            // store has all 128 of each of four rows, not half of each of eight.
            const int odd = state.lane / 4 % 2;
#pragma unroll
            for (int i = 2 * half; i < count; i += 32) {
                Pair left[4] = {};
                Pair right[4] = {};
                take_chunk(i, left);
                take_chunk(i + 16, right);
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const Pair sent = odd ? left[j] : right[j];
                    const Pair received = __shfl_xor_sync(0xffffffffu, sent, 4);
                    left[j] = odd ? received : left[j];
                    right[j] = odd ? right[j] : received;
                }
                const int column = (i / 16 + odd) * 32 + quad_column;
                store_chunk(rows, row - odd, column, left);
                store_chunk(rows, row - odd + 1, column, right);
            }
        }
    }
}

// Divides by `sums`, spread over the lanes, and stores the 64 rows from `first_row` on.
template <typename T, template <typename> class Rows, int count>
__device__ __forceinline__ void store_group_rows(const float (&out)[count], const float (&sums)[2],
                                                 const Rows<T>& rows, const RowState& state,
                                                 int first_row) {
    store_weighted_rows(
        out, [&sums](int half) { return 1.0f / quad_sum(sums[half]); }, rows, state, first_row);
}

// Stores the natural logarithm of the sum of exp(scale * score) of each of the 64 rows.
__device__ __forceinline__ void store_group_lse(const Attention& problem, int64_t batch,
                                                int64_t head, int first_row,
                                                const RowState& state) {
    constexpr float kLn2 = 0.6931471805599453f;
    float* const rows = problem.lse + (batch * problem.heads + head) * problem.lse_rows;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float sum = quad_sum(state.row_sum[half]);
        const int row = first_row + state.row_in_group(half);
        if (state.lane % 4 == 0 && row < problem.q_len) {
            rows[row] = state.row_base[half] * kLn2 + logf(sum);
        }
    }
}

// Multiplies by `scale` and stores the 64 rows from `first_row` on.
template <typename T, int count>
__device__ __forceinline__ void store_scaled_rows(const float (&out)[count], float scale,
                                                  const Rows<T>& rows, const RowState& state,
                                                  int first_row) {
    store_weighted_rows(out, [scale](int) { return scale; }, rows, state, first_row);
}

}  // namespace flashbench::cuda::sm90
