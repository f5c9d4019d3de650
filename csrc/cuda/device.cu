#include "device.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace flashbench::cuda {

namespace {

std::vector<Device> query_devices() {
    int count = 0;
    check(cudaGetDeviceCount(&count));
    std::vector<Device> devices;
    for (int index = 0; index < count; ++index) {
        const auto attribute = [index](cudaDeviceAttr name) {
            int value = 0;
            check(cudaDeviceGetAttribute(&value, name, index));
            return value;
        };
        devices.push_back({10 * attribute(cudaDevAttrComputeCapabilityMajor) +
                               attribute(cudaDevAttrComputeCapabilityMinor),
                           attribute(cudaDevAttrMultiProcessorCount)});
    }
    return devices;
}

}  // namespace

const Device& device_at(int index) {
    static const std::vector<Device> devices = query_devices();
    return devices.at(static_cast<size_t>(index));
}

// Not a static inside the launching template: such a static is one object for the whole process
// (STB_GNU_UNIQUE), and of two builds loaded side by side the second would skip its kernels.
void allow_shared_bytes(const void* kernel, int bytes, int device) {
    static std::mutex mutex;
    static std::vector<std::pair<const void*, int>> done;
    const std::pair<const void*, int> wanted{kernel, device};
    const std::lock_guard<std::mutex> lock(mutex);
    if (std::find(done.begin(), done.end(), wanted) == done.end()) {
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
        done.push_back(wanted);
    }
}

}  // namespace flashbench::cuda
