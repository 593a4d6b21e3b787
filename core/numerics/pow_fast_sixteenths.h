// x^y for float64, the fast phase with AVX-512: doubles and a few pairs of doubles, by tables of sixteen entries, which
// fit in registers. Plain functions without branches; Real is double, or a vector of doubles
// (kernels/float64/sixteenths.h).
//
//   formula     x = m 2^e, m in [1 - 11/1024, 2 - 11/512); r about 1/m, by m's leading bits; v = (m r - 1)/2;
//               log(x)/2 = e ln(2)/2 - log(r)/2 + v - v^2 + v^3 P(v);
//               e^2t = 2^k 2^(i/16) (1 + 2 (s + s^2 + s^3 Q(s))), t = (k + i/16) ln(2)/2 + s
//               Halves, since the square of v needs no factor then, and its low part no operation of its own.
//   domain      x a positive normal double, y finite, |t| <= 353, t = y log(x)/2. Other lanes yield a value without
//               meaning
//   constants   tools/make_constants.py, which prints each polynomial's error
//   guarantee   x^y 2^-k is within the error of the computed value. The result is used only if both ends of that
//               interval round to the same double; otherwise the next phase, pow_dd.h, runs
//   error       absolute, of a value below 2: 2^-62.22 + 2^-47.48 |y v^3|. Each operation's bound is beside it;
//               proofs/fast_sixteenths.py proves the sum
#pragma once

#include "pow_dd.h"
#include "pow_special.h"

namespace halfulp::HALFULP_ISA {

// The maximum distance of the computed x^y 2^-k from the exact one, and how it grows with |y v^3|: the logarithm's
// error is one of v^3 P.
static constexpr double sixteenths_error = 0x1.cp-63, sixteenths_error_of_cube = 0x1.7p-48;
static constexpr double greatest_half_t = 353;
// How much farther the ends of the interval are apart if they are doubles, which are then rounded to floats: more than
// they lose as doubles.
static constexpr double sixteenths_error_of_ends = 0x1p-51;

// x = m 2^e, with the bits of e as the bits of a double have it: `scale` is e 2^52.
struct SixteenthsPoint {
    double m, scale;
    uint64_t part;
};

// Part 0 is from 1 - 11/1024 (below 1 the spacing is half) to 1 + 21/512. If it were around 1, |f| would be greater
// than |log x| at an end of part 1.
static constexpr uint64_t bits_to_part = (uint64_t{11} << 43) - (uint64_t{1023} << 52);

HALFULP_INLINE SixteenthsPoint sixteenths_point(double x) {
    const uint64_t from_one = bits_of(x) + bits_to_part, scale = from_one & ~uint64_t{0} << 52;
    return {double_of(bits_of(x) - scale), static_cast<double>(static_cast<int64_t>(scale)), from_one >> 48 & 15};
}

// The start of a logarithm: v, and e ln(2)/2 - log(r)/2.
template <typename Real>
struct HalfLogarithm {
    Real v, whole, whole_low;
};

template <typename Real>
HALFULP_INLINE HalfLogarithm<Real> begin_half_log(Real m, Real scale, Real r, Real high, Real low) {
    constexpr double unit = 0x1p-52;
    // v is exact: m is a multiple of 2^-53, r/2 of 2^-7, or of 2^-6 where |v| > 2^-6. So is the high part of the sum, a
    // multiple of 2^-44 below 2^9.
    return {multiply_add(m, r, Real(-0.5)), multiply_add(scale, Real(unit * constants::half_ln2.high), high),
            multiply_add(scale, Real(unit * constants::half_ln2.low), low)};
}

// log(x)/2.
template <typename Real>
HALFULP_INLINE Pair<Real> half_log(const HalfLogarithm<Real>& x) {
    const Real square = x.v * x.v;
    // Both differences are exact, and so the last operation finds all that the sum lost.
    const Real sum = (x.whole + x.v) - square;
    const Real lost = remainder_of((x.whole - sum) + x.v, x.v, x.v);
    // P has degree 8 on -0.0210 <= v <= 0.0206 and an error of 2^-51.03 (constants.h). v^3 P loses that and 2^-53 of
    // itself in each of four roundings.
    const Real low = multiply_add(square * x.v, polynomial(constants::half_log, x.v), x.whole_low + lost);
    return fast_two_sum(sum, low);  // so that y times the low part is small, whatever y
}

template <typename Real>
HALFULP_INLINE Real sixteenths_error_at(Real y, Real v) {
    return multiply_add(fabs(v * v * v * y), Real(sixteenths_error_of_cube), Real(sixteenths_error));
}

// 16 k + i, in the lower bits.
template <typename Real>
HALFULP_INLINE Real half_exp_place(Real t) {
    return multiply_add(t, Real(constants::half_exp_steps), Real(round_magic));
}

// s in two parts, of which the higher is exact, with half the relative rounding error of 2^(i/16) in the lower.
template <typename Real>
HALFULP_INLINE Pair<Real> half_exp_remainder(Pair<Real> t, Real place, Real half_correction) {
    const Real steps = place - Real(round_magic);
    return {remainder_of(t.high, steps, Real(constants::half_exp_step.high)),
            remainder_of(t.low + half_correction, steps, Real(constants::half_exp_step.low))};
}

// power e^(2 rest), not normalised.
template <typename Real>
HALFULP_INLINE Pair<Real> half_exp(Pair<Real> rest, Real power) {
    const Real s = rest.high + rest.low, twice = power + power;  // s is rounded by 2^-60
    const Pair<Real> value = multiply_add_pair(twice, rest.high, power);
    // Q has degree 5 on |s| <= 0.01084; with it, e^2s has an error of 2^-72.66 (constants.h).
    const Real square = s * s;
    const Real slope = square + multiply_add(square * s, polynomial(constants::half_exp, s), rest.low);
    return {value.high, multiply_add(twice, slope, value.low)};
}

}  // namespace halfulp::HALFULP_ISA
