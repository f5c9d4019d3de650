// How a problem is cut into tiles, for the choice of kernels. Plain C++, so that tests include it.
#pragma once

#include <cstdint>

#include "../attention.h"

namespace flashbench::cuda {

// Whether causal tiles differ much in their number of keys. If most keys are seen by all queries they do
// not, and measurements without a mask apply.
inline bool is_uneven(const Attention& problem) {
    return problem.causal && 2 * problem.causal_offset < problem.k_len;
}

// The number of tiles of `rows` rows, each of one head.
inline int64_t tiles_of(const Attention& problem, int64_t rows) {
    return (problem.q_len + rows - 1) / rows * problem.batch * problem.heads;
}

// Whether there is more than one tile of 64 rows for every two SMs.
inline bool is_crowded(const Attention& problem, int64_t multiprocessors) {
    return 2 * tiles_of(problem, 64) > multiprocessors;
}

}  // namespace flashbench::cuda
