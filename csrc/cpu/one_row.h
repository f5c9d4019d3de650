// Processes a task of one row with a block of keys: scores, softmax, weighted values.
//
// Without packing, which would cost more than the products. Sums of q K^T run along the head dim in lanes.
// A block is read in passes of up to `most_vectors` vectors of its rows, so that what a pass multiplies
// them by, or adds them to, stays in registers.
#pragma once

#include "prefetch.h"
#include "scratch.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

// These, a weight and what is loaded fit into AVX-512's 32 registers, or into 16.
constexpr int most_vectors = lanes > 8 ? 16 : 12;

template <int n>
struct Count {
    static constexpr int value = n;
};

// Calls body(Count<count>) for a count from 1 to `most` that is known only at run time.
template <int most, class Body>
inline void with_count(int64_t count, const Body& body) {
    if constexpr (most > 1) {
        if (count < most) return with_count<most - 1>(count, body);
    }
    body(Count<most>{});
}

// Calls body(Count<vectors>, first dim, elements of the last vector) for passes of about equal length over
// the head dim.
template <int most, class Body>
inline void for_each_pass(int64_t dims, const Body& body) {
    const int64_t vectors = (dims + lanes - 1) / lanes;
    int64_t first = 0;
    for (int64_t passes = (vectors + most - 1) / most; passes > 0; --passes) {
        const int64_t count = (vectors - first + passes - 1) / passes;
        const int64_t rest = passes == 1 ? dims - (vectors - 1) * lanes : lanes;
        with_count<most>(count, [&](auto constant) { body(constant, first * lanes, rest); });
        first += count;
    }
}

// Vector i of the `vectors` in a pass over a key or value. The last vector has `rest` elements.
template <bool contiguous, int vectors, class Element>
inline Isa::Vec load_dims(const Element* from, int64_t stride, int i, int64_t rest) {
    if constexpr (!contiguous) {
        return load_strided(from + i * lanes * stride, stride, i + 1 < vectors ? lanes : rest);
    } else {
        return i + 1 < vectors ? Isa::load(from + i * lanes) : load_first(from + i * lanes, rest);
    }
}

// In four lanes one chain of sums would be long enough for its rounding to show in the result.
constexpr int chains = lanes <= 4 ? 2 : 1;

// Up to `lanes` scores of keys, and with `fetches` those after them on the way. Vectors of the head dim go
// to the chains in turn.
template <bool contiguous, bool fetches, class Element>
inline void score_keys(const float* query, int64_t dims, const Rows<Element>& keys, int64_t count,
                       float* scores) {
    constexpr int most = contiguous ? most_vectors : 1;
    Isa::Vec sums[chains][lanes];
    for (auto& chain : sums) {
        for (Isa::Vec& sum : chain) sum = Isa::zero();
    }
    for_each_pass<most>(dims, [=, &sums](auto constant, int64_t first, int64_t rest) {
        constexpr int vectors = decltype(constant)::value;
        const int64_t stride = keys.stride, dim_stride = keys.dim_stride;
        Isa::Vec q[vectors];
#pragma GCC unroll 16
        for (int i = 0; i < vectors; ++i) q[i] = Isa::load(query + first + i * lanes);
        const Element* k = keys.first + first * dim_stride;
        const int64_t turn = first / lanes % chains;
        for (int64_t key = 0; key < count; ++key, k += stride) {
            Isa::Vec sum[chains];
            for (int i = 0; i < chains; ++i) sum[i] = sums[(turn + i) % chains][key];
#pragma GCC unroll 16
            for (int i = 0; i < vectors; ++i) {
                const Isa::Vec x = load_dims<contiguous, vectors>(k, dim_stride, i, rest);
                if constexpr (fetches) fetch_ahead(k, stride, i);
                sum[i % chains] = Isa::fma(q[i], x, sum[i % chains]);
            }
            for (int i = 0; i < chains; ++i) sums[(turn + i) % chains][key] = sum[i];
        }
    });
    Isa::Vec(&total)[lanes] = sums[0];
    for (int chain = 1; chain < chains; ++chain) {
        for (int64_t i = 0; i < lanes; ++i) total[i] = Isa::add(total[i], sums[chain][i]);
    }
    Isa::store(scores, Isa::sums_of(total));
}

// O = O * rescale + P V.
template <bool contiguous, class Element>
inline void add_values_of_row(const float* weights, int64_t dims, const Rows<Element>& values,
                              int64_t visible, float rescale, float* out) {
    constexpr int most = contiguous ? most_vectors : 1;
    for_each_pass<most>(dims, [=](auto constant, int64_t first, int64_t rest) {
        constexpr int vectors = decltype(constant)::value;
        const int64_t stride = values.stride, dim_stride = values.dim_stride;
        Isa::Vec sums[vectors];
#pragma GCC unroll 16
        for (int i = 0; i < vectors; ++i) sums[i] = Isa::zero();
        const Element* v = values.first + first * dim_stride;
        for (int64_t key = 0; key < visible; ++key, v += stride) {
            const Isa::Vec weight = Isa::broadcast(weights[key]);
#pragma GCC unroll 16
            for (int i = 0; i < vectors; ++i) {
                const Isa::Vec x = load_dims<contiguous, vectors>(v, dim_stride, i, rest);
                if constexpr (contiguous) fetch_ahead(v, stride, i);
                sums[i] = Isa::fma(weight, x, sums[i]);
            }
        }
#pragma GCC unroll 16
        for (int i = 0; i < vectors; ++i) {
            float* const to = out + first + i * lanes;
            Isa::store(to, Isa::fma(Isa::load(to), Isa::broadcast(rescale), sums[i]));
        }
    });
}

template <bool contiguous, class Element>
inline void attend_one_row_as(const Scratch<Fp32>& scratch, int64_t dims, float log2_scale,
                              const Rows<Element>& keys, const Rows<Element>& values,
                              int64_t visible) {
    for (int64_t key = 0; key < visible; key += lanes) {
        const int64_t left = visible - key;
        const Rows<Element> from{keys.first + key * keys.stride, keys.stride, keys.dim_stride};
        score_keys<contiguous, contiguous>(scratch.queries, dims, from,
                                           left < lanes ? left : lanes, scratch.scores + key);
    }
    float rescale[lanes];
    online_softmax<Fp32>(scratch.scores, scratch.score_stride, 1, &visible, 0, log2_scale,
                         scratch.rows, rescale);
    add_values_of_row<contiguous>(scratch.scores, dims, values, visible, rescale[0], scratch.out);
}

template <class Element>
inline void attend_one_row(const Scratch<Fp32>& scratch, const Attention& problem,
                           float log2_scale, const Rows<Element>& keys,
                           const Rows<Element>& values, int64_t visible) {
    const bool contiguous = keys.dim_stride == 1 && values.dim_stride == 1 &&
                            (moves_part || problem.head_dim % lanes == 0);
    const auto attend =
        contiguous ? attend_one_row_as<true, Element> : attend_one_row_as<false, Element>;
    attend(scratch, problem.head_dim, log2_scale, keys, values, visible);
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
