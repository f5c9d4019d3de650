// Packed rows: the query heads of a key head, side by side, fill the tiles of the main kernel, and the keys of
// every tile are divided among the SMs as those of a tail are (tail.h). For chunks of queries that see many
// keys: as tiles of one head each, most would be half empty, and too few for the SMs. And for few heads under a
// causal mask: the tile that sees all keys would take the time of all.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../../attention.h"
#include "../constants.h"
#include "../device.h"
#include "../rows.h"
#include "launch.h"
#include "packed_shapes.h"
#include "tensor_map.h"

namespace flashbench::cuda::sm90 {

template <typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    forward_packed(const __grid_constant__ Launch launch) {
    walk_over_tiles<Tile>(launch);
}

// False, and nothing is enqueued, if there is no scratch memory.
template <typename Tile>
bool launch_packed(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    const PackedTiles packed = packed_tiles(problem);
    const int64_t heads = problem.batch * problem.kv_heads;
    const int64_t head_steps = packed_head_steps(problem, Tile::kKeys);
    const int64_t shares = packed_shares(problem, heads * head_steps,
                                         device_at(current_device()).multiprocessors);
    const int64_t parts = shares + packed.tiles;  // places (tail.h)
    const int64_t values = parts * Tile::kRows * Tile::kHeadDim / 4;
    const int64_t statistics = parts * Tile::kConsumers * kWarpgroup;
    auto* memory = static_cast<float4*>(scratch((values + statistics) * sizeof(float4)));
    if (memory == nullptr) {
        return false;
    }
    Launch arguments{};
    const int64_t group = problem.heads / problem.kv_heads;
    arguments.tensor_maps =
        encode_packed_rows({problem.q, problem.q_strides, problem.batch, problem.heads,
                            problem.q_len, problem.head_dim, problem.dtype, Tile::kBoxDims, 0},
                           static_cast<int>(group), static_cast<int>(packed.queries),
                           arguments.query) &&
        encode_keys_and_values<Tile>(problem, arguments.key, arguments.value);
    arguments.problem = problem;
    arguments.scale_log2 = problem.scale * kLog2E;
    arguments.tiles = static_cast<int>(packed.of_head);
    arguments.heads = static_cast<int>(heads);
    arguments.group = static_cast<int>(group);
    arguments.packed_rows = static_cast<int>(packed.queries * group);
    arguments.out_vectors = in_vectors(problem).out;
    arguments.tail = {0,
                      static_cast<int>(packed.tiles),
                      static_cast<int>(heads * head_steps),
                      static_cast<int>(head_steps),
                      static_cast<int>(shares),
                      memory,
                      memory + values};
    launch_kernel<Tile>(forward_packed<Tile>, arguments, shares, stream);
    launch_merge<Tile>(arguments, stream);
    return true;
}

template <typename Tile>
bool launch_packed_for(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    return is_uneven(problem) ? launch_packed<typename Tile::Uneven>(problem, scratch, stream)
                              : launch_packed<typename Tile::Packed>(problem, scratch, stream);
}

// Head dims are rounded up to 64, 128 or 256. ptxas 13.0 spills 24 to 40 bytes, all of the producer, which
// has 40 registers.
template <typename T>
bool forward_packed_rows(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    if (problem.head_dim <= 64) {
        return launch_packed_for<Tile<T, 64, 2, packed_keys(64)>>(problem, scratch, stream);
    }
    if (problem.head_dim <= 128) {
        return launch_packed_for<Tile<T, 128, 2, packed_keys(128)>>(problem, scratch, stream);
    }
    return launch_packed_for<Tile<T, 256, 2, packed_keys(256)>>(problem, scratch, stream);
}

}  // namespace flashbench::cuda::sm90
