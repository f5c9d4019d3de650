// A tile of head vectors in shared memory: its swizzled layout, and how to fill, read and write it.
//
// A tile has `rows` rows of kHeadDim elements, cut into chunks of 16 bytes. Chunk c of row r is stored
// at chunk c ^ f(r) of that row, so the eight rows of an 8x8 matrix are in different banks: ldmatrix,
// cp.async and the 4-byte stores of an accumulator have no bank conflicts.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "constants.h"
#include "nonfinite.h"
#include "ptx.h"
#include "rows.h"
#include "types.h"

namespace flashbench::cuda {

template <int kHeadDim>
struct Swizzle {
    static constexpr int kRowBytes = kHeadDim * kElementBytes;
    static constexpr int kChunks = kHeadDim / kChunkElements;
    // Chunks are permuted in groups of this many; two rows share 128 bytes of banks when it is 4.
    static constexpr int kGroup = kChunks % 8 == 0 ? 8 : 4;
    static constexpr int kGroups = kChunks / kGroup;
    static constexpr int kGroupBytes = kGroup * kChunkBytes;
    static constexpr int kGroupElements = kGroup * kChunkElements;
    static_assert(kChunks % kGroup == 0);

    static __device__ __forceinline__ uint32_t offset(int row, int chunk) {
        const int key = kGroup == 8 ? row & 7 : (row >> 1) & 3;
        return row * kRowBytes + (chunk ^ key) * kChunkBytes;
    }

    // This lane's ldmatrix address for the 16x16 block at row 0, column 0. The four matrices are
    // (rows 0-7, columns 0-7), (rows 8-15, columns 0-7), and the same rows at columns 8-15.
    static __device__ __forceinline__ uint32_t lane_offset(int lane) {
        return offset(lane & 15, lane >> 4);
    }

    // The same with the two middle matrices exchanged: two neighbouring registers are then the
    // operand b of one mma whose columns are rows of the tile. mma needs that order; from the order
    // above ptxas would produce it by a move per register.
    static __device__ __forceinline__ uint32_t key_lane_offset(int lane) {
        return offset((lane & 7) + (lane >> 4) * 8, lane >> 3 & 1);
    }

    // The same for the block at row 16 * row_block, column 16 * column_block: the xor affects only
    // the swizzled bits, which are zero at a row's start.
    static __device__ __forceinline__ uint32_t block(uint32_t lane_offset, int row_block,
                                                     int column_block) {
        const int chunk = 2 * column_block;
        return (lane_offset ^ ((chunk % kGroup) * kChunkBytes)) + (chunk / kGroup) * kGroupBytes +
               row_block * 16 * kRowBytes;
    }
};

// The chunks of a tile that a thread (of kThreads) copies: one column of each group, every kRowStep-th
// row.
template <int kHeadDim, int kTileRows, int kThreads>
struct CopyPlan {
    using Layout = Swizzle<kHeadDim>;
    static constexpr int kRowStep = kThreads / Layout::kGroup;
    static constexpr int kSteps = kTileRows / kRowStep;
    static constexpr int kStepBytes = kRowStep * Layout::kRowBytes;
    // A step of four rows, that of a single warp, exchanges the halves of eight chunks.
    static constexpr int kSwizzleFlip = kRowStep == 4 && Layout::kGroup == 8 ? 4 * kChunkBytes : 0;
    static_assert(kRowStep % 8 == 0 || kSwizzleFlip, "a step must leave the swizzle unchanged");
    static_assert(kTileRows % kRowStep == 0);

    int row;
    int chunk;
    uint32_t offset;

    __device__ __forceinline__ explicit CopyPlan(unsigned thread)
        : row(thread / Layout::kGroup),
          chunk(thread % Layout::kGroup),
          offset(Layout::offset(row, chunk)) {}

    // The offset of a step's chunk in the first group of columns.
    __device__ __forceinline__ uint32_t at(int step) const {
        return (step % 2 == 0 ? offset : offset ^ kSwizzleFlip) + step * kStepBytes;
    }
};

// Starts the copy of kTileRows rows from `first_row` on, with zeros past the last row and dim. Complete
// after cp_async_wait_all and a barrier.
template <int kHeadDim, int kTileRows, int kThreads, typename T>
__device__ __forceinline__ void load_tile(uint32_t shared, const Rows<const T>& rows,
                                          int first_row, unsigned thread) {
    using Layout = Swizzle<kHeadDim>;
    const CopyPlan<kHeadDim, kTileRows, kThreads> plan(thread);
    const int column = plan.chunk * kChunkElements;
    const int rows_left = rows.count - first_row;
    const T* source = rows.first + (first_row + plan.row) * rows.seq_stride;
    if (rows.vectors) {
        source += column;
#pragma unroll
        for (int step = 0; step < plan.kSteps; ++step) {
            const bool row_exists = plan.row + step * plan.kRowStep < rows_left;
#pragma unroll
            for (int group = 0; group < Layout::kGroups; ++group) {
                const bool exists =
                    row_exists && group * Layout::kGroupElements + column < rows.head_dim;
                ptx::cp_async_16(shared + plan.at(step) + group * Layout::kGroupBytes,
                                 source + group * Layout::kGroupElements, exists);
            }
            source += plan.kRowStep * rows.seq_stride;
        }
        return;
    }
    source += column * rows.dim_stride;
#pragma unroll 1
    for (int step = 0; step < plan.kSteps; ++step) {
        const bool row_exists = plan.row + step * plan.kRowStep < rows_left;
#pragma unroll 1
        for (int group = 0; group < Layout::kGroups; ++group) {
            uint4 chunk = make_uint4(0, 0, 0, 0);
            if (row_exists && group * Layout::kGroupElements + column < rows.head_dim) {
                chunk = gather_chunk(source + group * Layout::kGroupElements * rows.dim_stride,
                                     rows.dim_stride);
            }
            ptx::st_shared_128(shared + plan.at(step) + group * Layout::kGroupBytes,
                               chunk);
        }
        source += plan.kRowStep * rows.seq_stride;
    }
}

// Writes kTileRows rows, from `first_row` on, that only the calling warp put into shared memory.
template <int kHeadDim, int kTileRows, typename T>
__device__ __forceinline__ void store_rows(uint32_t shared, const Rows<T>& rows, int first_row,
                                           int lane) {
    using Layout = Swizzle<kHeadDim>;
    constexpr int kRowStep = kWarpSize / Layout::kGroup;
#pragma unroll
    for (int step = 0; step < kTileRows / kRowStep; ++step) {
        const int row = step * kRowStep + lane / Layout::kGroup;
        T* target = rows.first + (first_row + row) * rows.seq_stride;
#pragma unroll
        for (int group = 0; group < Layout::kGroups; ++group) {
            const int chunk = group * Layout::kGroup + lane % Layout::kGroup;
            const int column = chunk * kChunkElements;
            if (first_row + row >= rows.count || column >= rows.head_dim) {
                continue;
            }
            const uint4 value = ptx::ld_shared_128(shared + Layout::offset(row, chunk));
            if (rows.vectors) {
                *reinterpret_cast<uint4*>(target + column) = value;
            } else {
                scatter_chunk(target + column * rows.dim_stride, rows.dim_stride, value);
            }
        }
    }
}

// Changes the sign of every element among the chunks that this thread copied.
template <int kHeadDim, int kTileRows, int kThreads>
__device__ __forceinline__ void negate_copied(uint32_t shared, unsigned thread) {
    using Layout = Swizzle<kHeadDim>;
    const CopyPlan<kHeadDim, kTileRows, kThreads> plan(thread);
    shared += plan.offset;
#pragma unroll 1
    for (int step = 0; step < plan.kSteps; ++step) {
#pragma unroll 1
        for (int group = 0; group < Layout::kGroups; ++group) {
            const uint32_t address = shared + step * plan.kStepBytes + group * Layout::kGroupBytes;
            const uint4 chunk = ptx::ld_shared_128(address);
            constexpr Pair kSigns = 0x80008000u;
            ptx::st_shared_128(address, make_uint4(chunk.x ^ kSigns, chunk.y ^ kSigns,
                                                   chunk.z ^ kSigns, chunk.w ^ kSigns));
        }
    }
}

// Zeroes every NaN and infinity among this thread's share of the chunks, with several warps those that it
// copied; returns whether there were any.
template <int kHeadDim, int kTileRows, int kThreads, typename T>
__device__ __forceinline__ bool zero_copied_nonfinite(uint32_t shared, unsigned thread) {
    using Layout = Swizzle<kHeadDim>;
    const CopyPlan<kHeadDim, kTileRows, kThreads> plan(thread);
    shared += plan.offset;
    Pair found = 0;
#pragma unroll
    for (int step = 0; step < plan.kSteps; ++step) {
#pragma unroll
        for (int group = 0; group < Layout::kGroups; ++group) {
            const uint4 chunk =
                ptx::ld_shared_128(shared + step * plan.kStepBytes + group * Layout::kGroupBytes);
            found |= nonfinite_bits<T>(chunk);
        }
    }
    if (found == 0) {
        return false;
    }
#pragma unroll 1
    for (int step = 0; step < plan.kSteps; ++step) {
#pragma unroll 1
        for (int group = 0; group < Layout::kGroups; ++group) {
            const uint32_t address = shared + step * plan.kStepBytes + group * Layout::kGroupBytes;
            ptx::st_shared_128(address, finite_or_zero<T>(ptx::ld_shared_128(address)));
        }
    }
    return true;
}

// The layout of one group's output, in floats: rows of head_dim with chunks of eight swizzled, so that
// neither the stores of accumulators nor the 16-byte loads after them have bank conflicts.
template <int head_dim>
__device__ __forceinline__ int part_offset(int row, int column) {
    return row * head_dim + ((column / 8) ^ (row & 3)) * 8 + column % 8;
}

}  // namespace flashbench::cuda
