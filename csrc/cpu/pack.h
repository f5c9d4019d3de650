// Packs keys and values of any strides and dtype into panels.
//
// The matrix product reads a panel from front to back: `panel_width` columns, stored row by row. For
// Q K^T the columns are keys and the rows head dims (so keys are transposed); for P V the columns are
// head dims and the rows keys.
//
// An operand (operands.h) says what the 32 bits of an element of a panel, a slot, hold: one fp32
// number, or two bf16 that follow one another in the direction that the product sums over. A row of
// a panel is then two head dims, or two keys.
#pragma once

#include "operands.h"
#include "rows.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

constexpr int64_t panel_width = Isa::tile_vectors * lanes;

constexpr int64_t round_up(int64_t n, int64_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

// panels: panel_stride slots apart. Columns beyond the last key are 0 up to the next multiple of
// `lanes`; rows beyond head_dim are 0 up to the next multiple of `lanes`, too.
template <class Operand, class Element>
inline void pack_keys(const Rows<Element>& keys, int64_t count, int64_t head_dim, float* panels,
                      int64_t panel_stride) {
    constexpr int64_t step = lanes * Operand::per_slot;
    for (int64_t key = 0; key < count; key += lanes) {
        float* column = panels + key / panel_width * panel_stride + key % panel_width;
        for (int64_t dim = 0; dim < head_dim; dim += step) {
            Isa::Vec block[lanes];
            for (int64_t i = 0; i < lanes; ++i) {
                block[i] = key + i < count
                               ? Operand::load(keys.first + (key + i) * keys.stride +
                                                   dim * keys.dim_stride,
                                               keys.dim_stride, head_dim - dim)
                               : Isa::zero();
            }
            Isa::transpose(block);
            for (int64_t i = 0; i < lanes; ++i) {
                Isa::store(column + (dim / Operand::per_slot + i) * panel_width, block[i]);
            }
        }
    }
}

// Columns beyond head_dim are 0 up to the next multiple of `lanes`; rows beyond `count` are 0 up to
// the next multiple of what the product takes at once.
template <class Operand, class Element>
inline void pack_values(const Rows<Element>& values, int64_t count, int64_t head_dim,
                        float* panels, int64_t panel_stride) {
    const int64_t rows = round_up(count, Operand::depth_step * Operand::per_slot);
    for (int64_t dim = 0; dim < head_dim; dim += lanes) {
        float* column = panels + dim / panel_width * panel_stride + dim % panel_width;
        const auto row = [&](int64_t key) {
            return key < count ? load_strided(values.first + key * values.stride +
                                                  dim * values.dim_stride,
                                              values.dim_stride, head_dim - dim)
                               : Isa::zero();
        };
        for (int64_t key = 0; key < rows; key += Operand::per_slot) {
            Isa::Vec slots = row(key);
            if constexpr (Operand::per_slot == 2) slots = Operand::pair(slots, row(key + 1));
            Isa::store(column + key / Operand::per_slot * panel_width, slots);
        }
    }
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
