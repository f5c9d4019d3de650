// The 64 query rows of a consumer warpgroup: products, softmax and output, all in registers.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "../constants.h"
#include "../rows.h"
#include "../types.h"
#include "ptx.h"
#include "tile.h"
#include "wgmma.h"

namespace flashbench::cuda::sm90 {

// The base of a row follows its largest score only once that is 2^8 times as likely: the output
// then seldom has to be rescaled, and probabilities up to 256 cost no accuracy (as FlashAttention-4
// does).
constexpr float kBaseSlack = 8.0f;

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

// Spread over the lanes as wgmma.h says: a lane has two rows ("halves"), lane / 4 and 8 below.
template <typename Tile>
struct GroupRows {
    using T = typename Tile::Type;
    static constexpr int kKeys = Tile::kKeys;
    static constexpr int kHeadDim = Tile::kHeadDim;

    float scores[kKeys / 2];
    Pair probabilities[kKeys / 4];
    float out[kHeadDim / 2];
    // What the probabilities are relative to: the largest score so far * scale_log2, or up to
    // kBaseSlack less.
    float row_base[2];
    float row_sum[2];  // this lane's part
    float rescale[2];

    int warp;  // in the warpgroup
    int lane;

    __device__ __forceinline__ void reset_output() {
#pragma unroll
        for (int i = 0; i < kHeadDim / 2; ++i) {
            out[i] = 0.0f;
        }
    }

    // What the next scores belong to begins here, if `fresh`.
    __device__ __forceinline__ void reset_rows(bool fresh) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            row_base[half] = fresh ? -INFINITY : row_base[half];
            row_sum[half] = fresh ? 0.0f : row_sum[half];
        }
    }

    __device__ __forceinline__ int row_in_group(int half) const {
        return warp * 16 + half * 8 + lane / 4;
    }

    // Starts scores = Q K^T. `query` is where this warpgroup's rows are.
    __device__ __forceinline__ void issue_scores(uint32_t query, uint32_t key) {
        const SharedOperand<Tile::kSwizzleBytes, 16> a(query);
        const SharedOperand<Tile::kSwizzleBytes, 16> b(key);
#pragma unroll
        for (int dim = 0; dim < kHeadDim; dim += 16) {
            const int box = dim / Tile::kBoxDims;
            const int offset = dim % Tile::kBoxDims * kElementBytes;
            Wgmma<T, kKeys>::ss(scores, a.at(box * Tile::kRows * Tile::kSwizzleBytes + offset),
                                b.at(box * kKeys * Tile::kSwizzleBytes + offset), dim > 0);
        }
        ptx::wgmma_commit_group();
    }

    // Starts out += P V.
    __device__ __forceinline__ void issue_output(uint32_t value) {
        const SharedOperand<Tile::kSwizzleBytes, kKeys * Tile::kSwizzleBytes> b(value);
#pragma unroll
        for (int block = 0; block < kKeys / 16; ++block) {
            Wgmma<T, kHeadDim>::rs(out, probabilities + 4 * block,
                                   b.at(block * 2 * Tile::kAtomBytes));
        }
        ptx::wgmma_commit_group();
    }

    // Hides the keys from `key_count` on and, if causal, those after each row's own position.
    __device__ __forceinline__ void mask(int first_row, int first_key, int key_count,
                                         bool causal) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = first_row + row_in_group(half);
            const int end = causal ? min(key_count, row + 1) : key_count;
            hide_columns(scores, half, end - first_key - 2 * (lane % 4), 0, kKeys / 8);
        }
    }

    // Lets row_base follow the largest score; `rescale` is what the sums and the output have to
    // follow by.
    __device__ __forceinline__ void update_base(float scale_log2) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float largest = largest_of_row(scores, half);

            const float old_base = row_base[half];
            const float new_max = largest * scale_log2;
            row_base[half] = new_max > old_base + kBaseSlack ? new_max : old_base;
            rescale[half] = ptx::ex2(old_base - finite_base(half));
            row_sum[half] *= rescale[half];
        }
    }

    // Any finite base does while all scores are -inf; -inf - (-inf) would be NaN.
    __device__ __forceinline__ float finite_base(int half) const {
        return row_base[half] == -INFINITY ? 0.0f : row_base[half];
    }

    // scores -> probabilities relative to row_base, as the operand of the next product: the
    // accumulators of 16 keys are it.
    __device__ __forceinline__ void exponentiate(float scale_log2) {
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
                if (Tile::kRoomy) {
                    // Fewer of the additions wait for the exponential unit.
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

    __device__ __forceinline__ void rescale_output() {
        if (__all_sync(0xffffffffu, rescale[0] == 1.0f && rescale[1] == 1.0f)) {
            return;
        }
#pragma unroll
        for (int i = 0; i < kHeadDim / 2; ++i) {
            out[i] *= rescale[i / 2 % 2];
        }
    }

    // Adds the NaN and infinite values of the keys from `first_key` on, which the scanner took out,
    // to the rows that see them. The weight is taken as 1: any positive one gives the same.
    __device__ __forceinline__ void add_nonfinite_values(const Rows<const T>& values, int first_row,
                                                         int first_key, int end_key) {
#pragma unroll 1
        for (int key = first_key; key < end_key; ++key) {
#pragma unroll
            for (int i = 0; i < kHeadDim / 2; i += 4) {
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    const int dim = i * 2 + 2 * (lane % 4) + j;
                    if (dim >= values.head_dim) {
                        continue;
                    }
                    const float value = static_cast<float>(
                        values.first[key * values.seq_stride + dim * values.dim_stride]);
                    if (isfinite(value)) {
                        continue;
                    }
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        if (key <= first_row + row_in_group(half)) {
                            out[i + 2 * half + j] += value;
                        }
                    }
                }
            }
        }
    }

    // Divides by the sums (each lane has its part of `sums`) and stores.
    __device__ __forceinline__ void store(const Rows<T>& rows, int first_row,
                                          const float (&sums)[2]) {
        const int quad_lane = lane % 4;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float sum = sums[half];
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            const float weight = 1.0f / sum;
            const int row = first_row + row_in_group(half);
            T* target = rows.first + row * rows.seq_stride;
            // Of 32 columns the four lanes of a row have two in each chunk of eight: they exchange
            // so that each has a chunk.
#pragma unroll
            for (int i = 2 * half; i < kHeadDim / 2; i += 16) {
                Pair pairs[4];
#pragma unroll
                for (int chunk = 0; chunk < 4; ++chunk) {
                    pairs[chunk] = Element<T>::pack(out[i + 4 * chunk] * weight,
                                                    out[i + 4 * chunk + 1] * weight);
                }
                transpose_4x4(pairs, quad_lane);
                const int column = i / 16 * 32 + quad_lane * kChunkElements;
                if (row >= rows.count || column >= rows.head_dim) {
                    continue;
                }
                const uint4 chunk = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
                if (rows.vectors) {
                    *reinterpret_cast<uint4*>(target + column) = chunk;
                } else {
                    scatter_chunk(target + column * rows.dim_stride, rows.dim_stride, chunk);
                }
            }
        }
    }
};

}  // namespace flashbench::cuda::sm90
