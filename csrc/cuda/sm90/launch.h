// Picks the tile for a head dim and launches the kernel. Included by the dtype units only.
//
// Head dims are rounded up to the next one of the table; the dims past the real one are zeros. Each
// block has one warpgroup more than the table says (the producer) and an SM to itself; K and V have
// two stages each, Q has two up to head dim 128. Registers are those of a consumer thread, 168 (128
// for three) at launch; nothing spills, as ptxas 13.0 says for sm_90a.
//
//   head dim          rows x keys  consumers  registers  shared memory
//         64            192 x 128          3        160         112 KB
//         64            128 x 128          2        232          96 KB
//         96  full      128 x 176          2        232         180 KB
//         96  causal    128 x 128          2        232         144 KB
//        128            128 x 128          2        232         192 KB
//        192            128 x 96           2        232         192 KB
//        256  full      128 x 80           2        232         224 KB
//        256  causal    128 x 64           2        232         192 KB
//
// What the choices gained on an H200, bf16, as SDPA's time over ours: 128 rows at head dim 64 where
// they are predicted faster, 1,8,2048,64 from 0.83 / 0.88 to 1.03 / 1.04 (full / causal),
// 4,8,1024,64 from 0.84 / 1.16 to 1.01 / 1.39; the shorter blocks of causal calls, 4,16,1024,96
// from 1.15 to 1.37, 2,24,4096,96 from 1.27 to 1.31, 4,16,1024,256 from 1.03 to 1.15, 8,16,2048,256
// from 1.00 to 1.05. At head dim 128 96 keys lose 3 to 8 % of it.
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
#include "tensor_map.h"

namespace flashbench::cuda::sm90 {

// Key heads of a causal section (see tile_scheduler.h): so few that several blocks share the keys of
// each.
constexpr int64_t kMinSectionHeads = 12;
constexpr int64_t kMaxSectionHeads = 32;
// A larger section has to save more than this share of the time.
constexpr double kWorthwhile = 0.03;

// What a section of `heads` takes: the longest tile of each of its rounds over the grid.
inline int64_t section_time(int64_t heads, int64_t tiles, int64_t blocks) {
    if (heads == 0) {
        return 0;
    }
    // first / heads and first % heads, without a division each: at 16k tokens these are most of what
    // a call costs the host.
    const int64_t step = blocks / heads;
    const int64_t step_rest = blocks % heads;
    int64_t time = 0;
    int64_t shorter = 0;
    int64_t rest = 0;
    while (shorter < tiles) {
        time += tiles - shorter;
        shorter += step;
        rest += step_rest;
        if (rest >= heads) {
            rest -= heads;
            ++shorter;
        }
    }
    return time;
}

// Query heads of a section; all of them, if they are few or short.
inline int64_t heads_in_section(const Attention& problem, int64_t tiles, int64_t blocks) {
    const int64_t all = problem.batch * problem.heads;
    const int64_t group = problem.heads / problem.kv_heads;
    constexpr int64_t kFewestTiles = 8;
    if (!problem.causal || tiles < kFewestTiles || all <= kMinSectionHeads * group) {
        return all;
    }
    const auto time_with = [&](int64_t heads) {
        return static_cast<double>(all / heads * section_time(heads, tiles, blocks) +
                                   section_time(all % heads, tiles, blocks));
    };
    int64_t best = kMinSectionHeads * group;
    double best_time = time_with(best);
    const int64_t most = std::min(all, kMaxSectionHeads * group);
    for (int64_t heads = best + group; heads <= most; heads += group) {
        const double time = time_with(heads);
        if (time < (1.0 - kWorthwhile) * best_time) {
            best = heads;
            best_time = time;
        }
    }
    return best;
}

template <typename Tile>
void launch(const Attention& problem, cudaStream_t stream) {
    const int device = current_device();
    const int64_t tiles = (problem.q_len + Tile::kRows - 1) / Tile::kRows;
    const int64_t total = tiles * problem.batch * problem.heads;
    if (total > std::numeric_limits<int>::max() / 2) {
        throw std::invalid_argument("batch * heads * q_len is too large for one CUDA grid");
    }
    Launch arguments;
    arguments.tensor_maps = encode_tensor_maps<Tile>(problem, arguments.query, arguments.key,
                                                     arguments.value);
    const int64_t blocks = std::min<int64_t>(total, device_at(device).multiprocessors);
    arguments.problem = problem;
    arguments.scale_log2 = problem.scale * kLog2E;
    arguments.tiles = static_cast<int>(tiles);
    arguments.heads = static_cast<int>(problem.batch * problem.heads);
    arguments.group = static_cast<int>(problem.heads / problem.kv_heads);
    arguments.section = static_cast<int>(heads_in_section(problem, tiles, blocks));
    arguments.rounds = static_cast<int>((arguments.section * tiles + blocks - 1) / blocks);
    arguments.out_vectors = in_vectors(problem).out;

    allow_shared_bytes(reinterpret_cast<const void*>(forward<Tile>), Shared<Tile>::kBytes, device);
    forward<Tile><<<static_cast<unsigned>(blocks), Tile::kThreads, Shared<Tile>::kBytes, stream>>>(
        arguments);
    check(cudaGetLastError());
}

// What a tile takes on an H200, in microseconds: `block` for each block of keys, `tile` besides,
// full or causal; and the launch.
struct Cost {
    double block;
    double tile_full;
    double tile_causal;
    double launch;
};

// Microseconds that a launch of tiles of `rows` x `keys` takes: full ones in rounds over the SMs;
// causal ones even each other out, but the longest takes its time.
inline double predicted_time(const Attention& problem, int rows, int keys, const Cost& cost) {
    const int64_t heads = problem.batch * problem.heads;
    const int64_t tiles = (problem.q_len + rows - 1) / rows;
    const int64_t all_blocks = (problem.k_len + keys - 1) / keys;
    const int64_t sms = device_at(current_device()).multiprocessors;
    if (!problem.causal) {
        const int64_t rounds = (heads * tiles + sms - 1) / sms;
        return cost.launch +
               static_cast<double>(rounds) *
                   (cost.tile_full + static_cast<double>(all_blocks) * cost.block);
    }
    // Tile i has as many blocks as reach its last row, up to all of them.
    const double longest = std::min(static_cast<double>(all_blocks),
                                    static_cast<double>(tiles * rows) / keys);
    const double growing = std::min(static_cast<double>(tiles), longest * keys / rows);
    const double blocks = longest * (static_cast<double>(tiles) - growing / 2) +
                          0.5 * growing;  // the last block of a tile counts whole
    const double tile = cost.tile_causal;
    const double share = (blocks * cost.block + static_cast<double>(tiles) * tile) *
                         static_cast<double>(heads) / static_cast<double>(sms);
    return cost.launch + std::max(share, longest * cost.block + tile);
}

// Tiles of 192 rows take less time a row, tiles of 128 rows fill the SMs better.
template <typename T>
void forward_64(const Attention& problem, cudaStream_t stream) {
    // Fitted to full 4,16,1024, 4,8,1024, 1,8,2048 and 1,16,4096; causal 1,16,4096.
    constexpr Cost kCost192{1.44, 0.3, 2.4, 5.5};
    constexpr Cost kCost128{1.10, 0.7, 1.2, 4.5};
    if (predicted_time(problem, 128, 128, kCost128) < predicted_time(problem, 192, 128, kCost192)) {
        launch<Tile<T, 64, 2, 128>>(problem, stream);
    } else {
        launch<Tile<T, 64, 3, 128>>(problem, stream);
    }
}

template <typename T>
void forward_any(const Attention& problem, cudaStream_t stream) {
    if (problem.head_dim <= 64) {
        forward_64<T>(problem, stream);
    } else if (problem.head_dim <= 96) {
        problem.causal ? launch<Tile<T, 96, 2, 128>>(problem, stream)
                       : launch<Tile<T, 96, 2, 176>>(problem, stream);
    } else if (problem.head_dim <= 128) {
        launch<Tile<T, 128, 2, 128>>(problem, stream);
    } else if (problem.head_dim <= 192) {
        launch<Tile<T, 192, 2, 96>>(problem, stream);
    } else {
        problem.causal ? launch<Tile<T, 256, 2, 64>>(problem, stream)
                       : launch<Tile<T, 256, 2, 80>>(problem, stream);
    }
}

}  // namespace flashbench::cuda::sm90
