// What the host side has to know about the devices, and how CUDA's errors become exceptions.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace flashbench::cuda {

struct Device {
    int compute_capability;  // 10 * major + minor, e.g. 90
    int multiprocessors;
};

// Throws std::runtime_error for anything but cudaSuccess.
inline void check(cudaError_t status) {
    if (status != cudaSuccess) {
        throw std::runtime_error(std::string("CUDA error: ") + cudaGetErrorString(status) + " (" +
                                 cudaGetErrorName(status) + ")");
    }
}

// Throws std::runtime_error when there is no usable device.
inline int current_device() {
    int index = 0;
    check(cudaGetDevice(&index));
    return index;
}

// Asked once a process.
const Device& device_at(int index);

// Lets a kernel use `bytes` of dynamic shared memory on `device`, which must be the current one.
// Calls CUDA once a kernel and device; may be called from several threads.
void allow_shared_bytes(const void* kernel, int bytes, int device);

}  // namespace flashbench::cuda
