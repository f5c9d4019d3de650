// The host interface of the backward kernels: one table per family and dtype, each in its own unit.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../attention.h"
#include "device.h"

namespace flashbench::cuda {

// The kernels of a dtype. The problem has been checked and has at least one query and one key.
struct BackwardKernels {
    int64_t (*scratch_bytes)(const AttentionBackward& problem);
    void (*enqueue)(const AttentionBackward& problem, void* scratch, cudaStream_t stream);
};

// Whether gradients, and forwards that keep lse for them, take the kernels of sm90/ if these are built.
bool takes_sm90_gradients(const Device& device);

namespace sm80 {
extern const BackwardKernels kBackwardFp16;
extern const BackwardKernels kBackwardBf16;
}  // namespace sm80

namespace sm90 {
extern const BackwardKernels kBackwardFp16;
extern const BackwardKernels kBackwardBf16;
}  // namespace sm90

}  // namespace flashbench::cuda
