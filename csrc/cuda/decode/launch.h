// Picks tile and division for a problem and launches the kernels. Included by the dtype units only.
//
// Head dims are rounded up to the next one in the table; the extra dims are zeros and are not read. On
// Hopper, for up to 16 rows of a key head:
//
//   Many     up to 64 keys (a round of its groups); head dim 64 with more tiles than fit as Several
//   Several  more tiles than SMs: two blocks an SM, one computes while the other waits
//   Few      the keys of a block fit its rings, or half of them with more blocks than half of the SMs: all are
//            requested at once, by cp.async
//   Long     longer: eight warps an SM compute what TMA refills
//
// Other chips take Many for any number of rows (up to 16 to head dim 128, families.h). More rows on Hopper
// take the tile with the fewest that hold all rows of a key head, or several of the largest. K and V of
// Several and Long come by TMA if it supports their strides, else by cp.async, with the same bits. Where the
// head dim is the tile's, one copy brings whole rows: 0.4 to 3 % less time than a copy for each 64 dims.
// Registers are those of ptxas 13.0 for sm_90a, by TMA where there is, without spills; a causal mask takes
// up to 16 more.
//
//   head dim  tile     rows  groups x keys  stages  blocks an SM  shared memory  registers
//         64  Many       16      4 x 16          2             4          36 KB        114
//         64  Several    16      4 x 32          3             2          98 KB        121
//         64  Few16      16      4 x 64          2             1         130 KB        183
//         64  Long       16      8 x 64          1             1         130 KB        137
//         64  Few32      32      4 x 64          2             1         132 KB        150
//        128  Many       16      4 x 16          2             3          68 KB        168
//        128  Several    16      4 x 32          1             2          68 KB        185
//        128  Few16      16      4 x 32          2             1         132 KB        190
//        128  Long       16      8 x 32          1             1         132 KB        185
//        128  Few32      32      4 x 32          2             1         136 KB        191
//        128  Few64      64      2 x 64          2             1         144 KB        210
//        256  Several    16      4 x 16          1             2          74 KB        255
//        256  Few16      16      4 x 16          2             1         136 KB        255
//        256  Long       16      8 x 16          1             1         136 KB        255
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
#include "merge_kernel.h"
#include "split.h"

namespace flashbench::cuda::decode {

// Tile arguments: dtype, head dim, warps for rows, groups, keys, stages, blocks per SM, boxes.
template <typename T, int head_dim>
struct Tiles;
template <typename T>
struct Tiles<T, 64> {
    using Many = DecodeTile<T, 64, 1, 4, 16, 2, 4>;
    using Several = DecodeTile<T, 64, 1, 4, 32, 3, 2, true>;
    using Long = DecodeTile<T, 64, 1, 8, 64, 1, 1, true>;
    using Few16 = DecodeTile<T, 64, 1, 4, 64, 2, 1>;
    using Few32 = DecodeTile<T, 64, 2, 4, 64, 2, 1>;
    using Few64 = Few32;
};
template <typename T>
struct Tiles<T, 128> {
    using Many = DecodeTile<T, 128, 1, 4, 16, 2, 3>;
    using Several = DecodeTile<T, 128, 1, 4, 32, 1, 2, true>;
    using Long = DecodeTile<T, 128, 1, 8, 32, 1, 1, true>;
    using Few16 = DecodeTile<T, 128, 1, 4, 32, 2, 1>;
    using Few32 = DecodeTile<T, 128, 2, 4, 32, 2, 1>;
    using Few64 = DecodeTile<T, 128, 4, 2, 64, 2, 1>;
};
template <typename T>
struct Tiles<T, 256> {
    using Several = DecodeTile<T, 256, 1, 4, 16, 1, 2, true>;
    using Many = Several;
    using Long = DecodeTile<T, 256, 1, 8, 16, 1, 1, true>;
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

// K and V of less than this part of L2 stay there from one call to the next.
constexpr double kStaysInL2 = 0.875;
// L2 drops K and V first up to this many times its size: at 268 MB that gains or costs 2 %, at 537 MB it costs up to
// 9 % with what others had left in L2.
constexpr double kMostEvictedFirst = 8;

// The size of K and V, in that of L2.
inline double l2_share(const Attention& problem, const Device& device) {
    return 2.0 * static_cast<double>(problem.batch * problem.kv_heads * problem.k_len) *
           static_cast<double>(problem.head_dim * kElementBytes) / device.l2_bytes;
}

// Whether a head of K and V is one block's alone: `tiles` read it, and no other head is the same memory.
inline bool is_read_once(const Attention& problem, int64_t tiles) {
    const auto moves = [&](const Strides& strides) {
        return (problem.batch == 1 || strides.batch != 0) &&
               (problem.kv_heads == 1 || strides.head != 0);
    };
    return tiles == 1 && moves(problem.k_strides) && moves(problem.v_strides);
}

template <typename Tile, bool causal>
Division division_of(const Attention& problem, bool scratch) {
    const int index = current_device();
    const Device& device = device_at(index);
    return best_division({row_tiles<Tile>(problem) * problem.batch * problem.kv_heads,
                          rows_of_key_head(problem) * problem.batch * problem.kv_heads,
                          static_cast<int>(rounded_up(problem.k_len, Tile::kKeys)),
                          Tile::kStageBytes, device.multiprocessors,
                          clusters_at_once<Tile, causal>(index).of, scratch, Tile::kBlockRate,
                          l2_share(problem, device) > kStaysInL2});
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
    const double share = l2_share(problem, device_at(current_device()));
    arguments.evict_first = is_read_once(problem, tiles) && share > kStaysInL2 &&
                            share <= kMostEvictedFirst;

    auto kernel = reinterpret_cast<const void*>(forward_decode<Tile, causal, false>);
    if constexpr (Tile::kBoxes) {
        if (encode_keys_and_values<Tile>(problem, arguments)) {
            allow_clusters_of<Tile, causal, true>(current_device());
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
                      dim3(static_cast<unsigned>(batch_heads * rows)), kMergeThreads, 0,
                      cluster > 1 ? &overlap : nullptr, arguments, stream);
    }
}

template <typename Tile>
void launch(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    problem.causal ? launch_masked<Tile, true>(problem, scratch, stream)
                   : launch_masked<Tile, false>(problem, scratch, stream);
}

// Up to 16 rows on Hopper; see the table.
template <typename T, int head_dim>
void forward_few_rows(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    using Tile = Tiles<T, head_dim>;
    using Many = typename Tile::Many;
    using Several = typename Tile::Several;
    using Long = typename Tile::Long;
    using Few = typename Tile::Few16;
    const int index = current_device();
    const int64_t tiles = problem.batch * problem.kv_heads;
    if (tiles > device_at(index).multiprocessors) {
        const bool fits_many_alone = tiles > clusters_at_once<Several, false>(index).of[1] &&
                                     tiles <= clusters_at_once<Many, false>(index).of[1];
        head_dim == 64 && fits_many_alone ? launch<Many>(problem, scratch, stream)
                                          : launch<Several>(problem, scratch, stream);
        return;
    }
    if (!std::is_same_v<Many, Several> && problem.k_len <= Many::kGroups * Many::kKeys) {
        launch<Many>(problem, scratch, stream);
        return;
    }
    const Division division = problem.causal ? division_of<Long, true>(problem, true)
                                             : division_of<Long, false>(problem, true);
    // Where blocks on most SMs queue copies, those that fill the rings take longer by cp.async.
    const bool crowded = 2 * tiles * division.splits > device_at(index).multiprocessors;
    const int keys = division.most_steps() * Long::kKeys * (crowded ? 2 : 1);
    keys <= Few::kRingKeys ? launch<Few>(problem, scratch, stream)
                           : launch<Long>(problem, scratch, stream);
}

template <typename T, int head_dim>
void forward_head_dim(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    const int64_t rows = rows_of_key_head(problem);
    if (!device_at(current_device()).takes_sm90) {
        using Many = typename Tiles<T, head_dim>::Many;
        if constexpr (Many::kHopperOnly) {
            throw std::invalid_argument("decode takes head dims above 128 on Hopper GPUs alone");
        } else {
            launch<Many>(problem, scratch, stream);
        }
    } else if (rows <= 16) {
        forward_few_rows<T, head_dim>(problem, scratch, stream);
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
