// The kernel: fused, tiled attention with an online softmax, for one task (see kernel.h).
//
//     for each block of keys (those past the diagonal are skipped)
//         pack K^T and V as panels
//         for each tile of query rows
//             S = Q K^T;  P = softmax step of S;  O = O * rescale + P V
//     O / sum
//
// A task that sees a part of the keys only (few rows, many keys) leaves O, max and sum of its rows to
// `combine`.
//
// This is the only place with that loop; an instruction set (isa/) says how wide vectors and tiles
// are, a dtype how its elements are loaded and stored, both what is multiplied (operands.h). Scores, softmax
// and sums are fp32.
#pragma once

#include "attend.h"
#include "peak.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

// Whether a group is a single row, for which keys and values are not packed.
inline bool is_one_row(const Attention& problem) {
    return problem.heads == problem.kv_heads && problem.q_len == 1;
}

// What is left of a row of a part: O, max, sum.
inline int64_t partial_floats(const Attention& problem) {
    return round_up(problem.head_dim, lanes) + lanes;
}

template <class Element>
inline int64_t scratch_floats(const Attention& problem) {
    return is_one_row(problem) ? Scratch<Fp32>(problem, nullptr).floats
                                : Scratch<OperandOf<Element>>(problem, nullptr).floats;
}

// Where row `row` of the group of a task is in q or out.
template <class Element>
inline Element* row_of(Element* tensor, const Strides& strides, const Attention& problem,
                       const Task& task, int64_t row) {
    const int64_t group = problem.heads / problem.kv_heads;
    const int64_t at = task.first_row + row;
    return tensor + task.batch * strides.batch + (task.kv_head * group + at % group) * strides.head +
           at / group * strides.seq;
}

template <class Element>
inline void finish_row(const Attention& problem, const Task& task, int64_t row, const float* out,
                       float sum) {
    Element* const to =
        row_of(static_cast<Element*>(problem.out), problem.out_strides, problem, task, row);
    const Isa::Vec factor = Isa::broadcast(problem.k_len == 0 ? 1.0f : 1.0f / sum);
    for (int64_t dim = 0; dim < problem.head_dim; dim += lanes) {
        store_strided(to + dim * problem.out_strides.dim, problem.out_strides.dim,
                      problem.head_dim - dim, Isa::mul(Isa::load(out + dim), factor));
    }
}

inline float log2_of(float scale) {
    return static_cast<float>(static_cast<double>(scale) * 1.4426950408889634);
}

template <class Element, class Operand, bool one_row>
void compute_as(const Attention& problem, const Task& task, float* memory, float* partial) {
    [[maybe_unused]] const typename Operand::Session session{};
    const Scratch<Operand> scratch(problem, memory);
    const int64_t group = problem.heads / problem.kv_heads;
    const int64_t dims = problem.head_dim;
    const bool negative = problem.scale < 0.0f;
    const float log2_scale = log2_of(negative ? -problem.scale : problem.scale);

    int64_t sees[max_task_rows];  // keys of the whole problem
    for (int64_t row = 0; row < task.rows; ++row) {
        const Element* const from =
            row_of(static_cast<const Element*>(problem.q), problem.q_strides, problem, task, row);
        float* to = scratch.queries + row * scratch.query_slots;
        for (int64_t dim = 0; dim < dims; dim += lanes * Operand::per_slot, to += lanes) {
            const Isa::Vec x = Operand::load(from + dim * problem.q_strides.dim,
                                             problem.q_strides.dim, dims - dim);
            Isa::store(to, negative ? Operand::negate(x) : x);
        }
        for (int64_t dim = 0; dim < dims; dim += lanes) {
            Isa::store(scratch.out + row * scratch.out_floats + dim, Isa::zero());
        }
        const int64_t query = (task.first_row + row) / group;
        sees[row] = problem.causal && query < problem.k_len ? query + 1 : problem.k_len;
        scratch.rows.max[row] = lowest;
        Isa::store(scratch.rows.sums + row * lanes, Isa::zero());
    }

    const Element* k = static_cast<const Element*>(problem.k) +
                       task.batch * problem.k_strides.batch +
                       task.kv_head * problem.k_strides.head;
    const Element* v = static_cast<const Element*>(problem.v) +
                       task.batch * problem.v_strides.batch +
                       task.kv_head * problem.v_strides.head;
    const int64_t seen = sees[task.rows - 1];
    const int64_t last_key = seen < task.last_key ? seen : task.last_key;
    constexpr int64_t block_keys = Operand::block_keys;
    for (int64_t key = task.first_key; key < last_key; key += block_keys) {
        const int64_t count = last_key - key < block_keys ? last_key - key : block_keys;
        const Rows<Element> keys{k + key * problem.k_strides.seq, problem.k_strides.seq,
                                 problem.k_strides.dim};
        const Rows<Element> values{v + key * problem.v_strides.seq, problem.v_strides.seq,
                                   problem.v_strides.dim};
        if constexpr (one_row) {
            attend_one_row(scratch, problem, log2_scale, keys, values, count);
        } else {
            pack_keys<Operand>(keys, count, dims, scratch.keys, scratch.key_panel);
            pack_values<Operand>(values, count, dims, scratch.values, scratch.value_panel);
            attend_strips(scratch, problem, log2_scale, key, count, task.rows, sees);
        }
    }

    for (int64_t row = 0; row < task.rows; ++row) {
        const float* const out = scratch.out + row * scratch.out_floats;
        const float sum = Isa::sum_of_lanes(Isa::load(scratch.rows.sums + row * lanes));
        if (!partial) {
            finish_row<Element>(problem, task, row, out, sum);
            continue;
        }
        float* const to = partial + row * partial_floats(problem);
        for (int64_t dim = 0; dim < dims; dim += lanes) Isa::store(to + dim, Isa::load(out + dim));
        to[scratch.out_floats] = scratch.rows.max[row];
        to[scratch.out_floats + 1] = sum;
    }
}

// One task. `partial` is where its rows go if it sees a part of the keys, else nullptr.
template <class Element>
void compute(const Attention& problem, const Task& task, float* memory, float* partial) {
    if (is_one_row(problem)) {
        compute_as<Element, Fp32, true>(problem, task, memory, partial);
    } else {
        compute_as<Element, OperandOf<Element>, false>(problem, task, memory, partial);
    }
}

// Puts together what `parts` tasks left of the same rows, `stride` floats from one to the next.
template <class Element>
void combine(const Attention& problem, const Task& task, float* partials, int64_t parts,
             int64_t stride) {
    const int64_t width = partial_floats(problem), max = width - lanes, sum = max + 1;
    const Isa::Vec factor =
        Isa::broadcast(log2_of(problem.scale < 0.0f ? -problem.scale : problem.scale));
    for (int64_t row = 0; row < task.rows; ++row) {
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
            Isa::store(rescale, exp2(Isa::mul(Isa::sub(Isa::broadcast(from[max]),
                                                       Isa::broadcast(largest)),
                                              factor)));
            total += from[sum] * rescale[0];
            for (int64_t dim = 0; dim < problem.head_dim; dim += lanes) {
                const Isa::Vec x = Isa::mul(Isa::load(from + dim), Isa::broadcast(rescale[0]));
                Isa::store(first + dim, part == 0 ? x : Isa::add(Isa::load(first + dim), x));
            }
        }
        finish_row<Element>(problem, task, row, first, total);
    }
}

template <class Element>
constexpr Kernel kernel = {row_step, scratch_floats<Element>, partial_floats, compute<Element>,
                           combine<Element>, multiply_in_registers<OperandOf<Element>>};

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
