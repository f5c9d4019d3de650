// Any CPU: 4 floats per vector in GCC's and Clang's own vector types, which become SSE2 on x86-64 and
// NEON on AArch64. fp16 is converted by integer arithmetic, one lane at a time.
#pragma once

#include <cstring>

#include "../kernel.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

struct Fp32;
struct Widened;

struct Isa {
    typedef float Vec __attribute__((vector_size(16)));
    typedef uint32_t Bits __attribute__((vector_size(16)));
    static constexpr int lanes = 4;
    static constexpr int tile_rows = 6;
    static constexpr int tile_vectors = 2;

    // What is multiplied for a dtype (operands.h).
    static Fp32 operand(float);
    template <class Element>
    static Widened operand(Element);

    static Vec zero() { return Vec{}; }
    static Vec broadcast(float x) { return Vec{x, x, x, x}; }

    static Vec load(const float* from) {
        Vec x;
        std::memcpy(&x, from, sizeof x);
        return x;
    }
    static Vec load(const Fp16* from) {
        return Vec{to_float(from[0]), to_float(from[1]), to_float(from[2]), to_float(from[3])};
    }
    static Vec load(const Bf16* from) {
        return as_floats(
            Bits{from[0].bits, from[1].bits, from[2].bits, from[3].bits} << uint32_t{16});
    }

    static void store(float* to, Vec x) { std::memcpy(to, &x, sizeof x); }
    static void store(Fp16* to, Vec x) {
        for (int i = 0; i < lanes; ++i) to[i] = to_fp16(x[i]);
    }
    static void store(Bf16* to, Vec x) {
        // Add half a unit of the last kept bit, less one when that bit is even: ties go to even.
        // A NaN could become an infinity that way, so it is written as the quiet NaN.
        const Bits bits = as_bits(x);
        const Bits rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
        for (int i = 0; i < lanes; ++i) {
            to[i].bits = static_cast<uint16_t>(x[i] != x[i] ? 0x7fc0u : rounded[i]);
        }
    }

    static Vec add(Vec a, Vec b) { return a + b; }
    static Vec sub(Vec a, Vec b) { return a - b; }
    static Vec mul(Vec a, Vec b) { return a * b; }
    static Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }
    // b where a is NaN.
    static Vec max(Vec a, Vec b) { return a > b ? a : b; }
    // x <= 0 as a whole number, at least -127, and what is left. NaN as NaN.
    struct Split {
        Vec whole, fraction;
    };
    static Split split(Vec x) {
        const Vec bounded = max(broadcast(-127.0f), x);
        // Adding 1.5 * 2^23 leaves no bits for a fraction.
        const Vec whole = (bounded + 0x1.8p23f) - 0x1.8p23f;
        return {whole, sub(bounded, whole)};
    }
    // x * 2^n for whole n in [-127, 127]; 0 for n = -127. The sum holds n in its low bits.
    static Vec scale_by_pow2(Vec x, Vec n) {
        return x * as_floats(as_bits(n + (0x1.8p23f + 127.0f)) << uint32_t{23});
    }
    // The first `count` lanes of x, the other lanes of `rest`.
    static Vec first_lanes(int64_t count, Vec x, Vec rest) {
        const Bits lane = {0, 1, 2, 3};
        return lane < static_cast<uint32_t>(count) ? x : rest;
    }

    static float max_of_lanes(Vec x) {
        const float a = x[0] > x[1] ? x[0] : x[1];
        const float b = x[2] > x[3] ? x[2] : x[3];
        return a > b ? a : b;
    }
    static float sum_of_lanes(Vec x) { return (x[0] + x[1]) + (x[2] + x[3]); }

    static void transpose(Vec (&rows)[lanes]) {
        const Vec a = rows[0], b = rows[1], c = rows[2], d = rows[3];
        for (int i = 0; i < lanes; ++i) rows[i] = Vec{a[i], b[i], c[i], d[i]};
    }

    // In lane i the sum of the lanes of rows[i].
    static Vec sums_of(const Vec (&rows)[lanes]) {
        const Vec a = rows[0], b = rows[1], c = rows[2], d = rows[3];
        const Vec first{a[0], b[0], c[0], d[0]}, second{a[1], b[1], c[1], d[1]};
        const Vec third{a[2], b[2], c[2], d[2]}, fourth{a[3], b[3], c[3], d[3]};
        return (first + second) + (third + fourth);
    }

  private:
    static Bits as_bits(Vec x) { return reinterpret_cast<Bits>(x); }
    static Vec as_floats(Bits x) { return reinterpret_cast<Vec>(x); }
    static uint32_t bits_of(float x) {
        uint32_t bits;
        std::memcpy(&bits, &x, sizeof bits);
        return bits;
    }
    static float float_of(uint32_t bits) {
        float x;
        std::memcpy(&x, &bits, sizeof x);
        return x;
    }

    // The bits of an fp16, moved up, are a float that is 2^112 too small, subnormals included.
    static float to_float(Fp16 half) {
        const uint32_t sign = static_cast<uint32_t>(half.bits & 0x8000u) << 16;
        const uint32_t moved = static_cast<uint32_t>(half.bits & 0x7fffu) << 13;
        const bool finite = (half.bits & 0x7c00u) != 0x7c00u;
        const uint32_t magnitude =
            finite ? bits_of(float_of(moved) * 0x1p112f) : (moved | 0x7f800000u);
        return float_of(sign | magnitude);
    }

    // Rounds to nearest, ties to even.
    static Fp16 to_fp16(float x) {
        const uint32_t sign = (bits_of(x) >> 16) & 0x8000u;
        const uint32_t magnitude = bits_of(x) & 0x7fffffffu;
        uint32_t half;
        if (magnitude > 0x7f800000u) {
            half = 0x7e00u;  // NaN
        } else if (magnitude >= bits_of(65520.0f)) {
            half = 0x7c00u;  // rounds beyond the largest fp16: infinity
        } else if (magnitude < bits_of(0x1p-14f)) {
            // Subnormal: at 0.5 the last bit of a float weighs 2^-24, as that of such an fp16.
            half = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
        } else {
            const uint32_t odd = (magnitude >> 13) & 1u;
            half = (magnitude - (112u << 23) + 0xfffu + odd) >> 13;
        }
        return Fp16{static_cast<uint16_t>(sign | half)};
    }
};

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
