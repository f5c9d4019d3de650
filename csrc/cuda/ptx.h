// Wrappers of PTX instructions of sm_80 and later that have no C++ name, named after the instruction.
// sm90/ptx.h adds those of sm_90a. Shared-memory addresses are 32-bit, as from
// __cvta_generic_to_shared.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace flashbench::cuda::ptx {

// Copies 16 bytes from global to shared memory asynchronously; if not `valid`, reads nothing and writes
// zeros. Both addresses must be multiples of 16.
__device__ __forceinline__ void cp_async_16(uint32_t shared, const void* global, bool valid) {
    const int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(shared),
                 "l"(__cvta_generic_to_global(global)), "r"(bytes)
                 : "memory");
}

// Closes a group of copies: all since the last one.
__device__ __forceinline__ void cp_async_commit_group() {
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}

// Waits until at most kPending groups of this thread are pending.
template <int kPending>
__device__ __forceinline__ void cp_async_wait_group() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
}

// Waits for every cp.async of this thread; copies of other threads need a barrier after it.
__device__ __forceinline__ void cp_async_wait_all() {
    asm volatile("cp.async.wait_all;\n" ::: "memory");
}

// Loads four 8x8 matrices of 16-bit elements; lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&out)[4], uint32_t shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared)
                 : "memory");
}

// The same, each matrix transposed.
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&out)[4], uint32_t shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared)
                 : "memory");
}

// c (16x8, fp32) += a (16x16) b (16x8).
template <typename T>
__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1);

template <>
__device__ __forceinline__ void mma_m16n8k16<__half>(float (&c)[4], const uint32_t (&a)[4],
                                                     uint32_t b0, uint32_t b1) {
    asm(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void mma_m16n8k16<__nv_bfloat16>(float (&c)[4], const uint32_t (&a)[4],
                                                            uint32_t b0, uint32_t b1) {
    asm(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 2^x; exactly 0 for -inf, NaN for NaN.
__device__ __forceinline__ float ex2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

// Loads and stores of shared memory by 32-bit address.
__device__ __forceinline__ uint4 ld_shared_128(uint32_t shared) {
    uint4 value;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "r"(shared)
                 : "memory");
    return value;
}

__device__ __forceinline__ uint32_t ld_shared_32(uint32_t shared) {
    uint32_t value;
    asm volatile("ld.shared.b32 %0, [%1];\n" : "=r"(value) : "r"(shared) : "memory");
    return value;
}

__device__ __forceinline__ float2 ld_shared_float2(uint32_t shared) {
    float2 value;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];\n"
                 : "=f"(value.x), "=f"(value.y)
                 : "r"(shared)
                 : "memory");
    return value;
}

__device__ __forceinline__ void st_shared_32(uint32_t shared, uint32_t value) {
    asm volatile("st.shared.b32 [%0], %1;\n" ::"r"(shared), "r"(value) : "memory");
}

__device__ __forceinline__ void st_shared_128(uint32_t shared, uint4 value) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(shared), "r"(value.x),
                 "r"(value.y), "r"(value.z), "r"(value.w)
                 : "memory");
}

__device__ __forceinline__ float4 ld_shared_float4(uint32_t shared) {
    const uint4 bits = ld_shared_128(shared);
    return make_float4(__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z),
                       __uint_as_float(bits.w));
}

__device__ __forceinline__ void st_shared_float4(uint32_t shared, float x, float y, float z,
                                                 float w) {
    st_shared_128(shared, make_uint4(__float_as_uint(x), __float_as_uint(y), __float_as_uint(z),
                                     __float_as_uint(w)));
}

__device__ __forceinline__ void st_shared_64(uint32_t shared, float2 value) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};\n" ::"r"(shared), "f"(value.x), "f"(value.y)
                 : "memory");
}

// Global memory that blocks of threads use to wait for each other.
__device__ __forceinline__ unsigned ld_acquire(const unsigned* source) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];\n"
                 : "=r"(value)
                 : "l"(__cvta_generic_to_global(source))
                 : "memory");
    return value;
}

__device__ __forceinline__ void st_release(unsigned* target, unsigned value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;\n" ::"l"(__cvta_generic_to_global(target)),
                 "r"(value)
                 : "memory");
}

}  // namespace flashbench::cuda::ptx
