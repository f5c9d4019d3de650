// One step of the online softmax, for rows and their next block of keys.
// Source of the method: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
#pragma once

#include "operands.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

// The state of consecutive rows. Initially max is `lowest` and sums are 0.
struct RowStates {
    float* max;   // per row: the largest q . k so far, unscaled; never NaN
    float* sums;  // per row: `lanes` parts of the sum of exp(scale * (q . k - max)) over the keys so far
};

constexpr float lowest = -3.40282346638528859812e+38f;

// old_max - new_max, at least `lowest`, because an infinity times a scale of 0 is NaN.
inline Isa::Vec difference(Isa::Vec old_max, Isa::Vec new_max) {
    return Isa::max(Isa::broadcast(lowest), Isa::sub(old_max, new_max));
}

// The largest of `count` scores in each lane, `lowest` in lanes without any. Ignores NaN.
inline Isa::Vec largest_in_lanes(const float* scores, int64_t count) {
    const int64_t whole = count / lanes * lanes;
    Isa::Vec largest = Isa::broadcast(lowest);
    for (int64_t i = 0; i < whole; i += lanes) largest = Isa::max(Isa::load(scores + i), largest);
    if (whole < count) {
        largest = Isa::max(
            Isa::first_lanes(count - whole, Isa::load(scores + whole), largest), largest);
    }
    return largest;
}

// Replaces the first `count` scores q . k by exp2((score - shift) * factor) and returns their sum in
// `lanes` parts. Weights from there to `padded` are 0.
template <class Operand>
inline Isa::Vec weigh(float* scores, int64_t count, int64_t padded, Isa::Vec shift,
                      Isa::Vec factor) {
    const auto weights = [&](int64_t i) {
        const Isa::Vec x = Isa::mul(Isa::sub(Isa::load(scores + i), shift), factor);
        return Operand::short_exp ? short_exp2(x) : exp2(x);
    };
    const int64_t whole = count / lanes * lanes;
    Isa::Vec sums = Isa::zero();
    int64_t i = 0;
    for (; i < whole; i += lanes) {
        const Isa::Vec x = weights(i);
        sums = Isa::add(sums, x);
        Operand::store_weights(scores, i, x);
    }
    if (whole < count) {
        const Isa::Vec x = Isa::first_lanes(count - whole, weights(i), Isa::zero());
        sums = Isa::add(sums, x);
        Operand::store_weights(scores, i, x);
        i += lanes;
    }
    for (; i < padded; i += lanes) Operand::store_weights(scores, i, Isa::zero());
    return sums;
}

// Replaces the first visible[r] scores of row r by exp(scale * (score - max)) and the rest up to
// `padded` by 0, and updates the rows' state. rescale[r] becomes the factor for sums under the old max;
// it and rows.max have room for whole vectors.
// `log2_scale` is |scale| * log2(e); a negative scale is in q already.
//
// The scale multiplies the difference from the largest score, never a score: the largest weight is then
// exactly 1, and rounding is relative to the difference. A NaN score does not enter the max, but its
// weight is NaN; an infinite one gives inf - inf = NaN; a row of only -inf has the sum 0 and ends as
// 0/0 = NaN, as a softmax defined by exp does.
template <class Operand>
inline void online_softmax(float* scores, int64_t stride, int64_t count, const int64_t* visible,
                           int64_t padded, float log2_scale, RowStates rows, float* rescale) {
    const Isa::Vec factor = Isa::broadcast(log2_scale);
    // Process as many rows at a time as a vector has lanes.
    for (int64_t first = 0; first < count; first += lanes) {
        const int64_t left = count - first < lanes ? count - first : lanes;
        Isa::Vec largest[lanes];
        for (int64_t i = 0; i < lanes; ++i) {
            largest[i] = i < left
                             ? largest_in_lanes(scores + (first + i) * stride, visible[first + i])
                             : Isa::broadcast(lowest);
        }
        const Isa::Vec old_max = Isa::load(rows.max + first);
        Isa::Vec new_max = old_max;
        if constexpr (2 * Isa::tile_rows < lanes) {  // a transpose would be mostly idle
            float row_max[lanes];
            for (int64_t i = 0; i < left; ++i) row_max[i] = Isa::max_of_lanes(largest[i]);
            for (int64_t i = left; i < lanes; ++i) row_max[i] = lowest;
            new_max = Isa::max(new_max, Isa::load(row_max));
        } else {
            Isa::transpose(largest);
            for (const Isa::Vec& x : largest) new_max = Isa::max(new_max, x);
        }
        Isa::store(rescale + first, exp2(Isa::mul(difference(old_max, new_max), factor)));
        Isa::store(rows.max + first, Isa::first_lanes(left, new_max, old_max));
    }
    for (int64_t row = 0; row < count; ++row) {
        const Isa::Vec sums =
            weigh<Operand>(scores + row * stride, visible[row], padded,
                           Isa::broadcast(rows.max[row]), factor);
        float* const to = rows.sums + row * lanes;
        Isa::store(to, Isa::fma(Isa::load(to), Isa::broadcast(rescale[row]), sums));
    }
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
