// The peak multiply-add rate of one thread: a tile's products of operands in registers.
#pragma once

#include "operands.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

// Returns the number of multiply-adds that it did.
template <class Operand>
int64_t multiply_in_registers(int64_t rounds) {
    if constexpr (Operand::own_product) {
        return Operand::multiply_in_registers(rounds);
    } else {
        constexpr int rows = Isa::tile_rows, vectors = Isa::tile_vectors;
        volatile float one = 1.0f;  // keeps the compiler from folding the sums
        const Isa::Vec a = Isa::broadcast(one);
        const Isa::Vec b = Isa::broadcast(one);
        Isa::Vec sums[rows][vectors];
        for (auto& row : sums) {
            for (Isa::Vec& sum : row) sum = Isa::zero();
        }
        for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 8
            for (int row = 0; row < rows; ++row) {
#pragma GCC unroll 8
                for (int v = 0; v < vectors; ++v) {
                    sums[row][v] = Operand::multiply_add(a, b, sums[row][v]);
                }
            }
        }
        Isa::Vec total = Isa::zero();
        for (const auto& row : sums) {
            for (const Isa::Vec& sum : row) total = Isa::add(total, sum);
        }
        one = Isa::sum_of_lanes(total);
        return rounds * rows * vectors * lanes * Operand::per_slot;
    }
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
