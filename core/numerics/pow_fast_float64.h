// x^y for float64, the fast phase without AVX-512: doubles and a few pairs of doubles, by long tables in memory and short
// polynomials. Plain functions without branches; Real is double, or a vector of doubles (kernels/float64/rows.h).
//
//   formula     x = m 2^e, m in [1 - 1/512 + 2^-16, 2 - 1/256 + 2^-15); r about 1/m, by m's leading bits;
//               v = (m r - 1)/2; log(x)/2 = e ln(2)/2 - log(r)/2 + v - v^2 + v^3 P(v);
//               t = y log x = n ln(2)/256 + s; x^y = 2^(n/256) (1 + s + s^2 Q(s))
//               Half logarithms, since the square of v needs no factor then, and its low part no operation of its own.
//               t is a sum whose low part is not small beside the high one: about 2 y v^3 P
//   domain      x a positive normal double, y finite, |t.high| <= 690 and |t.low| <= 2^-14. If the low part is greater,
//               fast_two_sum makes a pair of t. Other lanes yield a value without meaning. Also subnormal x, scaled, and
//               |t.high| <= 750 if T is at least 1: round_to (pow_dd.h) rounds these powers
//   constants   tools/make_constants.py, which prints each polynomial's error
//   guarantee   x^y is between the unrounded ends of its interval. The result is used only if both ends round to the
//               same double; otherwise the next phase, pow_dd.h, runs
//   error       relative to the table's power T: 2^-67.9 + 2^-48.2 |t.low|, the low part before a pair was made of t. Each
//               operation's bound is beside it; proofs/fast_float64.py proves the sum
#pragma once

#include "pow_dd.h"
#include "pow_special.h"

namespace halfulp::HALFULP_ISA {

// The distance from the computed value to the ends of the interval, relative to T, and the domain. With the greatest
// |t|, T is so large that no part of a sum is subnormal.
static constexpr double float64_error = 0x1.1p-68, float64_error_of_low = 0x1.cp-49;
static constexpr double greatest_float64_t = 690, greatest_float64_low = 0x1p-14;
// The greatest |t| of powers whose octaves are apart, which may be subnormal or overflow, and their greatest error. All
// greater |t| have the same power.
static constexpr double greatest_float64_t_on_grid = 750, greatest_float64_error_on_grid = 0x1p-55;

static constexpr uint64_t float64_parts = 128;
// The first part begins here: below 1 the spacing is half.
static constexpr double least_of_float64_parts = 1 - 0x1p-9 + 0x1p-16;

HALFULP_INLINE uint64_t float64_log_index(double x) {
    return ((bits_of(x) >> 32) + (uint64_t{1} << 12) - (uint64_t{1} << 5)) >> 13 & (float64_parts - 1);
}

// The start of a logarithm: v, and e ln(2)/2 - log(r)/2.
template <typename Real>
struct Float64Logarithm {
    Real v, whole, whole_low;
};

// `half_r` is r/2, `high` and `low` are - log(r)/2.
template <typename Real>
HALFULP_INLINE Float64Logarithm<Real> begin_float64_log(Real m, Real e, Real half_r, Real high, Real low) {
    // v is exact: m is a multiple of 2^-53, r/2 of 2^-9, and |v| < 2^-8. So is the high part of the sum, a multiple of
    // 2^-44 below 2^9.
#ifdef HALFULP_FUSED
    const Real v = multiply_add(m, half_r, Real(-0.5));
#else
    const Real v = -remainder_of(Real(0.5), m, half_r);
#endif
    return {v, multiply_add(e, Real(constants::half_ln2.high), high),
            multiply_add(e, Real(constants::half_ln2.low), low)};
}

HALFULP_INLINE Float64Logarithm<double> begin_float64_log(double x, const constants::LogEntry& entry) {
    const auto [m, e] = split(x, least_of_float64_parts);
    return begin_float64_log(m, e, entry.r, entry.high, entry.low);
}

// log(x)/2. The low part is about v^3 P, up to 2^-24.
template <typename Real>
HALFULP_INLINE Pair<Real> float64_log(const Float64Logarithm<Real>& x) {
    const Real square = x.v * x.v;
    // Both inner sums of what the sum lost are exact: |log(x)/2| >= 2^-9, or whole is 0.
    const Real sum = (x.whole + x.v) - square;
    const Real lost = remainder_of((x.whole - sum) + x.v, x.v, x.v);
    // P has degree 5 on -0.00293 <= v <= 0.00287 and an error of 2^-50.99 (constants.h). v^3 P loses that and 2^-53 of
    // itself in each of four roundings.
    return {sum, multiply_add(square * x.v, polynomial(constants::float64_log, x.v), x.whole_low + lost)};
}

// y log x, of log(x)/2.
template <bool has_y_low, typename Real>
HALFULP_INLINE Pair<Real> float64_t(const Pair<Real>& half_log, Real y_high, Real y_low) {
    return times<has_y_low>(half_log, y_high + y_high, y_low + y_low);  // the low part is rounded once, or twice
}

// n, in the lower bits.
template <typename Real>
HALFULP_INLINE Real float64_exp_place(Real t) {
    return multiply_add(t, Real(constants::float64_steps), Real(round_magic));
}

HALFULP_INLINE uint64_t float64_exp_index(double place) { return bits_of(place) & 255; }

// s in two parts, of which the higher is exact, with the relative rounding error of 2^(n/256) in the lower.
template <typename Real>
HALFULP_INLINE Pair<Real> float64_remainder(const Pair<Real>& t, Real place, Real correction) {
    const Real n = place - Real(round_magic);
    return {remainder_of(t.high, n, Real(constants::float64_step.high)),
            multiply_add(n, Real(-constants::float64_step.low), t.low + correction)};
}

// power e^s, as a sum.
template <typename Real>
HALFULP_INLINE Pair<Real> float64_power(const Pair<Real>& s, Real power) {
    const Pair<Real> value = multiply_add_pair(power, s.high, power);
    // Q has degree 3 on |s| <= 0.00142; with it, e^s has an error of 2^-69.1 (constants.h). s is rounded by 2^-63, and
    // the sum of its low part and s^2 Q by 2^-73.
    const Real sum = s.high + s.low;
    const Real slope = multiply_add(sum * sum, polynomial(constants::float64_exp, sum), s.low);
    return {value.high, multiply_add(power, slope, value.low)};
}

// The distance to the ends, for the greatest |t.low|.
template <typename Real>
HALFULP_INLINE Real float64_error_at(Real most_low) {
    return multiply_add(most_low, Real(float64_error_of_low), Real(float64_error));
}

// The ends, rounded.
template <typename Real>
struct Float64Ends {
    Real least, greatest;
};

template <typename Real>
HALFULP_INLINE Float64Ends<Real> float64_ends(const Pair<Real>& value, Real power, Real error) {
    return {value.high + multiply_add(power, -error, value.low), value.high + multiply_add(power, error, value.low)};
}

// The table's power, and e^t.
struct Float64Power {
    double power;
    DoubleDouble value;
};

HALFULP_INLINE Float64Power float64_exp(DoubleDouble t, double place, const constants::ExpEntry& entry) {
    const double power = double_of(entry.power + (bits_of(place) << 44));
    return {power, float64_power(float64_remainder(t, place, entry.correction), power)};
}

// One power: t, and the ends of its interval if it is in the phase's domain.
struct FastFloat64 {
    DoubleDouble t;
    Float64Ends<double> ends;

    bool is_decided() const {
        return ends.least == ends.greatest && fabs(t.high) <= greatest_float64_t && fabs(t.low) <= greatest_float64_low;
    }
};

HALFULP_INLINE DoubleDouble fast_float64_t(double x, double y) {
    const constants::LogEntry& entry = constants::float64_log_entries[float64_log_index(x)];
    return float64_t<false>(float64_log(begin_float64_log(x, entry)), y, double(0));
}

HALFULP_INLINE FastFloat64 fast_float64(DoubleDouble t) {
    const double place = float64_exp_place(t.high);
    const Float64Power power = float64_exp(t, place, constants::float64_exp_entries[float64_exp_index(place)]);
    return {t, float64_ends(power.value, power.power, float64_error_at(fabs(t.low)))};
}

}  // namespace halfulp::HALFULP_ISA
