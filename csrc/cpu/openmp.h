// The threads of the OpenMP runtime already in the process: torch's.
//
// After an operation of torch its threads wait for the next one, spinning for milliseconds on all other
// cores. Threads of our own would share the cores with them; those that spin take our work at once.
#pragma once

namespace flashbench {
namespace cpu {

// Calls body(context) on `threads` threads of that runtime, the calling one among them, and returns
// when all have returned. As many as torch uses should be asked for: the runtime ends those that are
// not, and starts them again later. False, and nothing was called, where there is no runtime. Not for
// the child of a fork(), which has none of its threads.
bool run_on_openmp(int threads, void (*body)(void*), void* context);

}  // namespace cpu
}  // namespace flashbench
