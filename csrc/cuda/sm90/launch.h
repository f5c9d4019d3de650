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
//         96            128 x 128          2        232         144 KB
//    72, 128            128 x 128          2        232         192 KB
//        192            128 x 96           2        232         192 KB
//        256  full      128 x 80           2        232         224 KB
//        256  causal    128 x 64           2        232         192 KB
//
// What the choices gained on an H200, bf16, as SDPA's time over ours: 128 rows at head dim 64 where
// they are predicted faster, 1,8,2048,64 from 0.83 / 0.88 to 1.03 / 1.04 (full / causal),
// 4,8,1024,64 from 0.84 / 1.16 to 1.01 / 1.39; the shorter blocks of causal calls, 4,16,1024,96
// from 1.15 to 1.37, 2,24,4096,96 from 1.27 to 1.31, 4,16,1024,256 from 1.03 to 1.15, 8,16,2048,256
// from 1.00 to 1.05. At head dim 128 96 keys lose 3 to 8 % of it. At head dim 96 176 keys gain 1 % in
// full calls of 4096 keys, and take 17 to 25 % longer where k_len is 128, 256 or 384.
//
// Rows of 72 elements are 144 bytes, which boxes of 32 elements take in badly: in boxes of 64, those of
// the tile for head dim 128, 2,16,4096,72 went from 0.91 to 1.06 and 4,16,1024,72 from 0.97 to 1.10.
// Short tails (tail.h) made 2,10,4096,64 1.12 from 0.97, 1,16,4096,64 1.11 from 1.05, 1,5,4096,128 1.48
// from 1.09 and 1,8,128,8192,64 3.77 from 0.96.
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
#include "sections.h"
#include "tail_kernel.h"
#include "tensor_map.h"

namespace flashbench::cuda::sm90 {

// All arguments but those of a tail, for `blocks` blocks of threads.
template <typename Tile>
Launch launch_arguments(const Attention& problem, int64_t tiles, int64_t blocks) {
    Launch arguments{};
    arguments.tensor_maps = encode_tensor_maps<Tile>(problem, arguments.query, arguments.key,
                                                     arguments.value);
    arguments.problem = problem;
    arguments.scale_log2 = problem.scale * kLog2E;
    arguments.tiles = static_cast<int>(tiles);
    arguments.heads = static_cast<int>(problem.batch * problem.heads);
    arguments.group = static_cast<int>(problem.heads / problem.kv_heads);
    arguments.section = static_cast<int>(heads_in_section(problem, tiles, blocks));
    arguments.rounds = static_cast<int>((arguments.section * tiles + blocks - 1) / blocks);
    arguments.out_vectors = in_vectors(problem).out;
    return arguments;
}

template <typename Tile>
void launch_forward(const Launch& arguments, int64_t blocks, cudaStream_t stream) {
    allow_shared_bytes(reinterpret_cast<const void*>(forward<Tile>), Shared<Tile>::kBytes,
                       current_device());
    forward<Tile><<<static_cast<unsigned>(blocks), Tile::kThreads, Shared<Tile>::kBytes, stream>>>(
        arguments);
    check(cudaGetLastError());
}

template <typename Tile>
Rounds rounds_of(const Attention& problem) {
    const int64_t tiles = (problem.q_len + Tile::kRows - 1) / Tile::kRows;
    const int64_t all = tiles * problem.batch * problem.heads;
    if (all > std::numeric_limits<int>::max() / 2) {
        throw std::invalid_argument("batch * heads * q_len is too large for one CUDA grid");
    }
    return {all, (problem.k_len + Tile::kKeys - 1) / Tile::kKeys, Tile::kKeys, Tile::kTailCost,
            device_at(current_device()).multiprocessors};
}

template <typename Tile>
void launch(const Attention& problem, cudaStream_t stream) {
    const Rounds rounds = rounds_of<Tile>(problem);
    const int64_t blocks = std::min(rounds.tiles, rounds.sms);
    const int64_t tiles = rounds.tiles / (problem.batch * problem.heads);
    launch_forward<Tile>(launch_arguments<Tile>(problem, tiles, blocks), blocks, stream);
}

// Full attention whose last round may be divided.
template <typename Tile>
void launch_full(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    const Rounds rounds = rounds_of<Tile>(problem);
    const int64_t values = rounds.parts() * Tile::kRows * Tile::kHeadDim / 4;
    const int64_t statistics = rounds.parts() * Tile::kConsumers * kWarpgroup;
    auto* memory = static_cast<float4*>(
        rounds.divide() ? scratch((values + statistics) * sizeof(float4)) : nullptr);
    if (memory == nullptr) {
        launch<Tile>(problem, stream);
        return;
    }
    using Divided = typename Tile::Divided;
    const int64_t tiles = rounds.tiles / (problem.batch * problem.heads);
    Launch arguments = launch_arguments<Divided>(problem, tiles, rounds.sms);
    arguments.rounds = static_cast<int>(rounds.whole());
    arguments.tail = {static_cast<int>(rounds.whole() * rounds.sms),
                      static_cast<int>(rounds.tail()),
                      static_cast<int>(rounds.blocks),
                      static_cast<int>(rounds.shares()),
                      memory,
                      memory + values};
    launch_forward<Divided>(arguments, rounds.sms, stream);

    // The blocks of the second kernel start while the first ends, and wait for it.
    cudaLaunchAttribute overlap{};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(rounds.tail() * Tile::kConsumers),
                          Tile::kHeadDim / kMergeDims);
    config.blockDim = dim3(kWarpgroup);
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = 1;
    check(cudaLaunchKernelEx(&config, merge_tail<Divided>, arguments));
}

// What a tile takes on an H200, in microseconds: `block` for each block of keys, and `tile` besides.
struct TileCost {
    double block;
    double tile;
};
struct Cost {
    TileCost full;
    TileCost causal;
    double launch;
};

// Microseconds that a launch takes: full tiles in rounds over the SMs; causal ones even each other out,
// but the longest takes its time.
template <typename Tile>
double predicted_time(const Attention& problem, const Cost& cost) {
    const Rounds rounds = rounds_of<Tile>(problem);
    const double all_blocks = static_cast<double>(rounds.blocks);
    if (!problem.causal) {
        const double last = rounds.tail() == 0 ? 0.0
                            : rounds.divide() ? static_cast<double>(rounds.divided_blocks())
                                              : all_blocks;
        const double blocks = static_cast<double>(rounds.whole()) * all_blocks + last;
        const int64_t tiles = rounds.whole() + (rounds.tail() > 0 ? 1 : 0);
        return cost.launch + blocks * cost.full.block +
               static_cast<double>(tiles) * cost.full.tile;
    }
    constexpr int rows = Tile::kRows;
    constexpr int keys = Tile::kKeys;
    const int64_t heads = problem.batch * problem.heads;
    const int64_t tiles = rounds.tiles / heads;
    // Tile i has those that all rows see, and as many as reach its last row, up to all of them.
    const double seen_by_all = static_cast<double>(problem.causal_offset) / keys;
    const double longest = std::min(all_blocks, static_cast<double>(tiles * rows) / keys + seen_by_all);
    const double most = longest - seen_by_all;
    const double growing = std::min(static_cast<double>(tiles), most * keys / rows);
    const double blocks = seen_by_all * static_cast<double>(tiles) +
                          most * (static_cast<double>(tiles) - growing / 2) +
                          0.5 * growing;  // the last block of a tile counts whole
    const auto [block, tile] = cost.causal;
    const double share = (blocks * block + static_cast<double>(tiles) * tile) *
                         static_cast<double>(heads) / static_cast<double>(rounds.sms);
    return cost.launch + std::max(share, longest * block + tile);
}

template <typename Tile>
void launch_either(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    problem.causal ? launch<Tile>(problem, stream) : launch_full<Tile>(problem, scratch, stream);
}

// Tiles of 192 rows take less time a row, tiles of 128 rows fill the SMs better.
template <typename T>
void forward_64(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    using Tile128 = Tile<T, 64, 2, 128>;
    using Tile192 = Tile<T, 64, 3, 128>;
    // Fitted to full 1,8,2048, 2,16,2048, 1,8,4096, 2,10,4096, 1,4,8192; causal 1,16,4096.
    constexpr Cost kCost192{{1.44, 0.3}, {1.44, 2.4}, 5.5};
    constexpr Cost kCost128{{1.16, 0.7}, {1.10, 1.2}, 4.5};
    if (predicted_time<Tile128>(problem, kCost128) < predicted_time<Tile192>(problem, kCost192)) {
        launch_either<Tile128>(problem, scratch, stream);
    } else {
        launch_either<Tile192>(problem, scratch, stream);
    }
}

template <typename T>
void forward_any(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    if (problem.head_dim <= 64) {
        forward_64<T>(problem, scratch, stream);
    } else if (problem.head_dim > 72 && problem.head_dim <= 96) {
        launch_either<Tile<T, 96, 2, 128>>(problem, scratch, stream);
    } else if (problem.head_dim <= 128) {
        launch_either<Tile<T, 128, 2, 128>>(problem, scratch, stream);
    } else if (problem.head_dim <= 192) {
        launch_either<Tile<T, 192, 2, 96>>(problem, scratch, stream);
    } else {
        problem.causal ? launch<Tile<T, 256, 2, 64>>(problem, stream)
                       : launch_full<Tile<T, 256, 2, 80>>(problem, scratch, stream);
    }
}

}  // namespace flashbench::cuda::sm90
