// What every CUDA kernel requires of a problem. Each check throws std::invalid_argument.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "../attention.h"
#include "constants.h"

namespace flashbench::cuda {

inline void check_heads(int64_t heads, int64_t kv_heads) {
    if (kv_heads < 1 || heads % kv_heads != 0) {
        throw std::invalid_argument("heads (" + std::to_string(heads) +
                                    ") must be a multiple of kv_heads (" +
                                    std::to_string(kv_heads) + ")");
    }
}

inline void check_lengths(int64_t q_len, int64_t k_len) {
    // Positions are 32-bit in the kernels, with room for the last tile to reach past the end.
    constexpr int64_t kMaxLength = std::numeric_limits<int>::max() - 1024;
    if (q_len > kMaxLength || k_len > kMaxLength) {
        throw std::invalid_argument("sequences longer than " + std::to_string(kMaxLength) +
                                    " are not supported on CUDA");
    }
}

// For calls that keep lse and the gradients after them.
inline void check_scale_of_gradients(float scale) {
    if (!(scale > 0.0f) || !std::isfinite(scale)) {
        throw std::invalid_argument("gradients on CUDA need a positive and finite scale");
    }
}

inline void check_problem(const Attention& problem) {
    if (problem.head_dim < kMinHeadDim || problem.head_dim > kMaxHeadDim ||
        problem.head_dim % kChunkElements != 0) {
        throw std::invalid_argument("head_dim " + std::to_string(problem.head_dim) +
                                    " is not supported on CUDA: it must be a multiple of 8 from " +
                                    std::to_string(kMinHeadDim) + " to " +
                                    std::to_string(kMaxHeadDim));
    }
    check_heads(problem.heads, problem.kv_heads);
    check_lengths(problem.q_len, problem.k_len);
}

}  // namespace flashbench::cuda
