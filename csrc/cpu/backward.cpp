// Cuts the backward into tasks and spreads them over threads.
#include <algorithm>
#include <atomic>
#include <new>
#include <stdexcept>
#include <vector>

#include "../attention.h"
#include "thread_pool.h"
#include "thread_scratch.h"
#include "units.h"
#include "useful_threads.h"

namespace flashbench {
namespace cpu {

namespace {

thread_local ThreadScratch thread_scratch;

constexpr int64_t most_kept_floats = 4 << 20;   // of a thread's scratch memory, between calls
constexpr int64_t most_task_floats = 24 << 20;  // of a task with all gradients of a group
constexpr int64_t tasks_a_thread = 4;
constexpr int64_t most_task_query_rows = 4096;

int64_t up(int64_t n, int64_t divisor) { return (n + divisor - 1) / divisor; }

// What a task takes of `length` if all tasks together, `copies` times that, keep the threads busy.
int64_t share_of(int64_t length, int64_t copies, int threads, int64_t step) {
    const int64_t tasks = up(tasks_a_thread * threads, std::max<int64_t>(copies, 1));
    return std::max(up(up(length, tasks), step) * step, step);
}

// All gradients of a group in one task share the scores: five products. dq apart from dk and dv can be
// divided among more threads: seven products. Both give the same bits.
class TaskList {
  public:
    TaskList(const AttentionBackward& problem, const Kernel& kernel, int threads)
        : forward_(problem.forward), group_(forward_.heads / forward_.kv_heads) {
        const int64_t groups = forward_.batch * forward_.kv_heads;
        const BackwardTask all{0,
                               0,
                               0,
                               group_,
                               0,
                               forward_.q_len,
                               0,
                               forward_.k_len,
                               problem.dq != nullptr,
                               problem.dk != nullptr,
                               problem.dv != nullptr};
        const bool keys = all.dk || all.dv;
        if (all.dq && keys && up(groups, threads) * threads * 5 <= groups * 7 &&
            kernel.backward_floats(problem, all) <= most_task_floats) {
            add(all, forward_.k_len);
            return;
        }
        if (keys) {
            BackwardTask task = all;
            task.dq = false;
            add(task, share_of(forward_.k_len, groups, threads, backward_keys));
        }
        if (all.dq) {
            BackwardTask task = all;
            task.dk = task.dv = false;
            const int64_t copies = forward_.batch * forward_.heads;
            add_rows(task, std::min(share_of(forward_.q_len, copies, threads, backward_rows),
                                    most_task_query_rows));
        }
    }

    const std::vector<BackwardTask>& tasks() const { return tasks_; }

  private:
    // Those that take longest come first: with a mask, the first keys and the last rows.

    // `keys` at a time, with all rows.
    void add(BackwardTask task, int64_t keys) {
        int64_t key = 0;
        do {
            task.first_key = key;
            task.last_key = std::min(key + keys, forward_.k_len);
            for (task.batch = 0; task.batch < forward_.batch; ++task.batch) {
                for (task.kv_head = 0; task.kv_head < forward_.kv_heads; ++task.kv_head) {
                    task.first_head = task.kv_head * group_;
                    task.last_head = task.first_head + group_;
                    tasks_.push_back(task);
                }
            }
            key += keys;
        } while (key < forward_.k_len);
    }

    // `rows` of one head at a time, with all keys.
    void add_rows(BackwardTask task, int64_t rows) {
        for (int64_t block = up(forward_.q_len, rows) - 1; block >= 0; --block) {
            task.first_row = block * rows;
            task.last_row = std::min(task.first_row + rows, forward_.q_len);
            for (task.batch = 0; task.batch < forward_.batch; ++task.batch) {
                for (int64_t head = 0; head < forward_.heads; ++head) {
                    task.kv_head = head / group_;
                    task.first_head = head;
                    task.last_head = head + 1;
                    tasks_.push_back(task);
                }
            }
        }
    }

    const Attention& forward_;
    int64_t group_;
    std::vector<BackwardTask> tasks_;
};

struct BackwardJob {
    const AttentionBackward& problem;
    const Kernel& kernel;
    const std::vector<BackwardTask>& tasks;
    const int64_t scratch_floats;
    std::atomic<size_t> next{0};
};

void work_on(void* context) {
    BackwardJob& job = *static_cast<BackwardJob*>(context);
    if (job.next >= job.tasks.size()) return;
    float* const scratch = thread_scratch.reserve(job.scratch_floats);
    if (!scratch) return;  // a helper without memory leaves its share to the caller
    for (size_t i = job.next++; i < job.tasks.size(); i = job.next++) {
        job.kernel.backward(job.problem, job.tasks[i], scratch);
    }
    thread_scratch.keep_at_most(most_kept_floats);
}

}  // namespace

void attention_backward(const AttentionBackward& problem, int threads) {
    const Kernel& kernel = built_kernel(problem.forward.dtype);
    const Attention& forward = problem.forward;
    if (forward.batch <= 0 || forward.kv_heads <= 0 || forward.head_dim <= 0) return;
    if (forward.heads % forward.kv_heads != 0) {
        throw std::invalid_argument("heads must be a multiple of kv_heads");
    }
    const int useful = useful_threads(forward, backward_rows, std::max(threads, 1));
    const TaskList list(problem, kernel, useful);
    int64_t scratch_floats = 0;
    for (const BackwardTask& task : list.tasks()) {
        scratch_floats = std::max(scratch_floats, kernel.backward_floats(problem, task));
    }
    if (!thread_scratch.reserve(scratch_floats)) throw std::bad_alloc();
    BackwardJob job{problem, kernel, list.tasks(), scratch_floats};
    const auto shares = std::min<size_t>(static_cast<size_t>(useful), list.tasks().size());
    run_parallel(threads, static_cast<int>(shares), work_on, &job);
}

}  // namespace cpu
}  // namespace flashbench
