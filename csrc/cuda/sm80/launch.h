// Picks the tile for a problem and launches the kernel. Included by the dtype units only.
//
// Head dims are rounded up to 32, 64, 96, 128, 192 or 256; the dims past the real one are zeros.
// Two tiles each: the large one reads K and V from shared memory half as often a query, the small
// one makes enough blocks for the chip when there are few queries, and fits where the large one
// needs more shared memory than the chip has (99 KB on sm_86 and sm_89).
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "../../attention.h"
#include "../constants.h"
#include "../device.h"
#include "kernel.h"

namespace flashbench::cuda::sm80 {

//                                 dim  rows keys warps  Q in registers  blocks an SM
template <typename T, int head_dim>
struct Tiles;
template <typename T>
struct Tiles<T, 32> {
    using Large = Tile<T, 32, 128, 128, 4, true, 2>;
    using Small = Tile<T, 32, 64, 64, 4, true, 2>;
};
template <typename T>
struct Tiles<T, 64> {
    using Large = Tile<T, 64, 128, 64, 4, true, 2>;
    using Small = Tile<T, 64, 64, 64, 4, true, 2>;
};
template <typename T>
struct Tiles<T, 96> {
    using Large = Tile<T, 96, 128, 64, 4, false, 2>;
    using Small = Tile<T, 96, 64, 64, 4, true, 2>;
};
template <typename T>
struct Tiles<T, 128> {
    using Large = Tile<T, 128, 128, 64, 4, false, 2>;
    using Small = Tile<T, 128, 64, 64, 4, true, 2>;
};
template <typename T>
struct Tiles<T, 192> {
    using Large = Tile<T, 192, 128, 64, 8, false, 1>;
    using Small = Tile<T, 192, 64, 64, 4, false, 2>;
};
template <typename T>
struct Tiles<T, 256> {
    using Large = Tile<T, 256, 128, 64, 8, false, 1>;
    using Small = Tile<T, 256, 64, 64, 4, false, 2>;
};

// Every chunk of 8 dims contiguous, and 16-byte aligned in every row that exists.
inline bool moves_in_vectors(const void* base, const Strides& strides, int64_t batch, int64_t heads,
                             int64_t length) {
    const auto aligned = [](int64_t count, int64_t stride) {
        return count <= 1 || stride % kChunkElements == 0;
    };
    return strides.dim == 1 && reinterpret_cast<uintptr_t>(base) % kChunkBytes == 0 &&
           aligned(batch, strides.batch) && aligned(heads, strides.head) &&
           aligned(length, strides.seq);
}

template <typename Tile>
void launch(const Attention& problem, int device, cudaStream_t stream) {
    if constexpr (Tile::kSharedBytes > kDefaultSharedBytes) {
        // Once a device; setting it twice, should two threads race, does no harm.
        static std::atomic<uint64_t> allowed{0};
        const uint64_t bit = device < 64 ? uint64_t{1} << device : 0;
        if ((allowed.load() & bit) == 0) {
            check(cudaFuncSetAttribute(forward<Tile>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       Tile::kSharedBytes));
            allowed.fetch_or(bit);
        }
    }
    const int64_t tiles = (problem.q_len + Tile::kRows - 1) / Tile::kRows;
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
    const int index = current_device();
    const Device& device = device_at(index);
    const int64_t large_tiles =
        (problem.q_len + Large::kRows - 1) / Large::kRows * problem.batch * problem.heads;
    if (Large::kSharedBytes <= device.shared_bytes && large_tiles >= device.multiprocessors) {
        launch<Large>(problem, index, stream);
    } else {
        launch<Small>(problem, index, stream);
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
