// Reductions over a quad: the four neighbouring lanes that share a row of an accumulator of mma.sync or
// wgmma. All four get the result.
#pragma once

#include <cuda_runtime.h>

namespace flashbench::cuda {

__device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    x += __shfl_xor_sync(0xffffffffu, x, 2);
    return x;
}

__device__ __forceinline__ float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

}  // namespace flashbench::cuda
