// Merges parts of a row, each computed from different keys.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>

#include "../constants.h"
#include "../ptx.h"
#include "../types.h"

namespace flashbench::cuda::decode {

// Four neighbouring dims of a row: values, and the sum of the row's probabilities, both relative to
// 2^base. A part without keys has the base -FLT_MAX and only zeros.
struct Quad {
    float4 values;
    float base;
    float sum;
};

__device__ __forceinline__ Quad no_keys() {
    return {make_float4(0.0f, 0.0f, 0.0f, 0.0f), -FLT_MAX, 0.0f};
}

// Adds up `count` parts in a fixed order. `statistics(i)` returns base and sum of part i, `values(i)`
// its values.
template <typename Statistics, typename Values>
__device__ __forceinline__ Quad add_quads(int count, const Statistics& statistics,
                                          const Values& values) {
    Quad whole = no_keys();
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
        whole.base = fmaxf(whole.base, statistics(i).x);
    }
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
        const float2 statistic = statistics(i);
        const float weight = ptx::ex2(statistic.x - whole.base);
        const float4 part = values(i);
        whole.sum = fmaf(statistic.y, weight, whole.sum);
        whole.values.x = fmaf(part.x, weight, whole.values.x);
        whole.values.y = fmaf(part.y, weight, whole.values.y);
        whole.values.z = fmaf(part.z, weight, whole.values.z);
        whole.values.w = fmaf(part.w, weight, whole.values.w);
    }
    return whole;
}

// Both parts together. Needs no other part's base first, so that loads of several parts overlap.
__device__ __forceinline__ Quad joined(const Quad& one, const Quad& other) {
    const float base = fmaxf(one.base, other.base);
    const float own = ptx::ex2(one.base - base);
    const float weight = ptx::ex2(other.base - base);
    return {make_float4(fmaf(other.values.x, weight, one.values.x * own),
                        fmaf(other.values.y, weight, one.values.y * own),
                        fmaf(other.values.z, weight, one.values.z * own),
                        fmaf(other.values.w, weight, one.values.w * own)),
            base, fmaf(other.sum, weight, one.sum * own)};
}

// Divides by the sum and stores the four dims from `target` on.
template <typename T>
__device__ __forceinline__ void store_quad(T* target, int64_t dim_stride, bool vectors,
                                           const Quad& quad) {
    const float inverse = 1.0f / quad.sum;
    const Pair low = Element<T>::pack(quad.values.x * inverse, quad.values.y * inverse);
    const Pair high = Element<T>::pack(quad.values.z * inverse, quad.values.w * inverse);
    if (vectors) {
        *reinterpret_cast<uint2*>(target) = make_uint2(low, high);
        return;
    }
    auto* bits = reinterpret_cast<uint16_t*>(target);
    bits[0] = static_cast<uint16_t>(low);
    bits[dim_stride] = static_cast<uint16_t>(low >> 16);
    bits[2 * dim_stride] = static_cast<uint16_t>(high);
    bits[3 * dim_stride] = static_cast<uint16_t>(high >> 16);
}

}  // namespace flashbench::cuda::decode
