// What L2 does with K and V. Plain C++, so that a test includes it (tests/kernels/native/check_split.cpp).
#pragma once

#include <cstdint>

#include "../../attention.h"
#include "../key_value_bytes.h"

namespace flashbench::cuda::decode {

// K and V of less than this part of L2 stay there from one call to the next.
constexpr double kStaysInL2 = 0.875;
// At 4.3 to 5.1 times L2 it gains or costs 2 % that L2 drops K and V first, at 8.5 to 10.2 times it costs up to
// 9 % with what others had left there (docs/lab/cuda-kernels.md).
constexpr double kMostEvictedFirst = 8;

// The size of K and V, in that of L2.
inline double l2_share(const Attention& problem, int64_t l2_bytes) {
    return static_cast<double>(key_value_bytes(problem, problem.batch)) /
           static_cast<double>(l2_bytes);
}

inline bool come_from_memory(const Attention& problem, int64_t l2_bytes) {
    return l2_share(problem, l2_bytes) > kStaysInL2;
}

// Whether L2 shall drop K and V before other lines: they come from memory, and each head is read by one of the
// `tiles` of rows alone and shares no memory with another.
inline bool are_evicted_first(const Attention& problem, int64_t tiles, int64_t l2_bytes) {
    const auto has_own_heads = [&](const Strides& strides) {
        return (problem.batch == 1 || strides.batch != 0) &&
               (problem.kv_heads == 1 || strides.head != 0);
    };
    return tiles == 1 && has_own_heads(problem.k_strides) && has_own_heads(problem.v_strides) &&
           come_from_memory(problem, l2_bytes) && l2_share(problem, l2_bytes) <= kMostEvictedFirst;
}

}  // namespace flashbench::cuda::decode
