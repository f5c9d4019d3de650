// Picks the tile for a problem with few query tiles and launches the kernel.
// Included by the dtype units only.
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
    const int64_t all_tiles = tiles * problem.batch * problem.heads;
    if (all_tiles > std::numeric_limits<int>::max()) {
        throw std::invalid_argument("batch * heads * q_len is too large for one CUDA grid");
    }
    const auto vectors = [&](const void* base, const Strides& strides, int64_t heads,
                             int64_t length) {
        return moves_in_vectors(base, strides, problem.batch, heads, length);
    };
    const SplitLaunch arguments{
        problem,
        problem.scale * kLog2E,
        static_cast<int>(tiles),
        vectors(problem.q, problem.q_strides, problem.heads, problem.q_len),
        vectors(problem.k, problem.k_strides, problem.kv_heads, problem.k_len),
        vectors(problem.v, problem.v_strides, problem.kv_heads, problem.k_len),
        vectors(problem.out, problem.out_strides, problem.heads, problem.q_len),
    };
    allow_shared_bytes(reinterpret_cast<const void*>(forward_split<Tile>), Tile::kSharedBytes,
                       device);
    forward_split<Tile><<<static_cast<unsigned>(all_tiles), Tile::kThreads, Tile::kSharedBytes,
                          stream>>>(arguments);
    check(cudaGetLastError());
}

template <typename T>
void forward_split_any(const Attention& problem, cudaStream_t stream) {
    if (problem.head_dim > 64) {
        launch_split<SplitTile<T, 128, 32, 64, 4>>(problem, stream);
    } else if (problem.k_len > 128) {
        launch_split<SplitTile<T, 64, 32, 128, 4>>(problem, stream);
    } else {
        launch_split<SplitTile<T, 64, 32, 32, 4>>(problem, stream);
    }
}

}  // namespace flashbench::cuda::sm90
