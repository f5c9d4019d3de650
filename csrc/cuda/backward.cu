// The host side of the gradients on CUDA devices: checks a problem and picks the kernels.
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "../attention.h"
#include "checks.h"
#include "device.h"
#include "sm90/backward.h"

namespace flashbench::cuda {

namespace {

using Backward = void (*)(const AttentionBackward&, const Scratch&, cudaStream_t);

// Null for a dtype that was not compiled in.
Backward backward_of(Dtype dtype) {
#ifdef FLASHBENCH_CUDA_SM90
#ifdef FLASHBENCH_CUDA_FP16
    if (dtype == Dtype::fp16) {
        return sm90::backward_fp16;
    }
#endif
#ifdef FLASHBENCH_CUDA_BF16
    if (dtype == Dtype::bf16) {
        return sm90::backward_bf16;
    }
#endif
#endif
    static_cast<void>(dtype);
    return nullptr;
}

}  // namespace

void attention_backward(const AttentionBackward& problem, const Scratch& scratch, void* stream) {
    const Attention& forward = problem.forward;
    const Backward backward = backward_of(forward.dtype);
    if (backward == nullptr || device_at(current_device()).compute_capability != 90) {
        throw std::invalid_argument(std::string("gradients on CUDA need a GPU of compute capability "
                                                "9.0 and a build for sm_90a with ") +
                                    name_of(forward.dtype));
    }
    if (forward.batch == 0 || forward.heads == 0 || forward.q_len == 0 || forward.k_len == 0) {
        throw std::invalid_argument("gradients on CUDA need at least one query and one key");
    }
    check_problem(forward);
    backward(problem, scratch, static_cast<cudaStream_t>(stream));
}

}  // namespace flashbench::cuda
