// Picks the tile for a problem and launches the kernel. Included by the dtype units only.
//
// Head dims are rounded up to 64 or 128; the extra dims are zeros. A tile has 64 query rows; `keys` is
// the number that a warpgroup takes at a time. Registers are those of ptxas 13.0 for sm_90a, without
// spills. "At once": the tiles of all heads are no more than the SMs.
//
//   head dim  when                              keys  groups  cluster  registers  shared memory
//         64  k_len > 256, tiles at once;
//             k_len > 1024                       128       2        2        122         105 KB
//         64  k_len <= 64; 128 if causal          64       1        1         96          24 KB
//         64  k_len <= 112; full and 129 to 224  112       1        1        116          36 KB
//         64  else                               128       1        1        124          40 KB
//        128  k_len > 256, half as many at once  128       2        2        154         209 KB
//        128  k_len > 256, tiles at once;
//             k_len > 128, half as many at once  128       1        2        154         113 KB
//        128  full, k_len 65 to 112, 129 to 224  112       1        1        146          72 KB
//        128  else                                64       1        1        129          48 KB
//
// Measured on an H200, bf16, full / causal, CUDA-graph replays, SDPA's (cuDNN's) time over ours:
// 1,8,512,64 1.73 / 1.78, 8,12,197,64 1.68 / 1.61, 16,16,256,64 1.12 / 1.19,
// 4,16,1024,64 1.04 / 1.22, 1,1,4096,64 2.47 / 2.58, 1,8,512,128 1.63 / 1.79,
// 8,12,197,128 1.42 / 1.36.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <stdexcept>

#include "../../attention.h"
#include "../constants.h"
#include "../device.h"
#include "../rows.h"
#include "short_kernel.h"
#include "tensor_map.h"

namespace flashbench::cuda::sm90 {

// While all K and V fit in L2, the tiles of one head need not run together, and short and long ones mix
// better.
constexpr int64_t kHeadsFirstBytes = int64_t{24} << 20;

template <typename Tile>
void launch_short(const Attention& problem, cudaStream_t stream) {
    const int64_t tiles = (problem.q_len + Tile::kRows - 1) / Tile::kRows;
    const int64_t batch_heads = problem.batch * problem.heads;
    const int64_t kv_bytes = 2 * problem.batch * problem.kv_heads * problem.k_len *
                             problem.head_dim * kElementBytes;
    const bool heads_first = tiles <= kMaxGridRows &&
                             (kv_bytes <= kHeadsFirstBytes || batch_heads > kMaxGridRows);
    const int64_t grid_columns = (heads_first ? batch_heads : tiles) * Tile::kCluster;
    const int64_t grid_rows = heads_first ? tiles : batch_heads;
    if (grid_columns > std::numeric_limits<int>::max() || grid_rows > kMaxGridRows) {
        throw std::invalid_argument("batch * heads or q_len is too large for one CUDA grid");
    }
    ShortLaunch arguments;
    arguments.tensor_maps = encode_tensor_maps<Tile>(problem, arguments.query, arguments.key,
                                                     arguments.value);
    arguments.problem = problem;
    arguments.scale_log2 = problem.scale * kLog2E;
    arguments.q_len = static_cast<int>(problem.q_len);
    arguments.k_len = static_cast<int>(problem.k_len);
    arguments.heads = static_cast<unsigned>(problem.heads);
    arguments.heads_a_kv_head = static_cast<unsigned>(problem.heads / problem.kv_heads);
    arguments.tiles = static_cast<int>(tiles);
    arguments.heads_first = heads_first;
    arguments.in_vectors = in_vectors(problem);

    allow_shared_bytes(reinterpret_cast<const void*>(forward_short<Tile>), Tile::kSharedBytes,
                       current_device());
    cudaLaunchAttribute cluster;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {Tile::kCluster, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(grid_columns), static_cast<unsigned>(grid_rows));
    config.blockDim = dim3(Tile::kThreads);
    config.dynamicSmemBytes = Tile::kSharedBytes;
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = Tile::kCluster > 1 ? 1 : 0;
    check(cudaLaunchKernelEx(&config, forward_short<Tile>, arguments));
}

// See the table above.
template <typename T>
void forward_short_any(const Attention& problem, cudaStream_t stream) {
    const int64_t keys = problem.k_len;
    const int64_t multiprocessors = device_at(current_device()).multiprocessors;
    const int64_t tiles = (problem.q_len + 63) / 64 * problem.batch * problem.heads;
    const bool half_at_once = 2 * tiles <= multiprocessors;
    const bool at_once = tiles <= multiprocessors;
    const bool pairs_of_112 = !problem.causal && keys > 128 && keys <= 224;
    if (problem.head_dim <= 64) {
        if (keys > 1024 || (keys > 256 && at_once)) {
            launch_short<ShortTile<T, 64, 128, 2, 2, 1>>(problem, stream);
        } else if (keys <= 64 || (problem.causal && keys <= 128)) {
            launch_short<ShortTile<T, 64, 64, 1, 1, 5>>(problem, stream);
        } else if (keys <= 112 || pairs_of_112) {
            launch_short<ShortTile<T, 64, 112, 1, 1, 4>>(problem, stream);
        } else {
            launch_short<ShortTile<T, 64, 128, 1, 1, 4>>(problem, stream);
        }
    } else {
        if (keys > 256 && half_at_once) {
            launch_short<ShortTile<T, 128, 128, 2, 2, 1>>(problem, stream);
        } else if ((keys > 256 && at_once) || (keys > 128 && half_at_once)) {
            launch_short<ShortTile<T, 128, 128, 1, 2, 2>>(problem, stream);
        } else if (pairs_of_112 || (!problem.causal && keys > 64 && keys <= 112)) {
            launch_short<ShortTile<T, 128, 112, 1, 1, 3>>(problem, stream);
        } else {
            launch_short<ShortTile<T, 128, 64, 1, 1, 3>>(problem, stream);
        }
    }
}

}  // namespace flashbench::cuda::sm90
