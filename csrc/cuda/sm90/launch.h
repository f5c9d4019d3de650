// Launches the kernel of a tile.
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
#include "cost.h"
#include "kernel.h"
#include "out_boxes.h"
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
    encode_out(problem, arguments.out);
    arguments.problem = problem;
    arguments.scale_log2 = problem.scale * kLog2E;
    arguments.tiles = static_cast<int>(tiles);
    arguments.heads = static_cast<int>(problem.batch * problem.heads);
    arguments.group = static_cast<int>(problem.heads / problem.kv_heads);
    const Sections sections =
        sections_of(problem, tiles, blocks, device_at(current_device()).l2_bytes);
    arguments.section = static_cast<int>(sections.heads);
    arguments.by_head = sections.by_head;
    arguments.rest = static_cast<int>(sections.rest);
    arguments.slots = static_cast<int>(sections.by_head ? sections.heads * tiles : blocks);
    arguments.rounds = static_cast<int>((sections.heads * tiles + arguments.slots - 1) /
                                        arguments.slots);
    arguments.out_vectors = in_vectors(problem).out;
    return arguments;
}

template <typename Tile>
void launch_kernel(void (*kernel)(Launch), const Launch& arguments, int64_t blocks,
                   cudaStream_t stream) {
    allow_shared_bytes(reinterpret_cast<const void*>(kernel), Shared<Tile>::kBytes,
                       current_device());
    kernel<<<static_cast<unsigned>(blocks), Tile::kThreads, Shared<Tile>::kBytes, stream>>>(
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
    launch_kernel<Tile>(forward<Tile>, launch_arguments<Tile>(problem, tiles, blocks), blocks,
                        stream);
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
                      static_cast<int>(rounds.tail() * rounds.blocks),
                      0,
                      static_cast<int>(rounds.shares()),
                      memory,
                      memory + values};
    launch_kernel<Divided>(forward<Divided>, arguments, rounds.sms, stream);
    launch_merge<Divided>(arguments, stream);
}

template <typename Tile>
void launch_either(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    problem.causal ? launch<Tile>(problem, stream) : launch_full<Tile>(problem, scratch, stream);
}

// The tile that is predicted to be faster.
template <typename One, typename Other>
void launch_faster(const Attention& problem, const Scratch& scratch, cudaStream_t stream,
                   const Cost& one, const Cost& other) {
    if (predicted_time(problem, rounds_of<One>(problem), One::kRows, one) <=
        predicted_time(problem, rounds_of<Other>(problem), Other::kRows, other)) {
        launch_either<One>(problem, scratch, stream);
    } else {
        launch_either<Other>(problem, scratch, stream);
    }
}

}  // namespace flashbench::cuda::sm90
