// The second kernel, for splits over several clusters: adds up the parts that a tile's clusters left in
// the workspace, one block of threads per row.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../../attention.h"
#include "../rows.h"
#include "../sm90/ptx.h"
#include "decode_launch.h"
#include "merge.h"

namespace flashbench::cuda::decode {

constexpr int kMostMergeThreads = 512;

// Threads of a block: a share of them for each part, if there are enough. More would only wait.
inline int merge_threads(int head_dim, int parts) {
    int threads = 128;
    while (threads < kMostMergeThreads && threads / (head_dim / 4) < parts) {
        threads *= 2;
    }
    return threads;
}

template <typename T, int head_dim>
__global__ void __launch_bounds__(kMostMergeThreads)
    merge_partials(const __grid_constant__ DecodeLaunch launch) {
    constexpr int kRowQuads = head_dim / 4;
    constexpr int kMostShares = kMostMergeThreads / kRowQuads;
    __shared__ float4 shared_values[kMostShares][kRowQuads];
    __shared__ float2 shared_statistics[kMostShares];
    const int shares = static_cast<int>(blockDim.x) / kRowQuads;  // of a row's parts
    const Attention& problem = launch.problem;
    const unsigned batch_head = blockIdx.x / launch.rows;
    const unsigned row = blockIdx.x - batch_head * launch.rows;
    const unsigned batch = batch_head / launch.kv_heads;
    const unsigned kv_head = batch_head - batch * launch.kv_heads;
    const int quad_index = threadIdx.x % kRowQuads;
    const int share = threadIdx.x / kRowQuads;
    const int parts = launch.division.clusters();
    const int64_t first = static_cast<int64_t>(blockIdx.x) * parts + share;
    const float2* statistics = launch.partial_statistics + first;
    const float4* values =
        reinterpret_cast<const float4*>(launch.partial_values) + first * kRowQuads + quad_index;
#if __CUDA_ARCH__ >= 900
    sm90::ptx::griddepcontrol_wait();
#endif
    Quad own = no_keys();
#pragma unroll 4
    for (int i = 0; share + i * shares < parts; ++i) {
        const float2 statistic = statistics[i * shares];
        own = joined(own, {values[i * shares * kRowQuads], statistic.x, statistic.y});
    }
    shared_values[share][quad_index] = own.values;
    if (quad_index == 0) {
        shared_statistics[share] = make_float2(own.base, own.sum);
    }
    __syncthreads();
    const int column = quad_index * 4;
    if (share == 0 && column < problem.head_dim) {
        const Quad whole =
            add_quads(shares, [&](int i) { return shared_statistics[i]; },
                      [&](int i) { return shared_values[i][quad_index]; });
        const int64_t stride = problem.out_strides.dim;
        T* target =
            packed_row<T>(problem.out, problem.out_strides, batch, kv_head, launch.group, row);
        store_quad(target + column * stride, stride, launch.in_vectors.out, whole);
    }
}

}  // namespace flashbench::cuda::decode
