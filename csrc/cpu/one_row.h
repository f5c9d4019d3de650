// Processes a task of one row with a block of keys: scores, softmax, weighted values.
//
// Without packing, which would cost more than the products. Sums of q K^T run along the head dim in lanes.
#pragma once

#include "scratch.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

// A vector of a key or value. `whole`: of contiguous elements, none of them past the head dim.
template <bool whole, class Element>
inline Isa::Vec load_dims(const Element* from, int64_t stride, int64_t count) {
    if constexpr (whole) return Isa::load(from);
    return load_strided(from, stride, count);
}

// `vectors` vectors of O from dim `first` on: O = O * rescale + P V for a task of one row.
template <bool whole, int vectors, class Element>
inline void add_values_of_row(const Scratch<Fp32>& scratch, int64_t dims,
                              const Rows<Element>& values, int64_t visible, float rescale,
                              int64_t first) {
    Isa::Vec sums[vectors];
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) sums[i] = Isa::zero();
    const Element* v = values.first + first * values.dim_stride;
    for (int64_t key = 0; key < visible; ++key, v += values.stride) {
        const Isa::Vec weight = Isa::broadcast(scratch.scores[key]);
#pragma GCC unroll 8
        for (int i = 0; i < vectors; ++i) {
            const Isa::Vec x = load_dims<whole>(v + i * lanes * values.dim_stride,
                                                values.dim_stride, dims - first - i * lanes);
            sums[i] = Isa::fma(weight, x, sums[i]);
        }
    }
    float* const out = scratch.out + first;
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) {
        Isa::store(out + i * lanes,
                   Isa::fma(Isa::load(out + i * lanes), Isa::broadcast(rescale), sums[i]));
    }
}

template <bool whole, class Element>
inline void attend_one_row_as(const Scratch<Fp32>& scratch, int64_t dims, float log2_scale,
                              const Rows<Element>& keys, const Rows<Element>& values,
                              int64_t visible) {
    for (int64_t key = 0; key < visible; key += lanes) {
        Isa::Vec sums[lanes];
        for (int64_t i = 0; i < lanes; ++i) {
            sums[i] = Isa::zero();
            if (key + i >= visible) continue;
            const Element* const k = keys.first + (key + i) * keys.stride;
            for (int64_t dim = 0; dim < dims; dim += lanes) {
                const Isa::Vec x =
                    load_dims<whole>(k + dim * keys.dim_stride, keys.dim_stride, dims - dim);
                sums[i] = Isa::fma(Isa::load(scratch.queries + dim), x, sums[i]);
            }
        }
        Isa::transpose(sums);
        for (int64_t step = 1; step < lanes; step *= 2) {
            for (int64_t i = 0; i < lanes; i += 2 * step) {
                sums[i] = Isa::add(sums[i], sums[i + step]);
            }
        }
        Isa::store(scratch.scores + key, sums[0]);
    }
    float rescale[lanes];
    online_softmax<Fp32>(scratch.scores, scratch.block_keys, 1, &visible, 0, log2_scale,
                         scratch.rows, rescale);
    for (int64_t dim = 0; dim < dims;) {
        const int64_t left = dims - dim;
        if (left > 7 * lanes) {
            add_values_of_row<whole, 8>(scratch, dims, values, visible, rescale[0], dim);
            dim += 8 * lanes;
        } else if (left > 3 * lanes) {
            add_values_of_row<whole, 4>(scratch, dims, values, visible, rescale[0], dim);
            dim += 4 * lanes;
        } else {
            add_values_of_row<whole, 1>(scratch, dims, values, visible, rescale[0], dim);
            dim += lanes;
        }
    }
}

template <class Element>
inline void attend_one_row(const Scratch<Fp32>& scratch, const Attention& problem,
                           float log2_scale, const Rows<Element>& keys,
                           const Rows<Element>& values, int64_t visible) {
    const int64_t dims = problem.head_dim;
    const bool whole = dims % lanes == 0 && keys.dim_stride == 1 && values.dim_stride == 1;
    const auto attend = whole ? attend_one_row_as<true, Element> : attend_one_row_as<false, Element>;
    attend(scratch, dims, log2_scale, keys, values, visible);
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
