// The host interface of the kernels for a few keys: one function per dtype, each in its own unit.
#pragma once

#include <cuda_runtime.h>

#include "../../attention.h"

namespace flashbench::cuda::simt {

// Enqueue one kernel on `stream`. The problem must have been checked and have at least one query; each
// query must see a key.
void forward_fp16(const Attention& problem, cudaStream_t stream);
void forward_bf16(const Attention& problem, cudaStream_t stream);

}  // namespace flashbench::cuda::simt
