// The number of threads that a problem is worth.
#pragma once

#include <algorithm>
#include <cmath>

#include "work_list.h"

namespace flashbench {
namespace cpu {

// How many threads are worth using: all, or the caller alone. The multiply-adds of Q K^T that others
// take over must outweigh the cost of synchronizing all threads twice. On two Zen 4 cores, 8 heads of
// 16 x 16 x 64 (2^17 in all) take 6.4 us instead of 9.9 in a loop of calls, and one of 32 x 32 x 128
// 6.0 instead of 7.1; on 16 cores of a Sapphire Rapids the former gains and the latter loses. Waking
// sleeping threads costs 20 us and more, which SDPA pays too.
inline int useful_threads(const Attention& problem, int64_t row_step, int threads) {
    constexpr double meeting = 60000.0, meeting_of_a_thread = 2500.0;
    const double groups = static_cast<double>(problem.batch) * static_cast<double>(problem.kv_heads);
    const double rows = static_cast<double>(problem.heads / problem.kv_heads) *
                        static_cast<double>(problem.q_len);
    const double work = groups * rows * static_cast<double>(problem.k_len) *
                        static_cast<double>(problem.head_dim);
    const int64_t part_keys = WorkList::keys_of_part(problem);
    const double parts = static_cast<double>((problem.k_len + part_keys - 1) / part_keys);
    const double tasks = groups * std::ceil(rows / static_cast<double>(row_step)) * parts;
    const double shares = std::min<double>(threads, std::max(tasks, 1.0));
    const bool worthwhile = work - work / shares >= meeting + meeting_of_a_thread * threads;
    return threads > 1 && worthwhile ? threads : 1;
}

}  // namespace cpu
}  // namespace flashbench
