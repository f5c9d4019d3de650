// AVX-512 (F, BW, DQ, VL).
#pragma once

#include "avx512_vectors.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

using Isa = Avx512;

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
