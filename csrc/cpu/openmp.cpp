#include "openmp.h"

#include <dlfcn.h>

namespace flashbench {
namespace cpu {
namespace {

// GCC's entry into a parallel region, which LLVM's and Intel's runtimes have too.
using Parallel = void (*)(void (*body)(void*), void* context, unsigned threads, unsigned flags);

}  // namespace

bool run_on_openmp(int threads, void (*body)(void*), void* context) {
    // torch loads its runtime for the whole process.
    static const auto parallel = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
    if (!parallel) return false;
    parallel(body, context, static_cast<unsigned>(threads), 0);
    return true;
}

}  // namespace cpu
}  // namespace flashbench
