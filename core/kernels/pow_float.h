// x^y for a positive finite x, in two phases: plain functions without branches, which the compiler turns into
// vectors when pow_tile.h runs them in short loops.
//
//   formula     x = m * 2^e, m in [sqrt(1/2), sqrt 2);  s = (m - 1)/(m + 1);  t = y (e + s P(s^2));
//               x^y = 2^t = 2^k Q(t - k)
//   domain      x a positive finite float (double in the pair phase), y finite. Other lanes yield a value without
//               meaning, which pow_tile.h replaces
//   constants   tools/make_constants.py, which prints each polynomial's error
//   guarantee   fast: for types of at most 24 bits; the exact value lies in [v, v (1 + 2 fast_error)]
//               pair: for all types; the exact value lies within pair_error + |t| pair_error_of_t of the scaled value
//               A result is taken only where the whole interval rounds to one element; otherwise the next phase
//               decides: pow_triple.h for float64, at last pow_exact.h
//
// Error of the fast phase, relative to the exact value; units are 2^-53, which is what an operation rounds by (a fused one
// saves a rounding, never adds one):
//   m - 1 exact (Sterbenz), m + 1 rounds by 1, the quotient by 1: s within 2; z = s*s within 5;
//   P: its own 2^-45.1, and less than 5 units: s P within 2^-45.1 and 8 units; e + s P: |e + s P| >= |s P|, so no more:
//   log2 within 2^-45, as log2_table.h's is, which serves in its place. Times y and ln 2: |t| 2^-45.5, where
//   |t| <= 150 wherever a type of exponent range [-149, 128] is finite and not zero. Q: its own 2^-39.8, and 2^-50 of
//   rounding. Together below fast_error_of_exp2 + |t| fast_error_of_t, and below 1.2 * 2^-38 < fast_error.
// Error of the pair phase:
//   s and z carry their rounding errors in a low part, to 2^-100. P: the plain tail z^4 c4.. is 2^-23.5 of the sum,
//   with at most 6 units of 2^-53: 2^-73.9; z.low enters by a derivative good to 2^-20: 2^-53 * 2^-6.6 * 2^-20; the
//   polynomial's own 2^-75.9; the pair steps' low parts round by 2^-104: log2 within 2^-73.5, times ln 2 and a value of
//   at most sqrt 2: |t| 2^-73.5. Q: the plain tail r^6 c6.. is 2^-18.7 with at most 4 units of 2^-53: 2^-69.7; its own
//   2^-71.4: 2^-69.3.
#pragma once

#include "../codec.h"
#include "constants.h"

namespace halfulp::HALFULP_ISA {

static constexpr double fast_error = constants::fast_error, fast_error_of_exp2 = 0x1.4p-40, fast_error_of_t = 0x1.8p-46;
static constexpr double pair_error = 0x1p-69, pair_error_of_t = 0x1p-73;

// value, but at most limit in magnitude; a NaN becomes +-limit. By integers, whose order is that of the doubles of one
// sign, where vectors have a minimum of them or a comparison: compilers make four instructions of a floating minimum
// that NaN could reach. The baseline of x86-64 compares doubles only.
HALFULP_INLINE double limited(double value, double limit) {
#if defined(__SSE2__) && !defined(__SSE4_2__)
    value = value < limit ? value : limit;
    return value > -limit ? value : -limit;
#else
    int64_t from_above = static_cast<int64_t>(bits_of(value)), most = static_cast<int64_t>(bits_of(limit));
    uint64_t bits = static_cast<uint64_t>(from_above < most ? from_above : most), least = bits_of(-limit);
    return double_of(bits < least ? bits : least);
#endif
}

// By Horner's rule in x^2, whose coefficients are c[begin] + c[begin + 1] x and so on: few multiplications, and not all wait
// for each other.
template <int begin, int count>
HALFULP_INLINE double horner_of_two(const double (&c)[count], double x, double x2) {
    if constexpr (begin + 1 == count) return c[begin];
    else {
        double coefficient = multiply_add(c[begin + 1], x, c[begin]);
        if constexpr (begin + 2 == count) return coefficient;
        else return multiply_add(x2, horner_of_two<begin + 2>(c, x, x2), coefficient);
    }
}

template <int count>
HALFULP_INLINE double polynomial(const double (&c)[count], double x) {
    return horner_of_two<0>(c, x, x * x);
}

// c[from] + x (c[from + 1] + ... x (c[to - 1] + x rest)), by Horner's rule, for coefficients that are pairs. The parts
// are not normalised between steps: the chain of additions through `high` is what the loop waits for.
template <int from, int to, int pairs>
HALFULP_INLINE DoubleDouble horner(const DoubleDouble (&c)[pairs], DoubleDouble rest, double x) {
    if constexpr (from + 1 < to) rest = horner<from + 1, to>(c, rest, x);
    DoubleDouble sum = multiply_add_pair(rest.high, x, c[from].high);
    return {sum.high, sum.low + multiply_add(rest.low, x, c[from].low)};
}

// m in [sqrt(1/2), sqrt 2) and e of x = m * 2^e.
template <typename Real>
struct Split {
    Real m;
    double e;
};

// A positive normal float, in 32-bit lanes, of which a vector holds twice as many.
HALFULP_INLINE Split<float> split(float x) {
    constexpr uint32_t root_half = 0x3f3504f3;
    uint32_t bits = __builtin_bit_cast(uint32_t, x), from_root = bits - root_half;
    return {__builtin_bit_cast(float, bits - (from_root & 0xff800000)),
            static_cast<double>(static_cast<int32_t>(from_root) >> 23)};
}

// A positive normal double.
HALFULP_INLINE Split<double> split(double x) {
    constexpr uint64_t root_half = 0x3fe6a09e667f3bcd, bias = uint64_t{1024} << 52;
    uint64_t bits = bits_of(x);
    uint64_t biased = (bits - root_half + bias) >> 52;  // e + 1024
    double e = double_of(biased | bits_of(0x1p52)) - (0x1p52 + 1024);
    return {double_of(bits + bias - (biased << 52)), e};
}

// x = m * 2^e and s = (m - 1)/(m + 1), for a positive normal x.
struct Quotient {
    double s;
    float e;
};

template <typename Real>
HALFULP_INLINE Quotient quotient_fast(Real x) {
    Split<Real> parts = split(x);
    double m = parts.m;
    return {(m - 1) / (m + 1), static_cast<float>(parts.e)};
}

HALFULP_INLINE double log2_fast(const Quotient& x) {
    return multiply_add(x.s, polynomial(constants::log2_fast, x.s * x.s), static_cast<double>(x.e));
}

// Below 2^8 where 2^t is a normal float or rounds to the infinity: the integer nearest to t is -125 to 130. Else, NaN
// included, it has higher bits.
HALFULP_INLINE uint64_t beyond_normal(double t) { return bits_of(t + round_magic) - bits_of(round_magic - 125); }

// 2^t (1 - fast_error) for |t| <= 1020.
HALFULP_INLINE double exp2_fast(double t) {
    double shifted = t + round_magic;
    double sum = polynomial(constants::exp2_fast, t - (shifted - round_magic));
    return double_of(bits_of(sum) + (bits_of(shifted) << 52));
}

// An exponent that power_by_products takes: an integer from 2 to 15. 0 for any other.
HALFULP_INLINE double product_exponent(double y) { return y >= 2 && y <= 15 && (y + 0x1p52) - 0x1p52 == y ? y : 0; }

// x^y by squaring, and not zero in `lost` where a product was rounded or y is 0. One that is on the grid of 25 bits, as ties are,
// has no rounded ones: its factors have no more bits than it has.
struct ProductPower {
    double value;
    uint64_t lost;
};

// With the bits of y from the least on; the unused factors are 1.
template <int bits_left>
HALFULP_INLINE void multiply_by_powers(ProductPower& power, double square, uint64_t bits) {
    double factor = (bits & 1) != 0 ? square : 1, root = bits > 1 ? square : 1;
    DoubleDouble product = two_product(power.value, factor), next = two_product(root, root);
    power.value = product.high;
    power.lost |= bits_of(product.low) << 1 | bits_of(next.low) << 1;
    if constexpr (bits_left > 1) multiply_by_powers<bits_left - 1>(power, next.high, bits >> 1);
}

HALFULP_INLINE ProductPower power_by_products(double x, double y) {
    ProductPower power{1, y > 0 ? uint64_t{0} : 1};
    multiply_by_powers<4>(power, x, bits_of(y + 0x1p52) & 15);
    return power;
}

// The pair phase is cut where its loops are: the fewer operations a round has, and the fewer wait for each other, the
// more rounds a processor has under way.

// x = m * 2^e and s = (m - 1)/(m + 1), for a positive x, which is normal unless may_be_subnormal.
struct PairQuotient {
    DoubleDouble s;
    double e;
};

template <bool may_be_subnormal>
HALFULP_INLINE PairQuotient quotient_pair(double x) {
    bool subnormal = may_be_subnormal && x < 0x1p-1022;
    Split<double> parts = split(subnormal ? x * 0x1p54 : x);
    double numerator = parts.m - 1, denominator = 1 + parts.m;
    double denominator_low = parts.m - (denominator - 1);
    double reciprocal = 1 / denominator;
    double s = numerator * reciprocal;
    double rest = multiply_add(-s, denominator_low, remainder_of(numerator, s, denominator));
    return {{s, rest * reciprocal}, subnormal ? parts.e - 54 : parts.e};
}

// y * log2(x).
HALFULP_INLINE DoubleDouble log2_pair(const PairQuotient& x, double y_high, double y_low) {
#ifndef HALFULP_FUSED
    y_high = limited(y_high, 0x1p64);  // as good as any greater one, and two_product can split it
#endif
    const auto& c = constants::log2_pair_pairs;
    const auto& plain = constants::log2_pair;
    DoubleDouble s = x.s, z = two_product(s.high, s.high);
    z.low = multiply_add(s.high + s.high, s.low, z.low);
    DoubleDouble sum = horner<0, 4>(c, {polynomial(plain, z.high), 0}, z.high);
    double slope = multiply_add(
        z.high, multiply_add(z.high, multiply_add(z.high, 4 * plain[0], 3 * c[3].high), 2 * c[2].high), c[1].high);
    sum.low = multiply_add(z.low, slope, sum.low);

    DoubleDouble whole = multiply_add_pair(s.high, sum.high, x.e);  // e = 0 or |e| >= 2 |log2 m|
    whole.low += multiply_add(s.high, sum.low, s.low * sum.high);

    DoubleDouble t = two_product(y_high, whole.high);
    return {t.high, t.low + multiply_add(y_high, whole.low, y_low * whole.high)};
}

// The inner part of 2^(t - k).
HALFULP_INLINE DoubleDouble exp2_pair_start(double t) {
    double r = t - ((t + round_magic) - round_magic);
    return horner<4, 6>(constants::exp2_pair_pairs, {polynomial(constants::exp2_pair, r), 0}, r);
}

// 2^(t - k), k the integer nearest to t, and how far it may be from the exact value.
struct PairPower {
    DoubleDouble value;  // about [sqrt(1/2), sqrt 2]; not normalised: low is up to 2^-42
    double error;
    uint64_t k;  // modulo 2^64: unsigned arithmetic is what every instruction set has for 64-bit lanes
};

HALFULP_INLINE PairPower exp2_pair(DoubleDouble t, DoubleDouble start) {
    double shifted = t.high + round_magic, r = t.high - (shifted - round_magic);
    DoubleDouble sum = horner<0, 4>(constants::exp2_pair_pairs, start, r);
    // times 2^t.low = 1 + t.low ln 2: |t.low| is at most 2^-42.
    sum.low = multiply_add(t.low * constants::exp2_pair_pairs[1].high, sum.high, sum.low);
    return {sum, multiply_add(double_of(bits_of(t.high) & ~double_sign), pair_error_of_t, pair_error),
            bits_of(shifted) - bits_of(round_magic)};
}

// A power in a range [least, greatest] that holds the exact value, rounded both times: decided where they are equal.
struct Rounding {
    double least, greatest;
};

// To float64, for |t| <= 1020.
HALFULP_INLINE Rounding round_normal(const PairPower& power) {
    uint64_t scale = power.k << 52;
    double least = power.value.high + (power.value.low - power.error);
    double greatest = power.value.high + (power.value.low + power.error);
    return {double_of(bits_of(least) + scale), double_of(bits_of(greatest) + scale)};
}

// What a power is rounded to in the pair phase, where a result may be subnormal, overflow, or have fewer bits.
struct PairTarget {
    double most_t;  // beyond which every t gives the same element
    int64_t least_exponent, fraction_bits;

    static constexpr PairTarget of(const ElementRow& type) {
        int below = type.precision + 2 - type.least_exponent(), above = type.greatest_exponent() + 2;
        return {static_cast<double>(below > above ? below : above), type.least_exponent(), type.fraction_bits()};
    }
};

// value * 2^k, in two steps, since 2^k may be no double.
HALFULP_INLINE double scaled(double value, uint64_t k) {
    uint64_t half = (k + 2048) >> 1;
    double first = double_of((half - 1024 + 1023) << 52);
    double second = double_of((k + 2048 - half - 1024 + 1023) << 52);
    return value * first * second;
}

// To a target's grid; beyond its greatest number where the power overflows. |t| <= target.most_t. With C = 2^52 times
// the grid's spacing, adding C rounds at that place; what the addition loses is exact, so the low part joins it before
// the second, deciding addition.
HALFULP_INLINE Rounding round_to(const PairTarget& target, const PairPower& power) {
    DoubleDouble value = fast_two_sum(power.value.high, power.value.low);  // whose binade is then the value's
    uint64_t k = power.k;
    uint64_t binade = (bits_of(value.high) >> 52) - 1023 + k + 2048;
    uint64_t least = static_cast<uint64_t>(target.least_exponent + 2048);
    bool is_subnormal = static_cast<int64_t>(binade) < static_cast<int64_t>(least);
    uint64_t grid = (is_subnormal ? least : binade) - 2048 - static_cast<uint64_t>(target.fraction_bits) - k;
    double big = double_of((grid + 52 + 1023) << 52);
    if (target.fraction_bits == 52 && !is_subnormal) big = 0;

    double rounded = big + value.high;
    double lost = value.high - (rounded - big);
    double error = multiply_add(big, 0x1p-104, power.error);
    double least_value = rounded + (lost + (value.low - error));
    double greatest_value = rounded + (lost + (value.low + error));
    return {scaled(least_value - big, k), scaled(greatest_value - big, k)};
}

}  // namespace halfulp::HALFULP_ISA
