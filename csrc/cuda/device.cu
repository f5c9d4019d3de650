#include "device.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace flashbench::cuda {

namespace {

// Kernels that need what sm_90 has are empty in code for other chips, which a Hopper GPU runs if this
// build has none for it.
#ifdef FLASHBENCH_CUDA_SM90
constexpr bool kHasSm90 = true;
#else
constexpr bool kHasSm90 = false;
#endif

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
        const int compute_capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor) +
                                       attribute(cudaDevAttrComputeCapabilityMinor);
        devices.push_back({compute_capability, kHasSm90 && compute_capability == 90,
                           attribute(cudaDevAttrMultiProcessorCount),
                           attribute(cudaDevAttrL2CacheSize),
                           attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)});
    }
    return devices;
}

ClusterCounts count_clusters(const void* kernel, int threads, int (*shared_bytes)(int),
                             int device) {
    ClusterCounts counts{};
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               shared_bytes(1)));
    int blocks = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads,
                                                        shared_bytes(1)));
    counts.of[1] = blocks * device_at(device).multiprocessors;
    if (!device_at(device).takes_sm90) {
        return counts;
    }
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               std::max(shared_bytes(1), shared_bytes(kMostClusterBlocks))));
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    for (int size = 2; size <= kMostClusterBlocks; ++size) {
        cudaLaunchAttribute cluster;
        cluster.id = cudaLaunchAttributeClusterDimension;
        cluster.val.clusterDim = {1, static_cast<unsigned>(size), 1};
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(1, static_cast<unsigned>(size));
        config.blockDim = dim3(static_cast<unsigned>(threads));
        config.dynamicSmemBytes = static_cast<size_t>(shared_bytes(size));
        config.attrs = &cluster;
        config.numAttrs = 1;
        check(cudaOccupancyMaxActiveClusters(&counts.of[size], kernel, &config));
    }
    return counts;
}

}  // namespace

int current_device() {
    int index = 0;
    check(cudaGetDevice(&index));
    return index;
}

const Device& device_at(int index) {
    static const std::vector<Device> devices = query_devices();
    return devices.at(static_cast<size_t>(index));
}

// Not a static inside the launching template: that would be one object for the whole process
// (STB_GNU_UNIQUE), and of two builds loaded side by side the second would skip its own kernels.
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

const ClusterCounts& allow_clusters(const void* kernel, int threads, int (*shared_bytes)(int),
                                    int device) {
    struct Entry {
        const void* kernel;
        int device;
        ClusterCounts counts;
    };
    static std::mutex mutex;
    static std::deque<Entry> done;  // entries stay where they are
    const std::lock_guard<std::mutex> lock(mutex);
    for (const Entry& entry : done) {
        if (entry.kernel == kernel && entry.device == device) {
            return entry.counts;
        }
    }
    done.push_back({kernel, device, count_clusters(kernel, threads, shared_bytes, device)});
    return done.back().counts;
}

}  // namespace flashbench::cuda
