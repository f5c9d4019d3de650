// 2^x for x <= 0, the only exponential that softmax needs: exp(s - max) = 2^((s - max) log2 e).
#pragma once

#include FLASHBENCH_ISA_HEADER

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

// x = n + f with integer n and |f| <= 1/2; 2^f is a polynomial with coefficients from the highest power
// down to the first, found by a Remez exchange with the constant fixed at 1, so that 2^0 is exactly 1.
// Below -126.5 the result is 0. NaN gives NaN.
template <int Degree>
inline Isa::Vec exp2_by(const float (&coefficients)[Degree], Isa::Vec x) {
    const Isa::Split n = Isa::split(x);
    Isa::Vec p = Isa::broadcast(coefficients[0]);
#pragma GCC unroll 8
    for (int i = 1; i < Degree; ++i) {
        p = Isa::fma(p, n.fraction, Isa::broadcast(coefficients[i]));
    }
    p = Isa::fma(p, n.fraction, Isa::broadcast(1.0f));
    return Isa::scale_by_pow2(p, n.whole);
}

// The polynomial's error is at most 4e-9; with rounding, the result is within 1.5 ulp for x in
// [-126, 0].
inline Isa::Vec exp2(Isa::Vec x) {
    constexpr float coefficients[] = {0.00015469731977475548f, 0.0013410000966100157f,
                                      0.009618030782505154f,   0.05550297314199325f,
                                      0.24022651084117294f,    0.6931472253950111f};
    return exp2_by(coefficients, x);
}

// Error at most 3e-6: for weights of values and results that are rounded to 16 bits (2e-3 or 2e-4).
inline Isa::Vec short_exp2(Isa::Vec x) {
    constexpr float coefficients[] = {0.009582576f, 0.055906828f, 0.24024107f, 0.69312412f};
    return exp2_by(coefficients, x);
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
