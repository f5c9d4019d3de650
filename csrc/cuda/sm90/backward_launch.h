// Launches the backward kernels of a tile.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "../../attention.h"
#include "../backward.h"
#include "../backward_host.h"
#include "../device.h"
#include "../overlapped.h"
#include "backward_kernel.h"
#include "backward_parts.h"
#include "backward_store.h"
#include "backward_wide_kernel.h"
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
int parts_of(const Attention& forward) {
    return parts_of_group(forward, query_tiles_of<Tile>(forward), key_blocks_of<Tile>(forward),
                          Tile::kSteps, device_at(current_device()).multiprocessors);
}

// `divided`: the kernel for groups of several parts. `kinds`: of blocks of threads, for each block of keys
// and part of a group.
template <typename Tile>
void launch_kernels(const AttentionBackward& problem, void* scratch, cudaStream_t stream,
                    void (*whole)(BackwardLaunch), void (*divided)(BackwardLaunch), int kinds,
                    int shared_bytes) {
    const Attention& forward = problem.forward;
    BackwardLaunch launch{};
    BackwardPlan& plan = launch.plan;
    plan = backward_plan<Tile>(problem, scratch, parts_of<Tile>(forward));
    encode_backward_tensor_maps<Tile>(problem, launch);
    launch_prepare<Tile>(problem, plan, stream);
    const auto kernel = plan.parts > 1 ? divided : whole;
    allow_shared_bytes(reinterpret_cast<const void*>(kernel), shared_bytes, current_device());
    const int blocks = kinds * plan.parts * plan.key_blocks * plan.all_kv_heads;
    launch_overlapped(kernel, dim3(static_cast<unsigned>(blocks)), Tile::kThreads, shared_bytes,
                      stream, launch);
    if (plan.parts > 1) {
        const dim3 grid(static_cast<unsigned>(plan.key_blocks),
                        static_cast<unsigned>(2 * plan.all_kv_heads));
        launch_overlapped(store_key_gradients<Tile>, grid, kRowThreads, 0, stream, plan);
    }
    launch_overlapped(store_query_gradients<Tile>, query_grid(plan, forward), kRowThreads, 0,
                      stream, problem, static_cast<const float*>(plan.dq),
                      row_of_one_key(forward),
                      of_queries_in_vectors(forward, problem.dq, problem.dq_strides));
}

template <typename T, int head_dim>
void launch_backward(BackwardTile<T, head_dim>, const AttentionBackward& problem, void* scratch,
                     cudaStream_t stream) {
    using Tile = BackwardTile<T, head_dim>;
    launch_kernels<Tile>(problem, scratch, stream, backward<Tile, false>, backward<Tile, true>, 1,
                         BackwardShared<Tile>::kBytes);
}

template <typename T, int head_dim, bool skips_zeros>
void launch_backward(BackwardWideTile<T, head_dim, skips_zeros>, const AttentionBackward& problem,
                     void* scratch, cudaStream_t stream) {
    using Tile = BackwardWideTile<T, head_dim, skips_zeros>;
    launch_kernels<Tile>(problem, scratch, stream, backward_wide<Tile>, backward_wide<Tile>, 2,
                         std::max(BackwardWideShared<Tile, Sums::keys>::kBytes,
                                  BackwardWideShared<Tile, Sums::values>::kBytes));
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
    if (head_dim < 192) {
        return act(BackwardWideTile<T, 192, true>{});
    }
    if (head_dim == 192) {
        return act(BackwardWideTile<T, 192, false>{});
    }
    return act(BackwardWideTile<T, 256, false>{});
}

template <typename T>
int64_t scratch_bytes(const AttentionBackward& problem) {
    return with_backward_tile<T>(problem.forward.head_dim, [&problem](auto tile) {
        using Tile = decltype(tile);
        return backward_scratch_bytes<Tile>(problem, parts_of<Tile>(problem.forward));
    });
}

template <typename T>
void enqueue_backward(const AttentionBackward& problem, void* scratch, cudaStream_t stream) {
    with_backward_tile<T>(problem.forward.head_dim, [&](auto tile) {
        launch_backward(tile, problem, scratch, stream);
    });
}

template <typename T>
constexpr BackwardKernels backward_kernels{scratch_bytes<T>, enqueue_backward<T>};

}  // namespace flashbench::cuda::sm90
