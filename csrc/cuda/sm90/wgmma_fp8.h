// wgmma.mma_async m64nNk32 of e4m3 with fp32 accumulators, for each N that the fp8 tiles use.
//
//   WgmmaE4m3<N>::ss(d, a, b, accumulate)   d (64 x N) = a b + d, a and b from shared memory; without
//                                           the d if not `accumulate`
//   WgmmaE4m3<N>::rs(d, a, b, accumulate)   the same, a (64 x 32) from registers
//
// Both operands have k contiguous; there is no other way for 8-bit elements. Descriptors are those
// of wgmma.h, and so is the layout of d. a in registers: of row lane / 4 (elements 0 and 2 of a) and
// the one 8 below (1 and 3), k = 4 * (lane % 4) and the next three, 16 further on in 2 and 3.
//
// The tensor cores add these with about 14 bits: long sums must be accumulated in fp32 elsewhere at
// intervals.
#pragma once

#include <cstdint>

namespace flashbench::cuda::sm90 {

template <int n>
struct WgmmaE4m3;

#define FB_NAMES_32                                              \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define FB_NAMES_64                                                                     \
    FB_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, " \
                "%45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, " \
                "%59, %60, %61, %62, %63"

#define FB_D8(i)                                                                             \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define FB_D32 FB_D8(0), FB_D8(8), FB_D8(16), FB_D8(24)
#define FB_D64 FB_D32, FB_D8(32), FB_D8(40), FB_D8(48), FB_D8(56)

// `size` registers of d; a0..a5 are the numbers of the operands after them.
#define FB_WGMMA(n, size, a0, a1, a2, a3, a4, a5)                                                 \
    template <>                                                                                   \
    struct WgmmaE4m3<n> {                                                                         \
        static __device__ __forceinline__ void ss(float (&d)[size], uint64_t a, uint64_t b,       \
                                                  bool accumulate) {                              \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " a2                                   \
                         ", 0;\n"                                                                 \
                         "wgmma.mma_async.sync.aligned.m64n" #n "k32.f32.e4m3.e4m3"               \
                         " {" FB_NAMES_##size "}, " a0 ", " a1 ", p, 1, 1;\n}\n"                  \
                         : FB_D##size                                                             \
                         : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));                    \
        }                                                                                         \
        static __device__ __forceinline__ void rs(float (&d)[size], const uint32_t* a,            \
                                                  uint64_t b, bool accumulate) {                  \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " a5                                   \
                         ", 0;\n"                                                                 \
                         "wgmma.mma_async.sync.aligned.m64n" #n "k32.f32.e4m3.e4m3"               \
                         " {" FB_NAMES_##size "}, {" a0 ", " a1 ", " a2 ", " a3 "}, " a4          \
                         ", p, 1, 1;\n}\n"                                                        \
                         : FB_D##size                                                             \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                    \
                           "r"(static_cast<int>(accumulate)));                                    \
        }                                                                                         \
    };

FB_WGMMA(64, 32, "%32", "%33", "%34", "%35", "%36", "%37")
FB_WGMMA(128, 64, "%64", "%65", "%66", "%67", "%68", "%69")

#undef FB_WGMMA
#undef FB_D8
#undef FB_D32
#undef FB_D64
#undef FB_NAMES_32
#undef FB_NAMES_64

}  // namespace flashbench::cuda::sm90
