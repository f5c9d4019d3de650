// The second kernel, where blocks divide the keys of a tile: adds up what the splits left of each row. A thread
// takes four neighbouring dims of a row.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../decode/merge.h"
#include "../rows.h"
#include "kernel.h"

namespace flashbench::cuda::sm80 {

constexpr int kMergeThreads = 256;

template <typename T, int head_dim>
__global__ void __launch_bounds__(kMergeThreads) merge_splits(const __grid_constant__ Launch launch) {
    constexpr int kRowQuads = head_dim / 4;
    const Attention& problem = launch.problem;
    const int64_t rows = problem.batch * problem.heads * problem.q_len;
    const int64_t quad = static_cast<int64_t>(blockIdx.x) * kMergeThreads + threadIdx.x;
    const int64_t row = quad / kRowQuads;
    const int column = static_cast<int>(quad % kRowQuads) * 4;
    if (row >= rows || column >= problem.head_dim) {
        return;
    }
    const auto* values = reinterpret_cast<const float4*>(launch.partial_values) + quad;
    const float2* statistics = launch.partial_statistics + row;
    const decode::Quad whole =
        decode::add_quads(launch.splits, [&](int i) { return statistics[i * rows]; },
                          [&](int i) { return values[i * rows * kRowQuads]; });
    const int64_t batch_head = row / problem.q_len;
    const int64_t batch = batch_head / problem.heads;
    const auto out = out_rows<T>(problem, batch, batch_head - batch * problem.heads,
                                 launch.in_vectors.out);
    decode::store_quad(out.at(static_cast<int>(row - batch_head * problem.q_len)) +
                           column * out.dim_stride,
                       out.dim_stride, out.vectors, whole);
}

}  // namespace flashbench::cuda::sm80
