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

constexpr Family kSm80{FLASHBENCH_FP16(no_scratch<sm80::forward_fp16>),
                       FLASHBENCH_BF16(no_scratch<sm80::forward_bf16>)};
constexpr Family kDecode{FLASHBENCH_FP16(decode::forward_fp16),
                         FLASHBENCH_BF16(decode::forward_bf16)};
#ifdef FLASHBENCH_CUDA_SM90
constexpr Family kSm90{FLASHBENCH_FP16(sm90::forward_fp16), FLASHBENCH_BF16(sm90::forward_bf16)};
constexpr Family kSm90Wide{FLASHBENCH_FP16(sm90::forward_wide_fp16),
                           FLASHBENCH_BF16(sm90::forward_wide_bf16)};
constexpr Family kSm90WithLse{FLASHBENCH_FP16(no_scratch<sm90::forward_with_lse_fp16>),
                              FLASHBENCH_BF16(no_scratch<sm90::forward_with_lse_bf16>)};
constexpr Family kSm90Split{FLASHBENCH_FP16(no_scratch<sm90::forward_split_fp16>),
                            FLASHBENCH_BF16(no_scratch<sm90::forward_split_bf16>)};
constexpr Family kSm90Short{FLASHBENCH_FP16(no_scratch<sm90::forward_short_fp16>),
                            FLASHBENCH_BF16(no_scratch<sm90::forward_short_bf16>)};
#endif

// Whether causal tiles differ much in their number of keys. If most keys are seen by all queries they do
// not, and measurements without a mask apply.
bool is_uneven(const Attention& problem) {
    return problem.causal && 2 * problem.causal_offset < problem.k_len;
}

// The decode rows of the table below.
bool is_decode(const Attention& problem, const Device& device) {
    const int64_t group = problem.heads / problem.kv_heads;
    const int64_t rows = group * problem.q_len;
    const bool top_left = problem.causal && problem.causal_offset == 0;
    if (top_left || problem.k_len < 1 || !(problem.scale > 0.0f) ||
        !std::isfinite(problem.scale)) {
        return false;
    }
    if (device.compute_capability != 90) {
        return problem.head_dim <= 128 && rows <= 16 && problem.k_len > 256;
    }
    const int64_t tiles = (problem.q_len + 63) / 64 * problem.batch * problem.heads;
    if (problem.causal && !is_uneven(problem) && problem.head_dim <= 128 && problem.q_len <= 256 &&
        problem.k_len >= 4096 && 4 * tiles <= device.multiprocessors) {
        return true;
    }
    if (group == 1) {
        const bool few = 4 * problem.batch * problem.heads <= device.multiprocessors;
        if (problem.head_dim > 128 && problem.q_len <= 8) {
            return true;
        }
        return problem.k_len > 512 &&
               (problem.q_len <= 8 || (problem.q_len <= 32 && (few || problem.k_len > 2048)));
    }
    return problem.q_len <= 16 && (rows <= 16 || problem.k_len > (rows <= 32 ? 256 : 1024));
}

#ifdef FLASHBENCH_CUDA_SM90
// The Hopper rows of the table below for head dims to 128; `tiles` counts those of all heads.
template <typename Tiles>
bool short_is_faster(const Attention& problem, const Tiles& tiles, int64_t at_once) {
    const int64_t q_len = problem.q_len;
    const int64_t k_len = problem.k_len;
    const bool narrow = problem.head_dim <= 64;
    // Copies of rows that are no multiple of 32 bytes are slow, and these small tiles copy the most.
    const int64_t few_keys = problem.head_dim % 16 == 0 ? 1024 : 256;
    if (tiles(64) <= at_once) {
        const bool few = 4 * tiles(128) <= at_once;
        const int64_t divided_keys = 4 * tiles(64) <= at_once ? 8192 : 16384;
        return problem.causal || !few || k_len < divided_keys;
    }
    if (is_uneven(problem)) {
        return k_len <= (narrow ? few_keys : 256) ||
               (narrow && few_keys == 1024 && tiles(64) <= 2 * at_once);
    }
    if (!narrow) {
        const bool fills_main = q_len % 128 == 0 && (q_len >= 256 || tiles(64) > 4 * at_once);
        return k_len <= 256 && !fills_main;
    }
    const bool one_round_of_main = 2 * tiles(64) > 3 * at_once && tiles(128) <= at_once;
    const bool fills_main = q_len >= 384 && q_len % 192 == 0;
    return k_len <= 256 || 2 * tiles(64) <= 3 * at_once ||
           (k_len <= few_keys && !one_round_of_main && !fills_main);
}
#endif

// Chooses the family that computes a problem, as measured on an H200 (docs/lab/cuda-kernels.md). The
// first matching row wins; ";" separates alternatives. "Tiles of N rows" counts those of all heads, and
// "an SM" is their number divided by the number of SMs. Rows are q_len times the query heads of a key
// head (GQA).
//
//   GPU   head dim  when                                                         family
//   9.0        any  full, GQA, q_len <= 16: rows <= 16;                          decode
//                     rows <= 32 and k_len > 256; k_len > 1024
//   9.0        any  full, no GQA, k_len > 512: q_len <= 8; q_len <= 32 and       decode
//                     k_len > 2048 or heads: 1/4 an SM
//   9.0      > 128  full, no GQA: q_len <= 8                                     decode
//   9.0     <= 128  even, q_len <= 256, k_len >= 4096: tiles of 64 rows:         decode
//                     1/4 an SM
//   other   <= 128  full: rows <= 16 and k_len > 256                             decode
//   9.0     <= 128  tiles of 32 rows: 1 an SM, and k_len <= 256                  sm90, split
//   9.0     <= 128  tiles of 64 rows: 1 an SM, unless full, tiles of 128 rows:   sm90, short
//                     1/4 an SM, and k_len >= 16384 or k_len >= 8192 and tiles
//                     of 64 rows: 1/4 an SM
//   9.0      <= 64  causal: k_len <= 1024; tiles of 64 rows: 2 an SM             sm90, short
//   9.0      <= 64  full: k_len <= 256; tiles of 64 rows: 1.5 an SM;             sm90, short
//                     k_len <= 1024, unless 192 divides q_len >= 384
//                     or tiles of 128 rows: 1 an SM
//   9.0     <= 128  causal: k_len <= 256                                         sm90, short
//   9.0     <= 128  full: k_len <= 256, unless 128 divides q_len and             sm90, short
//                     q_len >= 256 or tiles of 64 rows: more than 4 an SM
//   9.0     <= 128  else                                                         sm90
//   9.0      > 128  tiles of 128 rows: 64; any number if q_len > 256 or          sm90
//                     full and k_len > 512
//   any        any                                                               sm80
//
// Head dims up to 64 that are no multiple of 16 use 256 instead of 1024, and no "2 an SM". Causal: keys
// that no query sees do not count. "Even": causal, with at least half of the keys seen by all queries;
// it counts as full too, except for divided tails, which only full calls have (the row of 1/4 an SM).
// (That row and the one of decode follow from measurements of full calls.)
//
// The sm90 and decode kernels need at least one key and a positive finite scale. Strides do not matter,
// so every layout gives the same bits.
const Family& family_of(const Attention& problem, const Device& device) {
    if (is_decode(problem, device)) {
        return kDecode;
    }
#ifdef FLASHBENCH_CUDA_SM90
    const auto tiles = [&problem](int64_t rows) {
        return (problem.q_len + rows - 1) / rows * problem.batch * problem.heads;
    };
    if (device.compute_capability == 90 && problem.k_len > 0 && problem.scale > 0.0f &&
        std::isfinite(problem.scale)) {
        const int64_t at_once = device.multiprocessors;
        if (problem.head_dim <= 128) {
            if (tiles(32) <= at_once && problem.k_len <= 256) {
                return kSm90Split;
            }
            return short_is_faster(problem, tiles, at_once) ? kSm90Short : kSm90;
        }
        if (tiles(128) >= 64 || problem.q_len > 256 ||
            (!is_uneven(problem) && problem.k_len > 512)) {
            return kSm90Wide;
        }
    }
#endif
    return kSm80;
}

// The family that also writes lse, if there are keys; without them it is kSm80, which does. Scores and
// output do not differ, but their last bits may.
const Family& family_with_lse(const Attention& problem, const Device& device) {
    if (!(problem.scale > 0.0f) || !std::isfinite(problem.scale)) {
        throw std::invalid_argument("gradients on CUDA need a positive and finite scale");
    }
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
