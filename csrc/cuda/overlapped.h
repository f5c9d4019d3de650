// Launches of a kernel that may start while the kernel before it ends; the kernels decide when, by
// griddepcontrol (sm90/ptx.h). From compute capability 9.0 on.
#pragma once

#include <cuda_runtime.h>

#include "device.h"

namespace flashbench::cuda {

inline cudaLaunchAttribute overlap_attribute() {
    cudaLaunchAttribute overlap{};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    return overlap;
}

template <typename... Parameters, typename... Arguments>
void launch_overlapped(void (*kernel)(Parameters...), dim3 grid, int threads, int shared_bytes,
                       cudaStream_t stream, const Arguments&... arguments) {
    cudaLaunchAttribute overlap = overlap_attribute();
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = dim3(static_cast<unsigned>(threads));
    config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = 1;
    check(cudaLaunchKernelEx(&config, kernel, arguments...));
}

}  // namespace flashbench::cuda
