// Device properties for the host side, and the conversion of CUDA errors to exceptions.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "../attention.h"  // current_device

namespace flashbench::cuda {

struct Device {
    int compute_capability;  // 10 * major + minor, e.g. 90
    bool takes_sm90;         // compute capability 9.0, and this build has sm_90a code
    int multiprocessors;
    int l2_bytes;
    int shared_bytes;  // the most that a block may have
};

// Throws std::runtime_error for anything but cudaSuccess.
inline void check(cudaError_t status) {
    if (status != cudaSuccess) {
        throw std::runtime_error(std::string("CUDA error: ") + cudaGetErrorString(status) + " (" +
                                 cudaGetErrorName(status) + ")");
    }
}

// Queried once per process.
const Device& device_at(int index);

// How many clusters run at once, by their size in blocks: [size], from 1 on.
constexpr int kMostClusterBlocks = 16;
struct ClusterCounts {
    int of[kMostClusterBlocks + 1];
};

// Allows a kernel clusters of every size with `shared_bytes(size)` of dynamic shared memory, and returns
// their counts. Queries CUDA once per kernel and device, which must be the current one; may be called
// from several threads. Only [1] is nonzero unless the device takes sm_90 code.
const ClusterCounts& allow_clusters(const void* kernel, int threads, int (*shared_bytes)(int),
                                    int device);

// Allows a kernel `bytes` of dynamic shared memory on `device`, which must be the current one.
// Calls CUDA once per kernel and device; may be called from several threads.
void allow_shared_bytes(const void* kernel, int bytes, int device);

}  // namespace flashbench::cuda
