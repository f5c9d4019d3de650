// AVX-512 with BF16: products of pairs of bf16, two multiply-adds per lane. Only for bf16.
#pragma once

#include "avx512_vectors.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

struct Bf16Pairs;

struct Isa : Avx512 {
    static Bf16Pairs operand(Bf16);
};

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench

#include "bf16_pairs.h"
