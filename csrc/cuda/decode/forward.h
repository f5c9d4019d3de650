// The kernels for few queries and many keys as the host sees them: one function a dtype, each in a
// unit of its own.
#pragma once

#include <cuda_runtime.h>

#include "../../attention.h"

namespace flashbench::cuda::decode {

// Enqueue one kernel on `stream`, or two with memory from `scratch`. The problem has been checked, has
// at least one query and one key, and its scale is positive and finite.
void forward_fp16(const Attention& problem, const Scratch& scratch, cudaStream_t stream);
void forward_bf16(const Attention& problem, const Scratch& scratch, cudaStream_t stream);

}  // namespace flashbench::cuda::decode
