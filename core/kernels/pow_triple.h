// x^y of float64 by triples of doubles, for the lanes that the pair phase leaves undecided: the same formula as
// pow_pair_quotient.h's, in short loops.
//
//   domain      x a positive finite double, y finite; lanes with |t| > 1080 stay undecided
//   guarantee   the exact value lies within triple_error (1 + |t|) of the scaled value. A result is taken only where the
//               whole interval rounds to one double; otherwise pow_exact.h decides
//
// Error, relative to the exact value:
//   s, z: 2^-150. P: the polynomial's own 2^-114; its plain tail, z^11 c11.., is 2^-60 of the sum with at most 4 units of
//   2^-53: 2^-111; its pairs, z^2 c2.., are 2^-12.5 of it with steps of 2^-102: 2^-114. log2 within 2^-110.7, times
//   ln 2 and a value of at most sqrt 2: |t| 2^-110.7. Q: the plain tail, r^15 c15.., is 2^-63 with at most 4 units of
//   2^-53: 2^-114; its pairs, r^4 c4.., are 2^-10.7 with steps of 2^-102: 2^-112.5; its own 2^-118.3: 2^-112.
#pragma once

#include "kernels.h"
#include "pow_pair.h"
#include "pow_signs.h"

namespace halfulp::HALFULP_ISA {

static constexpr double triple_error = 0x1p-110, greatest_triple_t = 1080;

// a + b + c as a triple, for |a| >= |b + c| or a = 0. What the sum of a and low.high loses is nothing, or at least the
// last place of low.high, and so more than low.low.
HALFULP_INLINE Triple normalized(double a, double b, double c) {
    DoubleDouble low = two_sum(b, c), high = fast_two_sum(a, low.high), rest = fast_two_sum(high.low, low.low);
    return {high.high, rest.high, rest.low};
}

// For x = 0 or |x| > |y|.
HALFULP_INLINE Triple sum(double x, const Triple& y) {
    DoubleDouble first = fast_two_sum(x, y.a), carry = two_sum(first.low, y.b);
    return normalized(first.high, carry.high, carry.low + y.c);
}

HALFULP_INLINE Triple product(const Triple& x, const Triple& y) {
    DoubleDouble first = two_product(x.a, y.a), ab = two_product(x.a, y.b), ba = two_product(x.b, y.a);
    DoubleDouble second = two_sum(ab.high, ba.high), carry = two_sum(first.low, second.high);
    double third = multiply_add(x.a, y.c, multiply_add(x.c, y.a, x.b * y.b));
    return normalized(first.high, carry.high, carry.low + (second.low + (ab.low + ba.low + third)));
}

// c + x y, for |c| > |x y|.
HALFULP_INLINE Triple multiply_add(const Triple& x, const Triple& y, const Triple& c) {
    DoubleDouble first = two_product(x.a, y.a), ab = two_product(x.a, y.b), ba = two_product(x.b, y.a);
    DoubleDouble top = fast_two_sum(c.a, first.high), second = two_sum(ab.high, ba.high);
    DoubleDouble with_first = two_sum(first.low, second.high), with_c = two_sum(c.b, with_first.high);
    DoubleDouble with_top = two_sum(top.low, with_c.high);
    double third = multiply_add(x.a, y.c, multiply_add(x.c, y.a, multiply_add(x.b, y.b, c.c)));
    third += (ab.low + ba.low) + (second.low + with_first.low) + (with_c.low + with_top.low);
    return normalized(top.high, with_top.high, third);
}

// By Horner's rule, for a pair x.
template <int from, int to, int pairs>
HALFULP_INLINE DoubleDouble horner(const DoubleDouble (&c)[pairs], DoubleDouble rest, DoubleDouble x) {
    if constexpr (from + 1 < to) rest = horner<from + 1, to>(c, rest, x);
    DoubleDouble sum = multiply_add_pair(rest.high, x.high, c[from].high);
    return {sum.high, sum.low + multiply_add(rest.high, x.low, multiply_add(rest.low, x.high, c[from].low))};
}

template <int from, int to, int triples>
HALFULP_INLINE Triple horner(const Triple (&c)[triples], Triple rest, const Triple& x) {
    if constexpr (from + 1 < to) rest = horner<from + 1, to>(c, rest, x);
    return multiply_add(rest, x, c[from]);
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

// x = m * 2^e and s = (m - 1)/(m + 1), one digit of 53 bits after the other.
struct TripleQuotient {
    Triple s;
    double e;
};

HALFULP_INLINE TripleQuotient quotient_triple(double x) {
    bool subnormal = x < 0x1p-1022;
    Split<double> parts = split(subnormal ? x * 0x1p54 : x);
    double numerator = parts.m - 1, denominator = 1 + parts.m, denominator_low = parts.m - (denominator - 1);
    double reciprocal = 1 / denominator;
    double s0 = numerator / denominator;  // not by the reciprocal: the remainder is exact of a rounded quotient only
    DoubleDouble low = two_product(s0, denominator_low);
    DoubleDouble rest = two_sum(remainder_of(numerator, s0, denominator), -low.high);
    double s1 = rest.high * reciprocal;
    double last = remainder_of(rest.high, s1, denominator) + (rest.low - low.low - s1 * denominator_low);
    return {normalized(s0, s1, last * reciprocal), subnormal ? parts.e - 54 : parts.e};
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
    Triples s, z, t, r;
    alignas(64) double e[tile_size], high[tile_size], low[tile_size];
    for (int i = 0; i < n; ++i) {  // vector loop
        TripleQuotient quotient = quotient_triple(absolute(x[i]));
        s.store(i, quotient.s);
        e[i] = quotient.e;
    }
    for (int i = 0; i < n; ++i) z.store(i, product(s[i], s[i]));  // vector loop
    for (int i = 0; i < n; ++i) {                                 // vector loop
        DoubleDouble tail = {polynomial(constants::log2_triple, z.a[i]), 0};
        DoubleDouble rest = horner<4, 9>(constants::log2_triple_pairs, tail, {z.a[i], z.b[i]});
        high[i] = rest.high;
        low[i] = rest.low;
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        DoubleDouble rest = horner<0, 4>(constants::log2_triple_pairs, {high[i], low[i]}, {z.a[i], z.b[i]});
        high[i] = rest.high;
        low[i] = rest.low;
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        t.store(i, horner<1, 2>(constants::log2_triple_triples, normalized(high[i], low[i], 0), z[i]));
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        z.store(i, horner<0, 1>(constants::log2_triple_triples, t[i], z[i]));
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        t.store(i, sum(e[i], product(s[i], z[i])));
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        t.store(i, product(t[i], {y.high(i), y.low(i), 0}));
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        double k = (t.a[i] + round_magic) - round_magic;
        Triple fraction = normalized(t.a[i] - k, t.b[i], t.c[i]);
        DoubleDouble tail = {polynomial(constants::exp2_triple, fraction.a), 0};
        DoubleDouble rest = horner<6, 11>(constants::exp2_triple_pairs, tail, {fraction.a, fraction.b});
        r.store(i, fraction);
        high[i] = rest.high;
        low[i] = rest.low;
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        DoubleDouble rest = horner<0, 6>(constants::exp2_triple_pairs, {high[i], low[i]}, {r.a[i], r.b[i]});
        high[i] = rest.high;
        low[i] = rest.low;
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        z.store(i, horner<3, 4>(constants::exp2_triple_triples, normalized(high[i], low[i], 0), r[i]));
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        z.store(i, horner<2, 3>(constants::exp2_triple_triples, z[i], r[i]));
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        z.store(i, horner<1, 2>(constants::exp2_triple_triples, z[i], r[i]));
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        z.store(i, horner<0, 1>(constants::exp2_triple_triples, z[i], r[i]));
    }
    for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2 neon
        double size = absolute(t.a[i]);
        uint64_t k = bits_of(t.a[i] + round_magic) - bits_of(round_magic);
        Rounding rounding = round_to_double(z[i], k, multiply_add(size, triple_error, triple_error));
        least[i] = rounding.least;
        greatest[i] = size <= greatest_triple_t ? rounding.greatest : -1;
    }
}

}  // namespace halfulp::HALFULP_ISA
