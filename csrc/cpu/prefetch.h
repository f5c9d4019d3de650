// Software prefetch. Rows of the next block or task come into the second-level cache during the current
// one, because packing reads them in an order that the hardware does not predict; keys and values of few rows
// of Q into the first, because the hardware follows a stream only within a page.
#pragma once

#include <cstdint>

#include "rows.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

constexpr int64_t line_bytes = 64;

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

// How far ahead to prefetch rows that are read in order, in bytes: eight rows, or 6 KB of short ones. More rows
// would push each other out where their strides are powers of two.
template <class Element>
inline int64_t bytes_ahead(int64_t stride) {
    constexpr int64_t rows = 8, bytes = 6144;
    const int64_t row = stride * static_cast<int64_t>(sizeof(Element));
    return row > 0 && rows * row < bytes ? bytes / row * row : rows * row;
}

// Prefetches what lies `ahead` bytes behind vector i of a row, once a line. Behind the last row that may be
// any memory: a prefetch does not fault.
template <class Element>
inline void fetch_ahead(const Element* row, int64_t ahead, int i) {
    constexpr int64_t vector_bytes = lanes * static_cast<int64_t>(sizeof(Element));
    if (i * vector_bytes % line_bytes == 0) {
        const auto at = reinterpret_cast<uintptr_t>(row + i * lanes) + static_cast<uintptr_t>(ahead);
        __builtin_prefetch(reinterpret_cast<const void*>(at), 0, 3);
    }
}

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
