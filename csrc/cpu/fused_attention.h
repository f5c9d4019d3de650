// The kernel: fused, tiled attention with an online softmax, for one task (see kernel.h).
//
//     for each block of keys (those past the diagonal are skipped)
//         pack K^T and V as fp32 panels
//         for each tile of query rows
//             S = Q K^T;  P = softmax step of S;  O = O * rescale + P V
//     O / sum
//
// This is the only place with that loop; an instruction set (isa/) says how wide vectors and tiles
// are, a dtype how its elements are loaded and stored. Everything between is fp32.
//
// A row sees its first `visible` keys. Keys beyond are left out of every sum instead of being given
// the weight 0, so that a NaN or infinity there cannot get in (0 * inf is NaN).
#pragma once

#include "product.h"
#include "softmax.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

// K^T and V of a block are 32 KiB each at head_dim 64. A multiple of every panel width.
constexpr int64_t block_keys = 128;
static_assert(block_keys % panel_width == 0, "a block is whole panels");
// Head dims that Q K^T sums in one chain (see product.h).
constexpr int64_t chain_dims = 32;
// So that tiles begin at the same rows however a group of rows is cut into tasks. The triangle on
// the diagonal depends on it: where a row's sum is broken off is up to the rows of its tile.
static_assert(row_step % Isa::tile_rows == 0, "a task begins with a tile");

// Where a task's floats are within its scratch memory. Rows of Q and O are `row_floats` apart.
struct Scratch {
    int64_t row_floats;
    int64_t key_panel;    // floats of a panel of K^T
    int64_t value_panel;  // floats of a panel of V
    float* keys;
    float* values;
    float* scores;
    float* queries;
    float* out;
    int64_t floats;

    Scratch(const Attention& problem, float* memory) {
        row_floats = round_up(problem.head_dim, lanes);
        key_panel = row_floats * panel_width;
        value_panel = block_keys * panel_width;
        floats = 0;
        keys = take(memory, block_keys / panel_width * key_panel);
        values = take(memory, round_up(problem.head_dim, panel_width) * block_keys);
        scores = take(memory, Isa::tile_rows * block_keys);
        queries = take(memory, max_task_rows * row_floats);
        out = take(memory, max_task_rows * row_floats);
    }

  private:
    float* take(float* memory, int64_t count) {
        float* taken = memory ? memory + floats : nullptr;
        floats += round_up(count, 16);
        return taken;
    }
};

inline int64_t scratch_floats(const Attention& problem) {
    return Scratch(problem, nullptr).floats;
}

// Rows [first, first + rows) of a task meet one packed block of keys. rows <= Isa::tile_rows;
// visible[r] is how many keys of the block row r sees: 0 to block_keys, never falling with r.
inline void attend(const Scratch& scratch, const Attention& problem, float log2_scale,
                   int64_t first, int64_t rows, const int64_t* visible, RowState* states) {
    const int64_t most = visible[rows - 1];
    const int64_t fewest = visible[0];
    float* const out = scratch.out + first * scratch.row_floats;

    float rescale[Isa::tile_rows];
    for (float& factor : rescale) factor = 1.0f;
    for (int64_t dim = 0; dim < problem.head_dim; dim += chain_dims) {
        const float* const q = scratch.queries + first * scratch.row_floats + dim;
        const float* const k = scratch.keys + dim * panel_width;
        const int64_t left = problem.head_dim - dim;
        const int64_t dims = left < chain_dims ? left : chain_dims;
        if (dim == 0) {
            multiply<false>(rows, most, q, scratch.row_floats, k, scratch.key_panel, dims, nullptr,
                            scratch.scores, block_keys);
        } else {
            multiply<true>(rows, most, q, scratch.row_floats, k, scratch.key_panel, dims, rescale,
                           scratch.scores, block_keys);
        }
    }

    for (int64_t row = 0; row < rows; ++row) {
        if (visible[row] == 0) continue;
        rescale[row] = online_softmax(scratch.scores + row * block_keys, visible[row], log2_scale,
                                      states[row]);
    }

    multiply<true>(rows, problem.head_dim, scratch.scores, block_keys, scratch.values,
                   scratch.value_panel, fewest, rescale, out, scratch.row_floats);
    // The triangle on the diagonal: the keys that only some rows of the tile see.
    const float keep = 1.0f;
    for (int64_t row = 1; row < rows; ++row) {
        if (visible[row] == fewest) continue;
        multiply<true>(1, problem.head_dim, scratch.scores + row * block_keys + fewest, block_keys,
                       scratch.values + fewest * panel_width, scratch.value_panel,
                       visible[row] - fewest, &keep, out + row * scratch.row_floats,
                       scratch.row_floats);
    }
}

template <class Element>
void compute(const Attention& problem, const Task& task, float* memory) {
    const Scratch scratch(problem, memory);
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
        for (int64_t dim = 0; dim < dims; dim += lanes) {
            const Isa::Vec x = load_strided(from + dim * problem.q_strides.dim,
                                            problem.q_strides.dim, dims - dim);
            const int64_t at = row * scratch.row_floats + dim;
            Isa::store(scratch.queries + at,
                       negative ? Isa::mul(x, Isa::broadcast(-1.0f)) : x);
            Isa::store(scratch.out + at, Isa::zero());
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
        pack_keys(Rows<Element>{k + key * problem.k_strides.seq, problem.k_strides.seq,
                                problem.k_strides.dim},
                  count, dims, scratch.keys, scratch.key_panel);
        pack_values(Rows<Element>{v + key * problem.v_strides.seq, problem.v_strides.seq,
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
            attend(scratch, problem, log2_scale, row, rows, visible, states + row);
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
            const Isa::Vec x = Isa::load(scratch.out + row * scratch.row_floats + dim);
            store_strided(to + dim * problem.out_strides.dim, problem.out_strides.dim, dims - dim,
                          Isa::div(x, sum));
        }
    }
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
