// x^y of float32 by pairs of floats: the phase before the fast one, for processors with AVX-512 or AVX2, whose vectors have
// 16 or 8 floats. (kernels/float/pairs.h and pair_rows.h have the vectors.)
//
//   formula     |x| = m 2^e; r about 1/m, by m's leading bits; v = (m r - 1)/2; all logarithms are halved, so that v^2
//               needs no factor:
//               ln|x| / 2 = (e ln 2 - ln r)/2 + v - v^2 + v^3 P(v) = s + low
//               t = y s + y low;  t = n step + r, step = ln(2)/(2 powers);  x^y = 2^(n/powers) (1 + 2 (r + r^2 Q(r)))
//   tables      AVX-512: m in [1, 2), tables of 32 entries in registers. AVX2: m in [1/2, 2) and e even, tables of 256
//               rows in memory, and a term less in each polynomial
//   domain      positive floats x (AVX2: normal ones), and |t| <= greatest_pair_t: then the power is a normal float
//   guarantee   the exact value is within pair_phase_error of the two parts that pair_power returns. The result is used
//               only if the whole interval rounds to one float; otherwise the fast phase in doubles runs
//   error       of a power 2^-floor(n/powers), relative to its entry in the table of powers. proofs/pairs.py proves it,
//               and that the operations called exact are
//   Real        float, or a vector of floats. Multiplications must be fused
#pragma once

#include "constants.h"
#include "constants_float32.h"

namespace halfulp::HALFULP_ISA {

// The tables and their errors. half_log_error: of half a logarithm, the first, and the second times the half logarithm
// itself. error: of the power e^2t, t = y ln|x|/2, divided by the table's power, the first, and the others times |y| and
// |t|. An error of t has twice the effect. The product of y and the logarithm rounds its low part. Exponents up to
// `least_great_y` have a small y low, and t needs no renormalizing; if it is renormalized, error_of_great_y is enough.
struct PairTables {
    static constexpr float half_log_error = 0x1.cp-40f, half_log_error_of_log = 0x1.ap-41f;
    static constexpr float error = 0x1.8p-35f, error_of_y = 0x1.3p-38f, error_of_t = 0x1.3p-38f;
    static constexpr float error_of_great_y = error_of_y;
    static constexpr float least_great_y = 4;
    static constexpr int powers = 32;
    static constexpr bool loses_late = false;
    static constexpr const float (&log)[4] = constants::float_pair_log, (&exp)[3] = constants::float_pair_exp;
    static constexpr const float (&ln2)[2] = constants::float_pair_ln2, (&step)[2] = constants::float_pair_step;
    static constexpr float steps = constants::float_pair_steps;
};
struct PairRows {
    static constexpr float half_log_error = 0x1.ep-42f, half_log_error_of_log = 0x1.ap-41f;
    static constexpr float error = 0x1.4p-39f, error_of_y = 0x1.cp-39f, error_of_t = 0x1.cp-39f;
    static constexpr float error_of_great_y = 0x1.8p-40f;
    static constexpr float least_great_y = 16;
    static constexpr int powers = 256;
    static constexpr bool loses_late = true;  // what the logarithm lost is added last
    static constexpr const float (&log)[3] = constants::float_row_log, (&exp)[2] = constants::float_row_exp;
    static constexpr const float (&ln2)[2] = constants::float_row_ln2, (&step)[2] = constants::float_row_step;
    static constexpr float steps = constants::float_row_steps;
};
// Below 125 ln(2)/2.
static constexpr float greatest_pair_t = 43;

// An entry of the table of logarithms: r/2, and -ln(r)/2 in two parts.
template <typename Real>
struct HalfLogEntry {
    Real half, high, low;
};

// The start of half a logarithm: v, and (e ln 2 - ln r)/2 in two parts.
template <typename Real>
struct HalfLogStart {
    Real v, whole, whole_low;
};
template <typename Tables, typename Real>
HALFULP_INLINE HalfLogStart<Real> start_half_log(Real m, Real e, const HalfLogEntry<Real>& entry) {
    // Exact: v is a multiple of 2^-30, or of 2^-24 where r is a power of two, below 2^-6 (rows: of 2^-32, below 2^-8); and
    // the other a multiple of 2^-18, below 2^6.
    return {fused(m, entry.half, Real(-0.5f)), fused(e, Real(Tables::ln2[0]), entry.high),
            fused(e, Real(Tables::ln2[1]), entry.low)};
}

// c[0] + c[1] x + ...
template <int from = 0, typename Real, int count>
HALFULP_INLINE Real pair_polynomial(const float (&c)[count], Real x) {
    if constexpr (from == count - 1) return Real(c[from]);
    else return fused(pair_polynomial<from + 1>(c, x), x, Real(c[from]));
}

template <typename Tables, typename Real>
HALFULP_INLINE Pair<Real> half_log(const HalfLogStart<Real>& start) {
    const Real v = start.v, whole = start.whole;
    const Real square = v * v;
    // s, in two rounded steps. Both inner sums of what s lacks are exact, since |v| is less than |whole| or whole is 0.
    const Real sum = (whole + v) - square;
    const Real lost = fused(-v, v, (whole - sum) + v);
    // P has degree 3 on -0.01026 <= v <= 0.01563 (constants.h), or 2 on -0.00280 <= v <= 0.00391 (constants_float32.h).
    const Real cubic = pair_polynomial(Tables::log, v);
    if constexpr (Tables::loses_late) return {sum, fused(square * v, cubic, start.whole_low) + lost};
    else return {sum, fused(square * v, cubic, start.whole_low + lost)};
}

// y times a half logarithm.
template <typename Real>
HALFULP_INLINE Pair<Real> times(Real y, const Pair<Real>& log) {
    const Real high = y * log.high;
    return {high, fused(y, log.low, fused(y, log.high, -high))};
}

// The same number, its low part at most half a unit of the high one. Exact.
template <typename Real>
HALFULP_INLINE Pair<Real> renormalized(const Pair<Real>& t) {
    const Real high = t.high + t.low;
    return {high, t.low - (high - t.high)};
}

// n/powers for the nearest multiple of a step, n, plus this, so that n is in the lower bits.
template <typename Tables>
inline constexpr float pair_magic = 0x1.8p23f / Tables::powers;
template <typename Tables, typename Real>
HALFULP_INLINE Real pair_place(Real t) {
    return fused(t, Real(Tables::steps / Tables::powers), Real(pair_magic<Tables>));
}
// n/powers, which is exact.
template <typename Tables, typename Real>
HALFULP_INLINE Real pair_octaves(Real place) {
    return place - Real(pair_magic<Tables>);
}

// r, as a sum. `correction`: half the logarithm of the factor that the table's power lacks.
template <typename Tables, typename Real>
HALFULP_INLINE Pair<Real> pair_remainder(const Pair<Real>& t, Real place, Real correction) {
    const Real octaves = pair_octaves<Tables>(place);
    // The high part is exact: a multiple of a unit of t or of 2^-31 (rows: 2^-34), and at most half a step.
    return {fused(octaves, Real(-Tables::powers * Tables::step[0]), t.high),
            t.low + fused(octaves, Real(-Tables::powers * Tables::step[1]), correction)};
}

// The power divided by 2^floor(n/powers), as a sum. `power` is 2^(i/powers) rounded.
template <typename Tables, typename Real>
HALFULP_INLINE Pair<Real> pair_power(const Pair<Real>& r, Real power) {
    const Real sum = r.high + r.low, twice = power + power;
    // The power's high part, T (1 + 2 r.high), and its error; T minus the high part is exact.
    const Real high = fused(twice, r.high, power);
    const Real lost = fused(twice, r.high, power - high);
    // Q has degree 2 on |r| <= 0.00542, half a step (constants.h), or 1 on |r| <= 0.00068 (constants_float32.h).
    const Real rest = fused(sum * sum, pair_polynomial(Tables::exp, sum), r.low);
    return {high, fused(twice, rest, lost)};
}

// The bound of a power's error, divided by the table's power, for greatest magnitudes of y and t.
template <typename Tables, bool great_y = false, typename Real>
HALFULP_INLINE Real pair_phase_error(Real y, Real t) {
    const Real of_y = great_y ? Tables::error_of_great_y : Tables::error_of_y;
    return fused(y, of_y, fused(t, Real(Tables::error_of_t), Real(Tables::error)));
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
