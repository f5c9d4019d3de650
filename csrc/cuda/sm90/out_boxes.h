// The epilogue by the copy engine: each warp writes its 16 rows of the result to shared memory, as boxes that TMA
// stores while the warp goes on. With plain stores it waits for exchanges among lanes (epilogue.h) and for the queues
// of memory.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "../../attention.h"
#include "../constants.h"
#include "../quad.h"
#include "../rows.h"
#include "../shared_tile.h"
#include "../types.h"
#include "ptx.h"
#include "tensor_map.h"
#include "tma.h"

namespace flashbench::cuda::sm90 {

// A box of results: the rows of a warp by 64 dims, as wide as the swizzle.
struct OutBox {
    static constexpr int kRows = 16;
    static constexpr int kDims = 64;
    using Layout = Swizzle<kDims>;
    static constexpr int kBytes = kRows * Layout::kRowBytes;
};

// The map of the results; not valid if TMA does not support their strides.
struct OutMap {
    CUtensorMap map;
    bool valid = false;
};
inline void encode_out(const Attention& problem, OutMap& out) {
    out.valid = encode_tensor_map({problem.out, problem.out_strides, problem.batch, problem.heads,
                                   problem.q_len, problem.head_dim, problem.dtype, OutBox::kDims,
                                   OutBox::kRows},
                                  out.map);
}

// Writes a box of accumulators, spread over the lanes as in wgmma.h and times `weights` of a lane's two rows. stmatrix
// takes the addresses of ldmatrix.
template <typename T, int count>
__device__ __forceinline__ void write_box(const float (&out)[count], const float (&weights)[2],
                                          int lane, int box, uint32_t shared) {
    using Layout = OutBox::Layout;
    const uint32_t lane_offset = Layout::lane_offset(lane);
#pragma unroll
    for (int block = 0; block < Layout::kChunks / 2; ++block) {  // of 16 dims
        const int i = 4 * (box * Layout::kChunks + 2 * block);
        if (i >= count) {
            break;
        }
        Pair pairs[4];
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            pairs[pair] = Element<T>::pack(out[i + 2 * pair] * weights[pair % 2],
                                           out[i + 2 * pair + 1] * weights[pair % 2]);
        }
        ptx::stmatrix_x4(shared + Layout::block(lane_offset, 0, block), pairs);
    }
}

// Waits until all but the last `kPending` boxes of this warp have left shared memory.
template <int kPending>
__device__ __forceinline__ void wait_for_boxes() {
    ptx::cp_async_bulk_wait_group_read<kPending>();  // at once, but in the lane that issues
    __syncwarp();
}

// Divides a warp's 16 rows by `sums`, spread over the lanes, and stores them from `first_row` of a head on, by way of
// a ring of buffers of the warp, `buffer_bytes` apart: TMA does the rest if there is a map. Where it does not support
// the strides, the warp stores by itself.
template <typename T, int buffers, int buffer_bytes, int count>
__device__ __forceinline__ void store_boxes(const float (&out)[count], const float (&sums)[2],
                                            int lane, uint32_t shared, const OutMap& map,
                                            const Attention& problem, int first_row, int head,
                                            int batch) {
    constexpr int kBoxes = (2 * count + OutBox::kDims - 1) / OutBox::kDims;
    const float weights[2] = {1.0f / quad_sum(sums[0]), 1.0f / quad_sum(sums[1])};
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
        if (box == 0) {
            wait_for_boxes<0>();  // those of the tile before
        } else if (box >= buffers) {
            wait_for_boxes<buffers - 1>();
        }
        const uint32_t buffer = shared + box % buffers * buffer_bytes;
        const int first_dim = box * OutBox::kDims;
        write_box<T>(out, weights, lane, box, buffer);
        if (map.valid) {
            ptx::fence_proxy_async();
            __syncwarp();
            if (lane == 0) {
                ptx::cp_async_bulk_tensor_4d_to_global(&map.map, buffer, first_dim, first_row, head,
                                                       batch);
                ptx::cp_async_bulk_commit_group();
            }
        } else {
            __syncwarp();
            Rows<T> rows = out_rows<T>(problem, batch, head, false);
            rows.first += first_dim * rows.dim_stride;
            rows.head_dim -= first_dim;
            store_rows<OutBox::kDims, OutBox::kRows>(buffer, rows, first_row, lane);
        }
    }
}

}  // namespace flashbench::cuda::sm90
