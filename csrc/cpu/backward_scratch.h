// A backward task's memory: a section of keys with its gradients, a block of query rows with its own,
// and the scores of a block of keys with these rows.
#pragma once

#include "pack.h"
#include "scratch.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

static_assert(backward_rows % panel_width == 0, "a block of rows is whole panels");
static_assert(backward_keys % Isa::tile_rows == 0, "a block of keys is whole tiles");

// Slots and floats are aligned to this in scratch memory.
constexpr int64_t scratch_step = 16;

template <class Operand>
struct BackwardScratch {
    static_assert(backward_keys % (lanes * Operand::per_slot) == 0, "dS is transposed in squares");
    static constexpr int64_t score_floats = backward_rows;  // from one key's scores to the next
    static constexpr int64_t weight_slots = backward_keys / Operand::per_slot;
    static constexpr int64_t row_slots = backward_rows / Operand::per_slot;

    int64_t section_keys;
    bool one_section;
    int64_t head_slots;   // from one row of K or V to the next
    int64_t dim_floats;   // from one row of a gradient to the next
    int64_t head_panel;   // slots of a panel of Q^T or dO^T
    int64_t row_panel;    // slots of a panel of Q or dO
    int64_t key_panel;    // slots of a panel of K
    // One a section.
    float* keys;
    float* values;
    float* key_panels;
    float* dk;
    float* dv;
    // One a block of rows.
    float* queries_across;  // Q^T
    float* douts_across;    // dO^T
    float* queries;
    float* douts;
    float* minus_lse;
    float* delta;  // sum(dO * O)
    // A block of keys and a block of rows, a key's rows side by side; then dS with rows first.
    float* scores;
    float* dscores;
    float* dscores_by_row;
    // All blocks of rows, or one if there is one section.
    float* dq;
    int64_t floats = 0;

    BackwardScratch(const AttentionBackward& problem, const BackwardTask& task, float* memory) {
        const int64_t dims = problem.forward.head_dim;
        const int64_t keys_in_all = task.last_key - task.first_key;
        section_keys = keys_of_section(dims, keys_in_all);
        one_section = keys_in_all > 0 && section_keys >= keys_in_all;
        head_slots = round_up(slots_of(dims), lanes);
        dim_floats = round_up(dims, lanes);
        head_panel = head_slots * panel_width;
        row_panel = row_slots * panel_width;
        key_panel = section_keys / Operand::per_slot * panel_width;
        const int64_t dim_panels = round_up(dims, panel_width) / panel_width;
        const int64_t row_panels = backward_rows / panel_width;
        // A product may touch whole tiles of rows.
        const int64_t section_rows = section_keys + Isa::tile_rows;
        keys = take(memory, section_rows * head_slots);
        values = take(memory, section_rows * head_slots);
        key_panels = take(memory, dim_panels * key_panel);
        dk = take(memory, section_rows * dim_floats);
        dv = take(memory, section_rows * dim_floats);
        queries_across = take(memory, row_panels * head_panel);
        douts_across = take(memory, row_panels * head_panel);
        queries = take(memory, dim_panels * row_panel);
        douts = take(memory, dim_panels * row_panel);
        minus_lse = take(memory, backward_rows);
        delta = take(memory, backward_rows);
        scores = take(memory, (backward_keys + Isa::tile_rows) * score_floats);
        dscores = take(memory, (backward_keys + Isa::tile_rows) * score_floats);
        dscores_by_row = take(memory, (backward_rows + Isa::tile_rows) * weight_slots);
        const int64_t blocks = one_section ? 1
                                           : (task.last_head - task.first_head) *
                                                 blocks_of(task.last_row - task.first_row);
        dq = take(memory, blocks * backward_rows * dim_floats);
    }

    static int64_t slots_of(int64_t elements) {
        return (elements + Operand::per_slot - 1) / Operand::per_slot;
    }
    static int64_t blocks_of(int64_t rows) { return (rows + backward_rows - 1) / backward_rows; }

  private:
    // Sections of about equal length, whose arrays take about 704 KB, as they are rounded up to whole steps of
    // keys at most 1 MB: with those of a block of rows, what a second-level cache of 1 to 2 MiB holds.
    static int64_t keys_of_section(int64_t dims, int64_t keys) {
        constexpr int64_t bytes = 704 << 10;
        const int64_t bytes_of_key = (3 * 4 / Operand::per_slot + 2 * 4) * dims;
        const int64_t most = bytes / bytes_of_key;
        const int64_t sections = keys <= most ? 1 : (keys + most - 1) / most;
        return round_up((keys + sections - 1) / sections, backward_keys);
    }

    float* take(float* memory, int64_t count) {
        float* taken = memory ? memory + floats : nullptr;
        floats += round_up(count, scratch_step);
        return taken;
    }
};

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
