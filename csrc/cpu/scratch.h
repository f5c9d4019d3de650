// A task's memory: packed keys and values, scores, and the state of each row.
#pragma once

#include "pack.h"
#include "softmax.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

// Tasks begin with a tile, because a row's tile determines where its sums are split. 24 rows are whole
// tiles of 6, and the fewest worth a task.
constexpr int64_t row_step = 24 % Isa::tile_rows == 0 ? 24 : Isa::tile_rows;

// Tiles of a strip, which use a panel one after another (see attend.h).
constexpr int64_t strip_tiles = 4;
constexpr int64_t strip_rows = strip_tiles * Isa::tile_rows;

// Where a task's floats are within its scratch memory.
template <class Operand>
struct Scratch {
    static constexpr int64_t block_keys = Operand::block_keys;
    // From one row of scores to the next. A power of two would put the 16 rows of a tile of AMX in a few sets
    // of the cache.
    static constexpr int64_t score_stride = block_keys + (Operand::own_product ? 16 : 0);
    static_assert(block_keys % panel_width == 0, "a block is whole panels");

    int64_t query_slots;  // from one row of Q to the next
    int64_t out_floats;   // from one row of O to the next
    int64_t key_panel;    // slots of a panel of K^T
    int64_t value_panel;  // slots from one panel of V to the next
    float* keys;
    float* values;
    float* scores;
    float* queries;
    float* out;
    RowStates rows;
    int64_t floats;
    // Where products read: the above, or the caller's memory in place.
    const float* query_rows;
    int64_t query_stride;
    const float* value_rows;
    int64_t value_stride;

    Scratch(const Attention& problem, float* memory) {
        query_slots = round_up(slots_of(problem.head_dim), lanes);
        out_floats = round_up(problem.head_dim, lanes);
        key_panel = query_slots * panel_width;
        value_panel = block_keys / Operand::per_slot * panel_width;
        floats = 0;
        keys = take(memory, block_keys / panel_width * key_panel);
        values = take(memory, round_up(problem.head_dim, panel_width) / panel_width * value_panel);
        scores = take(memory, strip_rows * score_stride);
        queries = take(memory, max_task_rows * query_slots);
        out = take(memory, max_task_rows * out_floats);
        rows.max = take(memory, max_task_rows + lanes);
        rows.sums = take(memory, round_up(max_task_rows, lanes) * lanes);
        query_rows = queries;
        query_stride = query_slots;
        value_rows = values;
        value_stride = panel_width;
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

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
