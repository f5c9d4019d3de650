// Runs work on the OpenMP threads already in the process: torch's.
//
// After an operation, torch's threads spin for milliseconds on all other cores, waiting for the next
// one. Our own threads would compete with them; torch's, already spinning, start our work at once.
#pragma once

namespace flashbench {
namespace cpu {

// Calls body(context) on `threads` threads of that runtime, including the caller, and returns when all
// have returned. Ask for as many as torch uses: the runtime ends surplus threads and has to start them
// again later. Returns false, without a call, if there is no runtime. Not for the child of a fork(),
// which has none of its threads.
bool run_on_openmp(int threads, void (*body)(void*), void* context);

}  // namespace cpu
}  // namespace flashbench
