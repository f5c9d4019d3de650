// The host side of the CUDA backend: says what was compiled in, checks a problem, picks the kernel.
//
// The build defines FLASHBENCH_CUDA_FP16 and FLASHBENCH_CUDA_BF16 for the dtype units it compiles
// and FLASHBENCH_CUDA_ARCHS as a string such as "80,90a".
#include <cuda_runtime.h>

#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "../attention.h"
#include "constants.h"
#include "device.h"
#include "sm80/forward.h"

namespace flashbench::cuda {

namespace {

using Forward = void (*)(const Attention&, cudaStream_t);

// Null when the dtype's unit was left out.
Forward forward_of(Dtype dtype) {
    switch (dtype) {
#ifdef FLASHBENCH_CUDA_FP16
        case Dtype::fp16:
            return sm80::forward_fp16;
#endif
#ifdef FLASHBENCH_CUDA_BF16
        case Dtype::bf16:
            return sm80::forward_bf16;
#endif
        default:
            return nullptr;
    }
}

std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
        text += (text.empty() ? "" : ", ") + name;
    }
    return text.empty() ? "none" : text;
}

void check_problem(const Attention& problem) {
    if (problem.head_dim < kMinHeadDim || problem.head_dim > kMaxHeadDim ||
        problem.head_dim % kChunkElements != 0) {
        throw std::invalid_argument("head_dim " + std::to_string(problem.head_dim) +
                                    " is not supported on CUDA: it must be a multiple of 8 from " +
                                    std::to_string(kMinHeadDim) + " to " +
                                    std::to_string(kMaxHeadDim));
    }
    if (problem.kv_heads < 1 || problem.heads % problem.kv_heads != 0) {
        throw std::invalid_argument("heads (" + std::to_string(problem.heads) +
                                    ") must be a multiple of kv_heads (" +
                                    std::to_string(problem.kv_heads) + ")");
    }
    // Positions are 32-bit in the kernels, with room for the last tile to reach past the end.
    constexpr int64_t kMaxLength = std::numeric_limits<int>::max() - 1024;
    if (problem.q_len > kMaxLength || problem.k_len > kMaxLength) {
        throw std::invalid_argument("sequences longer than " + std::to_string(kMaxLength) +
                                    " are not supported on CUDA");
    }
}

}  // namespace

std::vector<std::string> dtypes() {
    std::vector<std::string> names;
    for (const Dtype dtype : {Dtype::fp16, Dtype::bf16}) {
        if (forward_of(dtype) != nullptr) {
            names.emplace_back(name_of(dtype));
        }
    }
    return names;
}

std::vector<std::string> archs() {
    std::vector<std::string> names;
    std::istringstream list(FLASHBENCH_CUDA_ARCHS);
    for (std::string name; std::getline(list, name, ',');) {
        names.push_back(name);
    }
    return names;
}

void attention(const Attention& problem, void* stream) {
    const Forward forward = forward_of(problem.dtype);
    if (forward == nullptr) {
        throw std::invalid_argument(std::string("dtype ") + name_of(problem.dtype) +
                                    " is not supported on CUDA: this build has " +
                                    joined(dtypes()));
    }
    if (problem.batch == 0 || problem.heads == 0 || problem.q_len == 0) {
        return;
    }
    check_problem(problem);
    const Device& device = device_at(current_device());
    if (device.compute_capability < 80) {
        throw std::runtime_error("this GPU has compute capability " +
                                 std::to_string(device.compute_capability / 10) + "." +
                                 std::to_string(device.compute_capability % 10) +
                                 "; the CUDA kernels need 8.0 or later");
    }
    forward(problem, static_cast<cudaStream_t>(stream));
}

}  // namespace flashbench::cuda
