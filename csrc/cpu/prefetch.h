// Software prefetch: brings rows of the next block or task into the second-level cache during the
// current one, because packing reads them in an order that the hardware does not predict.
#pragma once

#include "rows.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

class Prefetcher {
  public:
    // Adds `count` rows of `elements` contiguous elements each.
    template <class Element>
    void add(const Rows<Element>& rows, int64_t count, int64_t elements) {
        runs_[size_++] = {reinterpret_cast<const char*>(rows.first),
                          rows.stride * static_cast<int64_t>(sizeof(Element)), count,
                          elements * static_cast<int64_t>(sizeof(Element))};
        rows_ += count;
    }

    // The number of rows added.
    int64_t rows() const { return rows_; }

    // Prefetches the next `count` rows.
    void fetch(int64_t count) {
        while (count > 0 && at_ < size_) {
            Run& run = runs_[at_];
            for (; count > 0 && run.rows > 0; --count, --run.rows, run.first += run.stride) {
                for (int64_t byte = 0; byte < run.bytes; byte += line_bytes) {
                    __builtin_prefetch(run.first + byte, 0, 2);
                }
            }
            if (run.rows == 0) ++at_;
        }
    }

  private:
    static constexpr int64_t line_bytes = 64;

    struct Run {
        const char* first;
        int64_t stride;  // bytes
        int64_t rows;
        int64_t bytes;  // of a row
    };
    Run runs_[4];
    int64_t size_ = 0;
    int64_t at_ = 0;
    int64_t rows_ = 0;
};

// The rows needed from `key` on: the next block's, or the first ones of the task `next`.
template <class Element>
inline Prefetcher prefetch_after(const Attention& problem, const Task& task, const Task& next,
                                 int64_t key, int64_t last_key, int64_t block_keys) {
    Prefetcher prefetcher;
    const bool goes_on = key < last_key;
    const Task& of = goes_on ? task : next;
    const int64_t first = goes_on ? key : next.first_key;
    const int64_t left = (goes_on ? last_key : next.last_key) - first;
    const int64_t count = left < block_keys ? left : block_keys;
    const int64_t dims = problem.head_dim;
    prefetcher.add(rows_of<Element>(problem.k, problem.k_strides, of, first), count, dims);
    prefetcher.add(rows_of<Element>(problem.v, problem.v_strides, of, first), count, dims);
    if (!goes_on && problem.heads == problem.kv_heads) {
        // One head a group: its rows are as those of keys.
        prefetcher.add(rows_of<Element>(problem.q, problem.q_strides, next, next.first_row),
                       next.rows, dims);
        prefetcher.add(rows_of<Element>(problem.out, problem.out_strides, next, next.first_row),
                       next.rows, dims);
    }
    return prefetcher;
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
