// Cuts a problem into tasks, in the order in which threads take them.
//
// The cut does not affect the numbers: tasks begin at multiples of the kernel's row_step, so each row is
// computed in the same tile and order of operations in any task. Keys are divided among tasks if there
// are few rows and many keys, independently of the number of threads.
#pragma once

#include <algorithm>

#include "kernel.h"

namespace flashbench {
namespace cpu {

class WorkList {
  public:
    WorkList(const Attention& problem, int64_t row_step, int threads)
        : groups_(problem.batch * problem.kv_heads),
          kv_heads_(problem.kv_heads),
          rows_(problem.heads / problem.kv_heads * problem.q_len),
          keys_(problem.k_len),
          longest_first_(problem.causal) {
        block_rows_ =
            problem.causal ? uneven_block(row_step, threads) : even_block(row_step, threads);
        blocks_ = up(rows_, block_rows_);

        part_keys_ = keys_of_part(problem);
        parts_ = std::max<int64_t>(up(keys_, part_keys_), 1);
    }

    // Few rows with many keys are divided by keys, too. All keys, or whole blocks of them.
    static int64_t keys_of_part(const Attention& problem) {
        const int64_t keys = problem.k_len, groups = problem.batch * problem.kv_heads;
        const int64_t rows = problem.heads / problem.kv_heads * problem.q_len;
        const int64_t parts = std::min(keys / fewest_part_keys, most_parts / groups);
        if (rows > most_split_rows || parts <= 1) return std::max<int64_t>(keys, 1);
        const int64_t part_keys = up(up(keys, parts), fewest_part_keys) * fewest_part_keys;
        // Every row must see a key of the last part.
        const int64_t last_part = (up(keys, part_keys) - 1) * part_keys;
        return problem.causal && last_part > problem.causal_offset ? keys : part_keys;
    }

    int64_t size() const { return groups_ * blocks_ * parts_; }
    // Tasks [i * parts(), (i + 1) * parts()) have the same rows.
    int64_t parts() const { return parts_; }
    // The most rows of a task.
    int64_t rows() const { return std::min(block_rows_, rows_); }

    Task operator[](int64_t index) const {
        const int64_t part = index % parts_;
        const int64_t rest = index / parts_;
        // Causal: the last rows see most keys, so they come first, in all groups. Otherwise a
        // group's whole blocks follow one another, since they read the same keys, and the shorter
        // ones at the ends of groups come last, which fill what whole blocks leave of the threads.
        const int64_t whole = rows_ / block_rows_, in_order = groups_ * whole;
        const bool is_rest = !longest_first_ && rest >= in_order;
        const int64_t group = longest_first_ ? rest % groups_
                              : is_rest      ? rest - in_order
                                             : rest / whole;
        const int64_t block = longest_first_ ? blocks_ - 1 - rest / groups_
                              : is_rest      ? whole
                                             : rest % whole;
        const int64_t first_row = block * block_rows_;
        return Task{group / kv_heads_,
                    group % kv_heads_,
                    first_row,
                    std::min(block_rows_, rows_ - first_row),
                    part * part_keys_,
                    std::min((part + 1) * part_keys_, keys_)};
    }

  private:
    static constexpr int64_t most_split_rows = 64;
    static constexpr int64_t most_parts = 32;
    static constexpr int64_t fewest_part_keys = 512;  // whole blocks

    static int64_t up(int64_t n, int64_t divisor) { return (n + divisor - 1) / divisor; }

    // Rows per block for at least this many blocks of about equal size.
    int64_t block_of(int64_t blocks, int64_t row_step) const {
        const int64_t longest = max_task_rows / row_step * row_step;
        const int64_t enough = std::max(blocks, up(rows_, longest));
        return up(up(rows_, enough), row_step) * row_step;
    }

    // Later rows take longer: several blocks per thread, the longest first.
    int64_t uneven_block(int64_t row_step, int threads) const {
        constexpr int64_t tasks_a_thread = 4, short_task_rows = 48;
        if (threads == 1) return block_of(1, row_step);
        const int64_t several = up(tasks_a_thread * threads, groups_);
        const int64_t wanted = std::max(up(threads, groups_),
                                        std::min(several, up(rows_, short_task_rows)));
        return block_of(std::min(wanted, up(rows_, row_step)), row_step);
    }

    // All rows take the same time: the blocks with which all threads finish soonest, of several sizes
    // the largest, which packs keys the fewest times.
    int64_t even_block(int64_t row_step, int threads) const {
        if (threads == 1) return block_of(1, row_step);
        int64_t best = row_step, soonest = INT64_MAX;
        for (int64_t block = row_step; block <= max_task_rows; block += row_step) {
            const int64_t end = end_of(block, threads);
            if (end <= soonest) {
                soonest = end;
                best = block;
            }
            if (block >= rows_) break;
        }
        return best;
    }

    // When the last thread finishes, in rows, if threads take whole blocks, then the rests of groups.
    // Each task packs the keys, which is as much work as some rows.
    int64_t end_of(int64_t block, int threads) const {
        constexpr int64_t packing = 8;
        const int64_t rest = rows_ % block, whole = groups_ * (rows_ / block);
        const int64_t rounds = up(whole, threads);
        const int64_t long_task = block + packing, short_task = rest + packing;
        const int64_t end = rounds * long_task;
        if (rest == 0) return end;
        const int64_t idle = rounds * threads - whole;  // threads in the last round
        const int64_t left = groups_ - idle * (long_task / short_task);
        if (left <= 0) return end;
        const int64_t more = left % threads;
        const int64_t last = more == 0      ? 0
                             : more <= idle ? short_task - long_task % short_task  // begun earlier
                                            : short_task;
        return end + left / threads * short_task + last;
    }

    int64_t groups_;  // batch * kv_heads
    int64_t kv_heads_;
    int64_t rows_;  // of a group
    int64_t keys_;
    bool longest_first_;
    int64_t block_rows_;
    int64_t blocks_;  // of a group
    int64_t part_keys_;
    int64_t parts_;
};

}  // namespace cpu
}  // namespace flashbench
