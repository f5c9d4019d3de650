// Pairs of bf16 as an operand (operands.h), multiplied by vdpbf16ps: a.low * b.low + a.high * b.high
// + c, with fp32 products and sums. The instruction flushes subnormal inputs and results to zero.
// Probabilities are rounded to bf16; their sum is that of the fp32 numbers.
#pragma once

#include <cstring>

#include "../strided.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

struct Bf16PairsBase {
    static constexpr int64_t per_slot = 2;
    static constexpr int64_t chain = 128;  // the whole depth
    static constexpr int64_t block_keys = 128;
    static constexpr bool own_product = false;
    static constexpr bool short_exp = true;
    struct Session {};

    static Isa::Vec load(const Bf16* from, int64_t stride, int64_t count) {
        if (stride == 1) {
            if (count >= 2 * lanes) return _mm512_loadu_ps(from);
            const unsigned elements = static_cast<unsigned>(count);  // as in avx512_vectors.h
            return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16((1u << elements) - 1, from));
        }
        Bf16 gathered[2 * lanes] = {};
        for (int64_t i = 0; i < count && i < 2 * lanes; ++i) gathered[i] = from[i * stride];
        return _mm512_loadu_ps(gathered);
    }
    static Isa::Vec excess(Isa::Vec slots) {
        const __m512 low = _mm512_castsi512_ps(
            _mm512_slli_epi32(_mm512_castps_si512(slots), 16));
        return _mm512_add_ps(_mm512_sub_ps(slots, slots), _mm512_sub_ps(low, low));
    }
    static Isa::Vec negate(Isa::Vec slots) {
        return _mm512_xor_ps(slots, _mm512_castsi512_ps(_mm512_set1_epi32(
                                        static_cast<int>(0x80008000u))));
    }
    // Interleaves the bf16 in the upper halves of two vectors' lanes as pairs.
    static Isa::Vec pair(Isa::Vec low, Isa::Vec high) {
        return _mm512_castsi512_ps(_mm512_or_si512(
            _mm512_srli_epi32(_mm512_castps_si512(low), 16), _mm512_castps_si512(high)));
    }

    static void store_weights(float* row, int64_t key, Isa::Vec x) {
        const __m256bh rounded = _mm512_cvtneps_pbh(x);
        std::memcpy(reinterpret_cast<char*>(row) + 2 * key, &rounded, sizeof rounded);
    }
    static float weight(const float* row, int64_t key) { return half(row[key / 2], key % 2); }
    static Isa::Vec weights(const float* row, int64_t key) {
        Bf16 stored[lanes];
        std::memcpy(stored, reinterpret_cast<const char*>(row) + 2 * key, sizeof stored);
        return Isa::load(stored);
    }
    static Isa::Vec values(const float* column, int64_t width, int64_t key) {
        const __m512i slots = _mm512_castps_si512(_mm512_loadu_ps(column + key / 2 * width));
        return _mm512_castsi512_ps(
            key % 2 == 0 ? _mm512_slli_epi32(slots, 16)
                         : _mm512_and_si512(slots, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
    }

  private:
    static float half(float slot, int64_t which) {
        uint32_t bits;
        std::memcpy(&bits, &slot, sizeof bits);
        bits = which == 0 ? bits << 16 : bits & 0xffff0000u;
        float x;
        std::memcpy(&x, &bits, sizeof x);
        return x;
    }
};

struct Bf16Pairs : Bf16PairsBase {
    static constexpr int64_t depth_step = 1;

    static Isa::Vec multiply_add(Isa::Vec a, Isa::Vec b, Isa::Vec c) {
        return _mm512_dpbf16_ps(c, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
    }
};

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
