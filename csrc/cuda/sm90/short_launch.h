// Launches the short kernel with the tile of a problem (short_shapes.h). Included by dtype units only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <stdexcept>

#include "../../attention.h"
#include "../constants.h"
#include "../device.h"
#include "../rows.h"
#include "out_boxes.h"
#include "short_kernel.h"
#include "short_section.h"
#include "short_shapes.h"
#include "tensor_map.h"

namespace flashbench::cuda::sm90 {

template <typename Tile>
void launch_short(const Attention& problem, cudaStream_t stream) {
    const int64_t tiles = (problem.q_len + Tile::kRows - 1) / Tile::kRows;
    const int64_t batch_heads = problem.batch * problem.heads;
    const int index = current_device();
    const Device& device = device_at(index);
    const int64_t section = short_section(problem, tiles, device.multiprocessors, device.l2_bytes);
    const ShortGrid grid = short_grid(section, batch_heads, tiles);
    if (grid.columns > std::numeric_limits<int>::max() / Tile::kCluster ||
        grid.rows > kMaxGridRows || grid.layers > kMaxGridRows) {
        throw std::invalid_argument("batch * heads or q_len is too large for one CUDA grid");
    }
    ShortLaunch arguments;
    arguments.tensor_maps = encode_tensor_maps<Tile>(problem, arguments.query, arguments.key,
                                                     arguments.value);
    if (Tile::kParts == 1) {
        encode_out(problem, arguments.out);
    }
    arguments.problem = problem;
    arguments.scale_log2 = problem.scale * kLog2E;
    arguments.q_len = static_cast<int>(problem.q_len);
    arguments.k_len = static_cast<int>(problem.k_len);
    arguments.heads = static_cast<unsigned>(problem.heads);
    arguments.heads_a_kv_head = static_cast<unsigned>(problem.heads / problem.kv_heads);
    arguments.tiles = static_cast<int>(tiles);
    arguments.batch_heads = static_cast<unsigned>(batch_heads);
    arguments.section = static_cast<unsigned>(section);
    arguments.in_vectors = in_vectors(problem);

    allow_shared_bytes(reinterpret_cast<const void*>(forward_short<Tile>), Tile::kSharedBytes,
                       index);
    cudaLaunchAttribute cluster;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {Tile::kCluster, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(grid.columns * Tile::kCluster),
                          static_cast<unsigned>(grid.rows), static_cast<unsigned>(grid.layers));
    config.blockDim = dim3(Tile::kThreads);
    config.dynamicSmemBytes = Tile::kSharedBytes;
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = Tile::kCluster > 1 ? 1 : 0;
    check(cudaLaunchKernelEx(&config, forward_short<Tile>, arguments));
}

template <typename T, int... numbers>
void launch_shape(ShortShape<numbers...>, const Attention& problem, cudaStream_t stream) {
    launch_short<ShortTile<T, numbers...>>(problem, stream);
}

template <typename T>
void forward_short_any(const Attention& problem, cudaStream_t stream) {
    take_short_shape(problem, device_at(current_device()).multiprocessors,
                     [&](auto shape) { launch_shape<T>(shape, problem, stream); });
}

}  // namespace flashbench::cuda::sm90
