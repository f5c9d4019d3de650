// AVX-512 (F, BW, DQ, VL): 16 floats per vector, 32 registers, 24 of them for a tile. Shared by
// avx512.h, avx512bf16.h and amx.h.
#pragma once

// GCC 12 warns about unused operands in its own header as uninitialized variables (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include "../kernel.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

struct Fp32;
struct Widened;

struct Avx512 {
    using Vec = __m512;
    static constexpr int lanes = 16;
    static constexpr int tile_rows = 6;
    static constexpr int tile_vectors = 4;

    // What is multiplied for a dtype (operands.h).
    static Fp32 operand(float);
    template <class Element>
    static Widened operand(Element);

    static Vec zero() { return _mm512_setzero_ps(); }
    static Vec broadcast(float x) { return _mm512_set1_ps(x); }

    static Vec load(const float* from) { return _mm512_loadu_ps(from); }
    static Vec load(const Fp16* from) { return _mm512_cvtph_ps(load_16bit(from)); }
    static Vec load(const Bf16* from) {
        return _mm512_castsi512_ps(
            _mm512_slli_epi32(_mm512_cvtepu16_epi32(load_16bit(from)), 16));
    }

    // The first `count` <= lanes elements, 0 in the lanes beyond them. Reads only these elements.
    static Vec load_first(const float* from, int64_t count) {
        return _mm512_maskz_loadu_ps(first(count), from);
    }
    static Vec load_first(const Fp16* from, int64_t count) {
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(count), from));
    }
    static Vec load_first(const Bf16* from, int64_t count) {
        const __m256i bits = _mm256_maskz_loadu_epi16(first(count), from);
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
    }

    static void store(float* to, Vec x) { _mm512_storeu_ps(to, x); }
    static void store(Fp16* to, Vec x) { store_16bit(to, to_fp16(x)); }
    static void store(Bf16* to, Vec x) { store_16bit(to, to_bf16(x)); }
    // The first `count` <= lanes elements.
    static void store_first(float* to, int64_t count, Vec x) {
        _mm512_mask_storeu_ps(to, first(count), x);
    }
    static void store_first(Fp16* to, int64_t count, Vec x) {
        _mm256_mask_storeu_epi16(to, first(count), to_fp16(x));
    }
    static void store_first(Bf16* to, int64_t count, Vec x) {
        _mm256_mask_storeu_epi16(to, first(count), to_bf16(x));
    }

    static Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
    static Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
    static Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
    static Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
    // b where a is NaN.
    static Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
    // x <= 0 as a whole number and what is left; -inf and 0 for -inf, NaN as NaN.
    struct Split {
        Vec whole, fraction;
    };
    static Split split(Vec x) {
        const Vec f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        return {sub(x, f), f};
    }
    // x * 2^n for integer n or -inf; 0 for n < -126, which avoids nearly all subnormal results, each
    // of them hundreds of cycles on Intel's CPUs.
    static Vec scale_by_pow2(Vec x, Vec n) {
        const __mmask16 normal = _mm512_cmp_ps_mask(n, broadcast(-126.0f), _CMP_NLT_UQ);
        return _mm512_maskz_scalef_ps(normal, x, n);
    }
    // The first `count` lanes of x, the other lanes of `rest`.
    static Vec first_lanes(int64_t count, Vec x, Vec rest) {
        return _mm512_mask_blend_ps(first(count), rest, x);
    }

    static float max_of_lanes(Vec x) { return _mm512_reduce_max_ps(x); }
    static float sum_of_lanes(Vec x) { return _mm512_reduce_add_ps(x); }

    // Turns 16 rows of 16 into 16 columns of 16: pairs of floats, then pairs of doubles, within
    // each quarter, then the quarters change places.
    static void transpose(Vec (&rows)[lanes]) {
        __m512 pairs[lanes];
        for (int i = 0; i < lanes; i += 2) {
            pairs[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
            pairs[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
        }
        __m512 quads[lanes];
        for (int i = 0; i < lanes; i += 4) {
            quads[i] = unpack_low(pairs[i], pairs[i + 2]);
            quads[i + 1] = unpack_high(pairs[i], pairs[i + 2]);
            quads[i + 2] = unpack_low(pairs[i + 1], pairs[i + 3]);
            quads[i + 3] = unpack_high(pairs[i + 1], pairs[i + 3]);
        }
        for (int i = 0; i < 4; ++i) {
            const __m512 even_low = _mm512_shuffle_f32x4(quads[i], quads[i + 4], 0x88);
            const __m512 odd_low = _mm512_shuffle_f32x4(quads[i], quads[i + 4], 0xdd);
            const __m512 even_high = _mm512_shuffle_f32x4(quads[i + 8], quads[i + 12], 0x88);
            const __m512 odd_high = _mm512_shuffle_f32x4(quads[i + 8], quads[i + 12], 0xdd);
            rows[i] = _mm512_shuffle_f32x4(even_low, even_high, 0x88);
            rows[i + 4] = _mm512_shuffle_f32x4(odd_low, odd_high, 0x88);
            rows[i + 8] = _mm512_shuffle_f32x4(even_low, even_high, 0xdd);
            rows[i + 12] = _mm512_shuffle_f32x4(odd_low, odd_high, 0xdd);
        }
    }

    // In lane i the sum of the lanes of rows[i]. Parts are added after each shuffle, which leaves half as many
    // vectors to the next: 30 shuffles, and 64 for a transpose.
    static Vec sums_of(const Vec (&rows)[lanes]) {
        __m512 quads[4];  // of four rows each, in each quarter a part of their sums
        for (int i = 0; i < 4; ++i) {
            const Vec* const four = rows + 4 * i;
            const __m512 a = add(_mm512_unpacklo_ps(four[0], four[1]),
                                 _mm512_unpackhi_ps(four[0], four[1]));
            const __m512 b = add(_mm512_unpacklo_ps(four[2], four[3]),
                                 _mm512_unpackhi_ps(four[2], four[3]));
            quads[i] = add(unpack_low(a, b), unpack_high(a, b));
        }
        const __m512 low = add_quarters(quads[0], quads[1]);
        return add_quarters(low, add_quarters(quads[2], quads[3]));
    }

  private:
    // With a 64-bit shift count GCC 12 computes wrong masks under -fsanitize=shift.
    static __mmask16 first(int64_t count) {
        return static_cast<__mmask16>((1u << static_cast<unsigned>(count)) - 1);
    }
    static __m256i load_16bit(const void* from) {
        return _mm256_loadu_si256(static_cast<const __m256i*>(from));
    }
    static void store_16bit(void* to, __m256i x) {
        _mm256_storeu_si256(static_cast<__m256i*>(to), x);
    }
    static __m256i to_fp16(Vec x) {
        return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
    static __m256i to_bf16(Vec x) {
        // Add half a unit of the last kept bit, less one when that bit is even: ties go to even.
        // A NaN could become an infinity that way, so it is written as the quiet NaN.
        const __m512i bits = _mm512_castps_si512(x);
        const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
        const __m512i bias = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
        const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, bias), 16);
        const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
        return _mm512_cvtepi32_epi16(
            _mm512_mask_blend_epi32(is_nan, rounded, _mm512_set1_epi32(0x7fc0)));
    }
    // Quarters 0 + 1 and 2 + 3 of a, then of b.
    static __m512 add_quarters(__m512 a, __m512 b) {
        return add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    }
    static __m512 unpack_low(__m512 a, __m512 b) {
        return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
    }
    static __m512 unpack_high(__m512 a, __m512 b) {
        return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
    }
};

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
