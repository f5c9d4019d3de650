// The extension's own threads.
//
// Not OpenMP: torch brings its own libgomp, and a second OpenMP runtime would compete with it.
// Idle threads spin for some microseconds and then sleep on a condition variable.
#pragma once

namespace flashbench {
namespace cpu {

// Calls body(context) on the calling thread and on up to `helpers` pool threads at a time, and
// returns when every call has returned. `body` takes its work from a shared counter, so it does not
// matter how many threads come: a helper that wakes up too late is not waited for, a pool that is
// busy with another caller or cannot start threads leaves all the work to the caller.
// `body` must not throw. Works in the child after fork(), too.
void run_parallel(int helpers, void (*body)(void*), void* context);

}  // namespace cpu
}  // namespace flashbench
