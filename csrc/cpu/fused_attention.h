// The kernel: fused, tiled attention with an online softmax, for one task (see kernel.h).
//
//     for each block of keys (those past the diagonal are skipped)
//         pack K^T and V as panels
//         for each tile of query rows
//             S = Q K^T;  P = softmax step of S;  O = O * rescale + P V
//     O / sum
//
// This is the only place with that loop; an instruction set (isa/) says how wide vectors and tiles
// are, a dtype how its elements are loaded and stored, both what is multiplied (operands.h). Scores, softmax
// and sums are fp32.
//
// A row sees its first `visible` keys. Keys beyond get the weight 0, or are left out of the sum where
// that is not the same: a NaN or infinity there must not get in (0 * inf is NaN).
#pragma once

#include "product.h"
#include "softmax.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

// K^T and V of a block are 32 KiB each at head_dim 64 in fp32. A multiple of every panel width.
#ifndef FLASHBENCH_BLOCK_KEYS
#define FLASHBENCH_BLOCK_KEYS 128
#endif
constexpr int64_t block_keys = FLASHBENCH_BLOCK_KEYS;
static_assert(block_keys % panel_width == 0, "a block is whole panels");
// Tasks begin with a tile: where a row's sums are broken off is up to the rows of its tile.
constexpr int64_t row_step = 24 % Isa::tile_rows == 0 ? 24 : Isa::tile_rows;

// Where a task's floats are within its scratch memory.
template <class Operand>
struct Scratch {
    int64_t query_slots;  // from one row of Q to the next
    int64_t out_floats;   // from one row of O to the next
    int64_t key_panel;    // slots of a panel of K^T
    int64_t value_panel;  // slots of a panel of V
    float* keys;
    float* values;
    float* scores;
    float* queries;
    float* out;
    int64_t floats;

    Scratch(const Attention& problem, float* memory) {
        query_slots = round_up(slots_of(problem.head_dim), lanes);
        out_floats = round_up(problem.head_dim, lanes);
        key_panel = query_slots * panel_width;
        value_panel = block_keys / Operand::per_slot * panel_width;
        floats = 0;
        keys = take(memory, block_keys / panel_width * key_panel);
        values = take(memory, round_up(problem.head_dim, panel_width) / panel_width * value_panel);
        scores = take(memory, Isa::tile_rows * block_keys);
        queries = take(memory, max_task_rows * query_slots);
        out = take(memory, max_task_rows * out_floats);
    }

    static int64_t slots_of(int64_t elements) {
        return (elements + Operand::per_slot - 1) / Operand::per_slot;
    }

  private:
    float* take(float* memory, int64_t count) {
        float* taken = memory ? memory + floats : nullptr;
        floats += round_up(count, 16);
        return taken;
    }
};

template <class Element>
inline int64_t scratch_floats(const Attention& problem) {
    return Scratch<OperandOf<Element>>(problem, nullptr).floats;
}

// Whether the values of keys [first, last) of a block are finite (their neighbours in a slot, too).
template <class Operand>
inline bool all_finite(const Scratch<Operand>& scratch, int64_t head_dim, int64_t first,
                       int64_t last) {
    Isa::Vec excess = Isa::zero();
    const float* panel = scratch.values;
    for (int64_t dim = 0; dim < head_dim; dim += panel_width, panel += scratch.value_panel) {
        const int64_t columns = head_dim - dim < panel_width ? head_dim - dim : panel_width;
        for (int64_t slot = first / Operand::per_slot; slot < scratch.slots_of(last); ++slot) {
            for (int64_t column = 0; column < columns; column += lanes) {
                excess = Isa::add(
                    excess, Operand::excess(Isa::load(panel + slot * panel_width + column)));
            }
        }
    }
    return Isa::sum_of_lanes(excess) == 0.0f;
}

// O = O * rescale + P V, where a row sums over the keys that it sees and touches no others.
template <class Operand>
inline void add_values_apart(const Scratch<Operand>& scratch, int64_t head_dim, int64_t rows,
                             const int64_t* visible, const float* rescale, float* out) {
    for (int64_t row = 0; row < rows; ++row) {
        const float* const weights = scratch.scores + row * block_keys;
        for (int64_t dim = 0; dim < head_dim; ++dim) {
            const float* const column =
                scratch.values + dim / panel_width * scratch.value_panel + dim % panel_width;
            float sum = 0.0f;
            for (int64_t key = 0; key < visible[row]; ++key) {
                sum += Operand::weight(weights, key) * Operand::value(column, panel_width, key);
            }
            float& to = out[row * scratch.out_floats + dim];
            to = to * rescale[row] + sum;
        }
    }
}

// Rows [first, first + rows) of a task meet one packed block of keys. rows <= Isa::tile_rows;
// visible[r] is how many of the block's `count` keys row r sees, never falling with r.
template <class Operand>
inline void attend(const Scratch<Operand>& scratch, const Attention& problem, float log2_scale,
                   int64_t count, int64_t first, int64_t rows, const int64_t* visible,
                   RowState* states) {
    const int64_t most = visible[rows - 1];
    const int64_t fewest = visible[0];
    float* const out = scratch.out + first * scratch.out_floats;

    float rescale[Isa::tile_rows];
    for (float& factor : rescale) factor = 1.0f;
    const int64_t head_slots = scratch.slots_of(problem.head_dim);
    for (int64_t slot = 0; slot < head_slots; slot += Operand::chain) {
        const float* const q = scratch.queries + first * scratch.query_slots + slot;
        const float* const k = scratch.keys + slot * panel_width;
        const int64_t left = head_slots - slot;
        const int64_t depth = left < Operand::chain ? left : Operand::chain;
        if (slot == 0) {
            multiply<Operand, false>(rows, most, q, scratch.query_slots, k, scratch.key_panel,
                                     depth, nullptr, scratch.scores, block_keys);
        } else {
            multiply<Operand, true>(rows, most, q, scratch.query_slots, k, scratch.key_panel,
                                    depth, rescale, scratch.scores, block_keys);
        }
    }

    const int64_t padded = round_up(most, Operand::depth_step * Operand::per_slot);
    for (int64_t row = 0; row < rows; ++row) {
        rescale[row] = online_softmax<Operand>(scratch.scores + row * block_keys, visible[row],
                                               padded, log2_scale, states[row]);
    }

    // Keys that a row does not see have the weight 0.
    if (fewest == count || all_finite(scratch, problem.head_dim, fewest, padded)) {
        multiply<Operand, true>(rows, problem.head_dim, scratch.scores, block_keys, scratch.values,
                                scratch.value_panel, scratch.slots_of(most), rescale, out,
                                scratch.out_floats);
    } else {
        add_values_apart(scratch, problem.head_dim, rows, visible, rescale, out);
    }
}

template <class Element>
void compute(const Attention& problem, const Task& task, float* memory) {
    using Operand = OperandOf<Element>;
    [[maybe_unused]] const typename Operand::Session session{};
    const Scratch<Operand> scratch(problem, memory);
    const int64_t group = problem.heads / problem.kv_heads;
    const int64_t dims = problem.head_dim;
    const bool negative = problem.scale < 0.0f;
    const float log2_scale = static_cast<float>(
        (negative ? -1.0 : 1.0) * static_cast<double>(problem.scale) * 1.4426950408889634);

    RowState states[max_task_rows];
    int64_t sees[max_task_rows];  // keys of the whole problem
    const Element* q = static_cast<const Element*>(problem.q) +
                       task.batch * problem.q_strides.batch +
                       task.kv_head * group * problem.q_strides.head;
    for (int64_t row = 0; row < task.rows; ++row) {
        const int64_t query = (task.first_row + row) / group;
        const int64_t head = (task.first_row + row) % group;
        const Element* from = q + query * problem.q_strides.seq + head * problem.q_strides.head;
        float* to = scratch.queries + row * scratch.query_slots;
        for (int64_t dim = 0; dim < dims; dim += lanes * Operand::per_slot, to += lanes) {
            const Isa::Vec x = Operand::load(from + dim * problem.q_strides.dim,
                                             problem.q_strides.dim, dims - dim);
            Isa::store(to, negative ? Operand::negate(x) : x);
        }
        for (int64_t dim = 0; dim < dims; dim += lanes) {
            Isa::store(scratch.out + row * scratch.out_floats + dim, Isa::zero());
        }
        sees[row] = problem.causal && query < problem.k_len ? query + 1 : problem.k_len;
        states[row] = RowState{minus_infinity, 0.0f};
    }

    const Element* k = static_cast<const Element*>(problem.k) +
                       task.batch * problem.k_strides.batch +
                       task.kv_head * problem.k_strides.head;
    const Element* v = static_cast<const Element*>(problem.v) +
                       task.batch * problem.v_strides.batch +
                       task.kv_head * problem.v_strides.head;
    const int64_t last_key = sees[task.rows - 1];
    for (int64_t key = 0; key < last_key; key += block_keys) {
        const int64_t count = last_key - key < block_keys ? last_key - key : block_keys;
        pack_keys<Operand>(Rows<Element>{k + key * problem.k_strides.seq, problem.k_strides.seq,
                                problem.k_strides.dim},
                  count, dims, scratch.keys, scratch.key_panel);
        pack_values<Operand>(Rows<Element>{v + key * problem.v_strides.seq, problem.v_strides.seq,
                                  problem.v_strides.dim},
                    count, dims, scratch.values, scratch.value_panel);
        for (int64_t row = 0; row < task.rows; row += Isa::tile_rows) {
            const int64_t left = task.rows - row;
            const int64_t rows = left < Isa::tile_rows ? left : Isa::tile_rows;
            if (sees[row + rows - 1] <= key) continue;
            int64_t visible[Isa::tile_rows];
            for (int64_t i = 0; i < rows; ++i) {
                const int64_t ahead = sees[row + i] - key;
                visible[i] = ahead < 0 ? 0 : ahead < count ? ahead : count;
            }
            attend<Operand>(scratch, problem, log2_scale, count, row, rows, visible, states + row);
        }
    }

    Element* out = static_cast<Element*>(problem.out) + task.batch * problem.out_strides.batch +
                   task.kv_head * group * problem.out_strides.head;
    for (int64_t row = 0; row < task.rows; ++row) {
        const int64_t query = (task.first_row + row) / group;
        const int64_t head = (task.first_row + row) % group;
        Element* to = out + query * problem.out_strides.seq + head * problem.out_strides.head;
        const Isa::Vec sum = Isa::broadcast(problem.k_len == 0 ? 1.0f : states[row].sum);
        for (int64_t dim = 0; dim < dims; dim += lanes) {
            const Isa::Vec x = Isa::load(scratch.out + row * scratch.out_floats + dim);
            store_strided(to + dim * problem.out_strides.dim, problem.out_strides.dim, dims - dim,
                          Isa::div(x, sum));
        }
    }
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
