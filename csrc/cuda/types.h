// fp16 and bf16 in one place: everything a kernel needs to know about its element type.
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
    // Added to |x| this carries into the sign bit exactly when the exponent is all ones.
    static constexpr Pair kExponentCarry = 0x04000400u;

    static __device__ __forceinline__ Pair pack(float low, float high) {
        const __half2 pair = __floats2half2_rn(low, high);
        return *reinterpret_cast<const Pair*>(&pair);
    }
};

template <>
struct Element<__nv_bfloat16> {
    static constexpr Pair kExponentCarry = 0x00800080u;

    static __device__ __forceinline__ Pair pack(float low, float high) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        return *reinterpret_cast<const Pair*>(&pair);
    }
};

// Bit 15 is set where the low element is NaN or infinite, bit 31 where the high one is.
template <typename T>
__device__ __forceinline__ Pair nonfinite_bits(Pair bits) {
    return ((bits & 0x7fff7fffu) + Element<T>::kExponentCarry) & 0x80008000u;
}

// The pair with NaN and infinite elements replaced by zero.
template <typename T>
__device__ __forceinline__ Pair finite_or_zero(Pair bits) {
    const Pair flags = nonfinite_bits<T>(bits);
    return bits & ~((flags >> 15) * 0xffffu);
}

// The same of a chunk; nonfinite_bits of its four registers together.
template <typename T>
__device__ __forceinline__ Pair nonfinite_bits(uint4 chunk) {
    return nonfinite_bits<T>(chunk.x) | nonfinite_bits<T>(chunk.y) |
           nonfinite_bits<T>(chunk.z) | nonfinite_bits<T>(chunk.w);
}

template <typename T>
__device__ __forceinline__ uint4 finite_or_zero(uint4 chunk) {
    return make_uint4(finite_or_zero<T>(chunk.x), finite_or_zero<T>(chunk.y),
                      finite_or_zero<T>(chunk.z), finite_or_zero<T>(chunk.w));
}

}  // namespace flashbench::cuda
