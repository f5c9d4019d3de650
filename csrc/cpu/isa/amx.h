// AMX: products of whole tiles, 16 x 32 times 32 x 16 bf16, summed in fp32; vectors are AVX-512's. Only
// for bf16.
#pragma once

#include "avx512_vectors.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

struct Bf16Tiles;

struct Isa : Avx512 {
    static constexpr int tile_rows = 32;
    static constexpr int tile_vectors = 2;

    using Avx512::operand;
    static Bf16Tiles operand(Bf16);
};

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench

#include "bf16_pairs.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

// Tile registers 0 to 3 hold 2 x 2 tiles of C, 4 and 5 two of A, 6 and 7 two of B. The instruction
// expects pairs along the depth in A and B.
struct Bf16Tiles : Bf16PairsBase {
    static constexpr int64_t depth_step = 16;
    static constexpr int64_t block_keys = 256;
    static constexpr bool own_product = true;

    // All eight registers are 16 rows of 64 bytes. Static, because GCC's _tile_loadconfig declares to
    // read only 8 of the 64 bytes, so stores of the rest to a local object may be optimized away.
    struct Session {
        Session() {
            static constexpr struct alignas(64) {
                uint8_t palette = 1, start_row = 0, reserved[14] = {};
                uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
                uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
            } config;
            _tile_loadconfig(&config);
        }
        ~Session() { _tile_release(); }
    };

    // See microkernel.h. Up to 32 rows of a, c and 2 vectors of b, c, in whole tiles: touches rows of
    // `a` and `c` beyond `rows`.
    template <bool Accumulate>
    static void multiply_panel(int64_t rows, int64_t vectors, const float* a, int64_t lda,
                               const float* b, int64_t depth, const float* row_scale, float* c,
                               int64_t ldc) {
        if (Accumulate) {
            for (int64_t row = 0; row < rows; ++row) {
                if (row_scale[row] == 1.0f) continue;
                for (int64_t v = 0; v < vectors && v < 2; ++v) {
                    float* const to = c + row * ldc + v * lanes;
                    Isa::store(to, Isa::mul(Isa::load(to), Isa::broadcast(row_scale[row])));
                }
            }
        }
        if (rows > 16) {
            vectors > 1 ? multiply_tiles<2, 2, Accumulate>(a, lda, b, depth, c, ldc)
                        : multiply_tiles<2, 1, Accumulate>(a, lda, b, depth, c, ldc);
        } else {
            vectors > 1 ? multiply_tiles<1, 2, Accumulate>(a, lda, b, depth, c, ldc)
                        : multiply_tiles<1, 1, Accumulate>(a, lda, b, depth, c, ldc);
        }
    }

    static int64_t multiply_in_registers(int64_t rounds) {
        const Session session{};
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        _tile_zero(4);
        _tile_zero(5);
        _tile_zero(6);
        _tile_zero(7);
        for (int64_t round = 0; round < rounds; ++round) {
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        return rounds * 4 * (16 * 16 * 32);
    }

  private:
    template <int RowTiles, int ColumnTiles, bool Accumulate>
    static void multiply_tiles(const float* a, int64_t lda, const float* b, int64_t depth,
                               float* c, int64_t ldc) {
        constexpr bool lower = RowTiles == 2, right = ColumnTiles == 2;
        constexpr int64_t b_bytes = Isa::tile_vectors * 64;
        const int64_t a_bytes = lda * 4, c_bytes = ldc * 4;
        float* const c_low = c + 16 * ldc;
        if (Accumulate) {
            _tile_loadd(0, c, c_bytes);
            if (right) _tile_loadd(1, c + 16, c_bytes);
            if (lower) _tile_loadd(2, c_low, c_bytes);
            if (lower && right) _tile_loadd(3, c_low + 16, c_bytes);
        } else {
            _tile_zero(0);
            if (right) _tile_zero(1);
            if (lower) _tile_zero(2);
            if (lower && right) _tile_zero(3);
        }
        for (int64_t k = 0; k < depth; k += depth_step) {
            _tile_loadd(4, a + k, a_bytes);
            _tile_loadd(6, b + k * (b_bytes / 4), b_bytes);
            _tile_dpbf16ps(0, 4, 6);
            if (right) _tile_loadd(7, b + k * (b_bytes / 4) + 16, b_bytes);
            if (right) _tile_dpbf16ps(1, 4, 7);
            if (lower) _tile_loadd(5, a + 16 * lda + k, a_bytes);
            if (lower) _tile_dpbf16ps(2, 5, 6);
            if (lower && right) _tile_dpbf16ps(3, 5, 7);
        }
        _tile_stored(0, c, c_bytes);
        if (right) _tile_stored(1, c + 16, c_bytes);
        if (lower) _tile_stored(2, c_low, c_bytes);
        if (lower && right) _tile_stored(3, c_low + 16, c_bytes);
    }
};

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
