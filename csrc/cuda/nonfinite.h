// Handles NaN and infinity in values that some rows must not see.
//
// A causally masked key has the weight 0, but 0 * NaN and 0 * inf are NaN. So the values of diagonal
// blocks are scanned in shared memory: nonfinite ones are zeroed before P V, and added after it to the
// rows that do see them (docs/decisions/nonfinite-values.md).
#pragma once

#include <cuda_runtime.h>

#include <cmath>

#include "rows.h"
#include "types.h"

namespace flashbench::cuda {

// Bit 15 is set if the low element is NaN or infinite, bit 31 if the high one is.
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

// The same for a chunk; nonfinite_bits of its four registers combined.
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

// Adds the NaN and infinite values of the keys [first_key, end_key), read again from global memory, to
// those of a lane's rows that see them. Row j is at position row(j); out(j, n, i) is its output for
// element i of this lane's two in the eight dims n. The weight is taken as 1, as any positive one gives
// the same. `lane` is a reference, so that what depends on it is computed on use and takes no registers
// in the loops.
template <int kHeadDim, int kLaneRows, typename T, typename Row, typename Out>
__device__ __forceinline__ void add_nonfinite_values(const Rows<const T>& values, int first_key,
                                                     int end_key, const int& lane, const Row& row,
                                                     const Out& out) {
#pragma unroll 1
    for (int key = first_key; key < end_key; ++key) {
#pragma unroll
        for (int n = 0; n < kHeadDim / 8; ++n) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int dim = n * 8 + 2 * (lane % 4) + i;
                if (dim >= values.head_dim) {
                    continue;
                }
                const float value = static_cast<float>(
                    values.first[key * values.seq_stride + dim * values.dim_stride]);
                if (isfinite(value)) {
                    continue;
                }
#pragma unroll
                for (int j = 0; j < kLaneRows; ++j) {
                    if (key <= row(j)) {
                        out(j, n, i) += value;
                    }
                }
            }
        }
    }
}

}  // namespace flashbench::cuda
