// Traits of fp16 and bf16: everything a kernel needs to know about its element type.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace flashbench::cuda {

// Bits of two elements side by side, the lower index in the lower half: one register of a fragment.
using Pair = uint32_t;

template <typename T>
struct Element;

template <>
struct Element<__half> {
    // Added to |x|, this carries into the sign bit exactly if the exponent is all ones.
    static constexpr Pair kExponentCarry = 0x04000400u;

    static __device__ __forceinline__ Pair pack(float low, float high) {
        const __half2 pair = __floats2half2_rn(low, high);
        return *reinterpret_cast<const Pair*>(&pair);
    }
    static __device__ __forceinline__ float2 unpack(Pair pair) {
        return __half22float2(*reinterpret_cast<const __half2*>(&pair));
    }
};

template <>
struct Element<__nv_bfloat16> {
    static constexpr Pair kExponentCarry = 0x00800080u;

    static __device__ __forceinline__ Pair pack(float low, float high) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        return *reinterpret_cast<const Pair*>(&pair);
    }
    static __device__ __forceinline__ float2 unpack(Pair pair) {
        return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
    }
};

// The sum of the products of two chunks.
template <typename T>
__device__ __forceinline__ float dot_of_chunks(uint4 a, uint4 b) {
    const Pair left[4] = {a.x, a.y, a.z, a.w};
    const Pair right[4] = {b.x, b.y, b.z, b.w};
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 x = Element<T>::unpack(left[i]);
        const float2 y = Element<T>::unpack(right[i]);
        sum = fmaf(x.x, y.x, fmaf(x.y, y.y, sum));
    }
    return sum;
}

}  // namespace flashbench::cuda
