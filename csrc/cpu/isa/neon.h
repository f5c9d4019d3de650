// NEON of AArch64: 4 floats per vector, 32 registers, 24 of them for a tile.
#pragma once

#include <arm_neon.h>

#include "../kernel.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

struct Fp32;
struct Widened;

struct Isa {
    using Vec = float32x4_t;
    static constexpr int lanes = 4;
    static constexpr int tile_rows = 6;
    static constexpr int tile_vectors = 4;

    // What is multiplied for a dtype (operands.h).
    static Fp32 operand(float);
    template <class Element>
    static Widened operand(Element);

    static Vec zero() { return vdupq_n_f32(0.0f); }
    static Vec broadcast(float x) { return vdupq_n_f32(x); }

    static Vec load(const float* from) { return vld1q_f32(from); }
    static Vec load(const Fp16* from) {
        return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(&from->bits)));
    }
    static Vec load(const Bf16* from) {
        return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(&from->bits), 16));
    }

    static void store(float* to, Vec x) { vst1q_f32(to, x); }
    static void store(Fp16* to, Vec x) {
        vst1_u16(&to->bits, vreinterpret_u16_f16(vcvt_f16_f32(x)));
    }
    static void store(Bf16* to, Vec x) {
        // Add half a unit of the last kept bit, less one when that bit is even: ties go to even.
        // A NaN could become an infinity that way, so it is written as the quiet NaN.
        const uint32x4_t bits = vreinterpretq_u32_f32(x);
        const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
        const uint32x4_t bias = vaddq_u32(odd, vdupq_n_u32(0x7fff));
        const uint16x4_t rounded = vshrn_n_u32(vaddq_u32(bits, bias), 16);
        const uint16x4_t is_number = vmovn_u32(vceqq_f32(x, x));
        vst1_u16(&to->bits, vbsl_u16(is_number, rounded, vdup_n_u16(0x7fc0)));
    }

    static Vec add(Vec a, Vec b) { return vaddq_f32(a, b); }
    static Vec sub(Vec a, Vec b) { return vsubq_f32(a, b); }
    static Vec mul(Vec a, Vec b) { return vmulq_f32(a, b); }
    static Vec fma(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
    // b where a is NaN.
    static Vec max(Vec a, Vec b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
    // x <= 0 as a whole number, at least -127, and what is left. NaN as NaN.
    struct Split {
        Vec whole, fraction;
    };
    static Split split(Vec x) {
        const Vec bounded = max(broadcast(-127.0f), x);
        const Vec whole = vrndnq_f32(bounded);
        return {whole, sub(bounded, whole)};
    }
    // x * 2^n for whole n in [-127, 127]; 0 for n = -127.
    static Vec scale_by_pow2(Vec x, Vec n) {
        const int32x4_t exponent = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
        return vmulq_f32(x, vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23)));
    }
    // The first `count` lanes of x, the other lanes of `rest`.
    static Vec first_lanes(int64_t count, Vec x, Vec rest) {
        static const uint32_t lane[lanes] = {0, 1, 2, 3};
        const uint32x4_t kept = vcltq_u32(vld1q_u32(lane), vdupq_n_u32(static_cast<uint32_t>(count)));
        return vbslq_f32(kept, x, rest);
    }

    static float max_of_lanes(Vec x) { return vmaxvq_f32(x); }
    static float sum_of_lanes(Vec x) { return vaddvq_f32(x); }

    static void transpose(Vec (&rows)[lanes]) {
        const Vec a = vzip1q_f32(rows[0], rows[2]), b = vzip1q_f32(rows[1], rows[3]);
        const Vec c = vzip2q_f32(rows[0], rows[2]), d = vzip2q_f32(rows[1], rows[3]);
        rows[0] = vzip1q_f32(a, b);
        rows[1] = vzip2q_f32(a, b);
        rows[2] = vzip1q_f32(c, d);
        rows[3] = vzip2q_f32(c, d);
    }

    // In lane i the sum of the lanes of rows[i].
    static Vec sums_of(const Vec (&rows)[lanes]) {
        return vpaddq_f32(vpaddq_f32(rows[0], rows[1]), vpaddq_f32(rows[2], rows[3]));
    }
};

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
