// Cuts problems into tasks as the CPU kernels do, and lets threads take them in order, each task as long
// as its rows and the packing of keys: exits with 1 and a line about the first problem of which a row
// with a key is missing or computed twice, or whose threads end late.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <queue>
#include <vector>

#include "../../../csrc/cpu/useful_threads.h"
#include "../../../csrc/cpu/work_list.h"

using namespace flashbench;
using namespace flashbench::cpu;

namespace {

constexpr int64_t packing = 8;  // as many rows

struct Cut {
    int64_t heads, rows, keys;
    int64_t row_step;
    int threads;
    bool causal;
};

void expect(bool holds, const char* what, const Cut& cut) {
    if (!holds) {
        std::printf("%s: %lld heads, %lld rows, %lld keys, %d threads, causal %d\n", what,
                    static_cast<long long>(cut.heads), static_cast<long long>(cut.rows),
                    static_cast<long long>(cut.keys), cut.threads, cut.causal);
        std::exit(1);
    }
}

// When the last of the threads ends, which take the next task whenever they are done with one.
int64_t end_of(const std::vector<int64_t>& tasks, int threads) {
    std::priority_queue<int64_t, std::vector<int64_t>, std::greater<int64_t>> free;
    for (int i = 0; i < threads; ++i) free.push(0);
    int64_t last = 0;
    for (const int64_t rows : tasks) {
        const int64_t end = free.top() + rows + packing;
        free.pop();
        free.push(end);
        last = std::max(last, end);
    }
    return last;
}

// The least such time of all cuts into blocks of one size and a rest, the longest taken first.
int64_t least_end(const Cut& cut) {
    int64_t least = INT64_MAX;
    for (int64_t block = cut.row_step; block <= max_task_rows; block += cut.row_step) {
        std::vector<int64_t> tasks(cut.heads * (cut.rows / block), block);
        if (cut.rows % block) tasks.insert(tasks.end(), cut.heads, cut.rows % block);
        least = std::min(least, end_of(tasks, cut.threads));
    }
    return least;
}

Attention problem_of(const Cut& cut) {
    return {nullptr,  nullptr, nullptr, nullptr, {}, {}, {}, {}, 1, cut.heads, cut.heads, cut.rows,
            cut.keys, 64, 0, 1.0f, cut.causal, Dtype::fp32};
}

void check(const Cut& cut) {
    const Attention problem = problem_of(cut);
    const WorkList list(problem, cut.row_step, cut.threads);
    std::vector<int64_t> seen(cut.heads * cut.rows);  // keys of each row
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < list.size(); ++i) {
        const Task task = list[i];
        expect(task.batch == 0 && task.kv_head >= 0 && task.kv_head < cut.heads, "no such head", cut);
        expect(task.first_row % cut.row_step == 0, "a divided tile", cut);
        expect(task.rows > 0 && task.rows <= list.rows() && list.rows() <= max_task_rows,
               "too many rows", cut);
        expect(task.first_row + task.rows <= cut.rows, "a row past the end", cut);
        for (int64_t row = task.first_row; row < task.first_row + task.rows; ++row) {
            int64_t& keys = seen[task.kv_head * cut.rows + row];
            expect(keys == task.first_key && task.first_key < task.last_key, "keys twice", cut);
            keys = task.last_key;
        }
        rows.push_back(task.rows);
    }
    for (const int64_t keys : seen) expect(keys == cut.keys, "keys left out", cut);
    if (!cut.causal && cut.threads > 1 && list.parts() == 1) {
        expect(end_of(rows, cut.threads) <= least_end(cut), "threads end late", cut);
    }
}

}  // namespace

int main() {
    for (const int64_t heads : {1, 2, 3, 8, 12, 20, 96}) {
        for (const int64_t rows : {1, 16, 25, 100, 128, 197, 384, 500, 512, 577, 1024, 1500, 2048}) {
            for (const int64_t keys : {1, 300, 2100}) {
                for (const int64_t row_step : {24, 32}) {
                    for (const int threads : {1, 2, 3, 4, 6, 8, 16}) {
                        check({heads, rows, keys, row_step, threads, false});
                        check({heads, rows, keys, row_step, threads, true});
                    }
                }
            }
        }
    }
    // One row whose keys are divided is worth all threads.
    const Cut decode{1, 1, 8192, 24, 2, false};
    expect(useful_threads(problem_of(decode), decode.row_step, decode.threads) == 2, "alone", decode);
    std::puts("work_list checked");
}
