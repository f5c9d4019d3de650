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

// Whether a row sees more than one key. Where none does, every weight is 1, and exactly so if scores and
// lse are multiplied by 0, which also makes dq and dk 0, and leaves NaN.
inline bool scores_matter(const Attention& forward) {
    return forward.k_len > 1 && !(forward.causal && forward.q_len + forward.causal_offset <= 1);
}

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
