// Launches the backward kernels of a tile.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>

#include "../../attention.h"
#include "../backward.h"
#include "../backward_host.h"
#include "../device.h"
#include "../overlapped.h"
#include "backward_kernel.h"
#include "backward_store.h"
#include "tensor_map.h"

namespace flashbench::cuda::sm90 {

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
    BackwardLaunch launch{};
    launch.plan = backward_plan<Tile>(problem, scratch);
    encode_backward_tensor_maps<Tile>(problem, launch);
    launch_prepare<Tile>(problem, launch.plan, stream);
    allow_shared_bytes(reinterpret_cast<const void*>(backward<Tile>), BackwardShared<Tile>::kBytes,
                       current_device());
    const int blocks = launch.plan.key_blocks * launch.plan.all_kv_heads;
    launch_overlapped(backward<Tile>, dim3(static_cast<unsigned>(blocks)), Tile::kThreads,
                      BackwardShared<Tile>::kBytes, stream, launch);
    launch_overlapped(store_query_gradients<Tile>, query_grid(launch.plan, forward), kRowThreads, 0,
                      stream, problem, static_cast<const float*>(launch.plan.dq),
                      of_queries_in_vectors(forward, problem.dq, problem.dq_strides));
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
int64_t scratch_bytes(const AttentionBackward& problem) {
    return with_backward_tile<T>(problem.forward.head_dim, [&problem](auto tile) {
        return backward_scratch_bytes<decltype(tile)>(problem);
    });
}

template <typename T>
void enqueue_backward(const AttentionBackward& problem, void* scratch, cudaStream_t stream) {
    with_backward_tile<T>(problem.forward.head_dim, [&](auto tile) {
        launch_backward<decltype(tile)>(problem, scratch, stream);
    });
}

template <typename T>
constexpr BackwardKernels backward_kernels{scratch_bytes<T>, enqueue_backward<T>};

}  // namespace flashbench::cuda::sm90
