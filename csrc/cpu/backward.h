// The gradients, for one task (see kernel.h). With P the weights and D a row's sum(dO * O):
//
//     for each section of keys
//         pack K and V by rows, K as panels
//         for each block of query rows of each head (those that see none of the section are skipped)
//             pack Q^T and dO^T, Q and dO as panels
//             for each block of keys
//                 S^T = K Q^T;  dP^T = V dO^T;  P = exp(scale * S - lse);  dS = P * (dP - D)
//                 dV += P^T dO;  dK += dS^T Q;  dQ += dS K
//         write scale * dK and dV
//     write scale * dQ
//
// Products are those of the forward (microkernel.h), so rows of scores are keys: P^T and dS^T are the
// left operands of two products as they are, and dS is transposed for the third. Every sum runs in an
// order that does not depend on how a problem is cut into tasks.
#pragma once

#include <math.h>

#include "backward_block.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

// Rows of a head of a tensor, from `row` on.
template <class Element>
inline Rows<Element> rows_at(const void* tensor, const Strides& strides, int64_t batch,
                             int64_t head, int64_t row) {
    return {static_cast<const Element*>(tensor) + batch * strides.batch + head * strides.head +
                row * strides.seq,
            strides.seq, strides.dim};
}

// Rows as a left operand: slots one after another, 0 beyond head_dim.
template <class Operand, class Element>
inline void pack_rows(const Rows<Element>& rows, int64_t count, int64_t head_dim, float* to,
                      int64_t head_slots) {
    constexpr int64_t step = lanes * Operand::per_slot;
    for (int64_t row = 0; row < count; ++row, to += head_slots) {
        const Element* const from = rows.first + row * rows.stride;
        for (int64_t dim = 0; dim < head_dim; dim += step) {
            Isa::store(to + dim / Operand::per_slot,
                       Operand::load(from + dim * rows.dim_stride, rows.dim_stride,
                                     head_dim - dim));
        }
    }
}

inline void fill_zero(float* to, int64_t count) {
    for (int64_t i = 0; i < count; i += lanes) Isa::store(to + i, Isa::zero());
}

template <class Element, class Operand>
inline void begin_section(const BackwardScratch<Operand>& scratch, const AttentionBackward& problem,
                          const BackwardTask& task, int64_t first_key, int64_t count) {
    const Attention& forward = problem.forward;
    const int64_t dims = forward.head_dim;
    const auto keys = rows_at<Element>(forward.k, forward.k_strides, task.batch, task.kv_head,
                                       first_key);
    const auto values = rows_at<Element>(forward.v, forward.v_strides, task.batch, task.kv_head,
                                         first_key);
    pack_rows<Operand>(keys, count, dims, scratch.keys, scratch.head_slots);
    pack_rows<Operand>(values, count, dims, scratch.values, scratch.head_slots);
    if (task.dq) {
        pack_values<Operand>(keys, count, dims, scratch.key_panels, scratch.key_panel);
    }
    if (task.dk) fill_zero(scratch.dk, count * scratch.dim_floats);
    if (task.dv) fill_zero(scratch.dv, count * scratch.dim_floats);
}

template <class Element, class Operand>
inline void begin_rows(const BackwardScratch<Operand>& scratch, const AttentionBackward& problem,
                       const BackwardTask& task, int64_t head, int64_t first_row, int64_t count) {
    const Attention& forward = problem.forward;
    const int64_t dims = forward.head_dim;
    const auto queries =
        rows_at<Element>(forward.q, forward.q_strides, task.batch, head, first_row);
    const auto douts =
        rows_at<Element>(problem.dout, problem.dout_strides, task.batch, head, first_row);
    const auto outs =
        rows_at<Element>(forward.out, forward.out_strides, task.batch, head, first_row);
    pack_keys<Operand>(queries, count, dims, scratch.queries_across, scratch.head_panel);
    pack_keys<Operand>(douts, count, dims, scratch.douts_across, scratch.head_panel);
    if (task.dk) pack_values<Operand>(queries, count, dims, scratch.queries, scratch.row_panel);
    if (task.dv || task.dk) {
        pack_values<Operand>(douts, count, dims, scratch.douts, scratch.row_panel);
    }
    const float* const lse =
        forward.lse + (task.batch * forward.heads + head) * forward.lse_rows + first_row;
    for (int64_t row = 0; row < backward_rows; ++row) {
        // Beyond the last row weights are exp(-inf) = 0.
        scratch.minus_lse[row] = row < count ? -lse[row] : -INFINITY;
        scratch.delta[row] = 0.0f;
    }
    for (int64_t row = 0; row < count; ++row) {
        const Element* const dout = douts.first + row * douts.stride;
        const Element* const out = outs.first + row * outs.stride;
        Isa::Vec sums = Isa::zero();
        for (int64_t dim = 0; dim < dims; dim += lanes) {
            sums = Isa::fma(
                load_strided(dout + dim * douts.dim_stride, douts.dim_stride, dims - dim),
                load_strided(out + dim * outs.dim_stride, outs.dim_stride, dims - dim), sums);
        }
        scratch.delta[row] = Isa::sum_of_lanes(sums);
    }
}

// Writes `count` rows of a gradient, times `factor`.
template <class Element>
inline void write_rows(void* tensor, const Strides& strides, int64_t batch, int64_t head,
                       int64_t first_row, int64_t count, int64_t head_dim, const float* from,
                       int64_t stride, float factor) {
    Element* to = static_cast<Element*>(tensor) + batch * strides.batch + head * strides.head +
                  first_row * strides.seq;
    for (int64_t row = 0; row < count; ++row, to += strides.seq, from += stride) {
        for (int64_t dim = 0; dim < head_dim; dim += lanes) {
            store_strided(to + dim * strides.dim, strides.dim, head_dim - dim,
                          Isa::mul(Isa::load(from + dim), Isa::broadcast(factor)));
        }
    }
}

// Calls body(head, first row, rows, where the block's dQ is) for each block of a task's rows.
template <class Operand, class Body>
inline void for_each_block(const BackwardScratch<Operand>& scratch, const BackwardTask& task,
                           Body body) {
    const int64_t step = scratch.one_section ? 0 : backward_rows * scratch.dim_floats;
    float* dq = scratch.dq;
    for (int64_t head = task.first_head; head < task.last_head; ++head) {
        for (int64_t row = task.first_row; row < task.last_row; row += backward_rows, dq += step) {
            const int64_t left = task.last_row - row;
            body(head, row, left < backward_rows ? left : backward_rows, dq);
        }
    }
}

template <class Element>
void backward(const AttentionBackward& problem, const BackwardTask& task, float* memory) {
    using Operand = OperandOf<Element>;
    [[maybe_unused]] const typename Operand::Session session{};
    const BackwardScratch<Operand> scratch(problem, task, memory);
    const Attention& forward = problem.forward;
    const int64_t dims = forward.head_dim;

    const auto write_dq = [&](int64_t head, int64_t row, int64_t rows, const float* dq) {
        write_rows<Element>(problem.dq, problem.dq_strides, task.batch, head, row, rows, dims, dq,
                            scratch.dim_floats, forward.scale);
    };
    const auto clear_dq = [&](int64_t, int64_t, int64_t, float* dq) {
        fill_zero(dq, backward_rows * scratch.dim_floats);
    };
    if (task.dq && !scratch.one_section) for_each_block(scratch, task, clear_dq);
    for (int64_t key = task.first_key; key < task.last_key; key += scratch.section_keys) {
        const int64_t left = task.last_key - key;
        const int64_t keys = left < scratch.section_keys ? left : scratch.section_keys;
        begin_section<Element>(scratch, problem, task, key, keys);
        for_each_block(scratch, task, [&](int64_t head, int64_t row, int64_t rows, float* dq) {
            if (task.dq && scratch.one_section) clear_dq(head, row, rows, dq);
            // How many keys of the section the first row sees, and the last one.
            const int64_t first_sees = forward.causal ? row + forward.causal_offset + 1 - key : keys;
            if (first_sees + rows - 1 > 0) {
                begin_rows<Element>(scratch, problem, task, head, row, rows);
                add_section(scratch, task, forward, key, keys, rows, first_sees, dq);
            }
            if (task.dq && scratch.one_section) write_dq(head, row, rows, dq);
        });
        if (task.dk) {
            write_rows<Element>(problem.dk, problem.dk_strides, task.batch, task.kv_head, key, keys,
                                dims, scratch.dk, scratch.dim_floats, forward.scale);
        }
        if (task.dv) {
            write_rows<Element>(problem.dv, problem.dv_strides, task.batch, task.kv_head, key, keys,
                                dims, scratch.dv, scratch.dim_floats, 1.0f);
        }
    }
    if (task.dq && !scratch.one_section) for_each_block(scratch, task, write_dq);
}

template <class Element>
int64_t backward_floats(const AttentionBackward& problem, const BackwardTask& task) {
    return BackwardScratch<OperandOf<Element>>(problem, task, nullptr).floats;
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
