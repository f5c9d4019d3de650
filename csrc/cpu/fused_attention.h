// The kernel: fused, tiled attention with an online softmax, for one task (see kernel.h).
//
//     for each block of keys (those past the diagonal are skipped)
//         pack K^T and, unless it can be read where it is, V as panels
//         for each strip of query rows, tile by tile
//             S = Q K^T;  P = softmax step of S;  O = O * rescale + P V (of the first block: P V)
//     O / sum
//
// Up to eight rows (few_rows.h) and rows that see few keys (few_keys.h) are computed without packing.
//
// A task that sees only part of the keys (up to 64 rows, many keys) leaves O, max and sum of its rows to
// `combine`.
//
// This is the only copy of that loop. An instruction set (isa/) defines the widths of vectors and tiles,
// a dtype the loads and stores of its elements, and both together the operands of products
// (operands.h). Scores, softmax and sums are fp32.
#pragma once

#include "attend.h"
#include "backward.h"
#include "epilogue.h"
#include "few_keys.h"
#include "few_rows.h"
#include "peak.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

// Whether rows see few keys. Of so few the backward computes P again from their scores alone.
inline bool has_few_keys(const Attention& problem) {
    return problem.k_len >= 1 && problem.k_len <= few_keys;
}

// Whether a group is few rows, for which keys and values are not packed. Its scores are summed in another
// order, so not where the backward computes them again: their errors would not cancel in P.
inline bool has_few_rows(const Attention& problem) {
    const int64_t rows = problem.heads / problem.kv_heads * problem.q_len;
    return rows <= (has_few_keys(problem) ? 1 : few_rows) && problem.lse == nullptr;
}

template <class Element>
inline int64_t scratch_floats(const Attention& problem) {
    return has_few_rows(problem) || has_few_keys(problem)
               ? Scratch<Fp32>(problem, nullptr).floats
               : Scratch<OperandOf<Element>>(problem, nullptr).floats;
}

// The caller's memory as slots of a product, if its elements are slots: fp32 multiplied as fp32.
inline const float* as_slots(const float* row, Fp32) { return row; }
template <class Element, class Operand>
inline const float* as_slots(const Element*, Operand) {
    return nullptr;
}

// Prepares Q. sees[r] becomes the number of keys of the whole problem that row r sees.
template <class Element, class Operand, bool is_few_rows>
inline void take_queries(Scratch<Operand>& scratch, const Attention& problem, const Task& task,
                         int64_t* sees) {
    const int64_t dims = problem.head_dim;
    const Strides& strides = problem.q_strides;
    const bool negative = problem.scale < 0.0f;
    RowCursor<const Element> cursor(static_cast<const Element*>(problem.q), strides, problem, task);
    // Contiguous rows are read in place.
    const float* const in_place = as_slots(cursor.row(), Operand{});
    const bool packs = is_few_rows || !in_place || negative || strides.dim != 1 ||
                       strides.seq != dims || problem.heads != problem.kv_heads;
    if (!packs) {
        scratch.query_rows = in_place;
        scratch.query_stride = strides.seq;
    }
    for (int64_t row = 0; row < task.rows; ++row, cursor.next()) {
        float* to = scratch.queries + row * scratch.query_slots;
        for (int64_t dim = 0; packs && dim < dims; dim += lanes * Operand::per_slot, to += lanes) {
            const Isa::Vec x =
                Operand::load(cursor.row() + dim * strides.dim, strides.dim, dims - dim);
            Isa::store(to, negative ? Operand::negate(x) : x);
        }
        const int64_t seen = cursor.query() + problem.causal_offset + 1;
        sees[row] = problem.causal && seen < problem.k_len ? seen : problem.k_len;
    }
}

// Prepares the state of a task's rows.
template <class Operand, bool is_few_rows>
inline void begin_rows(const Scratch<Operand>& scratch, const Attention& problem, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
        // Otherwise the first block of keys writes O.
        if (is_few_rows || problem.k_len == 0) {
            float* const out = scratch.out + row * scratch.out_floats;
            for (int64_t dim = 0; dim < problem.head_dim; dim += lanes) {
                Isa::store(out + dim, Isa::zero());
            }
        }
        scratch.rows.max[row] = lowest;
        Isa::store(scratch.rows.sums + row * lanes, Isa::zero());
    }
}

// Prepares a block of V: packed as panels, or in place if its rows are as long as a panel is wide or too few
// rows of Q read it to be worth packing.
template <class Element, class Operand>
inline void take_values(Scratch<Operand>& scratch, const Rows<Element>& values, int64_t count,
                        int64_t dims, int64_t query_rows) {
    constexpr int64_t most_in_place = 48;
    const float* const in_place = as_slots(values.first, Operand{});
    if (!in_place || values.dim_stride != 1 || dims % lanes != 0 ||
        (values.stride != panel_width && query_rows > most_in_place)) {
        pack_values<Operand>(values, count, dims, scratch.values, scratch.value_panel);
        return;
    }
    scratch.value_rows = in_place;
    scratch.value_stride = values.stride;
    scratch.value_panel = panel_width;
}

template <class Element, class Operand, bool is_few_rows>
void compute_as(const Attention& problem, const Task& task, const Task* next, float* memory,
                float* partial) {
    [[maybe_unused]] const typename Operand::Session session{};
    Scratch<Operand> scratch(problem, memory);
    const int64_t dims = problem.head_dim;
    const float log2_scale = log2_scale_of(problem);
    int64_t sees[max_task_rows];
    take_queries<Element, Operand, is_few_rows>(scratch, problem, task, sees);
    begin_rows<Operand, is_few_rows>(scratch, problem, task.rows);

    const int64_t seen = sees[task.rows - 1];
    const int64_t last_key = seen < task.last_key ? seen : task.last_key;
    constexpr int64_t block_keys = Operand::block_keys;
    for (int64_t key = task.first_key; key < last_key; key += block_keys) {
        const int64_t count = last_key - key < block_keys ? last_key - key : block_keys;
        const auto keys = rows_of<Element>(problem.k, problem.k_strides, task, key);
        const auto values = rows_of<Element>(problem.v, problem.v_strides, task, key);
        if constexpr (is_few_rows) {
            int64_t visible[few_rows];
            take_visible(sees, task.rows, key, count, visible);
            attend_few_rows(scratch, problem, log2_scale, keys, values, task.rows, visible);
        } else {
            pack_keys<Operand>(keys, count, dims, scratch.keys, scratch.key_panel);
            take_values(scratch, values, count, dims, task.rows);
            Prefetcher prefetcher;
            if (next) {
                prefetcher = prefetch_after<Element>(problem, task, *next, key + count, last_key,
                                                     block_keys);
            }
            const Block block{key, count, key == task.first_key};
            attend_strips(scratch, problem, log2_scale, block, task.rows, sees, prefetcher);
        }
    }
    finish<Element>(scratch, problem, task, partial);
}

template <class Element>
void compute_few_keys(const Attention& problem, const Task& task, float* memory) {
    Scratch<Fp32> scratch(problem, memory);
    int64_t sees[max_task_rows];
    take_queries<Element, Fp32, false>(scratch, problem, task, sees);
    attend_few_keys<Element>(scratch, problem, task, log2_scale_of(problem), sees);
}

template <class Element>
void compute(const Attention& problem, const Task& task, const Task* next, float* memory,
             float* partial) {
    if (has_few_rows(problem)) {
        compute_as<Element, Fp32, true>(problem, task, next, memory, partial);
    } else if (has_few_keys(problem)) {
        compute_few_keys<Element>(problem, task, memory);
    } else {
        compute_as<Element, OperandOf<Element>, false>(problem, task, next, memory, partial);
    }
}

template <class Element>
constexpr Kernel kernel = {row_step,
                           scratch_floats<Element>,
                           partial_floats,
                           compute<Element>,
                           combine<Element>,
                           backward_floats<Element>,
                           backward<Element>,
                           multiply_in_registers<OperandOf<Element>>};

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
