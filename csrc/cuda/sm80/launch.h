// Picks the tile for a problem and launches the kernel. Included by the dtype units only.
//
// Head dims are rounded up to the next one in the table; the extra dims are zeros. The best of those
// tried on an H200: `Few` while each of its blocks can have an SM to itself, `Small` while about all
// its blocks run at once, `Large` beyond that. Registers per thread are those of ptxas 13.0 for sm_80
// and sm_90a, without spills.
//
//   head dim  tile   rows x keys  warps  groups  stages  shared memory  registers
//         32  Few       32 x 256      8       4       1        34 KB     122, 117
//         32  Small     64 x 128      4       1       1        20 KB     142, 148
//         32  Large    128 x 128      4       1       2        40 KB     242, 242
//         64  Few       32 x 256      8       4       1        68 KB     147, 147
//         64  Short     64 x 64       4       1       1        24 KB     127, 128
//         64  Small     64 x 128      4       1       1        40 KB     168, 160
//         64  Large    128 x 64       4       1       2        48 KB     236, 238
//         96  Few       32 x 128      4       2       1        54 KB     178, 186
//         96  Small     64 x 128      4       1       1        60 KB     221, 223
//         96  Large    128 x 64       4       1       2        72 KB     251, 248
//        128  Few       32 x 128      4       2       1        72 KB     211, 204
//        128  Small     64 x 128      4       1       1        80 KB     241, 241
//        128  Large    128 x 64       4       1       1        64 KB     255, 255
//        192  Few       32 x 96       4       2       1        84 KB     249, 243
//        192  other     64 x 64       4       1       1        72 KB     252, 255
//        256  Few       32 x 64       4       2       1        80 KB     255, 255
//        256  other     64 x 64       4       1       1        96 KB     246, 250
//
// Short is taken for up to 128 keys, or 1023 if causal. Where few heads have many keys, several blocks divide the
// keys of each tile ("splits"), if the call has scratch memory and writes no lse: those of Few if they leave
// half of their places empty; from 1280 keys on (960 above head dim 128) those of the largest tile that has one
// block for every three SMs. Splits take up to 4 registers more.
//
// Every tile fits the 99 KB that a block may have on sm_86 and sm_89. Small and Large are designed for
// two blocks per SM (Small up to head dim 64 for three). sm_80 has 164 KB per SM, enough except at head
// dim 256; sm_86 and sm_89 have 100 KB and run one block per SM of tiles with more than 48 KB.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "../../attention.h"
#include "../constants.h"
#include "../device.h"
#include "../rows.h"
#include "kernel.h"
#include "merge_kernel.h"

namespace flashbench::cuda::sm80 {

// MmaTile arguments: dtype, head dim, rows, keys, warps, blocks per SM, whether Q stays in registers,
// stages, groups.
template <typename T, int head_dim>
struct Tiles;
template <typename T>
struct Tiles<T, 32> {
    using Few = MmaTile<T, 32, 32, 256, 8, 1, true, 1, 4>;
    using Small = MmaTile<T, 32, 64, 128, 4, 3, true>;
    using Large = MmaTile<T, 32, 128, 128, 4, 2, false, 2>;
};
template <typename T>
struct Tiles<T, 64> {
    using Few = MmaTile<T, 64, 32, 256, 8, 1, true, 1, 4>;
    using Short = MmaTile<T, 64, 64, 64, 4, 4, true>;
    using Small = MmaTile<T, 64, 64, 128, 4, 3, true>;
    using Large = MmaTile<T, 64, 128, 64, 4, 2, true, 2>;
};
template <typename T>
struct Tiles<T, 96> {
    using Few = MmaTile<T, 96, 32, 128, 4, 2, true, 1, 2>;
    using Small = MmaTile<T, 96, 64, 128, 4, 2, true>;
    using Large = MmaTile<T, 96, 128, 64, 4, 2, false, 2>;
};
template <typename T>
struct Tiles<T, 128> {
    using Few = MmaTile<T, 128, 32, 128, 4, 2, true, 1, 2>;
    using Small = MmaTile<T, 128, 64, 128, 4, 2, true>;
    using Large = MmaTile<T, 128, 128, 64, 4, 2, false>;
};
template <typename T>
struct Tiles<T, 192> {
    using Few = MmaTile<T, 192, 32, 96, 4, 1, true, 1, 2>;
    using Small = MmaTile<T, 192, 64, 64, 4, 2, true>;
    using Large = Small;
};
template <typename T>
struct Tiles<T, 256> {
    using Few = MmaTile<T, 256, 32, 64, 4, 1, false, 1, 2>;
    using Small = MmaTile<T, 256, 64, 64, 4, 2, false>;
    using Large = Small;
};

// Tiles of one head.
template <typename Tile>
int64_t tiles_of(const Attention& problem) {
    return (problem.q_len + Tile::kRows - 1) / Tile::kRows;
}

template <typename Tile>
int64_t blocks_of(const Attention& problem) {
    return tiles_of<Tile>(problem) * problem.batch * problem.heads;
}

// Query rows of the SM with the most blocks.
template <typename Tile>
int64_t rows_of_busiest(const Attention& problem, int64_t multiprocessors) {
    const int64_t at_once = multiprocessors * Tile::kBlocksPerSm;
    return (blocks_of<Tile>(problem) + at_once - 1) / at_once * Tile::kBlocksPerSm * Tile::kRows;
}

template <typename Tile>
Launch arguments_of(const Attention& problem) {
    Launch arguments{};
    arguments.problem = problem;
    arguments.tiles = static_cast<int>(tiles_of<Tile>(problem));
    arguments.in_vectors = in_vectors(problem);
    arguments.splits = 1;
    return arguments;
}

template <typename Tile>
void launch(const Attention& problem, int device, cudaStream_t stream) {
    if constexpr (Tile::kSharedBytes > kDefaultSharedBytes) {
        allow_shared_bytes(reinterpret_cast<const void*>(forward<Tile, false>),
                           Tile::kSharedBytes, device);
    }
    const Launch arguments = arguments_of<Tile>(problem);
    const int64_t blocks = blocks_of<Tile>(problem);
    if (blocks > std::numeric_limits<int>::max()) {
        throw std::invalid_argument("batch * heads * q_len is too large for one CUDA grid");
    }
    forward<Tile, false>
        <<<static_cast<unsigned>(blocks), Tile::kThreads, Tile::kSharedBytes, stream>>>(arguments);
    check(cudaGetLastError());
}

// Splits of one head's tiles have about this many keys or more, and two tiles of keys.
constexpr int64_t kSplitKeys = 256;
// The fewest keys for which splits of larger tiles than Few pay. With 1000 and head dims to 128 they take as long, or
// longer.
template <int head_dim>
constexpr int64_t kManyKeys = head_dim > 128 ? 960 : 1280;

// The blocks that divide a tile's keys, so that all run at once.
template <typename Tile>
int64_t splits_of(const Attention& problem, int device) {
    const int64_t most = std::min((problem.k_len + kSplitKeys - 1) / kSplitKeys,
                                  (problem.k_len + 2 * Tile::kKeys - 1) / (2 * Tile::kKeys));
    if (most < 2) {
        return 1;
    }
    const int64_t at_once =
        allow_clusters(reinterpret_cast<const void*>(forward<Tile, true>), Tile::kThreads,
                       [](int) { return Tile::kSharedBytes; }, device)
            .of[1];
    return std::min(at_once / blocks_of<Tile>(problem), most);
}

// False, and launches nothing, if the keys are not to be divided.
template <typename Tile>
bool launch_splits(const Attention& problem, const Scratch& scratch, int device,
                   cudaStream_t stream) {
    const int64_t splits = splits_of<Tile>(problem, device);
    if (splits < 2) {
        return false;
    }
    const int64_t rows = problem.batch * problem.heads * problem.q_len;
    const int64_t floats = splits * rows * Tile::kHeadDim;
    auto* memory =
        static_cast<float*>(scratch(floats * sizeof(float) + splits * rows * sizeof(float2)));
    if (memory == nullptr) {
        return false;
    }
    Launch arguments = arguments_of<Tile>(problem);
    arguments.splits = static_cast<int>(splits);
    arguments.partial_values = memory;
    arguments.partial_statistics = reinterpret_cast<float2*>(memory + floats);
    const dim3 grid(static_cast<unsigned>(blocks_of<Tile>(problem)), static_cast<unsigned>(splits));
    forward<Tile, true><<<grid, Tile::kThreads, Tile::kSharedBytes, stream>>>(arguments);
    check(cudaGetLastError());
    const int64_t quads = rows * (Tile::kHeadDim / 4);
    const auto merge_blocks = static_cast<unsigned>((quads + kMergeThreads - 1) / kMergeThreads);
    merge_splits<typename Tile::Type, Tile::kHeadDim>
        <<<merge_blocks, kMergeThreads, 0, stream>>>(arguments);
    check(cudaGetLastError());
    return true;
}

// Whether splits of a larger tile than Few pay, of which the next smaller one has `smaller_rows`.
template <typename Tile, int smaller_rows>
bool takes_splits(const Attention& problem, int64_t multiprocessors) {
    return problem.k_len >= kManyKeys<Tile::kHeadDim> && problem.q_len > smaller_rows &&
           3 * blocks_of<Tile>(problem) >= multiprocessors;
}

template <typename T, int head_dim>
void launch_head_dim(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    using Few = typename Tiles<T, head_dim>::Few;
    using Small = typename Tiles<T, head_dim>::Small;
    using Large = typename Tiles<T, head_dim>::Large;
    const int device = current_device();
    const int64_t multiprocessors = device_at(device).multiprocessors;
    // A Hopper GPU that has its own kernels comes here with few keys, or with a scale that those do not take.
    if (!device_at(device).takes_sm90 && problem.lse == nullptr) {
        if ((takes_splits<Large, Small::kRows>(problem, multiprocessors) &&
             launch_splits<Large>(problem, scratch, device, stream)) ||
            (takes_splits<Small, Few::kRows>(problem, multiprocessors) &&
             launch_splits<Small>(problem, scratch, device, stream)) ||
            (blocks_of<Few>(problem) <= multiprocessors &&
             launch_splits<Few>(problem, scratch, device, stream))) {
            return;
        }
    }
    if (blocks_of<Few>(problem) <= multiprocessors) {
        launch<Few>(problem, device, stream);
        return;
    }
    if constexpr (head_dim == 64) {
        if (problem.k_len <= 128 || (problem.causal && problem.k_len < 1024)) {
            launch<typename Tiles<T, head_dim>::Short>(problem, device, stream);
            return;
        }
    }
    // Causal blocks differ in length, and the more rows they have, the longer the last ones run alone.
    // Without a mask, or with one tile of Large a head, Large takes about a sixth less time per row, a quarter at
    // head dim 128, unless more of its last round is empty.
    const int64_t at_once = multiprocessors * Small::kBlocksPerSm;
    constexpr int kSmallCost = head_dim == 128 ? 4 : 6;
    constexpr int kLargeCost = head_dim == 128 ? 3 : 5;
    const bool small = problem.causal && problem.q_len > Large::kRows
                           ? blocks_of<Small>(problem) <= 2 * at_once
                           : kSmallCost * rows_of_busiest<Small>(problem, multiprocessors) <
                                 kLargeCost * rows_of_busiest<Large>(problem, multiprocessors);
    if (small) {
        launch<Small>(problem, device, stream);
    } else {
        launch<Large>(problem, device, stream);
    }
}

template <typename T>
void forward_any(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    if (problem.head_dim <= 32) {
        launch_head_dim<T, 32>(problem, scratch, stream);
    } else if (problem.head_dim <= 64) {
        launch_head_dim<T, 64>(problem, scratch, stream);
    } else if (problem.head_dim <= 96) {
        launch_head_dim<T, 96>(problem, scratch, stream);
    } else if (problem.head_dim <= 128) {
        launch_head_dim<T, 128>(problem, scratch, stream);
    } else if (problem.head_dim <= 192) {
        launch_head_dim<T, 192>(problem, scratch, stream);
    } else {
        launch_head_dim<T, 256>(problem, scratch, stream);
    }
}

}  // namespace flashbench::cuda::sm80
