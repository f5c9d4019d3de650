// Processes a task of few rows with a block of keys: scores, softmax, weighted values.
//
// Without packing, which would cost more than the products. Sums of q K^T run along the head dim in lanes.
// A block is read in passes over the head dim, by two or four rows at once, so that sums stay in registers.
// Keys and values whose elements lie apart are copied first, so that strides change no bit of a result.
#pragma once

#include "prefetch.h"
#include "scratch.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

// Rows that are scored at once, and those that values are added to: sums of four do not fit into 16 registers
// beside their weights.
constexpr int rows_at_once = 4;
constexpr int value_rows_at_once = lanes > 8 ? 4 : 2;

// Vectors of O that a pass over values sums, of all its rows: AVX-512 has 32 registers, others 16.
constexpr int most_vectors = lanes > 8 ? 16 : 12;

// Vectors of a key in a pass over keys, whose queries are read again where registers do not hold them: a pass
// more would take the sums over lanes once more, which costs more.
template <int rows>
constexpr int score_vectors = rows < rows_at_once ? 16 : most_vectors / 2;

// Up to so many rows this is faster than tiles.
constexpr int64_t few_rows = 8;
static_assert(few_rows <= strip_rows, "there is room for their scores");

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
template <int vectors, class Element>
inline Isa::Vec load_dims(const Element* from, int i, int64_t rest) {
    return i + 1 < vectors ? Isa::load(from + i * lanes) : load_first(from + i * lanes, rest);
}

// The scores of `count` keys for each of `rows` queries, which are `query_stride` floats apart, and with
// `fetches` the keys after them on the way. Writes whole vectors of scores.
template <int rows, bool fetches, class Element>
inline void score_keys(const float* queries, int64_t query_stride, int64_t dims,
                       const Rows<Element>& keys, int64_t count, float* scores,
                       int64_t score_stride) {
    for_each_pass<score_vectors<rows>>(dims, [=](auto constant, int64_t first, int64_t rest) {
        constexpr int vectors = decltype(constant)::value;
        const int64_t stride = keys.stride, ahead = bytes_ahead<Element>(stride);
        Isa::Vec q[rows][vectors];
#pragma GCC unroll 4
        for (int row = 0; row < rows; ++row) {
#pragma GCC unroll 16
            for (int i = 0; i < vectors; ++i) {
                q[row][i] = Isa::load(queries + row * query_stride + first + i * lanes);
            }
        }
        const Element* k = keys.first + first;
        for (int64_t key = 0; key < count; key += lanes) {
            const int64_t here = count - key < lanes ? count - key : lanes;
            Isa::Vec sums[rows][lanes];
            if (here < lanes) {
                for (auto& row : sums) {
                    for (Isa::Vec& sum : row) sum = Isa::zero();
                }
            }
            for (int64_t i = 0; i < here; ++i, k += stride) {
                Isa::Vec sum[rows];
#pragma GCC unroll 4
                for (int row = 0; row < rows; ++row) sum[row] = Isa::zero();
#pragma GCC unroll 16
                for (int v = 0; v < vectors; ++v) {
                    const Isa::Vec x = load_dims<vectors>(k, v, rest);
                    if constexpr (fetches) fetch_ahead(k, ahead, v);
#pragma GCC unroll 4
                    for (int row = 0; row < rows; ++row) {
                        sum[row] = Isa::fma(q[row][v], x, sum[row]);
                    }
                }
#pragma GCC unroll 4
                for (int row = 0; row < rows; ++row) sums[row][i] = sum[row];
            }
            for (int row = 0; row < rows; ++row) {
                float* const to = scores + row * score_stride + key;
                const Isa::Vec total = Isa::sums_of(sums[row]);
                Isa::store(to, first == 0 ? total : Isa::add(Isa::load(to), total));
            }
        }
    });
}

// O = O * rescale + P V for `rows` rows that see the same keys; their weights are `weight_stride` floats
// apart, and those of O `out_stride`.
template <int rows, class Element>
inline void add_values_of_rows(const float* weights, int64_t weight_stride, int64_t dims,
                               const Rows<Element>& values, int64_t visible, const float* rescale,
                               float* out, int64_t out_stride) {
    for_each_pass<most_vectors / rows>(dims, [=](auto constant, int64_t first, int64_t rest) {
        constexpr int vectors = decltype(constant)::value;
        const int64_t stride = values.stride, ahead = bytes_ahead<Element>(stride);
        Isa::Vec sums[rows][vectors];
#pragma GCC unroll 4
        for (int row = 0; row < rows; ++row) {
#pragma GCC unroll 16
            for (int i = 0; i < vectors; ++i) sums[row][i] = Isa::zero();
        }
        const Element* v = values.first + first;
        for (int64_t key = 0; key < visible; ++key, v += stride) {
            Isa::Vec weight[rows];
#pragma GCC unroll 4
            for (int row = 0; row < rows; ++row) {
                weight[row] = Isa::broadcast(weights[row * weight_stride + key]);
            }
#pragma GCC unroll 16
            for (int i = 0; i < vectors; ++i) {
                const Isa::Vec x = load_dims<vectors>(v, i, rest);
                fetch_ahead(v, ahead, i);
#pragma GCC unroll 4
                for (int row = 0; row < rows; ++row) {
                    sums[row][i] = Isa::fma(weight[row], x, sums[row][i]);
                }
            }
        }
#pragma GCC unroll 4
        for (int row = 0; row < rows; ++row) {
            float* const to = out + row * out_stride + first;
#pragma GCC unroll 16
            for (int i = 0; i < vectors; ++i) {
                const Isa::Vec before = Isa::load(to + i * lanes);
                Isa::store(to + i * lanes,
                           Isa::fma(before, Isa::broadcast(rescale[row]), sums[row][i]));
            }
        }
    });
}

// Calls body(Count<rows>, first row) for as many rows at a time as `most` and powers of two allow.
template <int most, class Body>
inline void for_rows_at_once(int64_t rows, const Body& body) {
    int64_t row = 0;
    for (; row + most <= rows; row += most) body(Count<most>{}, row);
    if constexpr (most > 1) {
        for_rows_at_once<most / 2>(rows - row, [&](auto count, int64_t rest) {
            body(count, row + rest);
        });
    }
}

// Copies `count` keys or values to rows `stride` floats apart, as fp32 and padded with 0 to whole vectors.
template <class Element>
inline void copy_rows(const Rows<Element>& rows, int64_t count, int64_t dims, float* to,
                      int64_t stride) {
    for (int64_t row = 0; row < count; ++row) {
        const Element* const from = rows.first + row * rows.stride;
        for (int64_t dim = 0; dim < dims; dim += lanes) {
            Isa::store(to + row * stride + dim,
                       Fp32::load(from + dim * rows.dim_stride, rows.dim_stride, dims - dim));
        }
    }
}

// visible[r] is the number of the block's keys that row r sees, which never decreases with r. Keys and
// values are read by vectors.
template <class Element>
inline void attend_vectors(const Scratch<Fp32>& scratch, int64_t dims, float log2_scale,
                           const Rows<Element>& keys, const Rows<Element>& values, int64_t rows,
                           const int64_t* visible) {
    constexpr int64_t score_stride = Scratch<Fp32>::score_stride;
    const int64_t query_stride = scratch.query_slots, out_stride = scratch.out_floats;
    for_rows_at_once<rows_at_once>(rows, [&](auto count, int64_t row) {
        score_keys<decltype(count)::value, true>(
            scratch.queries + row * query_stride, query_stride, dims, keys, visible[rows - 1],
            scratch.scores + row * score_stride, score_stride);
    });
    float rescale[round_up(few_rows, lanes)];
    online_softmax<Fp32>(scratch.scores, score_stride, rows, visible, 0, log2_scale, scratch.rows,
                         rescale);
    for_rows_at_once<value_rows_at_once>(rows, [&](auto count, int64_t row) {
        const float* const weights = scratch.scores + row * score_stride;
        float* const out = scratch.out + row * out_stride;
        const int64_t common = visible[row];
        add_values_of_rows<decltype(count)::value>(weights, score_stride, dims, values, common,
                                                   rescale + row, out, out_stride);
        // What later rows see beyond that. The weight 0 would not suppress a NaN for the others.
        for (int64_t i = 1; i < decltype(count)::value; ++i) {
            const int64_t more = visible[row + i] - common;
            if (more == 0) continue;
            const Rows<Element> from{values.first + common * values.stride, values.stride, 1};
            const float one = 1.0f;
            add_values_of_rows<1>(weights + i * score_stride + common, 0, dims, from, more, &one,
                                  out + i * out_stride, 0);
        }
    });
}

template <class Element>
inline void attend_few_rows(const Scratch<Fp32>& scratch, const Attention& problem,
                            float log2_scale, const Rows<Element>& keys,
                            const Rows<Element>& values, int64_t rows, const int64_t* visible) {
    const int64_t dims = problem.head_dim;
    if (keys.dim_stride == 1 && values.dim_stride == 1) {
        return attend_vectors(scratch, dims, log2_scale, keys, values, rows, visible);
    }
    const int64_t stride = scratch.out_floats, count = visible[rows - 1];
    copy_rows(keys, count, dims, scratch.keys, stride);
    copy_rows(values, count, dims, scratch.values, stride);
    attend_vectors<float>(scratch, dims, log2_scale, {scratch.keys, stride, 1},
                          {scratch.values, stride, 1}, rows, visible);
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
