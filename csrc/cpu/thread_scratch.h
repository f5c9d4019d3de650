// Memory that a thread keeps between calls.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace flashbench {
namespace cpu {

class ThreadScratch {
  public:
    ~ThreadScratch() { std::free(memory_); }

    // 64-byte aligned; nullptr if memory runs out.
    float* reserve(int64_t floats) {
        if (floats > floats_) {
            std::free(memory_);
            const size_t bytes = (static_cast<size_t>(floats) * sizeof(float) + 63) / 64 * 64;
            memory_ = static_cast<float*>(std::aligned_alloc(64, bytes));
            floats_ = memory_ ? floats : 0;
        }
        return memory_;
    }

    // Frees the memory if it is more than that.
    void keep_at_most(int64_t floats) {
        if (floats_ <= floats) return;
        std::free(memory_);
        memory_ = nullptr;
        floats_ = 0;
    }

  private:
    float* memory_ = nullptr;
    int64_t floats_ = 0;
};

}  // namespace cpu
}  // namespace flashbench
