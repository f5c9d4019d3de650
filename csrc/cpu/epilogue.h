// The epilogue of a row: writes O / sum, or O, max and sum if the task sees only part of the keys.
#pragma once

#include <math.h>

#include "rows.h"
#include "scratch.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

// Floats of a row's partial result: O, max, sum.
inline int64_t partial_floats(const Attention& problem) {
    return round_up(problem.head_dim, lanes) + lanes;
}

// scale * log2(e), clamped to the largest fp32 number, at which weights are 0 or 1.
inline float log2_of(float scale) {
    constexpr float largest = -lowest;
    const double product = static_cast<double>(scale) * 1.4426950408889634;
    return product > largest && scale <= largest ? largest : static_cast<float>(product);
}

// The factor of a problem's scores; a negative scale is in q already.
inline float log2_scale_of(const Attention& problem) {
    return log2_of(problem.scale < 0.0f ? -problem.scale : problem.scale);
}

// Writes a row of the result.
template <class Element>
inline void finish_row(const Attention& problem, const float* out, float sum, Element* to) {
    const Isa::Vec factor = Isa::broadcast(problem.k_len == 0 ? 1.0f : 1.0f / sum);
    const int64_t dims = problem.head_dim, stride = problem.out_strides.dim;
    for (int64_t dim = 0; dim < dims; dim += lanes) {
        store_strided(to + dim * stride, stride, dims - dim,
                      Isa::mul(Isa::load(out + dim), factor));
    }
}

// max * scale + log(sum), rounded once: in each weight of the gradients its error is a relative one. In
// fp32 log(sum) of some hundred keys alone would be rounded as much as the result.
inline float log_sum_exp(float max, float scale, float sum) {
    int exponent = 0;
    const float fraction = ::frexpf(sum, &exponent);
    const double small = static_cast<double>(::logf(fraction));  // between log(1/2) and 0
    return static_cast<float>(static_cast<double>(max) * static_cast<double>(scale) + small +
                              exponent * 0.69314718055994531);
}

// Writes the log-sum-exp of a task's rows, one after another, if the caller wants it.
class LseWriter {
  public:
    LseWriter(const Attention& problem, const Task& task)
        : wanted_(problem.lse != nullptr),
          strides_{problem.heads * problem.lse_rows, problem.lse_rows, wanted_, 0},
          cursor_(problem.lse, strides_, problem, task),
          scale_(problem.scale < 0.0f ? -problem.scale : problem.scale) {}

    // max: of q . k, unscaled; sum: of exp(scale * (q . k - max)).
    void write_next(float max, float sum) {
        if (!wanted_) return;
        *cursor_.row() = sum == 0.0f ? -INFINITY : log_sum_exp(max, scale_, sum);
        cursor_.next();
    }

  private:
    bool wanted_;
    Strides strides_;
    RowCursor<float> cursor_;
    float scale_;
};

// The sums over the lanes of `lanes` vectors.
inline void sums_of_rows(const float* from, float* sums) {
    Isa::Vec parts[lanes];
    for (int64_t i = 0; i < lanes; ++i) parts[i] = Isa::load(from + i * lanes);
    Isa::store(sums, Isa::sums_of(parts));
}

// Writes the rows of a task to the result, or to `partial` if that is given.
template <class Element, class Operand>
inline void finish(const Scratch<Operand>& scratch, const Attention& problem, const Task& task,
                   float* partial) {
    auto* const result = static_cast<Element*>(problem.out);
    RowCursor<Element> cursor(result, problem.out_strides, problem, task);
    LseWriter lse(problem, task);
    float sums[lanes];
    for (int64_t row = 0; row < task.rows; ++row, cursor.next()) {
        const float* const out = scratch.out + row * scratch.out_floats;
        if (row % lanes == 0) sums_of_rows(scratch.rows.sums + row * lanes, sums);
        const float sum = sums[row % lanes];
        if (!partial) {
            finish_row(problem, out, sum, cursor.row());
            lse.write_next(scratch.rows.max[row], sum);
            continue;
        }
        float* const to = partial + row * partial_floats(problem);
        for (int64_t dim = 0; dim < scratch.out_floats; dim += lanes) {
            Isa::store(to + dim, Isa::load(out + dim));
        }
        to[scratch.out_floats] = scratch.rows.max[row];
        to[scratch.out_floats + 1] = sum;
    }
}

// Combines the partial results of `parts` tasks for the same rows, `stride` floats apart.
template <class Element>
void combine(const Attention& problem, const Task& task, float* partials, int64_t parts,
             int64_t stride) {
    const int64_t width = partial_floats(problem), max = width - lanes, sum = max + 1;
    const Isa::Vec factor = Isa::broadcast(log2_scale_of(problem));
    auto* const result = static_cast<Element*>(problem.out);
    RowCursor<Element> cursor(result, problem.out_strides, problem, task);
    LseWriter lse(problem, task);
    for (int64_t row = 0; row < task.rows; ++row, cursor.next()) {
        float* const first = partials + row * width;
        float largest = first[max];
        for (int64_t part = 1; part < parts; ++part) {
            const float x = first[part * stride + max];
            largest = x > largest ? x : largest;
        }
        float total = 0.0f;
        for (int64_t part = 0; part < parts; ++part) {
            float* const from = first + part * stride;
            float rescale[lanes];
            const Isa::Vec below =
                difference(Isa::broadcast(from[max]), Isa::broadcast(largest));
            Isa::store(rescale, exp2(Isa::mul(below, factor)));
            total += from[sum] * rescale[0];
            for (int64_t dim = 0; dim < problem.head_dim; dim += lanes) {
                const Isa::Vec x = Isa::mul(Isa::load(from + dim), Isa::broadcast(rescale[0]));
                Isa::store(first + dim, part == 0 ? x : Isa::add(Isa::load(first + dim), x));
            }
        }
        finish_row(problem, first, total, cursor.row());
        lse.write_next(largest, total);
    }
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
