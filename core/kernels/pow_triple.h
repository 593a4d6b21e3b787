// x^y of float64 by triples of doubles, for the lanes that the pair phase leaves undecided: by the tables of
// pow_pair_table.h, in short loops. Look-ups are loops of their own, which no compiler need make vectors of.
//
//   formula     x = m * 2^e; r about 1/m, by m's leading bits; f = m r - 1; log2 x = e - log2 r + f P(f);
//               2^t = 2^k 2^(i/16) (1 + s Q(s)), t = k + i/16 + s, |s| <= 1/32
//   domain      x a positive finite double, y finite; lanes with |t| > 1080 stay undecided
//   guarantee   the exact value lies within triple_error of the scaled value. A result is taken only where the whole
//               interval rounds to one double; otherwise pow_exact.h decides
//
// Error, relative to the exact value:
//   f and e - log2 r are exact, but for 2^-148. P: its own 2^-111.2; the plain tail f^10 c10.., whose part of log2 x is at
//   most 2^-62, with 2 units of 2^-53: 2^-114; the pairs, each step within 2^-104.6, times f^2 c1 of at most 2^-6.9 of
//   log2 x: 2^-111.5. log2 within 2^-110.3, times ln 2: |t| 2^-110.8. Q: its own 2^-107.2 of |s Q| <= 2^-5.5; the plain
//   tail s^8 c7.. of at most 2^-59.5, with 2 units of 2^-53: 2^-111.5; the pairs' last step, 2^-104.6 of s c0: 2^-110.1;
//   s Q's low part, below 2^-57, is rounded four times, by 2^-112 to 2^-111, and its product with what the table lost,
//   2^-111, left out: 2^-109.3; the third parts, below 2^-59, by 2^-111. Together 2^-108.1. Both of a value below 2: below
//   triple_error. On the grid of subnormal results a sum more is rounded by 2^-107, where |t| makes that 2^-7 of the error.
#pragma once

#include "kernels.h"
#include "pow_pair.h"
#include "pow_signs.h"

namespace halfulp::HALFULP_ISA {

static constexpr PairError triple_error{0x1p-107, 0x1.4p-110};
static constexpr double greatest_triple_t = 1080;

// a + b + c as a triple, for |a| >= |b + c| or a = 0. What the sum of a and low.high loses is nothing, or at least the
// last place of low.high, and so more than low.low.
HALFULP_INLINE Triple normalized(double a, double b, double c) {
    DoubleDouble low = two_sum(b, c), high = fast_two_sum(a, low.high), rest = fast_two_sum(high.low, low.low);
    return {high.high, rest.high, rest.low};
}

// c + f x, for c = 0 or |c| > |f x|.
HALFULP_INLINE Triple multiply_add(double f, const Triple& x, const Triple& c) {
    DoubleDouble first = two_product(f, x.a), second = two_product(f, x.b), top = fast_two_sum(c.a, first.high);
    DoubleDouble with_c = two_sum(top.low, c.b), with_first = two_sum(with_c.high, first.low);
    DoubleDouble with_second = two_sum(with_first.high, second.high);
    double third = multiply_add(f, x.c, c.c) + (with_c.low + with_first.low) + (with_second.low + second.low);
    return normalized(top.high, with_second.high, third);
}

HALFULP_INLINE Triple product(const Triple& x, DoubleDouble y) {
    DoubleDouble first = two_product(x.a, y.high), ab = two_product(x.a, y.low), ba = two_product(x.b, y.high);
    DoubleDouble second = two_sum(ab.high, ba.high), carry = two_sum(first.low, second.high);
    double third = multiply_add(x.c, y.high, x.b * y.low);
    return normalized(first.high, carry.high, carry.low + (second.low + (ab.low + ba.low + third)));
}

HALFULP_INLINE Triple product(const Triple& x, double y) {
    DoubleDouble first = two_product(x.a, y), second = two_product(x.b, y), carry = two_sum(first.low, second.high);
    return normalized(first.high, carry.high, carry.low + multiply_add(x.c, y, second.low));
}

// Triples of a tile.
struct Triples {
    alignas(64) double a[tile_size], b[tile_size], c[tile_size];

    Triple operator[](int i) const { return {a[i], b[i], c[i]}; }
    void store(int i, const Triple& value) {
        a[i] = value.a;
        b[i] = value.b;
        c[i] = value.c;
    }
};

// What begins a logarithm: f, and e - log2 r.
struct TripleLogarithm {
    double f;
    Triple whole;
};

HALFULP_INLINE TripleLogarithm begin_logarithm(double x) {
    constexpr uint64_t half_a_part = uint64_t{1} << 46, one = uint64_t{1023} << 52, exponent = ~uint64_t{0} << 52;
    const bool subnormal = x < 0x1p-1022;
    const uint64_t bits = bits_of(subnormal ? x * 0x1p54 : x), from_one = bits + half_a_part - one;
    const uint64_t scale = from_one & exponent, index = from_one >> 47 & 31;
    const double e = static_cast<double>(static_cast<int64_t>(scale) >> 52) - (subnormal ? 54 : 0);
    return {-remainder_of(1, double_of(bits - scale), constants::pair_reciprocals[index]),
            {e + constants::pair_logarithms[index], constants::pair_logarithms_low[index],
             constants::triple_logarithms_last[index]}};
}

// What begins a power: s, what s has lost of t, and 2^(i/16) with what it has lost as a part of it.
struct TriplePower {
    double s, lost_of_s, power;
    DoubleDouble lost;
};

HALFULP_INLINE TriplePower begin_power(const Triple& t) {
    const double shifted = t.a + sixteenths_magic;
    const DoubleDouble s = fast_two_sum(t.a - (shifted - sixteenths_magic), t.b);
    const uint64_t index = bits_of(shifted) & 15;
    return {s.high,
            s.low + t.c,
            constants::pair_powers[index],
            {constants::pair_powers_lost[index], constants::triple_powers_lost_last[index]}};
}

// power (1 + lost) (1 + s q) 2^lost_of_s.
HALFULP_INLINE Triple end_power(const TriplePower& begun, DoubleDouble q) {
    DoubleDouble more = two_product(begun.s, q.high);
    const double factor = begun.lost_of_s * constants::exp2_pair_pairs[1].high;  // less 1
    more.low += multiply_add(begun.s, q.low, multiply_add(factor, more.high, factor));
    const DoubleDouble lost = two_sum(begun.lost.high, more.low);
    const double last = lost.low + multiply_add(begun.lost.high, more.high, begun.lost.low);
    return multiply_add(begun.power, {more.high, lost.high, last}, {begun.power, 0, 0});
}

// A triple plus an error, rounded to the grid that `big` sets (see round_to).
HALFULP_INLINE double round_triple(const Triple& value, double big, double error) {
    double rounded = big + value.a, lost = value.a - (rounded - big);
    DoubleDouble low = two_sum(lost, value.b);
    return rounded + sum_to_odd(low.high, low.low + (value.c + error));
}

HALFULP_INLINE Rounding round_to_double(const Triple& value, uint64_t k, double error) {
    // For a subnormal result C = 2^52 times the spacing of the subnormal numbers, which is 2^-1022 before the scaling.
    uint64_t binade = (bits_of(value.a) >> 52) - 1023 + k + 2048;
    bool is_subnormal = static_cast<int64_t>(binade) < 2048 - 1022;
    double big = is_subnormal ? double_of((1023 - 1022 - k) << 52) : 0;
    double least = round_triple(value, big, -error) - big, greatest = round_triple(value, big, error) - big;
    return {scaled(least, k), scaled(greatest, k)};
}

// The interval's ends, rounded.
template <typename Y>
static void triple_phase(const double* x, Y y, double* least, double* greatest, int n) {
    Triples whole, t, power;
    alignas(64) double f[tile_size], high[tile_size], low[tile_size];
    alignas(64) double s[tile_size], lost_of_s[tile_size], lost[tile_size], lost_last[tile_size];
    for (int i = 0; i < n; ++i) {
        const TripleLogarithm begun = begin_logarithm(absolute(x[i]));
        f[i] = begun.f;
        whole.store(i, begun.whole);
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        DoubleDouble tail = {polynomial(constants::log2_triple, f[i]), 0};
        DoubleDouble rest = horner<4, 9>(constants::log2_triple_pairs, tail, f[i]);
        high[i] = rest.high;
        low[i] = rest.low;
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        DoubleDouble rest = horner<0, 4>(constants::log2_triple_pairs, DoubleDouble{high[i], low[i]}, f[i]);
        high[i] = rest.high;
        low[i] = rest.low;
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        t.store(i, multiply_add(f[i], {high[i], low[i], 0}, constants::log2_triple_triples[0]));
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        t.store(i, multiply_add(f[i], t[i], whole[i]));
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        if constexpr (Y::has_lows) t.store(i, product(t[i], {y.high(i), y.low(i)}));
        else t.store(i, product(t[i], y.high(i)));
    }
    for (int i = 0; i < n; ++i) {
        const TriplePower begun = begin_power(t[i]);
        s[i] = begun.s;
        lost_of_s[i] = begun.lost_of_s;
        power.a[i] = begun.power;
        lost[i] = begun.lost.high;
        lost_last[i] = begun.lost.low;
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        DoubleDouble tail = {polynomial(constants::exp2_triple, s[i]), 0};
        DoubleDouble rest = horner<0, 7>(constants::exp2_triple_pairs, tail, s[i]);
        high[i] = rest.high;
        low[i] = rest.low;
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        const TriplePower begun = {s[i], lost_of_s[i], power.a[i], {lost[i], lost_last[i]}};
        power.store(i, end_power(begun, {high[i], low[i]}));
    }
    for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2 neon
        const uint64_t k = (bits_of(t.a[i] + sixteenths_magic) >> 4) - (bits_of(sixteenths_magic) >> 4);
        const Rounding rounding = round_to_double(power[i], k, triple_error.at(t.a[i]));
        least[i] = rounding.least;
        greatest[i] = absolute(t.a[i]) <= greatest_triple_t ? rounding.greatest : -1;
    }
}

}  // namespace halfulp::HALFULP_ISA
