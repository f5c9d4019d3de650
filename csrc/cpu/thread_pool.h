// Runs work on several threads: torch's if available (openmp.h), else those of a pool.
#pragma once

namespace flashbench {
namespace cpu {

// Calls body(context) on the calling thread and others, at most `threads` in all, and returns when every
// call has returned. `body` must take its work from a shared counter, so that any number of threads
// will do: while another caller is served, or if no thread can be started, the caller does it all.
// useful: the most threads that find work; the pool wakes no more.
// `body` must not throw. Works in the child after fork(), too.
void run_parallel(int threads, int useful, void (*body)(void*), void* context);

}  // namespace cpu
}  // namespace flashbench
