// The products of a block of keys with a block of query rows, and the gradients they add to.
#pragma once

#include "backward_scratch.h"
#include "few_keys.h"
#include "microkernel.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

// A block: its first key in the section, its numbers of keys and rows, and the mask. Row i sees the
// first first_sees + i keys.
struct BackwardBlock {
    int64_t first_key;
    int64_t keys;
    int64_t rows;
    bool causal;
    int64_t first_sees;

    // The first row that sees the key, at most `rows`.
    int64_t first_row(int64_t key) const {
        const int64_t row = causal ? key - first_sees + 1 : 0;
        return row < 0 ? 0 : row < rows ? row : rows;
    }
    // How many keys the row sees.
    int64_t visible(int64_t row) const {
        const int64_t sees = causal ? first_sees + row : keys;
        return sees < 0 ? 0 : sees < keys ? sees : keys;
    }
    bool is_cut() const { return first_row(keys - 1) > 0; }
};

// Calls body(first, height) for each tile of `count` rows.
template <class Body>
inline void for_each_tile_of(int64_t count, Body body) {
    for (int64_t row = 0; row < count; row += Isa::tile_rows) {
        const int64_t left = count - row;
        body(row, left < Isa::tile_rows ? left : Isa::tile_rows);
    }
}

struct Ones {
    float of_rows[Isa::tile_rows];
    constexpr Ones() : of_rows() {
        for (float& one : of_rows) one = 1.0f;
    }
};
constexpr Ones ones;

// to = keys * across, where `to` holds a key's rows side by side: vectors of rows that do not see the
// first key of a tile are left out. Scores are summed as in the forward, whose log-sum-exp has the same
// errors: in P they cancel.
template <class Operand>
inline void multiply_keys(const BackwardScratch<Operand>& scratch, const BackwardBlock& block,
                          int64_t head_dim, const float* keys, const float* across, float* to) {
    constexpr int64_t stride = BackwardScratch<Operand>::score_floats;
    const int64_t slots = scratch.slots_of(head_dim);
    for (int64_t column = 0; column < block.rows; column += panel_width) {
        const float* const panel = across + column / panel_width * scratch.head_panel;
        const int64_t end = column + panel_width < block.rows ? column + panel_width : block.rows;
        for (int64_t slot = 0; slot < slots; slot += Operand::chain) {
            const int64_t left = slots - slot;
            const int64_t depth = left < Operand::chain ? left : Operand::chain;
            const auto product = slot == 0 ? multiply<Operand, false> : multiply<Operand, true>;
            for_each_tile_of(block.keys, [&](int64_t key, int64_t height) {
                const int64_t seen_from = block.first_row(key) / lanes * lanes;
                const int64_t from = seen_from > column ? seen_from : column;
                if (from >= end) return;
                product(height, end - from, keys + key * scratch.head_slots + slot,
                        scratch.head_slots, panel + slot * panel_width + (from - column),
                        panel_width, depth, ones.of_rows, to + key * stride + from, stride);
            });
        }
    }
}

// exp(scale * S - lse) of a vector of rows.
//
// The log-sum-exp is subtracted before the change to base 2: where a weight matters, the difference is
// small, and so is its rounding.
template <class Operand>
inline Isa::Vec weights_of_rows(const BackwardScratch<Operand>& scratch, const float* scores,
                                int64_t row, float scale) {
    const Isa::Vec below = Isa::fma(Isa::load(scores + row), Isa::broadcast(scale),
                                    Isa::load(scratch.minus_lse + row));
    const Isa::Vec x = Isa::mul(below, Isa::broadcast(1.44269504f));
    return Operand::short_exp ? short_exp2(x) : exp2(x);
}

// For the vectors of rows that see only few keys, all in this block: takes the largest score of a row from
// all of them, and replaces the log-sum-exp by theirs, and D = sum(dO * O) by sum(P * dP), which is the
// same number.
//
// With few keys a large score has most of the weight. The rounding of a log-sum-exp as large would then
// be most of P's error, and with another sum for D the rounding of dP most of dS's. With one key P is 1
// and dS 0.
template <class Operand>
inline void level_rows_of_few_keys(const BackwardScratch<Operand>& scratch,
                                   const BackwardBlock& block, float scale) {
    constexpr int64_t stride = BackwardScratch<Operand>::score_floats, few = 16;
    static_assert(few >= lanes, "the vector of the first row is among them");
    static_assert(few >= few_keys, "so are the rows that the forward computes without tiles");
    const Isa::Vec sign = Isa::broadcast(scale < 0.0f ? -1.0f : 1.0f);
    for (int64_t row = 0; row < block.rows; row += lanes) {
        const int64_t keys = block.visible(row + lanes - 1);
        if (keys > few) return;
        const auto seen = [&](int64_t key, Isa::Vec x, float hidden) {
            const int64_t count = block.first_row(key) - row;
            return count > 0 ? Isa::first_lanes(count, Isa::broadcast(hidden), x) : x;
        };
        Isa::Vec largest = Isa::broadcast(-INFINITY);
        for (int64_t key = 0; key < keys; ++key) {
            const Isa::Vec score = Isa::load(scratch.scores + key * stride + row);
            largest = Isa::max(largest, seen(key, Isa::mul(score, sign), -INFINITY));
        }
        largest = Isa::mul(largest, sign);
        float minus_lse[lanes], weights[lanes], products[lanes];
        Isa::store(minus_lse, Isa::load(scratch.minus_lse + row));
        Isa::store(scratch.minus_lse + row, Isa::zero());
        Isa::Vec sum = Isa::zero(), sum_of_products = Isa::zero();
        for (int64_t key = 0; key < keys; ++key) {
            float* const score = scratch.scores + key * stride;
            Isa::store(score + row, Isa::sub(Isa::load(score + row), largest));
            const Isa::Vec p = weights_of_rows(scratch, score, row, scale);
            const Isa::Vec dp = Isa::load(scratch.dscores + key * stride + row);
            sum = Isa::add(sum, seen(key, p, 0.0f));
            sum_of_products = Isa::add(sum_of_products, seen(key, Isa::mul(p, dp), 0.0f));
        }
        Isa::store(weights, sum);
        Isa::store(products, sum_of_products);
        for (int64_t i = 0; i < lanes; ++i) {
            // Rows past the last, or that see no key, keep their log-sum-exp.
            const bool sees = row + i < block.rows && block.visible(row + i) > 0;
            scratch.minus_lse[row + i] = sees ? -::logf(weights[i]) : minus_lse[i];
            if (sees) scratch.delta[row + i] = products[i] / weights[i];
        }
    }
}

// Replaces S^T by P^T and dP^T by dS^T, both as weights with 0 for rows that do not see a key.
template <class Operand>
inline void weigh_block(const BackwardScratch<Operand>& scratch, const BackwardBlock& block,
                        float scale) {
    constexpr int64_t stride = BackwardScratch<Operand>::score_floats;
    constexpr int64_t step = Operand::depth_step * Operand::per_slot;
    const int64_t padded = round_up(block.rows, step > lanes ? step : lanes);
    for (int64_t key = 0; key < block.keys; ++key) {
        float* const score = scratch.scores + key * stride;
        float* const dscore = scratch.dscores + key * stride;
        const int64_t first = block.first_row(key);
        int64_t row = 0;
        for (; row + lanes <= first; row += lanes) {
            Operand::store_weights(score, row, Isa::zero());
            Operand::store_weights(dscore, row, Isa::zero());
        }
        const auto weigh_rows = [&](int64_t hidden) {
            Isa::Vec p = weights_of_rows(scratch, score, row, scale);
            Isa::Vec ds = Isa::mul(
                p, Isa::sub(Isa::load(dscore + row), Isa::load(scratch.delta + row)));
            if (hidden > 0) {
                p = Isa::first_lanes(hidden, Isa::zero(), p);
                ds = Isa::first_lanes(hidden, Isa::zero(), ds);
            }
            // Rows past the last are multiplied beside it where the operand takes rows in pairs or
            // more, and the scores of a key that is not finite are NaN there, too.
            if (const int64_t left = block.rows - row; left < lanes) {
                p = Isa::first_lanes(left, p, Isa::zero());
                ds = Isa::first_lanes(left, ds, Isa::zero());
            }
            Operand::store_weights(score, row, p);
            Operand::store_weights(dscore, row, ds);
        };
        if (row < block.rows) {
            weigh_rows(first - row);
            row += lanes;
        }
        for (; row < block.rows; row += lanes) weigh_rows(0);
        for (; row < padded; row += lanes) {
            Operand::store_weights(score, row, Isa::zero());
            Operand::store_weights(dscore, row, Isa::zero());
        }
    }
}

// dS from dS^T: a row's keys side by side, 0 beyond the last one.
template <class Operand>
inline void transpose_dscores(const BackwardScratch<Operand>& scratch, const BackwardBlock& block) {
    constexpr int64_t stride = BackwardScratch<Operand>::score_floats;
    constexpr int64_t slots = BackwardScratch<Operand>::weight_slots;
    const auto weights_of = [&](int64_t key, int64_t row) {
        return key < block.keys ? Operand::weights(scratch.dscores + key * stride, row)
                                : Isa::zero();
    };
    for (int64_t key = 0; key < block.keys; key += lanes * Operand::per_slot) {
        // Tiles of rows that see none of these keys are not read.
        const int64_t first_tile = block.first_row(key) / Isa::tile_rows * Isa::tile_rows;
        for (int64_t row = first_tile / lanes * lanes; row < block.rows; row += lanes) {
            Isa::Vec square[lanes];
            for (int64_t i = 0; i < lanes; ++i) {
                const int64_t at = key + i * Operand::per_slot;
                square[i] = weights_of(at, row);
                if constexpr (Operand::per_slot == 2) {
                    square[i] = Operand::pair(square[i], weights_of(at + 1, row));
                }
            }
            Isa::transpose(square);
            float* const to = scratch.dscores_by_row + row * slots + key / Operand::per_slot;
            for (int64_t i = 0; i < lanes; ++i) Isa::store(to + i * slots, square[i]);
        }
    }
}

// gradient (of keys) += weights^T * panels (of rows). With a mask the first rows weigh most: in a long
// chain all later terms would be rounded beside their sum.
template <class Operand>
inline void add_to_keys(const BackwardScratch<Operand>& scratch, const BackwardBlock& block,
                        int64_t head_dim, const float* weights, const float* panels,
                        float* gradient) {
    constexpr int64_t stride = BackwardScratch<Operand>::score_floats;
    constexpr int64_t step = Operand::depth_step * Operand::per_slot;
    const int64_t slots = scratch.slots_of(block.rows);
    for (int64_t dim = 0; dim < head_dim; dim += panel_width) {
        const float* const panel = panels + dim / panel_width * scratch.row_panel;
        for_each_tile_of(block.keys, [&](int64_t key, int64_t height) {
            for (int64_t slot = 0; slot < slots; slot += Operand::chain) {
                const int64_t seen = block.first_row(key) / step * Operand::depth_step;
                const int64_t from = seen > slot ? seen : slot;
                const int64_t end = slot + Operand::chain < slots ? slot + Operand::chain : slots;
                if (from >= end) continue;
                multiply<Operand, true>(height, head_dim - dim, weights + key * stride + from,
                                        stride, panel + from * panel_width, panel_width, end - from,
                                        ones.of_rows, gradient + key * scratch.dim_floats + dim,
                                        scratch.dim_floats);
            }
        });
    }
}

// dq += dS * K.
template <class Operand>
inline void add_to_rows(const BackwardScratch<Operand>& scratch, const BackwardBlock& block,
                        int64_t head_dim, float* dq) {
    constexpr int64_t slots = BackwardScratch<Operand>::weight_slots;
    for (int64_t dim = 0; dim < head_dim; dim += panel_width) {
        const float* const panel = scratch.key_panels + dim / panel_width * scratch.key_panel +
                                   block.first_key / Operand::per_slot * panel_width;
        for_each_tile_of(block.rows, [&](int64_t row, int64_t height) {
            const int64_t visible = block.visible(row + height - 1);
            if (visible == 0) return;
            multiply<Operand, true>(height, head_dim - dim, scratch.dscores_by_row + row * slots,
                                    slots, panel, panel_width, scratch.slots_of(visible),
                                    ones.of_rows, dq + row * scratch.dim_floats + dim,
                                    scratch.dim_floats);
        });
    }
}

// Whether `count` rows of panels hold only finite numbers.
template <class Operand>
inline bool finite_panels(const float* panels, int64_t stride, int64_t count, int64_t head_dim) {
    const int64_t slots = (count + Operand::per_slot - 1) / Operand::per_slot;
    Isa::Vec excess = Isa::zero();
    for (int64_t dim = 0; dim < head_dim; dim += lanes) {
        const float* const column = panels + dim / panel_width * stride + dim % panel_width;
        for (int64_t slot = 0; slot < slots; ++slot) {
            excess = Isa::add(excess, Operand::excess(Isa::load(column + slot * panel_width)));
        }
    }
    return Isa::sum_of_lanes(excess) == 0.0f;
}

// The last three products, pair by pair: the weight 0 of a hidden pair would not suppress a NaN or an
// infinity (0 * inf is NaN).
template <class Operand>
inline void add_visible_pairs(const BackwardScratch<Operand>& scratch, const BackwardTask& task,
                              const BackwardBlock& block, int64_t head_dim, float* dq) {
    constexpr int64_t stride = BackwardScratch<Operand>::score_floats;
    const auto add = [&](float weight, const float* panels, int64_t panel_stride, int64_t from,
                         float* to) {
        for (int64_t dim = 0; dim < head_dim; dim += lanes) {
            const float* const column = panels + dim / panel_width * panel_stride +
                                        dim % panel_width;
            Isa::store(to + dim, Isa::fma(Isa::broadcast(weight),
                                          Operand::values(column, panel_width, from),
                                          Isa::load(to + dim)));
        }
    };
    for (int64_t key = 0; key < block.keys; ++key) {
        const int64_t of_section = block.first_key + key;
        const int64_t at = of_section * scratch.dim_floats;
        for (int64_t row = block.first_row(key); row < block.rows; ++row) {
            const float p = Operand::weight(scratch.scores + key * stride, row);
            const float ds = Operand::weight(scratch.dscores + key * stride, row);
            if (task.dv) add(p, scratch.douts, scratch.row_panel, row, scratch.dv + at);
            if (task.dk) add(ds, scratch.queries, scratch.row_panel, row, scratch.dk + at);
            if (task.dq) {
                add(ds, scratch.key_panels, scratch.key_panel, of_section,
                    dq + row * scratch.dim_floats);
            }
        }
    }
}

// Adds what a block of rows has with the keys of a section to the gradients. The first row sees the
// first `first_sees` keys of the section if there is a mask.
template <class Operand>
inline void add_section(const BackwardScratch<Operand>& scratch, const BackwardTask& task,
                        const Attention& forward, int64_t first_key, int64_t keys, int64_t rows,
                        int64_t first_sees, float* dq) {
    const int64_t head_dim = forward.head_dim;
    for (int64_t key = 0; key < keys; key += backward_keys) {
        const int64_t left = keys - key;
        const BackwardBlock block{key, left < backward_keys ? left : backward_keys, rows,
                                  forward.causal, first_sees - key};
        if (block.visible(rows - 1) == 0) return;
        multiply_keys(scratch, block, head_dim, scratch.keys + key * scratch.head_slots,
                      scratch.queries_across, scratch.scores);
        multiply_keys(scratch, block, head_dim, scratch.values + key * scratch.head_slots,
                      scratch.douts_across, scratch.dscores);
        if (first_key + key == 0) {
            level_rows_of_few_keys(scratch, block, forward.scale);
        }
        weigh_block(scratch, block, forward.scale);
        const auto finite = [&] {
            return (!task.dv ||
                    finite_panels<Operand>(scratch.douts, scratch.row_panel, rows, head_dim)) &&
                   (!task.dk ||
                    finite_panels<Operand>(scratch.queries, scratch.row_panel, rows, head_dim)) &&
                   (!task.dq ||
                    finite_panels<Operand>(
                        scratch.key_panels + key / Operand::per_slot * panel_width,
                        scratch.key_panel, block.keys, head_dim));
        };
        if (block.is_cut() && !finite()) {
            add_visible_pairs(scratch, task, block, head_dim, dq);
            continue;
        }
        const int64_t at = key * scratch.dim_floats;
        if (task.dv) {
            add_to_keys(scratch, block, head_dim, scratch.scores, scratch.douts, scratch.dv + at);
        }
        if (task.dk) {
            add_to_keys(scratch, block, head_dim, scratch.dscores, scratch.queries,
                        scratch.dk + at);
        }
        if (task.dq) {
            transpose_dscores(scratch, block);
            add_to_rows(scratch, block, head_dim, dq);
        }
    }
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
