// Processes a task whose rows see a few keys, as many rows at a time as a vector has lanes: scores and weights
// of one key for all of them in a vector.
//
// Tiles would compute whole vectors of keys for a few of them, and a vector of exponentials a row. Rows of Q
// are read once and rows of the output written once, in order, so that memory decides for long tensors.
#pragma once

#include "epilogue.h"
#include "few_rows.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

// Up to so many keys this is at least as fast as tiles, for any dtype.
constexpr int64_t few_keys = lanes < 8 ? 2 : 8;

// The scores, or weights, of `lanes` rows.
using FewScores = float[few_keys][lanes];

// The largest scores of `lanes` rows, and their sums of weights.
struct FewStates {
    float max[lanes];
    float sums[lanes];
};

// Replaces the scores of `rows` rows, of which row r sees the first sees[r] keys, by weights, 0 for the other
// keys. See online_softmax for NaN and infinity.
inline FewStates softmax_of_few(FewScores& scores, int64_t keys, int64_t rows, const int64_t* sees,
                                float log2_scale) {
    const auto hide = [&](float value) {
        for (int64_t row = 0; row < rows && sees[row] < keys; ++row) {
            for (int64_t key = sees[row]; key < keys; ++key) scores[key][row] = value;
        }
    };
    hide(lowest);
    Isa::Vec largest = Isa::broadcast(lowest);
    for (int64_t key = 0; key < keys; ++key) {
        largest = Isa::max(Isa::load(scores[key]), largest);
    }
    const Isa::Vec factor = Isa::broadcast(log2_scale);
    for (int64_t key = 0; key < keys; ++key) {
        Isa::store(scores[key],
                   exp2(Isa::mul(Isa::sub(Isa::load(scores[key]), largest), factor)));
    }
    hide(0.0f);
    Isa::Vec sum = Isa::zero();
    for (int64_t key = 0; key < keys; ++key) sum = Isa::add(sum, Isa::load(scores[key]));
    FewStates states;
    Isa::store(states.max, largest);
    Isa::store(states.sums, sum);
    return states;
}

// Writes the output of `rows` rows from `from` on. values: rows of `stride` floats.
template <class Element>
inline void write_few(const Attention& problem, const FewScores& weights, const float* sums_of_weights,
                      const float* values, int64_t stride, int64_t rows, const int64_t* sees,
                      RowCursor<Element> from) {
    const int64_t dims = problem.head_dim, out_stride = problem.out_strides.dim;
    float reciprocals[lanes];
    for (int64_t row = 0; row < lanes; ++row) reciprocals[row] = 1.0f / sums_of_weights[row];
    for_each_pass<most_vectors>(dims, [&](auto constant, int64_t first, int64_t) {
        constexpr int vectors = decltype(constant)::value;
        RowCursor<Element> cursor = from;
        for (int64_t row = 0; row < rows; ++row, cursor.next()) {
            Isa::Vec sums[vectors];
#pragma GCC unroll 16
            for (int i = 0; i < vectors; ++i) sums[i] = Isa::zero();
            const float* value = values + first;
            for (int64_t key = 0; key < sees[row]; ++key, value += stride) {
                const Isa::Vec weight = Isa::broadcast(weights[key][row]);
#pragma GCC unroll 16
                for (int i = 0; i < vectors; ++i) {
                    sums[i] = Isa::fma(weight, Isa::load(value + i * lanes), sums[i]);
                }
            }
            const Isa::Vec factor = Isa::broadcast(reciprocals[row]);
#pragma GCC unroll 16
            for (int i = 0; i < vectors; ++i) {
                const int64_t dim = first + i * lanes;
                store_strided(cursor.row() + dim * out_stride, out_stride, dims - dim,
                              Isa::mul(sums[i], factor));
            }
        }
    });
}

// A whole task. sees[r] is the number of keys that row r sees, at least 1.
template <class Element>
inline void attend_few_keys(const Scratch<Fp32>& scratch, const Attention& problem,
                            const Task& task, float log2_scale, const int64_t* sees) {
    const int64_t dims = problem.head_dim, keys = problem.k_len;
    const int64_t stride = scratch.out_floats;
    copy_rows(rows_of<Element>(problem.k, problem.k_strides, task, 0), keys, dims, scratch.keys,
              stride);
    copy_rows(rows_of<Element>(problem.v, problem.v_strides, task, 0), keys, dims, scratch.values,
              stride);

    RowCursor<Element> cursor(static_cast<Element*>(problem.out), problem.out_strides, problem, task);
    LseWriter lse(problem, task);
    for (int64_t row = 0; row < task.rows; row += lanes) {
        const int64_t left = task.rows - row;
        const int64_t rows = left < lanes ? left : lanes;
        const Rows<float> queries{scratch.query_rows + row * scratch.query_stride,
                                  scratch.query_stride, 1};
        FewScores scores;
        for (int64_t key = 0; key < keys; ++key) {
            // With the sides exchanged: one key is the query, rows of Q are the keys. They are read again
            // for each key, so fetching the next ones gains nothing.
            score_keys<1, false>(scratch.keys + key * stride, 0, dims, queries, rows, scores[key], 0);
        }
        const FewStates states = softmax_of_few(scores, keys, rows, sees + row, log2_scale);
        write_few(problem, scores, states.sums, scratch.values, stride, rows, sees + row, cursor);
        for (int64_t i = 0; i < rows; ++i, cursor.next()) {
            lse.write_next(states.max[i], states.sums[i]);
        }
    }
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
