// Products of tiles in shared memory, each warp of a block computing a part of the result.
//
// A part is 16x16 blocks. Blocks are dealt to the warps in turns along either side: of `kStep` warps, the
// one of index `part` has blocks part, part + kStep, ... So the swizzle of a block's address is a constant
// xor, whatever the part, for any number of blocks.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../constants.h"
#include "../ptx.h"
#include "../shared_tile.h"
#include "../types.h"

namespace flashbench::cuda::sm80 {

// An operand a (left) or b of c += a b, in a tile of `width` columns. Its outer side is that of c, its
// inner side is summed over: the rows of the tile or the columns.
template <int width, bool is_left, bool sums_over_rows, int step>
struct Operand {
    using Layout = Swizzle<width>;
    static_assert((step & (step - 1)) == 0);
    uint32_t tile;
    uint32_t lane_offset;

    __device__ __forceinline__ Operand(uint32_t tile_, int part, int lane) : tile(tile_) {
        // The order in which mma takes the four matrices of a block.
        const uint32_t first = is_left == sums_over_rows ? Layout::key_lane_offset(lane)
                                                         : Layout::lane_offset(lane);
        lane_offset = sums_over_rows ? Layout::block(first, 0, part) : Layout::block(first, part, 0);
    }

    __device__ __forceinline__ void load(Pair (&block)[4], int outer, int inner) const {
        if constexpr (sums_over_rows) {
            ptx::ldmatrix_x4_trans(block, tile + Layout::block(lane_offset, inner, outer * step));
        } else {
            ptx::ldmatrix_x4(block, tile + Layout::block(lane_offset, outer * step, inner));
        }
    }
};

// c += a b, `inner` blocks summed over. Of each 16x8 accumulator a lane holds the columns
// 2 * (lane % 4) and the next one, of the rows lane / 4 (elements 0, 1) and lane / 4 + 8 (elements 2, 3).
template <typename T, int inner, int rows, int columns, typename A, typename B>
__device__ __forceinline__ void multiply(float (&c)[rows][columns][4], const A& a, const B& b) {
#pragma unroll
    for (int k = 0; k < inner; ++k) {
        Pair left[rows][4];
#pragma unroll
        for (int r = 0; r < rows; ++r) {
            a.load(left[r], r, k);
        }
#pragma unroll
        for (int n = 0; n < columns / 2; ++n) {
            Pair right[4];
            b.load(right, n, k);
#pragma unroll
            for (int r = 0; r < rows; ++r) {
                ptx::mma_m16n8k16<T>(c[r][2 * n], left[r], right[0], right[1]);
                ptx::mma_m16n8k16<T>(c[r][2 * n + 1], left[r], right[2], right[3]);
            }
        }
    }
}

template <int rows, int columns>
__device__ __forceinline__ void set_zero(float (&c)[rows][columns][4]) {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
#pragma unroll
        for (int n = 0; n < columns; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                c[r][n][i] = 0.0f;
            }
        }
    }
}

// The first row, or column, of accumulator `n` along a side, counted in steps of 16 / `per_block`.
template <int step, int per_block>
__device__ __forceinline__ int first_of(int n, int part) {
    return (n / per_block * step + part) * 16 + n % per_block * (16 / per_block);
}

// Stores c, each row times `scale_of(row)`, in the dtype, to a tile of `width` columns.
template <typename T, int width, int row_step, int column_step, int rows, int columns,
          typename Scale>
__device__ __forceinline__ void store_part(uint32_t tile, const float (&c)[rows][columns][4],
                                           const Scale& scale_of, int row_part, int column_part,
                                           int lane) {
#pragma unroll
    for (int r = 0; r < 2 * rows; ++r) {
        const int row = first_of<row_step, 2>(r, row_part) + lane / 4;
        const float scale = scale_of(row);
#pragma unroll
        for (int n = 0; n < columns; ++n) {
            const int chunk = first_of<column_step, 2>(n, column_part) / kChunkElements;
            const float* pair = c[r / 2][n] + r % 2 * 2;
            ptx::st_shared_32(tile + Swizzle<width>::offset(row, chunk) + lane % 4 * sizeof(Pair),
                              Element<T>::pack(pair[0] * scale, pair[1] * scale));
        }
    }
}

}  // namespace flashbench::cuda::sm80
