// Scratch memory of the kernels, from torch's allocator: reused in the order of the stream that is
// current, and kept by a CUDA graph that is being captured.
#pragma once

#include <cstdint>

#include "dlpack.h"

namespace flashbench {

// Memory of one call; goes back when the call has been enqueued. Needs the GIL.
class TorchScratch {
  public:
    // `exchange` may be null, as of a torch before 2.10: there is no memory then.
    TorchScratch(const dlpack::ExchangeApi* exchange, dlpack::Device device)
        : exchange_(exchange), device_(device) {}
    TorchScratch(const TorchScratch&) = delete;
    TorchScratch& operator=(const TorchScratch&) = delete;
    ~TorchScratch() {
        if (memory_ != nullptr) {
            memory_->release(memory_);
        }
    }

    // Null if there is none. To be called once.
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
