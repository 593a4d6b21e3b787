// x^y in triples of doubles (triple-double), for the powers that the double-double phase leaves undecided, by the
// tables of pow_dd.h.
//
//   formula     x = m * 2^e; r about 1/m, by m's leading bits; f = m r - 1; log2 x = e - log2 r + f P(f);
//               2^t = 2^k 2^(i/16) (1 + s Q(s)), t = k + i/16 + s, |s| <= 1/32
//   domain      x a positive finite double, y finite, |t| <= greatest_td_t. Other lanes yield a value without meaning
//   guarantee   the exact value is within triple_double_error of the scaled value. The result is used only if the whole
//               interval rounds to one element; otherwise pow_exact.h decides
//   error       log2 x: 2^-110.4, relative. 2^(t - k): 30 * 2^-112, absolute. Together 2^-107.1 + 2^-109.9 |t|, below
//               triple_double_error. If i = 0, then 2^(i/16) is exactly 1, and each error of 2^(t - k) has s as a
//               factor. Each operation's bound is beside it; proofs/triple_double.py proves the sum
#pragma once

#include "pow_dd.h"
#include "pow_special.h"

namespace halfulp::HALFULP_ISA {

static constexpr PhaseError triple_double_error{0x1.4p-107, 0x1.4p-110};
static constexpr double greatest_td_t = 1080;

// a + b + c as a triple, for |a| >= |b + c| or a = 0. The rounding error of a + low.high is zero or at least the last
// place of low.high, and so more than low.low.
HALFULP_INLINE TripleDouble normalized(double a, double b, double c) {
    DoubleDouble low = two_sum(b, c), high = fast_two_sum(a, low.high), last = fast_two_sum(high.low, low.low);
    return {high.high, last.high, last.low};
}

// c + f x, for c = 0 or |c| > |f x|.
HALFULP_INLINE TripleDouble multiply_add(double f, const TripleDouble& x, const TripleDouble& c) {
    DoubleDouble first = two_product(f, x.a), second = two_product(f, x.b), top = fast_two_sum(c.a, first.high);
    DoubleDouble with_c = two_sum(top.low, c.b), with_first = two_sum(with_c.high, first.low);
    DoubleDouble with_second = two_sum(with_first.high, second.high);
    double third = multiply_add(f, x.c, c.c) + (with_c.low + with_first.low) + (with_second.low + second.low);
    return normalized(top.high, with_second.high, third);
}

HALFULP_INLINE TripleDouble product(const TripleDouble& x, DoubleDouble y) {
    DoubleDouble first = two_product(x.a, y.high), ab = two_product(x.a, y.low), ba = two_product(x.b, y.high);
    DoubleDouble second = two_sum(ab.high, ba.high), carry = two_sum(first.low, second.high);
    double third = multiply_add(x.c, y.high, x.b * y.low);
    return normalized(first.high, carry.high, carry.low + (second.low + (ab.low + ba.low + third)));
}

HALFULP_INLINE TripleDouble product(const TripleDouble& x, double y) {
    DoubleDouble first = two_product(x.a, y), second = two_product(x.b, y), carry = two_sum(first.low, second.high);
    return normalized(first.high, carry.high, carry.low + multiply_add(x.c, y, second.low));
}

// The start of a logarithm: f, and e - log2 r.
struct TripleDoubleLogarithm {
    double f;
    TripleDouble whole;
};

HALFULP_INLINE TripleDoubleLogarithm begin_logarithm(double x) {
    const TablePoint point = table_point<true>(x);  // f is exact; e - log2 r is within 2^-148
    return {point.f, {point.e + point.entry.high, point.entry.low, point.entry.last}};
}

// The start of a power: s, s_low = t - s (without k and i), and 2^(i/16) with its correction.
struct TripleDoubleStart {
    double s, s_low, power;
    DoubleDouble correction;
};

// 2^(t - k), and its maximum error.
struct TripleDoublePower {
    TripleDouble value;
    double error;
    uint64_t k;  // modulo 2^64
};

HALFULP_INLINE TripleDoubleStart begin_power(const TripleDouble& t) {
    const double shifted = t.a + sixteenths_magic;
    const DoubleDouble s = fast_two_sum(t.a - (shifted - sixteenths_magic), t.b);
    const constants::PairExpEntry& entry = constants::dd_exp_entries[bits_of(shifted) & 15];
    return {s.high, s.low + t.c, entry.power, {entry.correction, entry.correction_low}};
}

// power (1 + correction) (1 + s q) 2^s_low.
HALFULP_INLINE TripleDouble end_power(const TripleDoubleStart& begun, DoubleDouble q) {
    // s Q + 2^s_low - 1. The low part, below 2^-57, is from a product and a sum that round by 2^-111 each, and a factor
    // that is rounded by 2^-112 in all.
    DoubleDouble more = two_product(begun.s, q.high);
    const double factor = begun.s_low * constants::exp2_dd_pairs[0].high;  // 2^s_low - 1
    more.low += multiply_add(begun.s, q.low, multiply_add(factor, more.high, factor));
    // Rounds by 2^-112 twice. It leaves out the correction times the low part, 2^-110.1 of the value, and the
    // correction's low part times s Q, 2^-112.5.
    const DoubleDouble corrected = two_sum(begun.correction.high, more.low);
    const double last = corrected.low + multiply_add(begun.correction.high, more.high, begun.correction.low);
    // The third part, below 2^-56, rounds by 2^-111 twice. With 2^(15/16) times the bounds above: 30 * 2^-112.
    return multiply_add(begun.power, {more.high, corrected.high, last}, {begun.power, 0, 0});
}

// k of 2^t = 2^k 2^(i/16) 2^s.
HALFULP_INLINE uint64_t whole_exponent(double t) {
    return (bits_of(t + sixteenths_magic) >> 4) - (bits_of(sixteenths_magic) >> 4);
}

// The maximum error of a power. (For small s it is doubled, to allow for the error's own roundings.)
HALFULP_INLINE double error_of(const TripleDoubleStart& begun, double t) {
    const double of_s = begun.power == 1 ? 64 * fabs(begun.s) : 1, fixed = of_s < 1 ? of_s : 1;
    return multiply_add(fabs(t), triple_double_error.of_t, fixed * triple_double_error.fixed);
}

// A triple plus an error, rounded to the grid that `big` sets (see round_to).
HALFULP_INLINE double round_triple_double(const TripleDouble& value, double big, double error) {
    double rounded = big + value.a, residual = value.a - (rounded - big);
    DoubleDouble low = two_sum(residual, value.b);
    return rounded + sum_to_odd(low.high, low.low + (value.c + error));
}

HALFULP_INLINE Rounding round_to_double(const TripleDoublePower& power) {
    // For a subnormal result, C (see round_to) is 2^52 times the spacing of the subnormal numbers: 2^-1022 before
    // scaling. One more sum is then rounded by 2^-107, which is 2^-7 of the error, since |t| is large.
    uint64_t binade = (bits_of(power.value.a) >> 52) - 1023 + power.k + 2048;
    bool is_subnormal = static_cast<int64_t>(binade) < 2048 - 1022;
    double big = is_subnormal ? double_of((1023 - 1022 - power.k) << 52) : 0;
    double least = round_triple_double(power.value, big, -power.error) - big;
    double greatest = round_triple_double(power.value, big, power.error) - big;
    return {scaled(least, power.k), scaled(greatest, power.k)};
}

// Rounds both ends to odd, for powers that are normal numbers. Rounding those to at most 51 bits gives the same result
// as rounding once.
HALFULP_INLINE Rounding round_to_odd(const TripleDoublePower& power) {
    const auto end = [&](double error) {
        const double low = sum_to_odd(power.value.b, power.value.c + error);
        return double_of(bits_of(sum_to_odd(power.value.a, low)) + (power.k << 52));
    };
    return {end(-power.error), end(power.error)};
}

// x^y = 2^t for a positive finite x and a finite y + y_low.
struct PowerAndExponent {
    double t;
    TripleDoublePower power;
};

static inline PowerAndExponent triple_double_power(double x, double y, double y_low) {
    const TripleDoubleLogarithm log2 = begin_logarithm(x);
    // P has degree 15 on [-0.0198, 0.0169] and an error of 2^-111.19 (constants.h); |f P| <= 2^0.07 |log2 x|. The tail,
    // its terms from f^10 on, is about 0.13 and ends in two operations that round by 2^-56 each: 2^-54.9 |f|^11, where
    // |f|^11 <= 2^-59.35 |log2 x|. The last pair step, c1 + f (..), rounds low parts by 2^-108 twice and by 2^-107,
    // those before it by 2^-5 of that: 2^-105.9 f^2, where f^2 <= 2^-6.42 |log2 x|. Triples lose 2^-150. log2 x in all:
    // 2^-110.4.
    const DoubleDouble inner =
        horner<0, 9>(constants::log2_td_pairs, DoubleDouble{polynomial(constants::log2_td, log2.f), 0}, log2.f);
    TripleDouble t = multiply_add(log2.f, {inner.high, inner.low, 0}, constants::log2_td_triples[0]);
    t = product(multiply_add(log2.f, t, log2.whole), {y, y_low});
    const TripleDoubleStart begun = begin_power(t);
    // Q has degree 11 on [-1/32, 1/32] and an error of 2^-107.23 (constants.h) of |s Q| <= 2^-5.5: 2^-112.73. The tail,
    // its terms from s^7 on, is below 2^-19 and ends in two operations that round by 2^-73 each: 2^-71.9 s^8 <=
    // 2^-111.9. The last pair step rounds as P's does: 2^-105.9 |s| <= 2^-110.9.
    const DoubleDouble q =
        horner<0, 7>(constants::exp2_td_pairs, DoubleDouble{polynomial(constants::exp2_td, begun.s), 0}, begun.s);
    return {t.a, {end_power(begun, q), error_of(begun, t.a), whole_exponent(t.a)}};
}

}  // namespace halfulp::HALFULP_ISA
