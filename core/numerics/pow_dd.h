// x^y in pairs of doubles (double-double), for the powers that the fast phase leaves undecided: plain functions without
// branches, as in pow_fast.h.
//
//   formula     x = m * 2^e, m in [1 - 1/128, 2 - 1/64); r about 1/m, by m's leading bits; f = m r - 1;
//               log2 x = e - log2 r + f P(f);
//               2^t = 2^k 2^(i/16) (1 + s Q(s)), t = k + i/16 + s, |s| <= 1/32
//   domain      x a positive finite double, y finite. Other lanes yield a value without meaning
//   guarantee   the exact value is within double_double_error of the scaled value. The result is used only if the whole
//               interval rounds to one element; otherwise the next phase, pow_td.h, runs
//   error       log2 x: 2^-71.85, relative. 2^(t - k), which is below 2^(31/32): 2^-70.84, absolute. Together 2^-70.84
//               + |t| 2^(31/32) ln 2 2^-71.85, below double_double_error. Each operation's bound is beside it.
//               proofs/double_double.py proves the sum, with and without fused operations; docs/testing.md has the
//               greatest error found
//
// With AVX-512 the tables are in registers, otherwise in memory (kernels/phases/double_double.h).
#pragma once

#include "pow_fast.h"

namespace halfulp::HALFULP_ISA {

// The maximum distance of the computed 2^(t - k) from the exact value.
struct PhaseError {
    double fixed, of_t;

    double at(double t) const { return multiply_add(double_of(bits_of(t) & ~double_sign), of_t, fixed); }
};
static constexpr PhaseError double_double_error{0x1.3p-71, 0x1.ap-72};

// If |t| <= 1080, t's low part is below this. The kernels clamp it, for lanes without meaning.
static constexpr double greatest_t_low = 0x1p-37;
static_assert(greatest_t_low * greatest_t_low <
              double_double_error.fixed / 8);  // 2^low = 1 + low ln 2 lacks half of that

// Adding and subtracting it rounds to a multiple of 1/16, by which powers are looked up.
static constexpr double sixteenths_magic = round_magic / 16;

// c[from] + x (c[from + 1] + ... x (c[to - 1] + x inner)), by Horner's rule, for coefficients that are pairs. The parts
// are not normalised between steps, since the dependency chain through `high` limits the loop's speed.
template <int from, int to, int pairs, typename Real>
HALFULP_INLINE Pair<Real> horner(const DoubleDouble (&c)[pairs], Pair<Real> inner, Real x) {
    if constexpr (from + 1 < to) inner = horner<from + 1, to>(c, inner, x);
    Pair<Real> sum = multiply_add_pair(inner.high, x, Real(c[from].high));
    return {sum.high, sum.low + multiply_add(inner.low, x, Real(c[from].low))};
}

// 2^(t - k) for an integer k, and its maximum error.
struct DoubleDoublePower {
    DoubleDouble value;  // about [sqrt(1/2), 2); not normalised: low is up to 2^-37
    double error;
    uint64_t k;  // modulo 2^64, since every instruction set has unsigned arithmetic for 64-bit lanes
};

// The ends, rounded, of an interval that contains the exact power. The power is decided if they are equal.
struct Rounding {
    double least, greatest;
};

// The encoding of a normal float64 power, for |t| <= 1020. `undecided` is not zero if the power is undecided.
struct NormalRounding {
    uint64_t encoding, undecided;
};

HALFULP_INLINE NormalRounding round_normal(const DoubleDoublePower& power) {
    uint64_t least = bits_of(power.value.high + (power.value.low - power.error));
    uint64_t greatest = bits_of(power.value.high + (power.value.low + power.error));
    return {least + (power.k << 52), least ^ greatest};
}

// The type to which the double-double phase rounds: a result may be subnormal, overflow, or have fewer bits than a
// double.
struct Target {
    double most_t;  // every t beyond it gives the same element
    int64_t least_exponent, fraction_bits;

    static constexpr Target of(const ElementRow& type) {
        int below = type.precision + 2 - type.least_exponent(), above = type.greatest_exponent() + 2;
        return {static_cast<double>(below > above ? below : above), type.least_exponent(), type.fraction_bits()};
    }
};

// value * 2^k, in two steps, since 2^k may be outside the range of doubles.
HALFULP_INLINE double scaled(double value, uint64_t k) {
    uint64_t half = (k + 2048) >> 1;
    double first = double_of((half - 1024 + 1023) << 52);
    double second = double_of((k + 2048 - half - 1024 + 1023) << 52);
    return value * first * second;
}

// Both ends of a power, rounded at the place that C sets, 2^52 times a grid's spacing, and C added. Adding C rounds there.
// The remainder of this addition is exact, and so the low part is added to it before the second addition, which decides.
template <typename Real>
HALFULP_INLINE Pair<Real> ends_on_grid(const Pair<Real>& value, Real power_error, Real big) {
    const Real rounded = big + value.high, residual = value.high - (rounded - big);
    const Real error = multiply_add(big, Real(0x1p-104), power_error);
    return {rounded + (residual + (value.low - error)), rounded + (residual + (value.low + error))};
}

// Rounds both ends to the target's grid, for |t| <= target.most_t. An end that overflows is beyond the greatest number.
HALFULP_INLINE Rounding round_to(const Target& target, const DoubleDoublePower& power) {
    DoubleDouble value = fast_two_sum(power.value.high, power.value.low);  // then high is in the binade of the sum
    uint64_t k = power.k;
    uint64_t binade = (bits_of(value.high) >> 52) - 1023 + k + 2048;
    uint64_t least = static_cast<uint64_t>(target.least_exponent + 2048);
    bool is_subnormal = static_cast<int64_t>(binade) < static_cast<int64_t>(least);
    uint64_t grid = (is_subnormal ? least : binade) - 2048 - static_cast<uint64_t>(target.fraction_bits) - k;
    double big = double_of((grid + 52 + 1023) << 52);
    if (target.fraction_bits == 52 && !is_subnormal) big = 0;
    const DoubleDouble ends = ends_on_grid(value, power.error, big);
    return {scaled(ends.high - big, k), scaled(ends.low - big, k)};
}

// The start of a logarithm: f, e - log2 r in two parts, and P's tail, which needs no pairs.
struct TableLogarithm {
    double f, whole, whole_low, tail;
};

// e, f, and the table's entry.
struct TablePoint {
    double e, f;
    const constants::PairLogEntry& entry;
};

// For a positive x, which must be normal unless may_be_subnormal.
template <bool may_be_subnormal>
HALFULP_INLINE TablePoint table_point(double x) {
    constexpr int parts = 32;
    const bool subnormal = may_be_subnormal && x < 0x1p-1022;
    const double normal = subnormal ? x * 0x1p54 : x;
    const auto [m, e] = split(normal, least_of_parts<parts>);
    const constants::PairLogEntry& entry = constants::dd_log_entries[part_of<parts>(normal)];
    // Both are exact: m has 53 bits, and r 6, or 7 where |f| <= 2^-6.
    return {subnormal ? e - 54 : e, -remainder_of(1, m, entry.r), entry};
}

template <bool may_be_subnormal>
HALFULP_INLINE TableLogarithm begin_dd_logarithm(double x) {
    const TablePoint point = table_point<may_be_subnormal>(x);
    // whole is a multiple of 2^-42 below 2^11: exact. whole_low, up to 2^-43, lacks 2^-97.
    // P has degree 10 on [-0.0198, 0.0169] and an error of 2^-73.82 (constants.h): 2^-73.75 of log2 x, since
    // |f P| <= 2^0.07 |log2 x|. The tail, its terms from f^3 on, is about 0.36. Its last two operations round by 2^-55
    // each, those before them by 2^-10 of that: 2^-54 f^4 in all, where f^4 <= 2^-18.33 |log2 x|: 2^-72.33 of log2 x.
    return {point.f, point.e + point.entry.high, point.entry.low, polynomial(constants::log2_dd, point.f)};
}

// log2(x), within 2^-71.85 of it.
HALFULP_INLINE DoubleDouble log2_sum(const TableLogarithm& x) {
    // The pair steps round low parts by 2^-105: 2^-104 of log2 x.
    DoubleDouble sum = horner<0, 3>(constants::log2_dd_pairs, DoubleDouble{x.tail, 0}, x.f);
    // Exact, except that the low part rounds by 2^-96: whole is a multiple of 2^-42, and f P is less than twice the
    // sum.
    DoubleDouble log2 = multiply_add_pair(x.f, sum.high, x.whole);
    // Two roundings by up to 2^-96. With those of the pair and of whole_low 2^-94.6, for |log2 x| >= 2^-5.5: 2^-89.1 of
    // it. If whole is 0, whole_low is 0 too, and the roundings are 2^-104 of log2 x.
    log2.low += multiply_add(x.f, sum.low, x.whole_low);
    return fast_two_sum(log2.high, log2.low);  // exact
}

template <bool has_y_low, typename Real>
HALFULP_INLINE Pair<Real> times(Pair<Real> log2, Real y_high, Real y_low) {
#ifndef HALFULP_FUSED
    y_high = clamp(y_high, 0x1p64);  // a greater y has the same power, and two_product could not split it
#endif
    Pair<Real> t = two_product(y_high, log2.high);  // exact
    // Below 2^-40 for |t| <= 1080, and rounded by 2^-92 twice.
    t.low = multiply_add(y_high, log2.low, t.low);
    if constexpr (has_y_low) t.low = multiply_add(y_low, log2.high, t.low);
    return t;
}

// y * log2(x).
template <bool has_y_low>
HALFULP_INLINE DoubleDouble log2_dd(const TableLogarithm& x, double y_high, double y_low) {
    return times<has_y_low>(log2_sum(x), y_high, y_low);
}

// The start of a power: Q(s), 2^(i/16) rounded, and its correction, the relative rounding error.
struct TablePower {
    DoubleDouble sum;
    double power, correction;
};

HALFULP_INLINE TablePower begin_dd_power(double t) {
    const double shifted = t + sixteenths_magic, s = t - (shifted - sixteenths_magic);
    const constants::PairExpEntry& entry = constants::dd_exp_entries[bits_of(shifted) & 15];
    // s is exact. Q has degree 7 on [-1/32, 1/32] and an error of 2^-69.26 (constants.h) of |s Q| <= 2^-5.5: 2^-74.76.
    // The tail, its terms from s^2 on, is about 0.056. Its last two operations round by 2^-58 each, those before them
    // by 2^-9 of that: 2^-57 |s|^3 <= 2^-72 in all.
    const DoubleDouble tail = {polynomial(constants::exp2_dd, s), 0};
    // The pair steps round low parts by 2^-106.
    return {horner<0, 2>(constants::exp2_dd_pairs, tail, s), entry.power, entry.correction};
}

HALFULP_INLINE DoubleDoublePower exp2_dd(DoubleDouble t, const TablePower& begun) {
    double shifted = t.high + sixteenths_magic, s = t.high - (shifted - sixteenths_magic);
    DoubleDouble more = two_product(s, begun.sum.high);  // exact, below 2^-5.5; its low part below 2^-59
    // Rounded by 2^-111.
    more.low = multiply_add(s, begun.sum.low, more.low);
    // Times 1 + the correction, and 2^low = 1 + low ln 2, which lacks (low ln 2)^2/2 < 2^-82, as |low| is below 2^-40.
    double factor = multiply_add(t.low, constants::exp2_dd_pairs[0].high, begun.correction);
    more.low = multiply_add(factor, more.high, more.low + factor);  // below 2^-40: two roundings by 2^-93
    // Below 2^(31/32). By Q and its tail 2^(15/16) 2^-71.8, by all low parts less than 2^-81.
    DoubleDouble value = multiply_add_pair(begun.power, more.high, begun.power);
    value.low = multiply_add(begun.power, more.low, value.low);
    int64_t sixteenths = static_cast<int64_t>(bits_of(shifted) - bits_of(sixteenths_magic));
    return {value, double_double_error.at(t.high), static_cast<uint64_t>(sixteenths >> 4)};
}

}  // namespace halfulp::HALFULP_ISA
