// Picks the tile for a problem with few query tiles and launches the kernel. Included by the dtype
// units only.
//
// Head dims are rounded up to the next one in the table. Registers are those of ptxas 13.0 for
// sm_90a, without spills. Measured on an H200, bf16, as SDPA's (cuDNN's) time over ours, full /
// causal (CUDA-graph replays), at 1,1,128,64 and 1,8,197,64 (128 keys a group instead of 64: 1.65 /
// 1.57), and 1,8,512,128, which the short kernels compute now.
//
//   head dim  keys      rows x keys x groups  registers  shared memory  measured
//         64  <= 128       32 x  32 x 4             126          37 KB  1.66 / 1.75
//         64   > 128       32 x  64 x 4             142          69 KB  1.78 / 1.72
//        128               32 x  64 x 4             186         137 KB  1.28 / 1.35
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <stdexcept>

#include "../../attention.h"
#include "../constants.h"
#include "../device.h"
#include "../rows.h"
#include "split_kernel.h"

namespace flashbench::cuda::sm90 {

template <typename Tile>
void launch_split(const Attention& problem, cudaStream_t stream) {
    const int device = current_device();
    const int64_t tiles = (problem.q_len + Tile::kRows - 1) / Tile::kRows;
    const int64_t batch_heads = problem.batch * problem.heads;
    if (batch_heads > std::numeric_limits<int>::max() || tiles > kMaxGridRows) {
        throw std::invalid_argument("batch * heads or q_len is too large for one CUDA grid");
    }
    const SplitLaunch arguments{
        problem,
        problem.scale * kLog2E,
        static_cast<unsigned>(problem.heads),
        static_cast<unsigned>(problem.heads / problem.kv_heads),
        in_vectors(problem),
    };
    allow_shared_bytes(reinterpret_cast<const void*>(forward_split<Tile>), Tile::kSharedBytes,
                       device);
    const dim3 grid(static_cast<unsigned>(batch_heads), static_cast<unsigned>(tiles));
    forward_split<Tile><<<grid, Tile::kThreads, Tile::kSharedBytes, stream>>>(arguments);
    check(cudaGetLastError());
}

template <typename T>
void forward_split_any(const Attention& problem, cudaStream_t stream) {
    if (problem.head_dim > 64) {
        launch_split<SplitTile<T, 128, 32, 64, 4>>(problem, stream);
    } else if (problem.k_len > 128) {
        launch_split<SplitTile<T, 64, 32, 64, 4>>(problem, stream);
    } else {
        launch_split<SplitTile<T, 64, 32, 32, 4>>(problem, stream);
    }
}

}  // namespace flashbench::cuda::sm90
