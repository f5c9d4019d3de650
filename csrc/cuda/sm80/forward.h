// The host interface of the sm_80 forward kernels: one function per dtype, each in its own unit.
#pragma once

#include <cuda_runtime.h>

#include "../../attention.h"

namespace flashbench::cuda::sm80 {

// Enqueue one kernel on `stream`, which also writes lse unless that is null, or two if few tiles have many
// keys. The problem must have been checked and have at least one query.
void forward_fp16(const Attention& problem, const Scratch& scratch, cudaStream_t stream);
void forward_bf16(const Attention& problem, const Scratch& scratch, cudaStream_t stream);

}  // namespace flashbench::cuda::sm80
