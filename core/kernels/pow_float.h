// x^y for a positive finite x, in two fast phases: plain functions without branches, which the compiler
// turns into vectors when tile.h runs them in short loops.
//
//   formula     x = m * 2^e, m in [sqrt(1/2), sqrt 2);  s = (m - 1)/(m + 1);  t = y (e + s P(s^2));  x^y = 2^t = 2^k Q(t - k)
//   domain      x a positive normal double (log2_fast), any positive finite double (log2_pair); |y| finite.
//               Other lanes yield a value without meaning, and tile.h replaces it
//   constants   tools/make_constants.py, which prints each polynomial's error
//   guarantee   fast: for types of at most 24 bits; relative error of exp2_fast(y * log2_fast(x)) below fast_error = 2^-42
//               pair: for all; relative error below pair_error = 2^-67
//               A result is taken only where the whole interval value * (1 -+ error) rounds to one element
//               (rounding tests in tile.h and round_pair); otherwise the next phase decides, at last pow_exact.h
//
// Error of the fast phase, in units of 2^-53 relative to the exact value, each operation rounded (a fused one
// saves a rounding, never adds one):
//   m - 1 exact (Sterbenz), m + 1 rounds by 1, the quotient by 1: s within 2; z = s*s within 5;
//   P = c0 + z R: c0 itself 1/2, z R <= 0.011 c0 with at most 16 units: 0.2, the last addition 1, the polynomial's own
//   2^-56: P within 2; s P within 5; e + s P: |e + s P| >= |s P|, so within 6; times y: within 7.
//   |t| <= 160 wherever a type of exponent range [-149, 128] is finite and not zero: t within 160 * 7 * 2^-53 < 2^-42.8,
//   times ln 2: 2^-43.3 of the result. Q: 2^-51.5 and at most 4 units. Together below 2^-43.2; a factor of two stays.
// Error of the pair phase: s, z to 2^-100. P: five pair steps to 2^-98 each; the plain tail z^5 c5.. (2^-25.4 of the sum, c5/c0
//   = 1/11) with at most 8 units of 2^-53: 2^-78.8; the polynomial's own 2^-82.7: log2 within 2^-78.6. |t| <= 1100: t within 2^-68.5,
//   times ln 2: 2^-69.0 of the result. Q: 2^-76.9, its plain tail r^7 c7.. (2^-23) 2^-73. Together below 2^-68.9.
#pragma once

#include "../codec.h"
#include "constants.h"

namespace halfulp::HALFULP_ISA {

static constexpr double fast_error = 0x1p-42;
static constexpr double pair_error = 0x1p-67;

// m in [sqrt(1/2), sqrt 2) and e of a positive normal double x = m * 2^e.
struct Split {
    double m, e;
};

HALFULP_INLINE Split split(double x) {
    constexpr uint64_t root_half = 0x3fe6a09e667f3bcd, bias = uint64_t{1024} << 52;
    uint64_t bits = bits_of(x);
    uint64_t biased = (bits - root_half + bias) >> 52;  // e + 1024
    double e = double_of(biased | bits_of(0x1p52)) - (0x1p52 + 1024);
    return {double_of(bits + bias - (biased << 52)), e};
}

// Horner's rule, by recursion rather than by a loop: what is inside a vector loop must not be one.
template <int i, int count>
HALFULP_INLINE double polynomial(const double (&c)[count], double x) {
    if constexpr (i + 1 == count) return c[i];
    else return multiply_add(polynomial<i + 1>(c, x), x, c[i]);
}

// The same for coefficients that are pairs, after which a sum of plain doubles goes on.
template <int i, int pairs, int count>
HALFULP_INLINE DoubleDouble polynomial(const DoubleDouble (&c)[pairs], const double (&plain)[count], DoubleDouble x) {
    DoubleDouble rest;
    if constexpr (i + 1 == pairs) rest = {x.high * polynomial<0>(plain, x.high), 0};
    else rest = multiply(x, polynomial<i + 1>(c, plain, x));
    return add_smaller(c[i], rest);
}

HALFULP_INLINE double log2_fast(double x) {
    Split parts = split(x);
    double s = (parts.m - 1) / (parts.m + 1);
    double z = s * s, z2 = z * z, z4 = z2 * z2;
    const auto& c = constants::log2_fast;
    double low = multiply_add(z2, multiply_add(z, c[3], c[2]), multiply_add(z, c[1], c[0]));
    double high = multiply_add(z2, multiply_add(z, c[7], c[6]), multiply_add(z, c[5], c[4]));
    return multiply_add(s, multiply_add(z4, high, low), parts.e);
}

// 2^t for |t| <= 1020.
HALFULP_INLINE double exp2_fast(double t) {
    double shifted = t + round_magic;
    double r = t - (shifted - round_magic);
    const auto& c = constants::exp2_fast;
    double r2 = r * r, r4 = r2 * r2, r8 = r4 * r4;
    double low = multiply_add(r2, multiply_add(r, c[3], c[2]), multiply_add(r, c[1], c[0]));
    double middle = multiply_add(r2, multiply_add(r, c[7], c[6]), multiply_add(r, c[5], c[4]));
    double high = multiply_add(r2, c[10], multiply_add(r, c[9], c[8]));
    double sum = multiply_add(r8, high, multiply_add(r4, middle, low));
    return double_of(bits_of(sum) + (bits_of(shifted) << 52));
}

// y * log2(x). Beyond 2^64 every y sends every x but one out of range, and two_product cannot split it.
HALFULP_INLINE DoubleDouble log2_pair(double x, double y_high, double y_low) {
    y_high = y_high < 0x1p64 ? y_high : 0x1p64;
    y_high = y_high > -0x1p64 ? y_high : -0x1p64;
    bool subnormal = x < 0x1p-1022;
    Split parts = split(subnormal ? x * 0x1p54 : x);
    double e = subnormal ? parts.e - 54 : parts.e;

    double numerator = parts.m - 1;  // exact
    DoubleDouble denominator = fast_two_sum(parts.m > 1 ? parts.m : 1, parts.m > 1 ? 1 : parts.m);
    double reciprocal = 1 / denominator.high;
    double s_high = numerator * reciprocal;
    DoubleDouble back = two_product(s_high, denominator.high);
    double s_rest = (numerator - back.high) - multiply_add(s_high, denominator.low, back.low);
    DoubleDouble s = fast_two_sum(s_high, s_rest * reciprocal);

    DoubleDouble z = multiply(s, s);
    DoubleDouble sum = polynomial<0>(constants::log2_pair_pairs, constants::log2_pair, z);
    DoubleDouble logarithm = multiply(s, sum);
    DoubleDouble whole = fast_two_sum(e, logarithm.high);  // e = 0 or |e| > |log2 m|
    logarithm = fast_two_sum(whole.high, whole.low + logarithm.low);

    DoubleDouble t = two_product(y_high, logarithm.high);
    return {t.high, t.low + multiply_add(y_high, logarithm.low, y_low * logarithm.high)};
}

// What a power is rounded to in the pair phase.
struct PairTarget {
    double t_low, t_high;  // beyond these every t gives the same element
    int64_t least_exponent, fraction_bits;

    static constexpr PairTarget of(const ElementRow& type) {
        return {static_cast<double>(type.least_exponent() - type.precision - 2),
                static_cast<double>(type.greatest_exponent() + 2), type.least_exponent(), type.fraction_bits()};
    }
};

struct PairRounded {
    double value;  // on the target's grid; beyond its greatest number where the power overflows
    bool undecided;
};

// 2^t rounded to the target's grid. With C = 2^52 times the grid's spacing, adding C rounds at that place;
// what the addition loses is exact, so the sum's low part joins before the second, deciding addition.
HALFULP_INLINE PairRounded exp2_pair(DoubleDouble t, const PairTarget& target) {
    bool low = t.high < target.t_low, high = t.high > target.t_high;
    double t_high = low ? target.t_low : high ? target.t_high : t.high;
    double t_low = low || high ? 0 : t.low;

    double shifted = t_high + round_magic;
    double k = shifted - round_magic;
    DoubleDouble r = fast_two_sum(t_high - k, t_low);
    DoubleDouble sum = polynomial<0>(constants::exp2_pair_pairs, constants::exp2_pair, r);

    // Integers modulo 2^64 from here: unsigned shifts are what every instruction set has for 64-bit lanes.
    uint64_t k_integer = bits_of(shifted) - bits_of(round_magic);
    uint64_t binade = (bits_of(sum.high) >> 52) - 1023 + k_integer + 2048;
    uint64_t least = static_cast<uint64_t>(target.least_exponent + 2048);
    bool is_subnormal = static_cast<int64_t>(binade) < static_cast<int64_t>(least);
    uint64_t grid = (is_subnormal ? least : binade) - 2048 - static_cast<uint64_t>(target.fraction_bits) - k_integer;
    double big = double_of((grid + 52 + 1023) << 52);
    if (target.fraction_bits == 52 && !is_subnormal) big = 0;

    double rounded = big + sum.high;
    double lost = sum.high - (rounded - big);
    double error = multiply_add(big, 0x1p-104, pair_error);
    double least_value = rounded + (lost + (sum.low - error));
    double greatest_value = rounded + (lost + (sum.low + error));
    uint64_t half = (k_integer + 2048) >> 1;
    double scale1 = double_of((half - 1024 + 1023) << 52);
    double scale2 = double_of((k_integer + 2048 - half - 1024 + 1023) << 52);
    return {(least_value - big) * scale1 * scale2, least_value != greatest_value};
}

// What pow returns where x is zero, infinite or NaN, or y is infinite or NaN (C23 F.10.4.4). `domain_error` is
// the rule N9 of DirectML: a base below zero takes only finite integral exponents.
HALFULP_INLINE double pow_special(double x, double y, bool y_integral, bool y_odd, bool domain_error) {
    constexpr double infinity = __builtin_inf();
    double magnitude = x < 0 ? -x : x;
    bool x_negative = bits_of(x) >> 63;
    if (y == 0) return 1;
    if (domain_error && x < 0 && !(y_integral && y - y == 0)) return __builtin_nan("");
    if (x == 1) return 1;
    if (x != x || y != y) return __builtin_nan("");
    if (y == infinity || y == -infinity) {
        if (magnitude == 1) return 1;
        return (magnitude > 1) == (y > 0) ? infinity : 0;
    }
    double result = (magnitude == 0) == (y < 0) ? infinity : 0;
    return x_negative && y_odd ? -result : result;
}

}  // namespace halfulp::HALFULP_ISA
