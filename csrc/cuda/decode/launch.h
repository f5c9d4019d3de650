// Divides the keys of a problem for a tile and launches its kernels.
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
#include "../sm90/tensor_map.h"
#include "kernel.h"
#include "l2.h"
#include "merge_kernel.h"
#include "split.h"

namespace flashbench::cuda::decode {

inline int64_t rows_of_key_head(const Attention& problem) {
    return problem.q_len * (problem.heads / problem.kv_heads);
}

template <typename Tile>
int64_t row_tiles(const Attention& problem) {
    return rounded_up(rows_of_key_head(problem), Tile::kRows);
}

template <typename Tile, bool causal, bool tensor_maps>
const ClusterCounts& allow_clusters_of(int device) {
    return allow_clusters(reinterpret_cast<const void*>(forward_decode<Tile, causal, tensor_maps>),
                          Tile::kThreads, Tile::shared_bytes, device);
}

// Counts are those of cp.async's kernel, so that the division does not depend on strides.
template <typename Tile, bool causal>
const ClusterCounts& clusters_at_once(int device) {
    return allow_clusters_of<Tile, causal, false>(device);
}

template <typename Tile, bool causal>
Division division_of(const Attention& problem, bool scratch) {
    const int index = current_device();
    const Device& device = device_at(index);
    const int64_t key_heads = problem.batch * problem.kv_heads;
    const int64_t readers = row_tiles<Tile>(problem);
    constexpr int kDim = Tile::kHeadDim;
    constexpr int kBlocks = Tile::kBlocksPerSm;
    const double block_rate = device.takes_sm90
                                  ? cost::block_rate(kDim, Tile::kRows / 16, readers)
                                  : cost::other_block_rate(kDim, kBlocks);
    const double memory_rate = device.takes_sm90 ? cost::memory_rate(kDim, kBlocks)
                                                 : cost::other_memory_rate(kDim, kBlocks);
    return best_division({readers * key_heads, rows_of_key_head(problem) * key_heads, readers,
                          static_cast<int>(rounded_up(problem.k_len, Tile::kKeys)),
                          Tile::kStageBytes, device.multiprocessors,
                          clusters_at_once<Tile, causal>(index).of, scratch, block_rate,
                          come_from_memory(problem, device.l2_bytes) ? memory_rate : 0.0});
}

// Describes K and V for TMA if the tile takes it and the chip supports their strides.
template <typename Tile>
bool encode_keys_and_values(const Attention& problem, DecodeLaunch& arguments) {
#ifdef FLASHBENCH_CUDA_SM90
    if constexpr (Tile::kBoxes) {
        arguments.whole_rows = problem.head_dim == Tile::kHeadDim;
        const auto encode = [&](CUtensorMap& map, const void* base, const Strides& strides) {
            const sm90::TensorView view{base,
                                        strides,
                                        problem.batch,
                                        problem.kv_heads,
                                        problem.k_len,
                                        problem.head_dim,
                                        problem.dtype,
                                        Tile::Keys::kDims,
                                        Tile::kKeys};
            return arguments.whole_rows ? sm90::encode_whole_rows(view, map)
                                        : sm90::encode_tensor_map(view, map);
        };
        return device_at(current_device()).takes_sm90 &&
               encode(arguments.key, problem.k, problem.k_strides) &&
               encode(arguments.value, problem.v, problem.v_strides);
    }
#endif
    static_cast<void>(problem);
    static_cast<void>(arguments);
    return false;
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

    auto kernel = reinterpret_cast<const void*>(forward_decode<Tile, causal, false>);
    if constexpr (Tile::kBoxes) {
        if (encode_keys_and_values<Tile>(problem, arguments)) {
            const int device = current_device();
            arguments.evict_first = are_evicted_first(problem, tiles, device_at(device).l2_bytes);
            allow_clusters_of<Tile, causal, true>(device);
            kernel = reinterpret_cast<const void*>(forward_decode<Tile, causal, true>);
        }
    }
    cudaLaunchAttribute clusters;
    clusters.id = cudaLaunchAttributeClusterDimension;
    clusters.val.clusterDim = {1, static_cast<unsigned>(cluster), 1};
    launch_kernel(kernel,
                  dim3(static_cast<unsigned>(batch_heads * tiles),
                       static_cast<unsigned>(arguments.division.splits)),
                  Tile::kThreads, shared_bytes, cluster > 1 ? &clusters : nullptr, arguments,
                  stream);
    if (arguments.partial_values != nullptr) {
        // Chips with clusters also have griddepcontrol: the second kernel's blocks start while the first
        // kernel ends, and wait for it.
        cudaLaunchAttribute overlap = overlap_attribute();
        launch_kernel(reinterpret_cast<const void*>(merge_partials<T, Tile::kHeadDim>),
                      dim3(static_cast<unsigned>(batch_heads * rows)),
                      merge_threads(Tile::kHeadDim, arguments.division.clusters()), 0,
                      cluster > 1 ? &overlap : nullptr, arguments, stream);
    }
}

template <typename Tile>
void launch(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    problem.causal ? launch_masked<Tile, true>(problem, scratch, stream)
                   : launch_masked<Tile, false>(problem, scratch, stream);
}

}  // namespace flashbench::cuda::decode
