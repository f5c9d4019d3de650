// Plain C++, so that tests include it.
#pragma once

#include <cstdint>

#include "../attention.h"
#include "constants.h"

namespace flashbench::cuda {

// The bytes of K and V of `batch` of the problem's.
inline int64_t key_value_bytes(const Attention& problem, int64_t batch) {
    return 2 * batch * problem.kv_heads * problem.k_len * problem.head_dim * kElementBytes;
}

}  // namespace flashbench::cuda
