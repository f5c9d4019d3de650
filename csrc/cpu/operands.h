// The operands of the matrix products. `Isa::operand` selects one for a dtype: fp32, to which 16-bit
// dtypes are converted, unless the instruction set multiplies the dtype itself (isa/bf16_pairs.h).
//
// An operand's elements are slots of 32 bits. Matrices of slots are stored as floats, but only their
// bits are moved.
#pragma once

#include "exp2.h"
#include "strided.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

struct Fp32 {
    static constexpr int64_t per_slot = 1;
    // Slots that a product takes at once; operands are padded with 0 to a multiple of it.
    static constexpr int64_t depth_step = 1;
    // Slots that Q K^T sums in one chain (see microkernel.h).
    static constexpr int64_t chain = 32;
    // A block of keys. K^T and V of one are 32 KiB each at head_dim 64.
    static constexpr int64_t block_keys = 128;
    // Whether the operand has its own product of a panel.
    static constexpr bool own_product = false;
    // Whether weights use short_exp2.
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

    // Weights replace the scores they are computed from, in place.
    static void store_weights(float* row, int64_t key, Isa::Vec x) { Isa::store(row + key, x); }
    static float weight(const float* row, int64_t key) { return row[key]; }
    static Isa::Vec weights(const float* row, int64_t key) { return Isa::load(row + key); }
    // The values of a key, from a column of a panel of V whose rows are `width` slots.
    static Isa::Vec values(const float* column, int64_t width, int64_t key) {
        return Isa::load(column + key * width);
    }
};

// fp32 converted from 16-bit numbers: rounding the result to 16 bits hides the errors of the shortcuts.
struct Widened : Fp32 {
    static constexpr int64_t chain = 256;  // the whole depth
    static constexpr bool short_exp = true;
};

template <class Element>
using OperandOf = decltype(Isa::operand(Element{}));

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
