// Picks the lanes of a row and launches the kernel. Included by the dtype units only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <stdexcept>

#include "../../attention.h"
#include "../constants.h"
#include "../device.h"
#include "../rows.h"
#include "kernel.h"

namespace flashbench::cuda::simt {

template <typename T, int kLanes, int kKeys, bool kShare>
void launch(const Attention& problem, cudaStream_t stream) {
    const int64_t rows = problem.batch * problem.heads * problem.q_len;
    if (rows > std::numeric_limits<int>::max()) {
        throw std::invalid_argument("batch * heads * q_len is too large for one CUDA grid");
    }
    const InVectors tensors = in_vectors(problem);
    const Launch arguments{problem, static_cast<unsigned>(rows),
                           tensors.q && tensors.k && tensors.v && tensors.out,
                           problem.scale * kLog2E};
    constexpr int64_t kRows = kShare ? 1 : kThreads / kLanes;
    forward<T, kLanes, kKeys, kShare>
        <<<static_cast<unsigned>((rows + kRows - 1) / kRows), kThreads, 0, stream>>>(arguments);
    check(cudaGetLastError());
}

// As many keys at once as there are, up to 8 for each group of lanes.
template <typename T, int kLanes>
void launch_lanes(const Attention& problem, cudaStream_t stream) {
    if (problem.k_len == 1) {
        launch<T, kLanes, 1, false>(problem, stream);
    } else if (problem.k_len <= 4) {
        launch<T, kLanes, 4, false>(problem, stream);
    } else if (problem.k_len <= 8) {
        launch<T, kLanes, 8, false>(problem, stream);
    } else if (problem.k_len <= 4 * (kThreads / kLanes)) {
        launch<T, kLanes, 4, true>(problem, stream);
    } else {
        launch<T, kLanes, 8, true>(problem, stream);
    }
}

template <typename T>
void forward_any(const Attention& problem, cudaStream_t stream) {
    if (problem.head_dim <= 64) {
        launch_lanes<T, 8>(problem, stream);
    } else if (problem.head_dim <= 128) {
        launch_lanes<T, 16>(problem, stream);
    } else {
        launch_lanes<T, 32>(problem, stream);
    }
}

}  // namespace flashbench::cuda::simt
