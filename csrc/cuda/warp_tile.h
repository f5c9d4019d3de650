// The arithmetic of one warp on its part of an MmaTile.
//
// Works in registers and reads shared memory, which the kernel fills. sm80/, decode/ and
// sm90/split_kernel.h use it.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "constants.h"
#include "mma_tile.h"
#include "nonfinite.h"
#include "ptx.h"
#include "quad.h"
#include "shared_tile.h"
#include "types.h"

namespace flashbench::cuda {

// A warp's part of a tile, spread over its lanes as in mma.m16n8k16: of each 16x8 accumulator a lane
// holds the columns 2 * (lane % 4) and the next one, of the rows lane / 4 (elements 0, 1) and
// lane / 4 + 8 (elements 2, 3).
template <typename Tile>
struct WarpTile {
    using T = typename Tile::Type;
    using Layout = Swizzle<Tile::kHeadDim>;  // of Q
    using KeyLayout = typename Tile::KeyLayout;
    static constexpr int kRowBlocks = Tile::kRowBlocks;
    static constexpr int kKeyBlocks = Tile::kKeyBlocks;
    static constexpr int kDimBlocks = Tile::kDimBlocks;

    float scores[kRowBlocks][2 * kKeyBlocks][4];
    float out[kRowBlocks][2 * kDimBlocks][4];
    // For each row: the base of its probabilities, about the largest score so far times
    // scale * log2(e), and this lane's part of their sum. Finite from the start, so that scores of
    // -inf never meet a base of -inf: a row with only such scores has the sum 0 and becomes NaN.
    float row_max[kRowBlocks][2];
    float row_sum[kRowBlocks][2];
    Pair query[Tile::kQueryInRegisters ? kRowBlocks : 1][Tile::kQueryInRegisters ? kDimBlocks : 1]
              [4];

    int lane;
    int first_position;  // of the warp's first row: the last key that it sees, if causal
    uint32_t lane_offset;
    uint32_t key_lane_offset;  // these two in KeyLayout
    uint32_t shared_query;  // the warp's own rows

    __device__ __forceinline__ WarpTile(int lane, int first_position, uint32_t shared_query)
        : lane(lane),
          first_position(first_position),
          lane_offset(KeyLayout::lane_offset(lane)),
          key_lane_offset(KeyLayout::key_lane_offset(lane)),
          shared_query(shared_query) {
#pragma unroll
        for (int r = 0; r < kRowBlocks; ++r) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                row_max[r][half] = -FLT_MAX;
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

    // The distance between a lane's float4s, with those of the other lanes in between.
    static constexpr uint32_t kPartStep = kWarpSize * sizeof(float4);

    __device__ __forceinline__ uint32_t part_of_lane(uint32_t shared, int row_block) const {
        return shared + row_block * Tile::kRowBlockPartBytes + lane * sizeof(float4);
    }

    __device__ __forceinline__ int position(int row_block, int half) const {
        return first_position + row_block * 16 + half * 8 + lane / 4;
    }

    __device__ __forceinline__ uint32_t query_lane_offset() const {
        return std::is_same_v<Layout, KeyLayout> ? lane_offset : Layout::lane_offset(lane);
    }

    __device__ __forceinline__ void load_query() {
        const uint32_t own = query_lane_offset();
#pragma unroll
        for (int r = 0; r < kRowBlocks; ++r) {
#pragma unroll
            for (int d = 0; d < kDimBlocks; ++d) {
                ptx::ldmatrix_x4(query[r][d], shared_query + Layout::block(own, r, d));
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
                    ptx::ldmatrix_x4(a[r], shared_query + Layout::block(query_lane_offset(), r, d));
                }
            }
#pragma unroll
            for (int n = 0; n < kKeyBlocks; ++n) {
                Pair b[4];
                ptx::ldmatrix_x4(b, shared_key + KeyLayout::block(key_lane_offset, n, d));
#pragma unroll
                for (int r = 0; r < kRowBlocks; ++r) {
                    ptx::mma_m16n8k16<T>(scores[r][2 * n], a[r], b[0], b[1]);
                    ptx::mma_m16n8k16<T>(scores[r][2 * n + 1], a[r], b[2], b[3]);
                }
            }
        }
    }

    // Hides the keys from `key_count` on and, if causal, those after each row's own position.
    __device__ __forceinline__ void mask(int first_key, int key_count, bool causal) {
        mask(first_key, key_count, causal, [this](int j) { return position(j / 2, j % 2); });
    }

    // The same where row j of the lane's is at position_of(j).
    template <typename PositionOf>
    __device__ __forceinline__ void mask(int first_key, int key_count, bool causal,
                                         const PositionOf& position_of) {
#pragma unroll
        for (int r = 0; r < kRowBlocks; ++r) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int end =
                    causal ? min(key_count, position_of(2 * r + half) + 1) : key_count;
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

    // scores -> probabilities relative to the row's base. The base follows the largest score so far
    // only once that has grown by kBaseSlack; `out` and the sums follow the base.
    __device__ __forceinline__ void softmax(float scale_log2) {
        float new_max[kRowBlocks][2];
        bool moves = false;
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
                new_max[r][half] = quad_max(largest) * scale_log2;
                moves |= new_max[r][half] > row_max[r][half] + kBaseSlack;
            }
        }
        if (__any_sync(0xffffffffu, moves)) {
#pragma unroll
            for (int r = 0; r < kRowBlocks; ++r) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const float old_base = row_max[r][half];
                    if (new_max[r][half] > old_base + kBaseSlack) {
                        row_max[r][half] = new_max[r][half];
                    }
                    const float rescale = ptx::ex2(old_base - row_max[r][half]);
                    row_sum[r][half] *= rescale;
#pragma unroll
                    for (int n = 0; n < 2 * kDimBlocks; ++n) {
                        out[r][n][2 * half] *= rescale;
                        out[r][n][2 * half + 1] *= rescale;
                    }
                }
            }
        }
#pragma unroll
        for (int r = 0; r < kRowBlocks; ++r) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int e = 2 * half;
#pragma unroll
                for (int n = 0; n < 2 * kKeyBlocks; ++n) {
#pragma unroll
                    for (int i = e; i < e + 2; ++i) {
                        scores[r][n][i] =
                            ptx::ex2(fmaf(scores[r][n][i], scale_log2, -row_max[r][half]));
                        row_sum[r][half] += scores[r][n][i];
                    }
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
                ptx::ldmatrix_x4_trans(b, shared_value + KeyLayout::block(lane_offset, n, d));
#pragma unroll
                for (int r = 0; r < kRowBlocks; ++r) {
                    ptx::mma_m16n8k16<T>(out[r][2 * d], a[r], b[0], b[1]);
                    ptx::mma_m16n8k16<T>(out[r][2 * d + 1], a[r], b[2], b[3]);
                }
            }
        }
    }

    // Adds the NaN and infinite values of a tile to the rows that see their keys.
    __device__ __forceinline__ void add_nonfinite_values(const Rows<const T>& values,
                                                         int first_key) {
        add_nonfinite_values(values, first_key,
                             [this](int j) { return position(j / 2, j % 2); });
    }

    // The same where row j of the lane's is at position_of(j).
    template <typename PositionOf>
    __device__ __forceinline__ void add_nonfinite_values(const Rows<const T>& values,
                                                         int first_key,
                                                         const PositionOf& position_of) {
        const int end_key = min(first_key + Tile::kWarpKeys, values.count);
        cuda::add_nonfinite_values<Tile::kHeadDim, 2 * kRowBlocks>(
            values, first_key, end_key, lane, position_of,
            [this](int j, int n, int i) -> float& { return out[j / 2][n][j % 2 * 2 + i]; });
    }

    // Stores output, bases and sums for the same warp of another group.
    __device__ __forceinline__ void put_part(uint32_t shared) const {
#pragma unroll
        for (int r = 0; r < kRowBlocks; ++r) {
            const uint32_t part = part_of_lane(shared, r);
#pragma unroll
            for (int n = 0; n < 2 * kDimBlocks; ++n) {
                ptx::st_shared_float4(part + n * kPartStep, out[r][n][0], out[r][n][1],
                                      out[r][n][2], out[r][n][3]);
            }
            ptx::st_shared_float4(part + 2 * kDimBlocks * kPartStep, row_max[r][0], row_max[r][1],
                                  row_sum[r][0], row_sum[r][1]);
        }
    }

    // Adds what the same warp of another group stored.
    __device__ __forceinline__ void add_part(uint32_t shared) {
#pragma unroll
        for (int r = 0; r < kRowBlocks; ++r) {
            const uint32_t part = part_of_lane(shared, r);
            const float4 rows = ptx::ld_shared_float4(part + 2 * kDimBlocks * kPartStep);
            const float other_max[2] = {rows.x, rows.y};
            const float other_sum[2] = {rows.z, rows.w};
            float own[2];
            float other[2];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float base = fmaxf(row_max[r][half], other_max[half]);
                own[half] = ptx::ex2(row_max[r][half] - base);
                other[half] = ptx::ex2(other_max[half] - base);
                row_max[r][half] = base;
                row_sum[r][half] = row_sum[r][half] * own[half] + other_sum[half] * other[half];
            }
#pragma unroll
            for (int n = 0; n < 2 * kDimBlocks; ++n) {
                const float4 theirs = ptx::ld_shared_float4(part + n * kPartStep);
                out[r][n][0] = out[r][n][0] * own[0] + theirs.x * other[0];
                out[r][n][1] = out[r][n][1] * own[0] + theirs.y * other[0];
                out[r][n][2] = out[r][n][2] * own[1] + theirs.z * other[1];
                out[r][n][3] = out[r][n][3] * own[1] + theirs.w * other[1];
            }
        }
    }

    // Divides by the sums and stores the rows from `first_row` on. `empty`: there was no key, so the
    // rows are zeros.
    __device__ __forceinline__ void finish(const Rows<T>& rows, int first_row, bool empty) {
#pragma unroll
        for (int r = 0; r < kRowBlocks; ++r) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float sum = quad_sum(row_sum[r][half]);
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

    // Calls take(row block, half, row, sum of its probabilities) for the lane's rows, `first_row` being the warp's first.
    template <typename Take>
    __device__ __forceinline__ void for_each_row(int first_row, const Take& take) const {
#pragma unroll
        for (int r = 0; r < kRowBlocks; ++r) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float sum = quad_sum(row_sum[r][half]);  // by all lanes
                take(r, half, first_row + r * 16 + half * 8 + lane / 4, sum);
            }
        }
    }

    // Stores output, bases and sums in global memory, of the rows from `first_row` on below `count`.
    __device__ __forceinline__ void store_part(float* values, float2* statistics, int first_row,
                                               int count) const {
        for_each_row(first_row, [&](int r, int half, int row, float sum) {
            if (row >= count) {
                return;
            }
            if (lane % 4 == 0) {
                statistics[row] = make_float2(row_max[r][half], sum);
            }
            float* target = values + static_cast<int64_t>(row) * Tile::kHeadDim + 2 * (lane % 4);
#pragma unroll
            for (int n = 0; n < 2 * kDimBlocks; ++n) {
                *reinterpret_cast<float2*>(target + n * 8) =
                    make_float2(out[r][n][2 * half], out[r][n][2 * half + 1]);
            }
        });
    }

    // Stores the natural logarithm of the sum of exp(scale * score) of the rows from `first_row` on.
    __device__ __forceinline__ void store_lse(float* lse, int first_row, int count) const {
        constexpr float kLn2 = 0.6931471805599453f;
        for_each_row(first_row, [&](int r, int half, int row, float sum) {
            if (lane % 4 == 0 && row < count) {
                lse[row] = row_max[r][half] * kLn2 + logf(sum);
            }
        });
    }
};

}  // namespace flashbench::cuda
