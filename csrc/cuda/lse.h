// The log-sum-exp of rows that see no key.
#pragma once

#include <cuda_runtime.h>

#include "../attention.h"

namespace flashbench::cuda {

// Enqueues one kernel that sets the problem's lse to -inf.
void store_lse_of_no_keys(const Attention& problem, cudaStream_t stream);

}  // namespace flashbench::cuda
