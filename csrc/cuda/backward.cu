// The host side of the gradients on CUDA devices: checks a problem and picks the kernels.
#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "../attention.h"
#include "backward.h"
#include "checks.h"
#include "device.h"

namespace flashbench::cuda {

namespace {

bool sm80_everywhere = false;

struct Family {
    const BackwardKernels* fp16;
    const BackwardKernels* bf16;
};

#ifdef FLASHBENCH_CUDA_FP16
#define FLASHBENCH_FP16(kernels) &kernels
#else
#define FLASHBENCH_FP16(kernels) nullptr
#endif
#ifdef FLASHBENCH_CUDA_BF16
#define FLASHBENCH_BF16(kernels) &kernels
#else
#define FLASHBENCH_BF16(kernels) nullptr
#endif

constexpr Family kSm80{FLASHBENCH_FP16(sm80::kBackwardFp16), FLASHBENCH_BF16(sm80::kBackwardBf16)};
#ifdef FLASHBENCH_CUDA_SM90
constexpr Family kSm90{FLASHBENCH_FP16(sm90::kBackwardFp16), FLASHBENCH_BF16(sm90::kBackwardBf16)};
#endif

const Family& family_of(const Device& device) {
#ifdef FLASHBENCH_CUDA_SM90
    if (takes_sm90_gradients(device)) {
        return kSm90;
    }
#endif
    static_cast<void>(device);
    return kSm80;
}

const BackwardKernels& checked_kernels(const AttentionBackward& problem) {
    const Attention& forward = problem.forward;
    const Device& device = device_at(current_device());
    const Family& family = family_of(device);
    const BackwardKernels* const kernels = forward.dtype == Dtype::fp16   ? family.fp16
                                           : forward.dtype == Dtype::bf16 ? family.bf16
                                                                          : nullptr;
    if (kernels == nullptr || device.compute_capability < 80) {
        throw std::invalid_argument(std::string("gradients on CUDA need a GPU of compute capability "
                                                "8.0 or later and a build with ") +
                                    name_of(forward.dtype));
    }
    if (forward.batch == 0 || forward.heads == 0 || forward.q_len == 0 || forward.k_len == 0) {
        throw std::invalid_argument("gradients on CUDA need at least one query and one key");
    }
    if (forward.causal && forward.causal_offset < 0) {
        throw std::invalid_argument("gradients on CUDA need queries that each see a key");
    }
    check_scale_of_gradients(forward.scale);
    check_problem(forward);
    return *kernels;
}

}  // namespace

bool takes_sm90_gradients(const Device& device) {
    return device.takes_sm90 && !sm80_everywhere;
}

void take_sm80_gradients(bool everywhere) { sm80_everywhere = everywhere; }

int64_t attention_backward_scratch(const AttentionBackward& problem) {
    return checked_kernels(problem).scratch_bytes(problem);
}

void attention_backward(const AttentionBackward& problem, void* scratch, void* stream) {
    const BackwardKernels& kernels = checked_kernels(problem);
    AttentionBackward scaled = problem;
    if (!scores_matter(problem.forward)) {
        scaled.forward.scale = 0.0f;
    }
    kernels.enqueue(scaled, scratch, static_cast<cudaStream_t>(stream));
}

}  // namespace flashbench::cuda
