// x^y of float32 by pairs of floats: the phase before the fast one, for processors with AVX-512, whose vectors have 16
// floats. (kernels/float/pairs.h has the vectors.)
//
//   formula     |x| = m 2^e, m in [1, 2); r about 1/m, by m's five leading bits; v = (m r - 1)/2; all logarithms are
//               halved, so that v^2 needs no factor:
//               ln|x| / 2 = (e ln 2 - ln r)/2 + v - v^2 + v^3 P(v) = s + low
//               t = y s + y low;  t = n ln(2)/64 + r;  x^y = 2^(n/32) (1 + 2 (r + r^2 Q(r)))
//   domain      positive floats x, and |t| <= greatest_pair_t: then the power is a normal float
//   guarantee   the exact value is within pair_phase_error of the two parts that pair_power returns. The result is used
//               only if the whole interval rounds to one float; otherwise the fast phase in doubles runs
//   error       of a power 2^-floor(n/32), relative to its entry in the table of powers. proofs/pairs.py proves it, and
//               that the operations called exact are
//   Real        float, or a vector of floats. Multiplications must be fused
#pragma once

#include "constants.h"

namespace halfulp::HALFULP_ISA {

// The error of half a logarithm: the first, and the second times the half logarithm itself.
static constexpr float half_log_error = 0x1.cp-40f, half_log_error_of_log = 0x1.ap-41f;
// That of the power e^2t, t = y ln|x|/2, divided by the table's power: the first, and the others times |y| and |t|. An
// error of t has twice the effect. The product of y and the logarithm rounds its low part.
static constexpr float pair_error = 0x1.8p-35f, pair_error_of_y = 0x1.3p-38f, pair_error_of_t = 0x1.3p-38f;
// Below 125 ln(2)/2.
static constexpr float greatest_pair_t = 43;

// An entry of the table of logarithms: r/2, and -ln(r)/2 in two parts.
template <typename Real>
struct HalfLogEntry {
    Real half, high, low;
};

template <typename Real>
HALFULP_INLINE Pair<Real> half_log(Real m, Real e, const HalfLogEntry<Real>& entry) {
    const auto& c = constants::float_pair_log;
    // Exact: multiples of 2^-30, or of 2^-24 where r is a power of two, below 2^-6; and of 2^-18, below 2^6.
    const Real v = fused(m, entry.half, Real(-0.5f));
    const Real whole = fused(e, Real(constants::float_pair_ln2[0]), entry.high);
    const Real square = v * v;
    const Real whole_low = fused(e, Real(constants::float_pair_ln2[1]), entry.low);
    // s, in two rounded steps. Both inner sums of what s lacks are exact, since |v| is less than |whole| or whole is 0.
    const Real sum = (whole + v) - square;
    const Real lost = fused(-v, v, (whole - sum) + v);
    // P has degree 3 on -0.01026 <= v <= 0.01563 (constants.h).
    const Real cubic = fused(fused(fused(Real(c[3]), v, Real(c[2])), v, Real(c[1])), v, Real(c[0]));
    return {sum, fused(square * v, cubic, whole_low + lost)};
}

// y times a half logarithm.
template <typename Real>
HALFULP_INLINE Pair<Real> times(Real y, const Pair<Real>& log) {
    const Real high = y * log.high;
    return {high, fused(y, log.low, fused(y, log.high, -high))};
}

// The same number, its low part at most half a unit of the high one. Exact. Exponents up to `least_great_y` need not do
// this: then y low is small.
static constexpr float least_great_y = 4;
template <typename Real>
HALFULP_INLINE Pair<Real> renormalized(const Pair<Real>& t) {
    const Real high = t.high + t.low;
    return {high, t.low - (high - t.high)};
}

// n/32 for the nearest multiple of a step, n, plus this, so that n is in the lower bits.
static constexpr float pair_magic = 0x1.8p18f;
template <typename Real>
HALFULP_INLINE Real pair_place(Real t) {
    return fused(t, Real(constants::float_pair_steps / 32), Real(pair_magic));
}
// n/32, which is exact.
template <typename Real>
HALFULP_INLINE Real pair_octaves(Real place) {
    return place - Real(pair_magic);
}

// An entry of the table of powers: 2^(i/32) rounded, and half the logarithm of the factor that is missing.
template <typename Real>
struct PairPowerEntry {
    Real power, correction;
};

// The power divided by 2^floor(n/32), as a sum.
template <typename Real>
HALFULP_INLINE Pair<Real> pair_power(const Pair<Real>& t, Real place, const PairPowerEntry<Real>& entry) {
    const auto& c = constants::float_pair_exp;
    const Real octaves = pair_octaves(place);
    // Exact: a multiple of a unit of t or of 2^-31, and at most half a step.
    const Real r_high = fused(octaves, Real(-32 * constants::float_pair_step[0]), t.high);
    const Real r_low = t.low + fused(octaves, Real(-32 * constants::float_pair_step[1]), entry.correction);
    const Real r = r_high + r_low, twice = entry.power + entry.power;
    // The power's high part, T (1 + 2 r_high), and its error; T minus the high part is exact.
    const Real high = fused(twice, r_high, entry.power);
    const Real lost = fused(twice, r_high, entry.power - high);
    // Q has degree 2 on |r| <= 0.00542, half a step (constants.h).
    const Real polynomial = fused(fused(Real(c[2]), r, Real(c[1])), r, Real(c[0]));
    const Real rest = fused(r * r, polynomial, r_low);
    return {high, fused(twice, rest, lost)};
}

// The bound of a power's error, divided by the table's power, for greatest magnitudes of y and t.
template <typename Real>
HALFULP_INLINE Real pair_phase_error(Real y, Real t) {
    return fused(y, Real(pair_error_of_y), fused(t, Real(pair_error_of_t), Real(pair_error)));
}

// The lower and the upper end of the interval, rounded.
template <typename Real>
struct PairEnds {
    Real least, greatest;
};
template <typename Real>
HALFULP_INLINE PairEnds<Real> ends_of(const Pair<Real>& power, Real table_power, Real error) {
    return {power.high + fused(-table_power, error, power.low), power.high + fused(table_power, error, power.low)};
}

}  // namespace halfulp::HALFULP_ISA
