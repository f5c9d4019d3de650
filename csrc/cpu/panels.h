// Packing: keys and values of any strides and dtype become fp32 panels.
//
// A panel is what the matrix product reads from front to back: `panel_width` columns, stored row
// after row. For Q K^T the columns are keys and the rows are head dims (so keys are transposed);
// for P V the columns are head dims and the rows are keys.
#pragma once

#include <cstring>

#include FLASHBENCH_ISA_HEADER

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

constexpr int64_t lanes = Isa::lanes;
constexpr int64_t panel_width = Isa::tile_vectors * lanes;

inline int64_t round_up(int64_t n, int64_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

// Rows of head vectors in the caller's memory.
template <class Element>
struct Rows {
    const Element* first;
    int64_t stride;      // from one row to the next
    int64_t dim_stride;  // from one head dim to the next
};

// The `count` >= 1 elements that start at `from`, as fp32; 0 in the lanes beyond them.
template <class Element>
inline Isa::Vec load_strided(const Element* from, int64_t stride, int64_t count) {
    if (stride == 1 && count >= lanes) return Isa::load(from);
    Element gathered[lanes] = {};
    for (int64_t i = 0; i < count && i < lanes; ++i) gathered[i] = from[i * stride];
    return Isa::load(gathered);
}

template <class Element>
inline void store_strided(Element* to, int64_t stride, int64_t count, Isa::Vec x) {
    if (stride == 1 && count >= lanes) return Isa::store(to, x);
    Element scattered[lanes];
    Isa::store(scattered, x);
    for (int64_t i = 0; i < count && i < lanes; ++i) to[i * stride] = scattered[i];
}

// panels: panel_stride floats apart, at least round_up(head_dim, lanes) rows each. Columns beyond
// the last key are 0 up to the next multiple of `lanes`.
template <class Element>
inline void pack_keys(const Rows<Element>& keys, int64_t count, int64_t head_dim, float* panels,
                      int64_t panel_stride) {
    for (int64_t key = 0; key < count; key += lanes) {
        float* column = panels + key / panel_width * panel_stride + key % panel_width;
        for (int64_t dim = 0; dim < head_dim; dim += lanes) {
            Isa::Vec block[lanes];
            for (int64_t i = 0; i < lanes; ++i) {
                block[i] = key + i < count
                               ? load_strided(keys.first + (key + i) * keys.stride +
                                                  dim * keys.dim_stride,
                                              keys.dim_stride, head_dim - dim)
                               : Isa::zero();
            }
            Isa::transpose(block);
            for (int64_t i = 0; i < lanes; ++i) {
                Isa::store(column + (dim + i) * panel_width, block[i]);
            }
        }
    }
}

// Columns beyond head_dim are 0 up to the next multiple of `lanes`.
template <class Element>
inline void pack_values(const Rows<Element>& values, int64_t count, int64_t head_dim,
                        float* panels, int64_t panel_stride) {
    for (int64_t dim = 0; dim < head_dim; dim += lanes) {
        float* column = panels + dim / panel_width * panel_stride + dim % panel_width;
        for (int64_t key = 0; key < count; ++key) {
            const Element* from =
                values.first + key * values.stride + dim * values.dim_stride;
            Isa::store(column + key * panel_width,
                       load_strided(from, values.dim_stride, head_dim - dim));
        }
    }
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
