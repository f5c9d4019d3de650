// How a problem is cut into tasks, and in which order threads take them.
//
// The cut has no influence on the numbers: tasks begin at multiples of the kernel's row_step, so each
// row is computed in the same tile and the same order of operations whatever the task.
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
          longest_first_(problem.causal) {
        // Large tasks pack keys less often; several a thread keep all threads busy to the end.
        const int64_t wanted = (tasks_a_thread * threads + groups_ - 1) / groups_;
        const int64_t longest = max_task_rows / row_step * row_step;
        const int64_t fewest = (rows_ + longest - 1) / longest;
        const int64_t most = (rows_ + row_step - 1) / row_step;
        const int64_t blocks = std::max(fewest, std::min(wanted, most));
        const int64_t even = (rows_ + blocks - 1) / blocks;
        block_rows_ = (even + row_step - 1) / row_step * row_step;
        blocks_ = (rows_ + block_rows_ - 1) / block_rows_;
    }

    int64_t size() const { return groups_ * blocks_; }

    Task operator[](int64_t index) const {
        // Causal: the last rows see most keys, so they come first, in all groups. Otherwise a
        // group's tasks follow one another, since they read the same keys.
        const int64_t group = longest_first_ ? index % groups_ : index / blocks_;
        const int64_t block =
            longest_first_ ? blocks_ - 1 - index / groups_ : index % blocks_;
        const int64_t first_row = block * block_rows_;
        return Task{group / kv_heads_, group % kv_heads_, first_row,
                    std::min(block_rows_, rows_ - first_row)};
    }

  private:
    static constexpr int64_t tasks_a_thread = 4;

    int64_t groups_;  // batch * kv_heads
    int64_t kv_heads_;
    int64_t rows_;  // of a group
    bool longest_first_;
    int64_t block_rows_;
    int64_t blocks_;  // of a group
};

}  // namespace cpu
}  // namespace flashbench
