// Locates a task's rows in the caller's memory.
#pragma once

#include "kernel.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

// Rows of head vectors.
template <class Element>
struct Rows {
    const Element* first;
    int64_t stride;      // from one row to the next
    int64_t dim_stride;  // from one head dim to the next
};

// A task's keys, or values, from `key` on.
template <class Element>
inline Rows<Element> rows_of(const void* tensor, const Strides& strides, const Task& task,
                             int64_t key) {
    return {static_cast<const Element*>(tensor) + task.batch * strides.batch +
                task.kv_head * strides.head + key * strides.seq,
            strides.seq, strides.dim};
}

// Walks over the rows of a task in q or out, without a division per row.
template <class Element>
class RowCursor {
  public:
    RowCursor(Element* tensor, const Strides& strides, const Attention& problem, const Task& task)
        : group_(problem.heads / problem.kv_heads), strides_(strides) {
        query_ = task.first_row / group_;
        head_ = task.first_row % group_;
        row_ = tensor + task.batch * strides.batch +
               (task.kv_head * group_ + head_) * strides.head + query_ * strides.seq;
    }

    Element* row() const { return row_; }
    int64_t query() const { return query_; }

    void next() {
        if (++head_ < group_) {
            row_ += strides_.head;
        } else {
            head_ = 0;
            ++query_;
            row_ += strides_.seq - (group_ - 1) * strides_.head;
        }
    }

  private:
    int64_t group_;
    const Strides& strides_;
    int64_t query_;
    int64_t head_;
    Element* row_;
};

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
