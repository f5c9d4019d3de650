// Launches the backward kernels of a tile.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "../../attention.h"
#include "../constants.h"
#include "../device.h"
#include "../overlapped.h"
#include "../rows.h"
#include "backward.h"
#include "backward_kernel.h"
#include "backward_rows.h"
#include "tensor_map.h"

namespace flashbench::cuda::sm90 {

// Tiles of queries of a head.
template <typename Tile>
int64_t query_tiles_of(const Attention& forward) {
    return (forward.q_len + Tile::kQueries - 1) / Tile::kQueries;
}

// The scratch memory of a call: lse and delta of every query, dq in fp32, and the turns of a
// deterministic call. All are words of four bytes.
template <typename Tile>
struct BackwardScratch {
    float* lse;
    float* delta;
    float* dq;
    unsigned* turns;

    static int64_t words(int64_t tiles, bool deterministic) {
        const int64_t parts = tiles * Tile::kConsumers;
        return 2 * tiles * Tile::kQueries + parts * Tile::kQueryGradients +
               (deterministic ? parts : 0);
    }

    BackwardScratch(void* memory, int64_t tiles, bool deterministic)
        : lse(static_cast<float*>(memory)),
          delta(lse + tiles * Tile::kQueries),
          dq(delta + tiles * Tile::kQueries),
          turns(deterministic ? reinterpret_cast<unsigned*>(
                                    dq + tiles * Tile::kConsumers * Tile::kQueryGradients)
                              : nullptr) {}
};

// Throws std::invalid_argument if TMA does not support the strides.
template <typename Tile>
void encode_backward_tensor_maps(const AttentionBackward& problem, BackwardLaunch& launch) {
    const Attention& forward = problem.forward;
    const auto encode = [&forward](CUtensorMap& map, const void* base, const Strides& strides,
                                   int64_t heads, int64_t length, int rows) {
        return encode_tensor_map({base, strides, forward.batch, heads, length, forward.head_dim,
                                  forward.dtype, Tile::kBoxDims, rows},
                                 map);
    };
    if (!encode(launch.query, forward.q, forward.q_strides, forward.heads, forward.q_len,
                Tile::kQueries) ||
        !encode(launch.dout, problem.dout, problem.dout_strides, forward.heads, forward.q_len,
                Tile::kQueries) ||
        !encode(launch.key, forward.k, forward.k_strides, forward.kv_heads, forward.k_len,
                Tile::kKeys) ||
        !encode(launch.value, forward.v, forward.v_strides, forward.kv_heads, forward.k_len,
                Tile::kKeys)) {
        throw std::invalid_argument("gradients on CUDA need q, k, v and dout with contiguous head "
                                    "vectors, and addresses and strides of 16 bytes");
    }
}

template <typename Tile>
void launch_backward(const AttentionBackward& problem, void* scratch, cudaStream_t stream) {
    const Attention& forward = problem.forward;
    const int64_t heads = forward.batch * forward.heads;
    const int64_t all_kv_heads = forward.batch * forward.kv_heads;
    const int64_t query_tiles = query_tiles_of<Tile>(forward);
    const int64_t key_blocks = (forward.k_len + Tile::kKeys - 1) / Tile::kKeys;
    constexpr int64_t kMost = std::numeric_limits<int>::max() / 2;
    if (heads > kMaxGridRows || heads * query_tiles > kMost || all_kv_heads * key_blocks > kMost) {
        throw std::invalid_argument("batch * heads, or that times a length, is too large for one "
                                    "CUDA grid");
    }
    const auto in_vectors = [&forward](const void* base, const Strides& strides, int64_t count,
                                       int64_t length) {
        return moves_in_vectors(base, strides, forward.batch, count, length);
    };

    BackwardLaunch launch{};
    encode_backward_tensor_maps<Tile>(problem, launch);
    const BackwardScratch<Tile> memory(scratch, heads * query_tiles, problem.deterministic);
    launch.lse = memory.lse;
    launch.delta = memory.delta;
    launch.dq = memory.dq;
    launch.turns = memory.turns;
    launch.dk = problem.dk;
    launch.dv = problem.dv;
    launch.dk_strides = problem.dk_strides;
    launch.dv_strides = problem.dv_strides;
    launch.heads = static_cast<int>(forward.heads);
    launch.kv_heads = static_cast<int>(forward.kv_heads);
    launch.group = static_cast<int>(forward.heads / forward.kv_heads);
    launch.q_len = static_cast<int>(forward.q_len);
    launch.k_len = static_cast<int>(forward.k_len);
    launch.head_dim = static_cast<int>(forward.head_dim);
    launch.query_tiles = static_cast<int>(query_tiles);
    launch.key_blocks = static_cast<int>(key_blocks);
    launch.all_kv_heads = static_cast<int>(all_kv_heads);
    launch.section = heads_in_backward_section(forward, Tile::kHeadDim, all_kv_heads);
    launch.causal = forward.causal;
    // Positions further out hide nothing more, or everything.
    launch.causal_offset = static_cast<int>(
        std::clamp<int64_t>(forward.causal_offset, -forward.q_len, forward.k_len));
    launch.scale = forward.scale;
    launch.scale_log2 = forward.scale * kLog2E;
    launch.dk_vectors =
        in_vectors(problem.dk, problem.dk_strides, forward.kv_heads, forward.k_len);
    launch.dv_vectors =
        in_vectors(problem.dv, problem.dv_strides, forward.kv_heads, forward.k_len);

    const dim3 query_grid(static_cast<unsigned>(query_tiles), static_cast<unsigned>(heads));
    prepare_backward<Tile><<<query_grid, kRowThreads, 0, stream>>>(
        problem, memory.lse, memory.delta, memory.dq, memory.turns,
        in_vectors(forward.out, forward.out_strides, forward.heads, forward.q_len),
        in_vectors(problem.dout, problem.dout_strides, forward.heads, forward.q_len));
    check(cudaGetLastError());
    allow_shared_bytes(reinterpret_cast<const void*>(backward<Tile>), BackwardShared<Tile>::kBytes,
                       current_device());
    launch_overlapped(backward<Tile>, dim3(static_cast<unsigned>(key_blocks * all_kv_heads)),
                      Tile::kThreads, BackwardShared<Tile>::kBytes, stream, launch);
    launch_overlapped(store_query_gradients<Tile>, query_grid, kRowThreads, 0, stream, problem,
                      static_cast<const float*>(memory.dq),
                      in_vectors(problem.dq, problem.dq_strides, forward.heads, forward.q_len));
}

// Calls `act` with the tile for a head dim.
template <typename T, typename Act>
auto with_backward_tile(int64_t head_dim, const Act& act) {
    if (head_dim <= 64) {
        return act(BackwardTile<T, 64>{});
    }
    if (head_dim <= 80) {
        return act(BackwardTile<T, 80>{});
    }
    if (head_dim <= 96) {
        return act(BackwardTile<T, 96>{});
    }
    if (head_dim <= 112) {
        return act(BackwardTile<T, 112>{});
    }
    if (head_dim <= 128) {
        return act(BackwardTile<T, 128>{});
    }
    if (head_dim <= 192) {
        return act(BackwardTile<T, 192>{});
    }
    return act(BackwardTile<T, 256>{});
}

template <typename T>
int64_t backward_scratch_bytes(const AttentionBackward& problem) {
    return with_backward_tile<T>(problem.forward.head_dim, [&problem](auto tile) {
        using Tile = decltype(tile);
        const Attention& forward = problem.forward;
        const int64_t tiles = query_tiles_of<Tile>(forward) * forward.batch * forward.heads;
        return 4 * BackwardScratch<Tile>::words(tiles, problem.deterministic);
    });
}

template <typename T>
void enqueue_backward(const AttentionBackward& problem, void* scratch, cudaStream_t stream) {
    with_backward_tile<T>(problem.forward.head_dim, [&](auto tile) {
        launch_backward<decltype(tile)>(problem, scratch, stream);
    });
}

template <typename T>
constexpr BackwardKernels backward_kernels{backward_scratch_bytes<T>, enqueue_backward<T>};

}  // namespace flashbench::cuda::sm90
