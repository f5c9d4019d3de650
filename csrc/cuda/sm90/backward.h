// The host interface of the sm_90a backward kernels: one function per dtype, each in its own unit.
#pragma once

#include <cuda_runtime.h>

#include "../../attention.h"

namespace flashbench::cuda::sm90 {

// Enqueue three kernels on `stream`, with memory from `scratch`. The problem has been checked and has at
// least one query and one key.
void backward_fp16(const AttentionBackward& problem, const Scratch& scratch, cudaStream_t stream);
void backward_bf16(const AttentionBackward& problem, const Scratch& scratch, cudaStream_t stream);

}  // namespace flashbench::cuda::sm90
