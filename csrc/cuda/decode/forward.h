// The host interface of the kernels for few queries and many keys: one function per dtype, each in its
// own unit.
#pragma once

#include <cuda_runtime.h>

#include "../../attention.h"

namespace flashbench::cuda::decode {

// Enqueue one kernel on `stream`, or two with memory from `scratch`. The problem must have been checked
// and have at least one query and one key, and a positive finite scale.
void forward_fp16(const Attention& problem, const Scratch& scratch, cudaStream_t stream);
void forward_bf16(const Attention& problem, const Scratch& scratch, cudaStream_t stream);

}  // namespace flashbench::cuda::decode
