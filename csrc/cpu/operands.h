// The operands of the matrix products. `Isa::operand` selects one for a dtype: fp32 numbers, to
// which the 16-bit dtypes are converted, unless the instruction set multiplies that dtype
// (isa/bf16_pairs.h).
//
// An operand's elements are slots of 32 bits; matrices of slots are held as floats, whose bits are
// only moved.
#pragma once

#include "exp2.h"
#include "strided.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

struct Fp32 {
    static constexpr int64_t per_slot = 1;
    // Slots that a product takes at once: operands are 0 beyond their last element up to there.
    static constexpr int64_t depth_step = 1;
    // Slots that Q K^T sums in one chain (see microkernel.h).
    static constexpr int64_t chain = 32;
    // A block of keys. K^T and V of one are 32 KiB each at head_dim 64.
    static constexpr int64_t block_keys = 128;
    // The operand brings a product of its own for a panel.
    static constexpr bool own_product = false;
    // Weights by short_exp2.
    static constexpr bool short_exp = false;
    // Lives as long as a task is computed.
    struct Session {};

    // `count` >= 1 elements as a vector of slots.
    template <class Element>
    static Isa::Vec load(const Element* from, int64_t stride, int64_t count) {
        return load_strided(from, stride, count);
    }
    // 0 in lanes that hold finite numbers, else NaN.
    static Isa::Vec excess(Isa::Vec slots) { return Isa::sub(slots, slots); }
    static Isa::Vec negate(Isa::Vec slots) { return Isa::mul(slots, Isa::broadcast(-1.0f)); }
    static Isa::Vec multiply_add(Isa::Vec a, Isa::Vec b, Isa::Vec c) { return Isa::fma(a, b, c); }

    // Weights take the place of the scores that they are made of, from the first on.
    static void store_weights(float* row, int64_t key, Isa::Vec x) { Isa::store(row + key, x); }
    static float weight(const float* row, int64_t key) { return row[key]; }
    // Of a key, from a column of a panel of V on, whose rows are `width` slots.
    static Isa::Vec values(const float* column, int64_t width, int64_t key) {
        return Isa::load(column + key * width);
    }
};

// fp32 that 16-bit numbers were converted to: what rounding to those adds to the result hides what is saved.
struct Widened : Fp32 {
    static constexpr int64_t chain = 256;  // all that there is
    static constexpr bool short_exp = true;
};

template <class Element>
using OperandOf = decltype(Isa::operand(Element{}));

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
