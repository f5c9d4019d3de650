// Loads and stores vectors of the caller's memory at any distance between elements.
#pragma once

#include FLASHBENCH_ISA_HEADER

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

constexpr int64_t lanes = Isa::lanes;

// The `count` >= 1 elements that start at `from`, as fp32; 0 in the lanes beyond them.
template <class Element>
inline Isa::Vec load_strided(const Element* from, int64_t stride, int64_t count) {
    if (stride == 1 && count >= lanes) return Isa::load(from);
    Element gathered[lanes] = {};
    for (int64_t i = 0; i < count && i < lanes; ++i) gathered[i] = from[i * stride];
    return Isa::load(gathered);
}

template <class Element>
inline void store_strided(Element* to, int64_t stride, int64_t count, Isa::Vec x) {
    if (stride == 1 && count >= lanes) return Isa::store(to, x);
    Element scattered[lanes];
    Isa::store(scattered, x);
    for (int64_t i = 0; i < count && i < lanes; ++i) to[i * stride] = scattered[i];
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
