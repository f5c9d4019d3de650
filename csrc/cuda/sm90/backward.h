// The host interface of the sm_90a backward kernels: one table per dtype, each in its own unit.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../../attention.h"

namespace flashbench::cuda::sm90 {

// The kernels of a dtype. The problem has been checked and has at least one query and one key.
struct BackwardKernels {
    int64_t (*scratch_bytes)(const AttentionBackward& problem);
    void (*enqueue)(const AttentionBackward& problem, void* scratch, cudaStream_t stream);
};
extern const BackwardKernels kBackwardFp16;
extern const BackwardKernels kBackwardBf16;

}  // namespace flashbench::cuda::sm90
