// The microkernel of both Q K^T and P V: C (+)= A B with a tile of C held in registers.
//
// Each element of A B is one in-order chain of fused multiply-adds over the depth, added to C at its
// end: long sums become sums of sums, whose rounding error grows far more slowly.
// Depths count slots (operands.h).
#pragma once

#include "pack.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

// c = a b, or c = c * row_scale + (a b) for `Accumulate`. a is Rows x depth with rows lda floats
// apart; b is the first Vectors vectors of each row of a panel, whose rows are ldb floats apart; c is
// Rows x (Vectors * lanes).
template <class Operand, int Rows, int Vectors, bool Accumulate>
inline void multiply_tile(const float* a, int64_t lda, const float* b, int64_t ldb, int64_t depth,
                          const float* row_scale, float* c, int64_t ldc) {
    Isa::Vec sums[Rows][Vectors];
#pragma GCC unroll 8
    for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 8
        for (int v = 0; v < Vectors; ++v) sums[row][v] = Isa::zero();
    }
    for (int64_t k = 0; k < depth; ++k) {
        Isa::Vec b_row[Vectors];
#pragma GCC unroll 8
        for (int v = 0; v < Vectors; ++v) b_row[v] = Isa::load(b + k * ldb + v * lanes);
#pragma GCC unroll 8
        for (int row = 0; row < Rows; ++row) {
            const Isa::Vec a_element = Isa::broadcast(a[row * lda + k]);
#pragma GCC unroll 8
            for (int v = 0; v < Vectors; ++v) {
                sums[row][v] = Operand::multiply_add(a_element, b_row[v], sums[row][v]);
            }
        }
    }
#pragma GCC unroll 8
    for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 8
        for (int v = 0; v < Vectors; ++v) {
            float* const to = c + row * ldc + v * lanes;
            if (Accumulate) {
                sums[row][v] =
                    Isa::fma(Isa::load(to), Isa::broadcast(row_scale[row]), sums[row][v]);
            }
            Isa::store(to, sums[row][v]);
        }
    }
}

// Picks the tile for numbers of rows and vectors known only at run time.
template <class Operand, bool Accumulate, int Rows = Isa::tile_rows,
          int Vectors = Isa::tile_vectors>
inline void multiply_panel(int64_t rows, int64_t vectors, const float* a, int64_t lda,
                           const float* b, int64_t ldb, int64_t depth, const float* row_scale,
                           float* c, int64_t ldc) {
    if constexpr (Rows > 1) {
        if (rows < Rows) {
            return multiply_panel<Operand, Accumulate, Rows - 1, Vectors>(
                rows, vectors, a, lda, b, ldb, depth, row_scale, c, ldc);
        }
    }
    if constexpr (Vectors > 1) {
        if (vectors < Vectors) {
            return multiply_panel<Operand, Accumulate, Rows, Vectors - 1>(
                rows, vectors, a, lda, b, ldb, depth, row_scale, c, ldc);
        }
    }
    multiply_tile<Operand, Rows, Vectors, Accumulate>(a, lda, b, ldb, depth, row_scale, c, ldc);
}

// A tile of C: rows <= Isa::tile_rows and up to panel_width columns; writes whole vectors.
template <class Operand, bool Accumulate>
inline void multiply(int64_t rows, int64_t columns, const float* a, int64_t lda, const float* b,
                     int64_t ldb, int64_t depth, const float* row_scale, float* c, int64_t ldc) {
    const int64_t vectors = columns < panel_width ? (columns + lanes - 1) / lanes
                                                  : Isa::tile_vectors;
    if constexpr (Operand::own_product) {
        Operand::template multiply_panel<Accumulate>(rows, vectors, a, lda, b, depth, row_scale, c,
                                                     ldc);  // packed, so ldb is known
    } else {
        multiply_panel<Operand, Accumulate>(rows, vectors, a, lda, b, ldb, depth, row_scale, c, ldc);
    }
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
