// The host side of the gradients on CUDA devices: checks a problem and picks the kernels.
#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "../attention.h"
#include "checks.h"
#include "device.h"
#include "sm90/backward.h"

namespace flashbench::cuda {

namespace {

// Null for a dtype that was not compiled in.
const sm90::BackwardKernels* kernels_of(Dtype dtype) {
#ifdef FLASHBENCH_CUDA_SM90
#ifdef FLASHBENCH_CUDA_FP16
    if (dtype == Dtype::fp16) {
        return &sm90::kBackwardFp16;
    }
#endif
#ifdef FLASHBENCH_CUDA_BF16
    if (dtype == Dtype::bf16) {
        return &sm90::kBackwardBf16;
    }
#endif
#endif
    static_cast<void>(dtype);
    return nullptr;
}

const sm90::BackwardKernels& checked_kernels(const AttentionBackward& problem) {
    const Attention& forward = problem.forward;
    const sm90::BackwardKernels* const kernels = kernels_of(forward.dtype);
    if (kernels == nullptr || device_at(current_device()).compute_capability != 90) {
        throw std::invalid_argument(std::string("gradients on CUDA need a GPU of compute capability "
                                                "9.0 and a build for sm_90a with ") +
                                    name_of(forward.dtype));
    }
    if (forward.batch == 0 || forward.heads == 0 || forward.q_len == 0 || forward.k_len == 0) {
        throw std::invalid_argument("gradients on CUDA need at least one query and one key");
    }
    check_problem(forward);
    return *kernels;
}

}  // namespace

int64_t attention_backward_scratch(const AttentionBackward& problem) {
    return checked_kernels(problem).scratch_bytes(problem);
}

void attention_backward(const AttentionBackward& problem, void* scratch, void* stream) {
    checked_kernels(problem).enqueue(problem, scratch, static_cast<cudaStream_t>(stream));
}

}  // namespace flashbench::cuda
