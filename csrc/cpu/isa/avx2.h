// AVX2 with FMA and F16C: 8 floats per vector, 16 registers, 12 of them for a tile.
#pragma once

#include <immintrin.h>

#include "../kernel.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

struct Fp32;
struct Widened;

struct Isa {
    using Vec = __m256;
    static constexpr int lanes = 8;
    static constexpr int tile_rows = 6;
    static constexpr int tile_vectors = 2;

    // What is multiplied for a dtype (operands.h).
    static Fp32 operand(float);
    template <class Element>
    static Widened operand(Element);

    static Vec zero() { return _mm256_setzero_ps(); }
    static Vec broadcast(float x) { return _mm256_set1_ps(x); }

    static Vec load(const float* from) { return _mm256_loadu_ps(from); }
    static Vec load(const Fp16* from) { return _mm256_cvtph_ps(load_16bit(from)); }
    static Vec load(const Bf16* from) {
        return _mm256_castsi256_ps(
            _mm256_slli_epi32(_mm256_cvtepu16_epi32(load_16bit(from)), 16));
    }

    static void store(float* to, Vec x) { _mm256_storeu_ps(to, x); }
    static void store(Fp16* to, Vec x) {
        store_16bit(to, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
    static void store(Bf16* to, Vec x) {
        // Add half a unit of the last kept bit, less one when that bit is even: ties go to even.
        // A NaN could become an infinity that way, so it is written as the quiet NaN.
        const __m256i bits = _mm256_castps_si256(x);
        const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
        const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
        const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
        const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
        const __m256i kept = _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc0), is_nan);
        store_16bit(to, _mm_packus_epi32(_mm256_castsi256_si128(kept),
                                         _mm256_extracti128_si256(kept, 1)));
    }

    static Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
    static Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
    static Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
    static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
    // b where a is NaN.
    static Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
    // x <= 0 as a whole number, at least -127, and what is left. NaN as NaN.
    struct Split {
        Vec whole, fraction;
    };
    static Split split(Vec x) {
        const Vec bounded = max(broadcast(-127.0f), x);
        const Vec whole = _mm256_round_ps(bounded, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        return {whole, sub(bounded, whole)};
    }
    // x * 2^n for whole n in [-127, 127]; 0 for n = -127.
    static Vec scale_by_pow2(Vec x, Vec n) {
        const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
        return _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
    }
    // The first `count` lanes of x, the other lanes of `rest`.
    static Vec first_lanes(int64_t count, Vec x, Vec rest) {
        const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        const __m256i kept = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lane);
        return _mm256_blendv_ps(rest, x, _mm256_castsi256_ps(kept));
    }

    static float max_of_lanes(Vec x) {
        __m128 half = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
        half = _mm_max_ps(half, _mm_movehl_ps(half, half));
        return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
    }
    static float sum_of_lanes(Vec x) {
        __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
        half = _mm_add_ps(half, _mm_movehl_ps(half, half));
        return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
    }

    // Turns 8 rows of 8 into 8 columns of 8: 4x4 within each half, then the halves change places.
    static void transpose(Vec (&rows)[lanes]) {
        __m256 quads[lanes];
        for (int i = 0; i < lanes; i += 4) {
            const __m256 low01 = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
            const __m256 high01 = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
            const __m256 low23 = _mm256_unpacklo_ps(rows[i + 2], rows[i + 3]);
            const __m256 high23 = _mm256_unpackhi_ps(rows[i + 2], rows[i + 3]);
            quads[i] = _mm256_shuffle_ps(low01, low23, 0x44);
            quads[i + 1] = _mm256_shuffle_ps(low01, low23, 0xee);
            quads[i + 2] = _mm256_shuffle_ps(high01, high23, 0x44);
            quads[i + 3] = _mm256_shuffle_ps(high01, high23, 0xee);
        }
        for (int i = 0; i < 4; ++i) {
            rows[i] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20);
            rows[i + 4] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31);
        }
    }

    // In lane i the sum of the lanes of rows[i].
    static Vec sums_of(const Vec (&rows)[lanes]) {
        __m256 quads[2];  // of four rows each, in each half a part of their sums
        for (int i = 0; i < 2; ++i) {
            const Vec* const four = rows + 4 * i;
            quads[i] = _mm256_hadd_ps(_mm256_hadd_ps(four[0], four[1]),
                                      _mm256_hadd_ps(four[2], four[3]));
        }
        return add(_mm256_permute2f128_ps(quads[0], quads[1], 0x20),
                   _mm256_permute2f128_ps(quads[0], quads[1], 0x31));
    }

  private:
    static __m128i load_16bit(const void* from) {
        return _mm_loadu_si128(static_cast<const __m128i*>(from));
    }
    static void store_16bit(void* to, __m128i x) {
        _mm_storeu_si128(static_cast<__m128i*>(to), x);
    }
};

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
