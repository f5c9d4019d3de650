// Work on several threads: torch's own if available (openmp.h), else those of a pool.
#pragma once

namespace flashbench {
namespace cpu {

// Calls body(context) on the calling thread and on some others, of `threads` in all, and returns when
// every call has returned. `body` takes its work from a shared counter, so it does not matter how many
// come: while another caller is served, or where no thread can be started, the caller does it all.
// useful: how many threads at the most find work, for the pool, which wakes no more.
// `body` must not throw. Works in the child after fork(), too.
void run_parallel(int threads, int useful, void (*body)(void*), void* context);

}  // namespace cpu
}  // namespace flashbench
