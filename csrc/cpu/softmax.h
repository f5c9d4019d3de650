// One step of the online softmax: a row meets the next block of keys.
// Source of the method: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
#pragma once

#include "operands.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

constexpr float minus_infinity = -__builtin_inff();

struct RowState {
    float max;  // largest q . k so far, not scaled; -inf at first. Not a NaN
    float sum;  // of exp(scale * (q . k - max)) over the keys so far
};

// Replaces the first `count` scores q . k by exp(scale * (score - max)), brings `row` up to date and
// returns the factor for what was summed under the old max. Weights from there to `padded` are 0.
// `log2_scale` is |scale| * log2(e); a negative scale is in q already.
//
// The scale meets the difference from the largest score, never a score: then the largest weight is
// exactly 1 and rounding is relative to the difference. A NaN score does not enter the max, yet its
// weight is NaN; an infinite one gives inf - inf = NaN; a row of -inf alone has the sum 0, and 0/0
// at the end, as softmax defined by exp has it.
template <class Operand>
inline float online_softmax(float* scores, int64_t count, int64_t padded, float log2_scale,
                            RowState& row) {
    const int64_t whole = count / lanes * lanes;
    const int64_t rest = count - whole;
    const Isa::Vec none = Isa::broadcast(minus_infinity);

    Isa::Vec largest = none;
    for (int64_t i = 0; i < whole; i += lanes) largest = Isa::max(Isa::load(scores + i), largest);
    if (rest) {
        largest =
            Isa::max(Isa::first_lanes(rest, Isa::load(scores + whole), none), largest);
    }
    const float block_max = Isa::max_of_lanes(largest);
    const float new_max = block_max > row.max ? block_max : row.max;

    const Isa::Vec shift = Isa::broadcast(new_max == minus_infinity ? 0.0f : new_max);
    const Isa::Vec factor = Isa::broadcast(log2_scale);
    Isa::Vec sums = Isa::zero();
    for (int64_t i = 0; i < whole; i += lanes) {
        const Isa::Vec weight =
            Operand::exp2(Isa::mul(Isa::sub(Isa::load(scores + i), shift), factor));
        sums = Isa::add(sums, weight);
        Operand::store_weights(scores, i, weight);
    }
    if (rest) {
        const Isa::Vec weight =
            Operand::exp2(Isa::mul(Isa::sub(Isa::load(scores + whole), shift), factor));
        const Isa::Vec kept = Isa::first_lanes(rest, weight, Isa::zero());
        sums = Isa::add(sums, kept);
        Operand::store_weights(scores, whole, kept);
    }
    for (int64_t i = whole + (rest ? lanes : 0); i < padded; i += lanes) {
        Operand::store_weights(scores, i, Isa::zero());
    }

    // While the max was -inf, the sums were 0 or NaN: no factor changes those.
    float rescale = 1.0f;
    if (new_max != row.max && row.max != minus_infinity) {
        float lane0[lanes];
        Isa::store(lane0, exp2(Isa::mul(Isa::sub(Isa::broadcast(row.max), shift), factor)));
        rescale = lane0[0];
    }
    row.max = new_max;
    row.sum = row.sum * rescale + Isa::sum_of_lanes(sums);
    return rescale;
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
