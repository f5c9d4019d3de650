// Rows in shared memory as TMA stores them: boxes of 64 dims, 128 bytes, the width of its swizzle, each for
// all rows before the next one. Inside a box, chunks lie as Swizzle<64> has them.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "constants.h"
#include "rows.h"
#include "shared_tile.h"
#include "sm90/ptx.h"
#include "sm90/tma.h"

namespace flashbench::cuda {

template <int head_dim, int rows>
struct Boxes {
    static constexpr int kDims = 64;
    using Box = Swizzle<kDims>;
    static constexpr int kCount = head_dim / kDims;
    static constexpr int kBoxBytes = rows * Box::kRowBytes;
    static_assert(head_dim % kDims == 0);

    // Addresses of ldmatrix, as in Swizzle.
    static __device__ __forceinline__ uint32_t lane_offset(int lane) {
        return Box::lane_offset(lane);
    }
    static __device__ __forceinline__ uint32_t key_lane_offset(int lane) {
        return Box::key_lane_offset(lane);
    }
    static __device__ __forceinline__ uint32_t block(uint32_t lane_offset, int row_block,
                                                     int column_block) {
        constexpr int kBlocks = kDims / 16;
        return Box::block(lane_offset, row_block, column_block % kBlocks) +
               column_block / kBlocks * kBoxBytes;
    }
};

// Run by one thread: starts the copy of `rows` rows, box by box; `barrier` counts their bytes. L2 drops the rows
// before others if `evict_first`. From sm_90 on.
template <int head_dim, int rows>
__device__ __forceinline__ void issue_boxes(uint32_t shared, const CUtensorMap* map,
                                            uint32_t barrier, int first_row, int head, int batch,
                                            bool evict_first = false) {
    using Layout = Boxes<head_dim, rows>;
    sm90::ptx::mbarrier_arrive_expect_tx(barrier, Layout::kCount * Layout::kBoxBytes);
#pragma unroll
    for (int box = 0; box < Layout::kCount; ++box) {
        const uint32_t target = shared + box * Layout::kBoxBytes;
        const int dim = box * Layout::kDims;
        if (evict_first) {
            sm90::ptx::cp_async_bulk_tensor_4d(target, map, barrier, dim, first_row, head, batch,
                                               sm90::ptx::evict_first_policy());
        } else {
            sm90::ptx::cp_async_bulk_tensor_4d(target, map, barrier, dim, first_row, head, batch);
        }
    }
}

// The same in one copy, by a map of encode_whole_rows.
template <int head_dim, int rows>
__device__ __forceinline__ void issue_whole_rows(uint32_t shared, const CUtensorMap* map,
                                                 uint32_t barrier, int first_row, int head,
                                                 int batch, bool evict_first) {
    using Layout = Boxes<head_dim, rows>;
    sm90::ptx::mbarrier_arrive_expect_tx(barrier, Layout::kCount * Layout::kBoxBytes);
    const int at[5] = {0, first_row, 0, head, batch};
    if (evict_first) {
        sm90::ptx::cp_async_bulk_tensor_5d(shared, map, barrier, at,
                                           sm90::ptx::evict_first_policy());
    } else {
        sm90::ptx::cp_async_bulk_tensor_5d(shared, map, barrier, at);
    }
}

// Run by `threads` threads: the same by cp.async, for any strides and chip; see load_tile.
template <int head_dim, int rows, int threads, typename T>
__device__ __forceinline__ void load_boxes(uint32_t shared, Rows<const T> source, int first_row,
                                           unsigned thread) {
    using Layout = Boxes<head_dim, rows>;
#pragma unroll
    for (int box = 0; box < Layout::kCount; ++box) {
        load_tile<Layout::kDims, rows, threads>(shared + box * Layout::kBoxBytes, source, first_row,
                                                thread);
        source.first += Layout::kDims * source.dim_stride;
        source.head_dim -= Layout::kDims;
    }
}

// Run by `threads` threads, between barriers: zeroes every NaN and infinity; returns whether this thread
// found any.
template <int head_dim, int rows, int threads, typename T>
__device__ __forceinline__ bool zero_nonfinite_boxes(uint32_t shared, unsigned thread) {
    using Layout = Boxes<head_dim, rows>;
    bool found = false;
#pragma unroll 1
    for (int box = 0; box < Layout::kCount; ++box) {
        found |= zero_copied_nonfinite<Layout::kDims, rows, threads, T>(
            shared + box * Layout::kBoxBytes, thread);
    }
    return found;
}

}  // namespace flashbench::cuda
