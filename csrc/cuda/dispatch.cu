// The host side of the CUDA backend: reports what was compiled in, checks a problem, picks the
// kernel.
//
// The build defines FLASHBENCH_CUDA_FP16, FLASHBENCH_CUDA_BF16 and FLASHBENCH_CUDA_FP8 for the dtype
// units it compiles, FLASHBENCH_CUDA_SM90 if those of sm90/ are among them, and FLASHBENCH_CUDA_ARCHS
// as a string such as "80,90a".
#include <cuda_runtime.h>

#include <cmath>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "../attention.h"
#include "backward.h"
#include "checks.h"
#include "constants.h"
#include "decode/forward.h"
#include "device.h"
#include "families.h"
#include "simt/forward.h"
#include "sm80/forward.h"
#include "sm90/forward.h"

namespace flashbench::cuda {

namespace {

using Forward = void (*)(const Attention&, const Scratch&, cudaStream_t);

// A forward function that never asks for scratch memory.
template <void (*forward)(const Attention&, cudaStream_t)>
void no_scratch(const Attention& problem, const Scratch&, cudaStream_t stream) {
    forward(problem, stream);
}

struct Family;
const Family& family_of(const Attention& problem, const Device& device, bool scratch = true);

// The kernels of one family; null for a dtype that was not compiled in.
struct Family {
    Forward fp16;
    Forward bf16;

    Forward of(Dtype dtype) const {
        return dtype == Dtype::fp16 ? fp16 : dtype == Dtype::bf16 ? bf16 : nullptr;
    }
};

#ifdef FLASHBENCH_CUDA_FP16
#define FLASHBENCH_FP16(name) name
#else
#define FLASHBENCH_FP16(name) nullptr
#endif
#ifdef FLASHBENCH_CUDA_BF16
#define FLASHBENCH_BF16(name) name
#else
#define FLASHBENCH_BF16(name) nullptr
#endif

constexpr Family kSm80{FLASHBENCH_FP16(sm80::forward_fp16), FLASHBENCH_BF16(sm80::forward_bf16)};
constexpr Family kDecode{FLASHBENCH_FP16(decode::forward_fp16),
                         FLASHBENCH_BF16(decode::forward_bf16)};
constexpr Family kSimt{FLASHBENCH_FP16(no_scratch<simt::forward_fp16>),
                       FLASHBENCH_BF16(no_scratch<simt::forward_bf16>)};
#ifdef FLASHBENCH_CUDA_SM90
constexpr Family kSm90{FLASHBENCH_FP16(sm90::forward_fp16), FLASHBENCH_BF16(sm90::forward_bf16)};
constexpr Family kSm90Wide{FLASHBENCH_FP16(sm90::forward_wide_fp16),
                           FLASHBENCH_BF16(sm90::forward_wide_bf16)};
// Packed rows, or without scratch memory the next family of the table.
template <bool (*forward_packed)(const Attention&, const Scratch&, cudaStream_t)>
void packed_or_next(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    if (!forward_packed(problem, scratch, stream)) {
        family_of(problem, device_at(current_device()), false)
            .of(problem.dtype)(problem, scratch, stream);
    }
}
constexpr Family kSm90Packed{FLASHBENCH_FP16(packed_or_next<sm90::forward_packed_fp16>),
                             FLASHBENCH_BF16(packed_or_next<sm90::forward_packed_bf16>)};
constexpr Family kSm90WithLse{FLASHBENCH_FP16(no_scratch<sm90::forward_with_lse_fp16>),
                              FLASHBENCH_BF16(no_scratch<sm90::forward_with_lse_bf16>)};
constexpr Family kSm90Split{FLASHBENCH_FP16(no_scratch<sm90::forward_split_fp16>),
                            FLASHBENCH_BF16(no_scratch<sm90::forward_split_bf16>)};
constexpr Family kSm90Short{FLASHBENCH_FP16(no_scratch<sm90::forward_short_fp16>),
                            FLASHBENCH_BF16(no_scratch<sm90::forward_short_bf16>)};
#endif

// The table of families.h. Strides do not matter, so every layout gives the same bits.
const Family& family_of(const Attention& problem, const Device& device, bool scratch) {
    switch (kernels_for(problem, device.takes_sm90, device.multiprocessors, scratch)) {
        case Kernels::simt:
            return kSimt;
        case Kernels::decode:
            return kDecode;
#ifdef FLASHBENCH_CUDA_SM90
        case Kernels::split:
            return kSm90Split;
        case Kernels::short_tiles:
            return kSm90Short;
        case Kernels::main:
            return kSm90;
        case Kernels::wide:
            return kSm90Wide;
        case Kernels::packed:
            return kSm90Packed;
#endif
        default:
            return kSm80;
    }
}

// The family that also writes lse, if there are keys; without them it is kSm80, which does. Scores and
// output do not differ, but their last bits may.
const Family& family_with_lse(const Attention& problem, const Device& device) {
    check_scale_of_gradients(problem.scale);
#ifdef FLASHBENCH_CUDA_SM90
    if (takes_sm90_gradients(device)) {
        return kSm90WithLse;
    }
#endif
    static_cast<void>(device);
    return kSm80;
}

std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
        text += (text.empty() ? "" : ", ") + name;
    }
    return text.empty() ? "none" : text;
}

}  // namespace

std::vector<std::string> dtypes() {
    std::vector<std::string> names;
    for (const Dtype dtype : {Dtype::fp16, Dtype::bf16}) {
        if (kSm80.of(dtype) != nullptr) {
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

bool is_current(int device) {
    int current = 0;
    return cudaGetDevice(&current) == cudaSuccess && current == device;
}

void attention(const Attention& problem, const Scratch& scratch, void* stream) {
    if (kSm80.of(problem.dtype) == nullptr) {
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
    const ByMask parts = by_mask(problem);
    for (const Attention& part : {parts.unseeing, parts.seeing}) {
        if (part.q_len == 0) {
            continue;
        }
        const bool with_lse = part.lse != nullptr && part.k_len > 0;
        const Family& family =
            with_lse ? family_with_lse(part, device) : family_of(part, device);
        family.of(part.dtype)(part, scratch, static_cast<cudaStream_t>(stream));
    }
}

bool has_e4m3() {
#if defined(FLASHBENCH_CUDA_FP8) && defined(FLASHBENCH_CUDA_SM90)
    return true;
#else
    return false;
#endif
}

void attention_e4m3(const AttentionE4m3& problem, void* stream) {
    if (problem.batch == 0 || problem.heads == 0 || problem.q_len == 0) {
        return;
    }
    check_heads(problem.heads, problem.kv_heads);
    check_lengths(problem.q_len, problem.k_len);
    if (problem.k_len < 1 || !(problem.scale > 0.0f) || !std::isfinite(problem.scale) ||
        (problem.width != 64 && problem.width != 128) || problem.head_dim > problem.width ||
        problem.head_dim % kChunkElements != 0 || problem.out_dtype == Dtype::fp32) {
        throw std::invalid_argument("e4m3 attention takes at least one key, a positive and finite "
                                    "scale, a width of 64 or 128, a head_dim up to that in steps "
                                    "of 8, and writes fp16 or bf16");
    }
    if (device_at(current_device()).compute_capability != 90) {
        throw std::runtime_error("the e4m3 kernels need a Hopper GPU (compute capability 9.0)");
    }
#if defined(FLASHBENCH_CUDA_FP8) && defined(FLASHBENCH_CUDA_SM90)
    sm90::forward_fp8(problem, static_cast<cudaStream_t>(stream));
#else
    static_cast<void>(stream);
    throw std::invalid_argument("this build has no e4m3 kernels");
#endif
}

}  // namespace flashbench::cuda
