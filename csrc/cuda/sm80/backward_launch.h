// Launches the backward kernels of a tile. Included by the dtype units only.
//
// Registers per thread are those of ptxas 13.0 for sm_80 and sm_90a. It spills 268 bytes for head dim 192 on
// sm_80, 24 on sm_90a, nothing else.
//
//   head dim  keys x queries  warps  shared memory  registers
//         32      64 x 64       4        33 KB       156, 160
//         64      64 x 64       4        49 KB       168, 168
//         96      64 x 64       4        65 KB       242, 243
//        128      64 x 64       4        81 KB       255, 255
//        192      64 x 32       4        81 KB       255, 255
//        256      32 x 32       4        69 KB       252, 252
//
// Every tile fits the 99 KB that a block may have on sm_86 and sm_89.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../../attention.h"
#include "../backward.h"
#include "../backward_host.h"
#include "../constants.h"
#include "../device.h"
#include "../rows.h"
#include "backward_kernel.h"

namespace flashbench::cuda::sm80 {

template <typename Tile>
void launch_backward(const AttentionBackward& problem, void* scratch, cudaStream_t stream) {
    const Attention& forward = problem.forward;
    const InVectors vectors = in_vectors(forward);
    const BackwardLaunch launch{
        backward_plan<Tile>(problem, scratch),
        {forward.q, forward.q_strides, vectors.q},
        {forward.k, forward.k_strides, vectors.k},
        {forward.v, forward.v_strides, vectors.v},
        {problem.dout, problem.dout_strides,
         of_queries_in_vectors(forward, problem.dout, problem.dout_strides)},
    };
    const BackwardPlan& plan = launch.plan;
    launch_prepare<Tile>(problem, plan, stream);
    if constexpr (Tile::kSharedBytes > kDefaultSharedBytes) {
        allow_shared_bytes(reinterpret_cast<const void*>(backward<Tile>), Tile::kSharedBytes,
                           current_device());
    }
    const auto blocks = static_cast<unsigned>(plan.key_blocks * plan.all_kv_heads);
    backward<Tile><<<blocks, Tile::kThreads, Tile::kSharedBytes, stream>>>(launch);
    check(cudaGetLastError());
    store_query_gradients<Tile><<<query_grid(plan, forward), Tile::kThreads, 0, stream>>>(
        problem, plan.dq, row_of_one_key(forward),
        of_queries_in_vectors(forward, problem.dq, problem.dq_strides));
    check(cudaGetLastError());
}

// Calls `act` with the tile for a head dim.
template <typename T, typename Act>
auto with_backward_tile(int64_t head_dim, const Act& act) {
    if (head_dim <= 32) {
        return act(BackwardTile<T, 32, 64, 64, 2, 2, 3>{});
    }
    if (head_dim <= 64) {
        return act(BackwardTile<T, 64, 64, 64, 2, 2, 3>{});
    }
    if (head_dim <= 96) {
        return act(BackwardTile<T, 96, 64, 64, 2, 2, 2>{});
    }
    if (head_dim <= 128) {
        return act(BackwardTile<T, 128, 64, 64, 2, 2, 2>{});
    }
    if (head_dim <= 192) {
        return act(BackwardTile<T, 192, 64, 32, 2, 2, 2>{});
    }
    return act(BackwardTile<T, 256, 32, 32, 2, 2, 2>{});
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

}  // namespace flashbench::cuda::sm80
