// 2^x for x <= 0, the only exponential that softmax needs: exp(s - max) = 2^((s - max) log2 e).
#pragma once

#include FLASHBENCH_ISA_HEADER

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

// x = n + f with n whole and |f| <= 1/2; 2^f is a polynomial of degree 6, which a Remez exchange
// gave with the constant fixed at 1, so that exp2(0) is exactly 1. The polynomial is off by at most
// 4e-9; with its rounding the result is within 1.5 units of the last place for x in [-126, 0].
// Below -126.5 the result is 0. NaN gives NaN.
inline Isa::Vec exp2(Isa::Vec x) {
    const Isa::Split n = Isa::split(x);
    const Isa::Vec f = n.fraction;
    Isa::Vec p = Isa::broadcast(0.00015469731977475548f);
    p = Isa::fma(p, f, Isa::broadcast(0.0013410000966100157f));
    p = Isa::fma(p, f, Isa::broadcast(0.009618030782505154f));
    p = Isa::fma(p, f, Isa::broadcast(0.05550297314199325f));
    p = Isa::fma(p, f, Isa::broadcast(0.24022651084117294f));
    p = Isa::fma(p, f, Isa::broadcast(0.6931472253950111f));
    p = Isa::fma(p, f, Isa::broadcast(1.0f));
    return Isa::scale_by_pow2(p, n.whole);
}

// The same with a polynomial of degree 4, off by at most 3e-6: for weights of values and results that are
// rounded to 16 bits, by 2e-3 or 2e-4.
inline Isa::Vec short_exp2(Isa::Vec x) {
    const Isa::Split n = Isa::split(x);
    const Isa::Vec f = n.fraction;
    Isa::Vec p = Isa::broadcast(0.009582576f);
    p = Isa::fma(p, f, Isa::broadcast(0.055906828f));
    p = Isa::fma(p, f, Isa::broadcast(0.24024107f));
    p = Isa::fma(p, f, Isa::broadcast(0.69312412f));
    p = Isa::fma(p, f, Isa::broadcast(1.0f));
    return Isa::scale_by_pow2(p, n.whole);
}

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
