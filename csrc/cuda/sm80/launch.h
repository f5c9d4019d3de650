// Picks the tile for a problem and launches the kernel. Included by the dtype units only.
//
// Head dims are rounded up to the next one of the table; the dims past the real one are zeros.
// `Small` is the best tile measured on an H200 while all its blocks run at once, `Large` the best
// one for more blocks than that. 4 warps each; registers a thread are what ptxas 13.0 says for
// sm_80 and sm_90a, without a spill; K and V have one buffer each beside Q.
//
//   head dim  tile   rows x keys  shared memory  registers
//         32  both      64 x 128        20 KB     148, 140
//         64  Small     64 x 128        40 KB     182, 188
//         64  Large     64 x 128        40 KB     168, 168
//         96  Small     64 x 128        60 KB     210, 214
//         96  Large    128 x 64         48 KB     238, 242
//        128  both      64 x 128        80 KB     234, 234
//        192  both      64 x 64         72 KB     247, 251
//        256  both      64 x 64         96 KB     245, 241
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <stdexcept>

#include "../../attention.h"
#include "../constants.h"
#include "../device.h"
#include "../rows.h"
#include "kernel.h"

namespace flashbench::cuda::sm80 {

// Tile arguments: dtype, head dim, rows, keys, warps, blocks an SM, whether Q stays in registers,
// whether K is requested before the softmax.
template <typename T, int head_dim>
struct Tiles;
template <typename T>
struct Tiles<T, 32> {
    using Small = Tile<T, 32, 64, 128, 4, 3, true, true>;
    using Large = Small;
};
template <typename T>
struct Tiles<T, 64> {
    using Small = Tile<T, 64, 64, 128, 4, 2, true, true>;
    using Large = Tile<T, 64, 64, 128, 4, 3, true, false>;
};
template <typename T>
struct Tiles<T, 96> {
    using Small = Tile<T, 96, 64, 128, 4, 2, true, true>;
    using Large = Tile<T, 96, 128, 64, 4, 2, false, false>;
};
template <typename T>
struct Tiles<T, 128> {
    using Small = Tile<T, 128, 64, 128, 4, 2, true, true>;
    using Large = Small;
};
template <typename T>
struct Tiles<T, 192> {
    using Small = Tile<T, 192, 64, 64, 4, 2, true, true>;
    using Large = Small;
};
template <typename T>
struct Tiles<T, 256> {
    using Small = Tile<T, 256, 64, 64, 4, 2, false, true>;
    using Large = Small;
};

// Tiles of one head.
template <typename Tile>
int64_t tiles_of(const Attention& problem) {
    return (problem.q_len + Tile::kRows - 1) / Tile::kRows;
}

template <typename Tile>
void launch(const Attention& problem, int device, cudaStream_t stream) {
    if constexpr (Tile::kSharedBytes > kDefaultSharedBytes) {
        allow_shared_bytes(reinterpret_cast<const void*>(forward<Tile>), Tile::kSharedBytes,
                           device);
    }
    const int64_t tiles = tiles_of<Tile>(problem);
    const int64_t blocks = tiles * problem.batch * problem.heads;
    if (blocks > std::numeric_limits<int>::max()) {
        throw std::invalid_argument("batch * heads * q_len is too large for one CUDA grid");
    }
    const auto vectors = [&](const void* base, const Strides& strides, int64_t heads,
                             int64_t length) {
        return moves_in_vectors(base, strides, problem.batch, heads, length);
    };
    const Launch arguments{
        problem,
        static_cast<int>(tiles),
        vectors(problem.q, problem.q_strides, problem.heads, problem.q_len),
        vectors(problem.k, problem.k_strides, problem.kv_heads, problem.k_len),
        vectors(problem.v, problem.v_strides, problem.kv_heads, problem.k_len),
        vectors(problem.out, problem.out_strides, problem.heads, problem.q_len),
    };
    forward<Tile><<<static_cast<unsigned>(blocks), Tile::kThreads, Tile::kSharedBytes, stream>>>(
        arguments);
    check(cudaGetLastError());
}

template <typename T, int head_dim>
void launch_head_dim(const Attention& problem, cudaStream_t stream) {
    using Large = typename Tiles<T, head_dim>::Large;
    using Small = typename Tiles<T, head_dim>::Small;
    const int device = current_device();
    // Causal blocks differ in length, and the more rows, the longer the last ones run alone.
    const int rounds = problem.causal ? Large::kRows / Small::kRows : 1;
    const int64_t at_once =
        int64_t{device_at(device).multiprocessors} * Small::kBlocksPerSm * rounds;
    if (tiles_of<Small>(problem) * problem.batch * problem.heads <= at_once) {
        launch<Small>(problem, device, stream);
    } else {
        launch<Large>(problem, device, stream);
    }
}

template <typename T>
void forward_any(const Attention& problem, cudaStream_t stream) {
    if (problem.head_dim <= 32) {
        launch_head_dim<T, 32>(problem, stream);
    } else if (problem.head_dim <= 64) {
        launch_head_dim<T, 64>(problem, stream);
    } else if (problem.head_dim <= 96) {
        launch_head_dim<T, 96>(problem, stream);
    } else if (problem.head_dim <= 128) {
        launch_head_dim<T, 128>(problem, stream);
    } else if (problem.head_dim <= 192) {
        launch_head_dim<T, 192>(problem, stream);
    } else {
        launch_head_dim<T, 256>(problem, stream);
    }
}

}  // namespace flashbench::cuda::sm80
