// The powers of libdevice, CUDA's library of mathematical functions, for Triton (tools/make_bitcode.py). A kernel gets the
// first phase of each power; the few that it leaves undecided take a call.
#include "pow_fast_phases.h"

using namespace halfulp;
using namespace halfulp::device;

namespace {

// |x|^y for a positive finite x and a finite y other than 0. One exact phase of 320 bits replaces pow_exact's four, which
// take a kernel's registers and most of its assembler's time. No power is known that 192 bits leave undecided; among all
// pairs of float64, 2^-106 are expected that 320 do.
Attempt pow_of_magnitude(const ElementRow& type, double x, const Operand& y) {
    if (Attempt power = try_closed_form(type, x, y); power.decided) return power;
#ifndef HALFULP_LAST_PHASE  // by which a test lets every undecided power take it
    if (Attempt power = try_double_double(type, x, y); power.decided) return power;
    if (Attempt power = try_triple_double(type, x, y); power.decided) return power;
#endif
    const Dyadic base = dyadic_of(x), exponent = dyadic_of(y.high);
    Magnitude power;
    if (!exact_power(base, y.negative(), exponent, power)) power = power_interval<6>(base, y.negative(), exponent).high;
    return {encode_exact(type, false, power.significand, power.exponent, power.inexact), true};
}

template <Element type>
HALFULP_CALLED Storage<type> pow_in_all_phases(Storage<type> x, double exponent) {
    const double base = decode<type>(x);
    const Operand y = Operand::of(exponent);
    if (exponent == 0 || is_special(base, classify(exponent)))
        return static_cast<Storage<type>>(encode_special(row(type), base, y, false));
    const Attempt power = pow_of_magnitude(row(type), fabs(base), y);
    return static_cast<Storage<type>>(with_sign<uint64_t>(row(type), power.result, bits_of(base), y.parity()));
}

template <Element type, typename Real>
HALFULP_INLINE Real pow_of(Real x, double y) {
    const auto base = __builtin_bit_cast(Storage<type>, x);
    const FastPower<type> power = pow_fast<type>(base, Operand::of(y));
    const bool decided = power.decided && !power.special;
    return __builtin_bit_cast(Real, decided ? power.encoding : pow_in_all_phases<type>(base, y));
}

}  // namespace

extern "C" {
float __nv_powf(float x, float y) { return pow_of<Element::float32>(x, y); }
double __nv_pow(double x, double y) { return pow_of<Element::float64>(x, y); }
// libdevice has functions of their own for exponents that are integers.
float __nv_powif(float x, int y) { return pow_of<Element::float32>(x, y); }
double __nv_powi(double x, int y) { return pow_of<Element::float64>(x, y); }
}
