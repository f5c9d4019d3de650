// Picks tile and division for a problem and launches the kernels. Included by the dtype units only.
//
// Head dims are rounded up to the next one in the table; the extra dims are zeros and are not read.
// `Few` is the tile with the fewest rows that hold all rows of a key head, or several of the largest.
// `Many`, small blocks that start while others run, is used if there are more tiles of 16 rows than SMs,
// unless these are long and leave much of the last round empty, and without clusters. Registers are
// those of ptxas 13.0 for sm_90a, without spills; a causal mask takes 5 to 16 more, but 19 fewer for 16
// rows of head dim 64.
//
//   head dim  tile   rows  groups x keys  stages  blocks an SM  shared memory  registers
//         64  Many     16      4 x 16          2             4          36 KB        112
//         64  Few      16      4 x 64          2             1         130 KB        183
//         64  Few      32      4 x 64          2             1         132 KB        148
//        128  Many     16      4 x 16          2             3          68 KB        168
//        128  Few      16      4 x 32          2             1         132 KB        189
//        128  Few      32      4 x 32          2             1         136 KB        190
//        128  Few      64      2 x 64          2             1         144 KB        209
//        256  Many     16      2 x 16          3             2         104 KB        255
//        256  Few      16      4 x 16          2             1         136 KB        255
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <stdexcept>

#include "../../attention.h"
#include "../constants.h"
#include "../device.h"
#include "../overlapped.h"
#include "../rows.h"
#include "kernel.h"
#include "merge_kernel.h"
#include "split.h"

namespace flashbench::cuda::decode {

// Tile arguments: dtype, head dim, warps for rows, groups, keys, stages, blocks per SM.
template <typename T, int head_dim>
struct Tiles;
template <typename T>
struct Tiles<T, 64> {
    using Many = DecodeTile<T, 64, 1, 4, 16, 2, 4>;
    using Few16 = DecodeTile<T, 64, 1, 4, 64, 2, 1>;
    using Few32 = DecodeTile<T, 64, 2, 4, 64, 2, 1>;
    using Few64 = Few32;
};
template <typename T>
struct Tiles<T, 128> {
    using Many = DecodeTile<T, 128, 1, 4, 16, 2, 3>;
    using Few16 = DecodeTile<T, 128, 1, 4, 32, 2, 1>;
    using Few32 = DecodeTile<T, 128, 2, 4, 32, 2, 1>;
    using Few64 = DecodeTile<T, 128, 4, 2, 64, 2, 1>;
};
template <typename T>
struct Tiles<T, 256> {
    using Many = DecodeTile<T, 256, 1, 2, 16, 3, 2>;
    using Few16 = DecodeTile<T, 256, 1, 4, 16, 2, 1>;
    using Few32 = Few16;
    using Few64 = Few16;
};

inline int64_t rows_of_key_head(const Attention& problem) {
    return problem.q_len * (problem.heads / problem.kv_heads);
}

template <typename Tile>
int64_t row_tiles(const Attention& problem) {
    return rounded_up(rows_of_key_head(problem), Tile::kRows);
}

template <typename Tile, bool causal>
const ClusterCounts& clusters_at_once(int device) {
    return allow_clusters(reinterpret_cast<const void*>(forward_decode<Tile, causal>),
                          Tile::kThreads, Tile::shared_bytes, device);
}

template <typename Tile, bool causal>
Division division_of(const Attention& problem, bool scratch) {
    const int device = current_device();
    const ClusterCounts& counts = clusters_at_once<Tile, causal>(device);
    return best_division({row_tiles<Tile>(problem) * problem.batch * problem.kv_heads,
                          static_cast<int>(rounded_up(problem.k_len, Tile::kKeys)), Tile::kGroups,
                          Tile::kGroups * Tile::kStageBytes, device_at(device).multiprocessors,
                          counts.of, scratch});
}

inline void launch_kernel(const void* kernel, dim3 grid, int threads, int shared_bytes,
                          cudaLaunchAttribute* attribute, DecodeLaunch& arguments,
                          cudaStream_t stream) {
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = dim3(static_cast<unsigned>(threads));
    config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
    config.stream = stream;
    config.attrs = attribute;
    config.numAttrs = attribute == nullptr ? 0 : 1;
    void* pointers[] = {&arguments};
    check(cudaLaunchKernelExC(&config, kernel, pointers));
}

template <typename Tile, bool causal>
void launch_masked(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    using T = typename Tile::Type;
    const int64_t batch_heads = problem.batch * problem.kv_heads;
    const int64_t rows = rows_of_key_head(problem);
    const int64_t tiles = row_tiles<Tile>(problem);
    if (batch_heads * rows > std::numeric_limits<int>::max()) {
        throw std::invalid_argument("batch * heads * q_len is too large for one CUDA grid");
    }
    DecodeLaunch arguments;
    arguments.problem = problem;
    arguments.division = division_of<Tile, causal>(problem, true);
    arguments.partial_values = nullptr;
    arguments.partial_statistics = nullptr;
    if (arguments.division.clusters() > 1) {
        const int64_t parts = batch_heads * rows * arguments.division.clusters();
        const int64_t floats = parts * Tile::kHeadDim;
        auto* memory = static_cast<float*>(
            scratch(floats * sizeof(float) + parts * sizeof(float2)));
        if (memory == nullptr) {
            arguments.division = division_of<Tile, causal>(problem, false);
        } else {
            arguments.partial_values = memory;
            arguments.partial_statistics = reinterpret_cast<float2*>(memory + floats);
        }
    }
    const int cluster = arguments.division.cluster;
    const int shared_bytes = Tile::shared_bytes(cluster);
    arguments.barrier_offset = shared_bytes - Tile::kBarrierBytes;
    arguments.scale_log2 = problem.scale * kLog2E;
    arguments.rows = static_cast<int>(rows);
    arguments.seen_by_all = static_cast<int>(problem.causal_offset) + 1;
    arguments.row_tiles = static_cast<unsigned>(tiles);
    arguments.kv_heads = static_cast<unsigned>(problem.kv_heads);
    arguments.group = static_cast<unsigned>(problem.heads / problem.kv_heads);
    arguments.in_vectors = in_vectors(problem);

    cudaLaunchAttribute clusters;
    clusters.id = cudaLaunchAttributeClusterDimension;
    clusters.val.clusterDim = {1, static_cast<unsigned>(cluster), 1};
    launch_kernel(reinterpret_cast<const void*>(forward_decode<Tile, causal>),
                  dim3(static_cast<unsigned>(batch_heads * tiles),
                       static_cast<unsigned>(arguments.division.splits)),
                  Tile::kThreads, shared_bytes, cluster > 1 ? &clusters : nullptr, arguments,
                  stream);
    if (arguments.partial_values != nullptr) {
        // Chips with clusters also have griddepcontrol: the second kernel's blocks start while the first
        // kernel ends, and wait for it.
        cudaLaunchAttribute overlap = overlap_attribute();
        launch_kernel(reinterpret_cast<const void*>(merge_partials<T, Tile::kHeadDim>),
                      dim3(static_cast<unsigned>(batch_heads * rows)), kMergeThreads, 0,
                      cluster > 1 ? &overlap : nullptr, arguments, stream);
    }
}

template <typename Tile>
void launch(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    problem.causal ? launch_masked<Tile, true>(problem, scratch, stream)
                   : launch_masked<Tile, false>(problem, scratch, stream);
}

// Whether `tiles` of 16 rows, more than there are SMs, run faster in the small blocks; see the table.
template <typename Many, typename Few>
bool many_are_better(const Attention& problem, int64_t tiles, int device) {
    const int64_t bytes = 2 * problem.k_len * problem.head_dim * kElementBytes;
    const int64_t many = clusters_at_once<Many, false>(device).of[1];
    const int64_t few = clusters_at_once<Few, false>(device).of[1];
    const auto filled_percent = [tiles](int64_t at_once) {
        return 100 * tiles / (rounded_up(tiles, at_once) * at_once);
    };
    return tiles <= many || bytes < 512 << 10 || filled_percent(few) <= filled_percent(many) + 15;
}

template <typename T, int head_dim>
void forward_head_dim(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    using Many = typename Tiles<T, head_dim>::Many;
    using Few = typename Tiles<T, head_dim>::Few16;
    const int index = current_device();
    const Device& device = device_at(index);
    const int64_t rows = rows_of_key_head(problem);
    const int64_t tiles = rounded_up(rows, 16) * problem.batch * problem.kv_heads;
    if (device.compute_capability != 90 ||
        (rows <= 16 && tiles > device.multiprocessors &&
         many_are_better<Many, Few>(problem, tiles, index))) {
        launch<Many>(problem, scratch, stream);
    } else if (rows <= 16) {
        launch<Few>(problem, scratch, stream);
    } else if (rows <= 32) {
        launch<typename Tiles<T, head_dim>::Few32>(problem, scratch, stream);
    } else {
        launch<typename Tiles<T, head_dim>::Few64>(problem, scratch, stream);
    }
}

template <typename T>
void forward_any(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    if (problem.head_dim <= 64) {
        forward_head_dim<T, 64>(problem, scratch, stream);
    } else if (problem.head_dim <= 128) {
        forward_head_dim<T, 128>(problem, scratch, stream);
    } else {
        forward_head_dim<T, 256>(problem, scratch, stream);
    }
}

}  // namespace flashbench::cuda::decode
