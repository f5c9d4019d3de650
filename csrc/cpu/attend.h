// Processes a task's rows with a block of keys: scores, softmax, weighted values.
//
// A row sees its first `visible` keys. Later keys get the weight 0, or are left out of the sum if they
// hold a NaN or infinity, which the weight 0 would not suppress (0 * inf is NaN).
#pragma once

#include "microkernel.h"
#include "prefetch.h"
#include "scratch.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

// Whether the values of keys [first, last) of a block, and their neighbours in a slot, are finite.
template <class Operand>
inline bool all_finite(const Scratch<Operand>& scratch, int64_t head_dim, int64_t first,
                       int64_t last) {
    Isa::Vec excess = Isa::zero();
    const float* panel = scratch.value_rows;
    for (int64_t dim = 0; dim < head_dim; dim += panel_width, panel += scratch.value_panel) {
        const int64_t columns = head_dim - dim < panel_width ? head_dim - dim : panel_width;
        for (int64_t slot = first / Operand::per_slot; slot < scratch.slots_of(last); ++slot) {
            for (int64_t column = 0; column < columns; column += lanes) {
                excess = Isa::add(
                    excess,
                    Operand::excess(Isa::load(panel + slot * scratch.value_stride + column)));
            }
        }
    }
    return Isa::sum_of_lanes(excess) == 0.0f;
}

// O = O * rescale + P V, where a row sums over only the keys that it sees.
template <class Operand>
inline void add_values_apart(const Scratch<Operand>& scratch, int64_t head_dim, int64_t rows,
                             const int64_t* visible, const float* scores, bool first_block,
                             const float* rescale, float* out) {
    for (int64_t row = 0; row < rows; ++row) {
        const float* const weights = scores + row * scratch.score_stride;
        for (int64_t dim = 0; dim < head_dim; dim += lanes) {
            const float* const column =
                scratch.value_rows + dim / panel_width * scratch.value_panel + dim % panel_width;
            Isa::Vec sum = Isa::zero();
            for (int64_t key = 0; key < visible[row]; ++key) {
                sum = Isa::fma(Isa::broadcast(Operand::weight(weights, key)),
                               Operand::values(column, scratch.value_stride, key), sum);
            }
            float* const to = out + row * scratch.out_floats + dim;
            if (!first_block) {
                sum = Isa::fma(Isa::load(to), Isa::broadcast(rescale[row]), sum);
            }
            Isa::store(to, sum);
        }
    }
}

// Calls body(first row, rows) for each tile of a strip that sees any of a block's keys.
template <class Body>
inline void for_each_tile(int64_t rows, const int64_t* visible, Body body) {
    for (int64_t row = 0; row < rows; row += Isa::tile_rows) {
        const int64_t left = rows - row;
        const int64_t height = left < Isa::tile_rows ? left : Isa::tile_rows;
        if (visible[row + height - 1] > 0) body(row, height);
    }
}

// A packed block of keys.
struct Block {
    int64_t first_key;
    int64_t count;
    bool is_first;  // the task's first block: O is written, not added to
};

// Processes a strip, rows [first, first + rows) of a task, with a block. rows <= strip_rows; visible[r]
// is the number of the block's keys that row r sees, which never decreases with r.
//
// All tiles of the strip use a panel before the next one is read, so a panel comes from a larger cache
// once and then from the first level.
template <class Operand>
inline void attend(const Scratch<Operand>& scratch, const Attention& problem, float log2_scale,
                   const Block& block, int64_t first, int64_t rows, const int64_t* visible) {
    constexpr int64_t score_stride = Scratch<Operand>::score_stride;
    const int64_t dims = problem.head_dim;
    const int64_t most = visible[rows - 1];
    float* const out = scratch.out + first * scratch.out_floats;

    float rescale[round_up(strip_rows, lanes)];
    for (float& factor : rescale) factor = 1.0f;
    const int64_t head_slots = scratch.slots_of(dims);
    for (int64_t key = 0; key < most; key += panel_width) {
        const float* const panel = scratch.keys + key / panel_width * scratch.key_panel;
        for (int64_t slot = 0; slot < head_slots; slot += Operand::chain) {
            const int64_t left = head_slots - slot;
            const int64_t depth = left < Operand::chain ? left : Operand::chain;
            for_each_tile(rows, visible, [&](int64_t row, int64_t height) {
                const int64_t seen = visible[row + height - 1] - key;
                if (seen <= 0) return;
                const auto product = slot == 0 ? multiply<Operand, false> : multiply<Operand, true>;
                product(height, seen,
                        scratch.query_rows + (first + row) * scratch.query_stride + slot,
                        scratch.query_stride, panel + slot * panel_width, panel_width, depth,
                        rescale, scratch.scores + row * score_stride + key, score_stride);
            });
        }
    }

    constexpr int64_t step = Operand::depth_step * Operand::per_slot;
    const RowStates states{scratch.rows.max + first, scratch.rows.sums + first * lanes};
    online_softmax<Operand>(scratch.scores, score_stride, rows, visible, round_up(most, step),
                            log2_scale, states, rescale);

    bool apart[strip_tiles] = {};
    for_each_tile(rows, visible, [&](int64_t row, int64_t height) {
        const int64_t fewest = visible[row], last = visible[row + height - 1];
        if (fewest == block.count || all_finite(scratch, dims, fewest, round_up(last, step))) return;
        apart[row / Isa::tile_rows] = true;
        add_values_apart(scratch, dims, height, visible + row, scratch.scores + row * score_stride,
                         block.is_first, rescale + row, out + row * scratch.out_floats);
    });
    for (int64_t dim = 0; dim < dims; dim += panel_width) {
        const float* const panel = scratch.value_rows + dim / panel_width * scratch.value_panel;
        for_each_tile(rows, visible, [&](int64_t row, int64_t height) {
            if (apart[row / Isa::tile_rows]) return;
            const auto product =
                block.is_first ? multiply<Operand, false> : multiply<Operand, true>;
            product(height, dims - dim, scratch.scores + row * score_stride, score_stride, panel,
                    scratch.value_stride, scratch.slots_of(visible[row + height - 1]), rescale + row,
                    out + row * scratch.out_floats + dim, scratch.out_floats);
        });
    }
}

// visible[r] becomes the number of keys [first, first + count) that row r sees, of the first sees[r].
inline void take_visible(const int64_t* sees, int64_t rows, int64_t first, int64_t count,
                         int64_t* visible) {
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t seen = sees[row] - first;
        visible[row] = seen < 0 ? 0 : seen < count ? seen : count;
    }
}

// Processes all rows of a task with a block, and prefetches what comes next. sees[r] is the number of
// keys of the whole problem that row r sees.
template <class Operand>
inline void attend_strips(const Scratch<Operand>& scratch, const Attention& problem,
                          float log2_scale, const Block& block, int64_t all_rows,
                          const int64_t* sees, Prefetcher prefetcher) {
    const int64_t share = (prefetcher.rows() * strip_rows + all_rows - 1) / all_rows;
    for (int64_t row = 0; row < all_rows; row += strip_rows) {
        const int64_t left = all_rows - row;
        const int64_t rows = left < strip_rows ? left : strip_rows;
        prefetcher.fetch(share);
        if (sees[row + rows - 1] <= block.first_key) continue;
        int64_t visible[strip_rows];
        take_visible(sees + row, rows, block.first_key, block.count, visible);
        attend(scratch, problem, log2_scale, block, row, rows, visible);
    }
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
