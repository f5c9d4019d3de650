// Scratch memory of the kernels from torch's allocator, which reuses it in order of the current stream
// and keeps it for a CUDA graph being captured.
#pragma once

#include <cstdint>

#include "dlpack.h"

namespace flashbench {

// The memory of one call, returned once the call is enqueued. Needs the GIL.
class TorchScratch {
  public:
    // `exchange` may be null (torch before 2.10); then there is no memory.
    TorchScratch(const dlpack::ExchangeApi* exchange, dlpack::Device device)
        : exchange_(exchange), device_(device) {}
    TorchScratch(const TorchScratch&) = delete;
    TorchScratch& operator=(const TorchScratch&) = delete;
    ~TorchScratch() {
        if (memory_ != nullptr) {
            memory_->release(memory_);
        }
    }

    // Null if there is no memory. Not to be called again after memory was returned.
    void* get(int64_t bytes) {
        if (exchange_ == nullptr || exchange_->allocate == nullptr) {
            return nullptr;
        }
        const dlpack::Tensor like{nullptr, device_, 1, {dlpack::kUnsigned, 8, 1}, &bytes, nullptr, 0};
        const auto ignore = [](void*, const char*, const char*) {};
        if (exchange_->allocate(&like, &memory_, nullptr, ignore) != 0) {
            memory_ = nullptr;
            return nullptr;
        }
        return static_cast<char*>(memory_->tensor.data) + memory_->tensor.byte_offset;
    }

  private:
    const dlpack::ExchangeApi* exchange_;
    dlpack::Device device_;
    dlpack::OwnedTensor* memory_ = nullptr;
};

}  // namespace flashbench
