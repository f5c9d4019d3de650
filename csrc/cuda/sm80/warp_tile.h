// The shape of a tile, and the arithmetic that one warp does on its part of it.
//
// Everything here is in registers or reads shared memory; who fills the shared memory, and when, is
// kernel.h's business.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "../constants.h"
#include "../types.h"
#include "ptx.h"
#include "shared_tile.h"

namespace flashbench::cuda::sm80 {

// A tile of `rows` queries by `keys` keys, its rows divided evenly among the warps; so many blocks
// an SM that the compiler has to leave registers for. The next K is requested before the softmax,
// which hides more of its latency, or after it, which leaves more registers.
template <typename T, int head_dim, int rows, int keys, int warps, int blocks_per_sm,
          bool query_in_registers, bool prefetch_before_softmax>
struct Tile {
    using Type = T;
    static constexpr int kHeadDim = head_dim;
    static constexpr int kRows = rows;
    static constexpr int kKeys = keys;
    static constexpr int kThreads = warps * kWarpSize;
    static constexpr int kBlocksPerSm = blocks_per_sm;
    static constexpr bool kQueryInRegisters = query_in_registers;
    static constexpr bool kPrefetchBeforeSoftmax = prefetch_before_softmax;
    static constexpr int kWarpRows = rows / warps;
    static_assert(kWarpRows % 16 == 0 && keys % 16 == 0 && head_dim % 16 == 0);

    // 16x16 blocks: of query rows in a warp, of keys in a tile, of the head dim.
    static constexpr int kRowBlocks = kWarpRows / 16;
    static constexpr int kKeyBlocks = keys / 16;
    static constexpr int kDimBlocks = head_dim / 16;

    // Q, K, V; the output is laid out over Q.
    static constexpr int kQueryBytes = rows * head_dim * kElementBytes;
    static constexpr int kKeyBytes = keys * head_dim * kElementBytes;
    static constexpr int kSharedBytes = kQueryBytes + 2 * kKeyBytes;
    static_assert(kSharedBytes <= kMaxSharedBytes);
};

// The part of a tile that one warp owns, spread over its lanes as mma.m16n8k16 wants it: in each
// 16x8 accumulator a lane holds the columns 2 * (lane % 4) and the next one, of the rows lane / 4
// (elements 0, 1) and lane / 4 + 8 (elements 2, 3).
template <typename Tile>
struct WarpTile {
    using T = typename Tile::Type;
    using Layout = Swizzle<Tile::kHeadDim>;
    static constexpr int kRowBlocks = Tile::kRowBlocks;
    static constexpr int kKeyBlocks = Tile::kKeyBlocks;
    static constexpr int kDimBlocks = Tile::kDimBlocks;

    float scores[kRowBlocks][2 * kKeyBlocks][4];
    float out[kRowBlocks][2 * kDimBlocks][4];
    // Of each row: the largest score so far times scale * log2(e), and this lane's part of the sum.
    float row_max[kRowBlocks][2];
    float row_sum[kRowBlocks][2];
    Pair query[Tile::kQueryInRegisters ? kRowBlocks : 1][Tile::kQueryInRegisters ? kDimBlocks : 1]
              [4];

    int lane;
    int first_row;  // of the warp, among the queries
    uint32_t lane_offset;
    uint32_t shared_query;  // the warp's own rows

    __device__ __forceinline__ WarpTile(int lane, int first_row, uint32_t shared_query)
        : lane(lane),
          first_row(first_row),
          lane_offset(Layout::lane_offset(lane)),
          shared_query(shared_query) {
#pragma unroll
        for (int r = 0; r < kRowBlocks; ++r) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                row_max[r][half] = -INFINITY;
                row_sum[r][half] = 0.0f;
            }
#pragma unroll
            for (int n = 0; n < 2 * kDimBlocks; ++n) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    out[r][n][i] = 0.0f;
                }
            }
        }
    }

    __device__ __forceinline__ int row(int row_block, int half) const {
        return first_row + row_block * 16 + half * 8 + lane / 4;
    }

    __device__ __forceinline__ void load_query() {
#pragma unroll
        for (int r = 0; r < kRowBlocks; ++r) {
#pragma unroll
            for (int d = 0; d < kDimBlocks; ++d) {
                ptx::ldmatrix_x4(query[r][d], shared_query + Layout::block(lane_offset, r, d));
            }
        }
    }

    // scores = Q K^T
    __device__ __forceinline__ void multiply_keys(uint32_t shared_key) {
#pragma unroll
        for (int r = 0; r < kRowBlocks; ++r) {
#pragma unroll
            for (int n = 0; n < 2 * kKeyBlocks; ++n) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    scores[r][n][i] = 0.0f;
                }
            }
        }
#pragma unroll
        for (int d = 0; d < kDimBlocks; ++d) {
            Pair a[kRowBlocks][4];
#pragma unroll
            for (int r = 0; r < kRowBlocks; ++r) {
                if constexpr (Tile::kQueryInRegisters) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        a[r][i] = query[r][d][i];
                    }
                } else {
                    ptx::ldmatrix_x4(a[r], shared_query + Layout::block(lane_offset, r, d));
                }
            }
#pragma unroll
            for (int n = 0; n < kKeyBlocks; ++n) {
                Pair b[4];
                ptx::ldmatrix_x4(b, shared_key + Layout::block(lane_offset, n, d));
#pragma unroll
                for (int r = 0; r < kRowBlocks; ++r) {
                    ptx::mma_m16n8k16<T>(scores[r][2 * n], a[r], b[0], b[2]);
                    ptx::mma_m16n8k16<T>(scores[r][2 * n + 1], a[r], b[1], b[3]);
                }
            }
        }
    }

    __device__ __forceinline__ void negate_scores() {
#pragma unroll
        for (int r = 0; r < kRowBlocks; ++r) {
#pragma unroll
            for (int n = 0; n < 2 * kKeyBlocks; ++n) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    scores[r][n][i] = -scores[r][n][i];
                }
            }
        }
    }

    // Hides the keys from `key_count` on and, if causal, those after each row's own position.
    __device__ __forceinline__ void mask(int first_key, int key_count, bool causal) {
#pragma unroll
        for (int r = 0; r < kRowBlocks; ++r) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int end = causal ? min(key_count, row(r, half) + 1) : key_count;
                const int left = end - first_key - 2 * (lane % 4);
#pragma unroll
                for (int n = 0; n < 2 * kKeyBlocks; ++n) {
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        if (n * 8 + i >= left) {
                            scores[r][n][2 * half + i] = -INFINITY;
                        }
                    }
                }
            }
        }
    }

    // scores -> probabilities relative to the largest score so far; `out` and the sums follow it.
    __device__ __forceinline__ void softmax(float scale_log2) {
#pragma unroll
        for (int r = 0; r < kRowBlocks; ++r) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int e = 2 * half;
                float largest = scores[r][0][e];
#pragma unroll
                for (int n = 0; n < 2 * kKeyBlocks; ++n) {
                    largest = fmaxf(largest, fmaxf(scores[r][n][e], scores[r][n][e + 1]));
                }
                largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
                largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));

                const float old_max = row_max[r][half];
                row_max[r][half] = fmaxf(old_max, largest * scale_log2);
                // Any finite base does while all scores are -inf; -inf - (-inf) would be NaN.
                const float base = row_max[r][half] == -INFINITY ? 0.0f : row_max[r][half];
                const float rescale = ptx::ex2(old_max - base);
                float sum = 0.0f;
#pragma unroll
                for (int n = 0; n < 2 * kKeyBlocks; ++n) {
#pragma unroll
                    for (int i = e; i < e + 2; ++i) {
                        scores[r][n][i] = ptx::ex2(fmaf(scores[r][n][i], scale_log2, -base));
                        sum += scores[r][n][i];
                    }
                }
                row_sum[r][half] = row_sum[r][half] * rescale + sum;
#pragma unroll
                for (int n = 0; n < 2 * kDimBlocks; ++n) {
                    out[r][n][e] *= rescale;
                    out[r][n][e + 1] *= rescale;
                }
            }
        }
    }

    // out += P V
    __device__ __forceinline__ void multiply_values(uint32_t shared_value) {
#pragma unroll
        for (int n = 0; n < kKeyBlocks; ++n) {
            Pair a[kRowBlocks][4];
#pragma unroll
            for (int r = 0; r < kRowBlocks; ++r) {
                const float(&left)[4] = scores[r][2 * n];
                const float(&right)[4] = scores[r][2 * n + 1];
                a[r][0] = Element<T>::pack(left[0], left[1]);
                a[r][1] = Element<T>::pack(left[2], left[3]);
                a[r][2] = Element<T>::pack(right[0], right[1]);
                a[r][3] = Element<T>::pack(right[2], right[3]);
            }
#pragma unroll
            for (int d = 0; d < kDimBlocks; ++d) {
                Pair b[4];
                ptx::ldmatrix_x4_trans(b, shared_value + Layout::block(lane_offset, n, d));
#pragma unroll
                for (int r = 0; r < kRowBlocks; ++r) {
                    ptx::mma_m16n8k16<T>(out[r][2 * d], a[r], b[0], b[1]);
                    ptx::mma_m16n8k16<T>(out[r][2 * d + 1], a[r], b[2], b[3]);
                }
            }
        }
    }

    // Adds the NaN and infinite values of a tile, read from global memory again, to the rows that
    // see their keys. The weight is taken as 1: any positive one gives the same.
    __device__ __forceinline__ void add_nonfinite_values(const Rows<const T>& values,
                                                         int first_key) {
        const int end_key = min(first_key + Tile::kKeys, values.count);
#pragma unroll 1
        for (int key = first_key; key < end_key; ++key) {
#pragma unroll
            for (int n = 0; n < 2 * kDimBlocks; ++n) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int dim = n * 8 + 2 * (lane % 4) + i;
                    if (dim >= values.head_dim) {
                        continue;
                    }
                    const float value = static_cast<float>(
                        values.first[key * values.seq_stride + dim * values.dim_stride]);
                    if (isfinite(value)) {
                        continue;
                    }
#pragma unroll
                    for (int r = 0; r < kRowBlocks; ++r) {
#pragma unroll
                        for (int half = 0; half < 2; ++half) {
                            if (key <= row(r, half)) {
                                out[r][n][2 * half + i] += value;
                            }
                        }
                    }
                }
            }
        }
    }

    // Divides by the sums and stores. `empty`: there was no key at all, so the rows are zeros.
    __device__ __forceinline__ void finish(const Rows<T>& rows, bool empty) {
#pragma unroll
        for (int r = 0; r < kRowBlocks; ++r) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float sum = row_sum[r][half];
                sum += __shfl_xor_sync(0xffffffffu, sum, 1);
                sum += __shfl_xor_sync(0xffffffffu, sum, 2);
                const float weight = empty ? 0.0f : 1.0f / sum;
                const int row_in_warp = r * 16 + half * 8 + lane / 4;
#pragma unroll
                for (int n = 0; n < 2 * kDimBlocks; ++n) {
                    ptx::st_shared_32(shared_query + Layout::offset(row_in_warp, n) +
                                          lane % 4 * sizeof(Pair),
                                      Element<T>::pack(out[r][n][2 * half] * weight,
                                                       out[r][n][2 * half + 1] * weight));
                }
            }
        }
        __syncwarp();
        store_rows<Tile::kHeadDim, Tile::kWarpRows>(shared_query, rows, first_row, lane);
    }
};

}  // namespace flashbench::cuda::sm80
