// x^y for float64, the fast phase: doubles and a few pairs of doubles, by tables. Plain functions without branches,
// which compilers vectorise in the short loops of kernels/float64/pow.h; look-ups have loops of their own there.
//
//   formula     x = m 2^e, m in [1 - 1/1024, 2 - 1/512); r about 1/m, by m's leading bits; f = m r - 1;
//               log x = e ln 2 - log r + f - f^2/2 + f^3 P(f);
//               e^t = 2^k 2^(i/128) (1 + s + s^2 Q(s)), t = (k + i/128) ln 2 + s
//   domain      x a positive normal double, y finite, |t| <= 690. Other lanes yield a value without meaning
//   constants   tools/make_constants.py, which prints each polynomial's error
//   guarantee   x^y is between the unrounded ends of its interval. The result is used only if both ends round to the
//               same double; otherwise the next phase, pow_dd.h, runs
//   error       relative to x^y: 2^-60.07 + 2^-67.62 |t| if operations are fused, otherwise 2^-59.61 + 2^-67.36 |t|.
//               Each operation's bound is beside it; proofs/fast_float64.py proves the sum
#pragma once

#include "pow_dd.h"

namespace halfulp::HALFULP_ISA {

// The relative distance from the computed value to the ends of the interval, and the maximum |t|: with it, 2^k is large
// enough that no part of a sum is subnormal.
#ifdef HALFULP_FUSED
static constexpr double float64_error = 0x1p-60, float64_error_of_t = 0x1.5p-68;
#else
static constexpr double float64_error = 0x1.5p-60, float64_error_of_t = 0x1.ap-68;
#endif
static constexpr double greatest_float64_t = 690;

static constexpr int float64_parts = 256;

HALFULP_INLINE uint64_t float64_log_index(double x) { return part_of<float64_parts>(x); }

// The start of a logarithm: f, and e ln 2 - log r.
struct Float64Logarithm {
    double f, whole, whole_low;
};

HALFULP_INLINE Float64Logarithm begin_float64_log(double x, const constants::LogEntry& entry) {
    const auto [m, e] = split(x, least_of_parts<float64_parts>);
    // f is exact: m is a multiple of 2^-53, r of 2^-9, and |f| < 2^-8. So is the high part of e ln 2 - log r.
    return {-remainder_of(1, m, entry.r), multiply_add(e, constants::float64_ln2.high, entry.high),
            multiply_add(e, constants::float64_ln2.low, entry.low)};
}

HALFULP_INLINE DoubleDouble float64_log(const Float64Logarithm& x) {
    const DoubleDouble square = two_product(x.f, x.f), first = fast_two_sum(x.whole, x.f);
    const DoubleDouble sum = multiply_add_pair<double>(-0.5, square.high, first.high);
    const double low = (x.whole_low + first.low) + multiply_add(-0.5, square.low, sum.low);
    const double cube = square.high * x.f;
    // P has degree 5 on |f| <= 0.00293 and an error of 2^-53.68 (constants.h). f^3 P, about f^3/3, loses that and 2^-53
    // of itself in each of four roundings: 2^-69.3 of log x if log x is about f, and less farther from 1. But in the
    // last part below 1, r is 257/512, and f is up to three times log x: 2^-67.6, or 2^-67.3 if nothing is fused.
    return fast_two_sum(sum.high, multiply_add(cube, polynomial(constants::float64_log, x.f), low));
}

// 128 k + i, in the lower bits.
HALFULP_INLINE double float64_exp_place(double t) { return multiply_add(t, constants::float64_steps, round_magic); }

HALFULP_INLINE uint64_t float64_exp_index(double place) { return bits_of(place) & 127; }

// s.
HALFULP_INLINE double float64_remainder(DoubleDouble t, double place) {
    const double steps = place - round_magic;
    // The first difference is exact; s is below 2^-8.5 and rounded by 2^-62.
    return multiply_add(steps, -constants::float64_step.high, t.high) +
           multiply_add(steps, -constants::float64_step.low, t.low);
}

// e^t is power (1 + s + rest), to within power * error.
struct Float64Power {
    double power, s, rest, error;
};

HALFULP_INLINE Float64Power float64_power(double s, double t, double power, double correction) {
    // Q has degree 3 on |s| <= 0.00274 and an error of 2^-45.53 (constants.h) of s^2/2: below 2^-63. 2^(i/128) was
    // rounded by up to 2^-53 of itself; its correction is not multiplied by s, which leaves out 2^-61.5.
    return {power, s, multiply_add(s * s, polynomial(constants::float64_exp, s), correction),
            multiply_add(double_of(bits_of(t) & ~double_sign), float64_error_of_t, float64_error)};
}

// The ends of that interval.
HALFULP_INLINE Rounding float64_ends(const Float64Power& x) {
    // s + rest rounds by 2^-62; its product with 2^(i/128), below 2^-8.5 of that, by 2^-62 if it is not fused.
    return {multiply_add(x.power, x.s + (x.rest - x.error), x.power),
            multiply_add(x.power, x.s + (x.rest + x.error), x.power)};
}

HALFULP_INLINE Float64Power float64_exp(DoubleDouble t, double place, const constants::ExpEntry& entry) {
    const double power = double_of(bits_of(entry.power) + (bits_of(place) >> 7 << 52));
    return float64_power(float64_remainder(t, place), t.high, power, entry.correction);
}

}  // namespace halfulp::HALFULP_ISA
