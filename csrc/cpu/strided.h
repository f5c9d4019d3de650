// Loads and stores vectors of the caller's memory at any distance between elements.
#pragma once

#include FLASHBENCH_ISA_HEADER

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

constexpr int64_t lanes = Isa::lanes;

// Whether the instruction set moves the first elements of a vector alone. Shorter vectors have no need:
// head dims are multiples of 8.
constexpr bool moves_part = lanes > 8;

// The first `count` >= 1 of a vector's elements, as fp32; 0 in the lanes beyond them.
template <class Element, class Vectors = Isa>
inline Isa::Vec load_first(const Element* from, [[maybe_unused]] int64_t count) {
    if constexpr (moves_part) return Vectors::load_first(from, count < lanes ? count : lanes);
    return Isa::load(from);
}

// The `count` >= 1 elements that start at `from`, as fp32; 0 in the lanes beyond them.
template <class Element>
inline Isa::Vec load_strided(const Element* from, int64_t stride, int64_t count) {
    if (stride == 1 && count >= lanes) return Isa::load(from);
    if (stride == 1 && moves_part) return load_first(from, count);
    Element gathered[lanes] = {};
    for (int64_t i = 0; i < count && i < lanes; ++i) gathered[i] = from[i * stride];
    return Isa::load(gathered);
}

template <class Element, class Vectors = Isa>
inline void store_strided(Element* to, int64_t stride, int64_t count, Isa::Vec x) {
    if (stride == 1 && count >= lanes) return Isa::store(to, x);
    if constexpr (moves_part) {
        if (stride == 1) return Vectors::store_first(to, count, x);
    }
    Element scattered[lanes];
    Isa::store(scattered, x);
    for (int64_t i = 0; i < count && i < lanes; ++i) to[i * stride] = scattered[i];
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
