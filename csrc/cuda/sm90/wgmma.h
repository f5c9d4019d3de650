// wgmma.mma_async m64nNk16 with fp32 accumulators, for each N that a tile uses.
//
//   Wgmma<T, N>::ss(d, a, b, accumulate)   d (64 x N) = a b + d, a and b from shared memory, both
//                                          with k contiguous; without the d if not `accumulate`
//   Wgmma<T, N>::rs(d, a, b)               d += a b, a (64 x 16) from registers, b with n
//                                          contiguous
//
// Executed by a whole warpgroup. d: row 16 * warp + lane / 4 and the one 8 below (elements 4n, 4n + 1
// and 4n + 2, 4n + 3), columns 8n + 2 * (lane % 4) and the next. a in shared memory and b are
// descriptors made by SharedOperand.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>

namespace flashbench::cuda::sm90 {

// Describes to wgmma a matrix that TMA stored in rows of `swizzle_bytes`, swizzled over 8 rows. k
// contiguous: groups of 8 rows are adjacent. n contiguous: groups of 8 k are, and `leading_stride` is
// the distance in bytes from one row width of n to the next.
template <int swizzle_bytes, int leading_stride>
struct SharedOperand {
    static_assert(swizzle_bytes == 128 || swizzle_bytes == 64);
    static constexpr uint32_t kMode = swizzle_bytes == 128 ? 1 : 2;
    static constexpr uint32_t kHigh = kMode << 30 | (8 * swizzle_bytes) >> 4;

    // In a cluster, higher bits select the block.
    static constexpr uint32_t kAddressMask = (1u << 18) - 1;

    uint32_t low;

    __device__ __forceinline__ explicit SharedOperand(uint32_t address)
        : low((address & kAddressMask) >> 4 |
              static_cast<uint32_t>(leading_stride) >> 4 << 16) {}

    // The descriptor of the matrix `bytes` further on.
    __device__ __forceinline__ uint64_t at(uint32_t bytes) const {
        return static_cast<uint64_t>(kHigh) << 32 | (low + (bytes >> 4));
    }
};

// Keeps the compiler from moving computations of `registers` across this point: wgmma uses them
// asynchronously between issue and wait.
template <int count>
__device__ __forceinline__ void pin(float (&registers)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
        asm volatile("" : "+f"(registers[i])::"memory");
    }
}

template <typename T, int n>
struct Wgmma;

#define FB_NAMES_16                                              \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define FB_NAMES_24 FB_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define FB_NAMES_32 FB_NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define FB_NAMES_40 FB_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define FB_NAMES_48 FB_NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define FB_NAMES_56 FB_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define FB_NAMES_64 FB_NAMES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define FB_NAMES_72 FB_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define FB_NAMES_80 FB_NAMES_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define FB_NAMES_88 FB_NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define FB_NAMES_96 FB_NAMES_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define FB_NAMES_104 FB_NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define FB_NAMES_112 FB_NAMES_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define FB_NAMES_120 FB_NAMES_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define FB_NAMES_128 FB_NAMES_120 ", %120, %121, %122, %123, %124, %125, %126, %127"

#define FB_D8(i)                                                                             \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define FB_D16 FB_D8(0), FB_D8(8)
#define FB_D24 FB_D16, FB_D8(16)
#define FB_D32 FB_D24, FB_D8(24)
#define FB_D40 FB_D32, FB_D8(32)
#define FB_D48 FB_D40, FB_D8(40)
#define FB_D56 FB_D48, FB_D8(48)
#define FB_D64 FB_D56, FB_D8(56)
#define FB_D72 FB_D64, FB_D8(64)
#define FB_D80 FB_D72, FB_D8(72)
#define FB_D88 FB_D80, FB_D8(80)
#define FB_D96 FB_D88, FB_D8(88)
#define FB_D104 FB_D96, FB_D8(96)
#define FB_D112 FB_D104, FB_D8(104)
#define FB_D120 FB_D112, FB_D8(112)
#define FB_D128 FB_D120, FB_D8(120)

// `size` registers of d; a0..a4 are the numbers of the operands after them.
#define FB_WGMMA(T, type, n, size, a0, a1, a2, a3, a4)                                            \
    template <>                                                                                   \
    struct Wgmma<T, n> {                                                                          \
        template <int a_transposed = 0, int b_transposed = 0>                                     \
        static __device__ __forceinline__ void ss(float (&d)[size], uint64_t a, uint64_t b,       \
                                                  bool accumulate) {                              \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " a2                                   \
                         ", 0;\n"                                                                 \
                         "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type          \
                         " {" FB_NAMES_##size "}, " a0 ", " a1 ", p, 1, 1, " a3 ", " a4            \
                         ";\n}\n"                                                                 \
                         : FB_D##size                                                             \
                         : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(a_transposed),  \
                           "n"(b_transposed));                                                    \
        }                                                                                         \
        static __device__ __forceinline__ void rs(float (&d)[size], const uint32_t* a,            \
                                                  uint64_t b) {                                   \
            asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type          \
                         " {" FB_NAMES_##size "}, {" a0 ", " a1 ", " a2 ", " a3 "}, " a4          \
                         ", 1, 1, 1, 1;\n"                                                        \
                         : FB_D##size                                                             \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                   \
        }                                                                                         \
    };

#define FB_WGMMA_SHAPES(T, type)                                      \
    FB_WGMMA(T, type, 32, 16, "%16", "%17", "%18", "%19", "%20") \
    FB_WGMMA(T, type, 48, 24, "%24", "%25", "%26", "%27", "%28") \
    FB_WGMMA(T, type, 64, 32, "%32", "%33", "%34", "%35", "%36") \
    FB_WGMMA(T, type, 80, 40, "%40", "%41", "%42", "%43", "%44") \
    FB_WGMMA(T, type, 96, 48, "%48", "%49", "%50", "%51", "%52") \
    FB_WGMMA(T, type, 112, 56, "%56", "%57", "%58", "%59", "%60") \
    FB_WGMMA(T, type, 128, 64, "%64", "%65", "%66", "%67", "%68") \
    FB_WGMMA(T, type, 144, 72, "%72", "%73", "%74", "%75", "%76") \
    FB_WGMMA(T, type, 160, 80, "%80", "%81", "%82", "%83", "%84") \
    FB_WGMMA(T, type, 176, 88, "%88", "%89", "%90", "%91", "%92") \
    FB_WGMMA(T, type, 192, 96, "%96", "%97", "%98", "%99", "%100") \
    FB_WGMMA(T, type, 208, 104, "%104", "%105", "%106", "%107", "%108") \
    FB_WGMMA(T, type, 224, 112, "%112", "%113", "%114", "%115", "%116") \
    FB_WGMMA(T, type, 240, 120, "%120", "%121", "%122", "%123", "%124") \
    FB_WGMMA(T, type, 256, 128, "%128", "%129", "%130", "%131", "%132")

FB_WGMMA_SHAPES(__half, "f16")
FB_WGMMA_SHAPES(__nv_bfloat16, "bf16")

#undef FB_WGMMA_SHAPES
#undef FB_WGMMA
#undef FB_D8
#undef FB_D16
#undef FB_D24
#undef FB_D32
#undef FB_D40
#undef FB_D48
#undef FB_D56
#undef FB_D64
#undef FB_D72
#undef FB_D80
#undef FB_D88
#undef FB_D96
#undef FB_D104
#undef FB_D112
#undef FB_D120
#undef FB_D128
#undef FB_NAMES_16
#undef FB_NAMES_24
#undef FB_NAMES_32
#undef FB_NAMES_40
#undef FB_NAMES_48
#undef FB_NAMES_56
#undef FB_NAMES_64
#undef FB_NAMES_72
#undef FB_NAMES_80
#undef FB_NAMES_88
#undef FB_NAMES_96
#undef FB_NAMES_104
#undef FB_NAMES_112
#undef FB_NAMES_120
#undef FB_NAMES_128

}  // namespace flashbench::cuda::sm90
