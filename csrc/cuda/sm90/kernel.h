// Forward attention with Hopper's own instructions (sm_90a): TMA copies and wgmma products.
//
// Method: FlashAttention-3 (Shah et al. 2024). A block of threads is one warpgroup that fetches
// (the producer) and two or three that compute (the consumers, 64 query rows each); they meet at
// mbarriers only. The producer gives most of its registers away. K and V pass through two buffers
// each; scores, probabilities and output stay in registers; exp is ex2 with scale * log2(e) folded
// in. A consumer issues Q K^T of the next block and P V of this one together and looks for the
// largest scores while P V ends, and the consumers take turns at issuing, so that the tensor cores
// go from one's products to the next's while the one is at its softmax. One block an SM walks over
// many tiles (tile_scheduler.h). Where Q has two buffers the tiles are one stream of blocks: the last
// P V of a tile runs beside the first scores of the next, and nothing waits while a tile is stored.
//
// NaN and infinity: keys past the end are zeros in shared memory and -inf in the scores, so they never
// count. But diagonal blocks contain causally masked keys, and 0 * NaN would let their V into rows that
// must not see it. Three warps of the producer scan V of those blocks before the consumers get it, and
// zero nonfinite values; the consumers add these at the end to the rows that do see them. A row whose
// scores are all -inf gives NaN, as a softmax does.
//
// What each step gained on an H200, bf16, as SDPA's (cuDNN's) time over ours, at 1,16,4096,128 full
// / causal and 1,16,4096,64 full / causal (CUDA-graph replays, interleaved; more in
// docs/lab/cuda-kernels.md):
//
//   the structure above, but softmax after P V, a block a tile   0.96 / 1.11   0.99 / 1.18
//   softmax beside P V                                           0.94 / 1.09   0.95 / 1.14
//   descriptors by one add, output rescaled only when the base
//     moves, output stored from registers, all heads one section 1.01 / 1.32   0.99 / 1.18
//   one block an SM that walks over the tiles                    1.04 / 1.39   1.02 / 1.24
//   blocks that no row of a warpgroup sees passed on             1.04 / 1.38   1.03 / 1.27
//   the tiles of a block as one stream                           1.04 / 1.39   1.01 / 1.26
//   P V awaited before the exponentials, packing beside them     1.07 / 1.44   1.03 / 1.28
//
// The stream gained most where tiles are short: 4,16,1024,128 went from 1.00 / 1.12 to 1.03 / 1.20,
// and to 1.06 / 1.23 with the step after it (head dims 96 and 192: 3 to 7 % together).
//
// Results went from registers to memory then; now they go by shared memory and TMA (out_boxes.h): 2 % at
// 1,16,4096,128 causal, up to 20 % with few keys.
//
// Then, the largest scores looked for only where one of a warp's may move a base (softmax.h; the bits of
// the results stay): 2,10,4096,64 went from 1.12 / 1.29 to 1.18 / 1.38, 2,32 (8 kv),8192,128 from
// 1.10 / 1.19 to 1.15 / 1.24.
#pragma once

#include <cuda_runtime.h>

#include "consumer.h"
#include "producer.h"
#include "tile.h"
#include "tile_scheduler.h"

namespace flashbench::cuda::sm90 {

template <typename Tile>
__device__ __forceinline__ void walk_over_tiles(const Launch& launch) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const Shared<Tile> shared{static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory))};
    if (threadIdx.x == 0) {
        shared.init_barriers();
    }
    if constexpr (Tile::kDivided) {
        ptx::griddepcontrol_launch_dependents();
    }
    __syncthreads();
    // The same in all lanes: the shuffle makes it provably warp-uniform.
    const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / kWarpgroup, 0);
    if (warpgroup == 0) {
        ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
        produce<Tile>(launch, shared);
    } else {
        ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
        consume<Tile>(launch, shared, warpgroup - 1);
    }
}

template <typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    forward(const __grid_constant__ Launch launch) {
    walk_over_tiles<Tile>(launch);
}

}  // namespace flashbench::cuda::sm90
