// Shared by all backends: dtype names, and the split of a problem by its mask.
#include "attention.h"

#include <algorithm>

namespace flashbench {

ByMask by_mask(const Attention& problem) {
    ByMask parts{problem, problem};
    Attention& unseeing = parts.unseeing;
    Attention& seeing = parts.seeing;
    unseeing.q_len = 0;
    unseeing.k_len = 0;
    unseeing.causal = false;
    unseeing.causal_offset = 0;
    if (problem.causal) {
        unseeing.q_len = std::clamp<int64_t>(-problem.causal_offset, 0, problem.q_len);
        const int64_t element = problem.dtype == Dtype::fp32 ? 4 : 2;
        const int64_t rows = unseeing.q_len;
        seeing.q = static_cast<const char*>(problem.q) + rows * problem.q_strides.seq * element;
        seeing.out = static_cast<char*>(problem.out) + rows * problem.out_strides.seq * element;
        if (problem.lse) seeing.lse = problem.lse + rows;
        seeing.q_len -= rows;
        seeing.causal_offset += rows;
        seeing.k_len = std::min(problem.k_len, seeing.q_len + seeing.causal_offset);
        seeing.causal = seeing.causal_offset + 1 < seeing.k_len;
    }
    if (!seeing.causal) {
        seeing.causal_offset = 0;
    }
    return parts;
}

const char* name_of(Dtype dtype) {
    switch (dtype) {
        case Dtype::fp32:
            return "fp32";
        case Dtype::fp16:
            return "fp16";
        case Dtype::bf16:
            return "bf16";
    }
    return "unknown";
}

}  // namespace flashbench
