// y log2(x) and 2^t in pairs of doubles by quotients, which is the formula of pow_float.h.
//
//   domain      x a positive finite double, y finite. Other lanes yield a value without meaning
//
// Error. The bounds marked * stand in constants.h, where tools/make_constants.py has computed them. An operation that is
// not fused rounds a product besides; what that adds is counted.
//   s, z        carry their rounding errors in a low part: s.low is up to 3 * 2^-53 |s|, z.low up to 7 * 2^-53 z, and what is
//               left out 2^-101 of them
//   P           its own 2^-77.60* of log2 m. The plain tail c4 + c5 z + z^2 (..), about 0.33, ends in two operations that round
//               by 2^-55 each, and those before them 2^-6 of that: 2^-53.97 z^4 of a sum above 2.88, z <= 2^-5.08: 2^-75.8.
//               z.low enters by the derivative up to z^3, which lacks 1.4 z^4: 7 * 2^-53 z 1.4 z^4 = 2^-75.1 of that sum:
//               2^-76.6. The low parts of the pair steps round by 2^-104. Together: 2^-74.9
//   t           y times that, and as good: |e + log2 m| >= |log2 m|; its low part is below 2^-40
//   Q           its own 2^-72.05* of at most sqrt 2: 2^-71.55. The plain tail c6 + c7 r + r^2 (..), below 1.7 * 2^-13, ends in two
//               operations that round by 2^-66 each, and those before them, and products, 2^-5 of that: 2^-64.9 r^6 <= 2^-70.9.
//               Low parts: 2^-92, and 2^-82 since 2^low is taken for 1 + low ln 2. Together: 2^-70.1
//   Together with a value of at most sqrt 2, for the logarithm: 2^-70.1 + 2^-74.9 |t|, below quotient_error.
#pragma once

#ifndef __AVX512F__
#include "kernels.h"
#include "pow_pair.h"
#include "pow_signs.h"

namespace halfulp::HALFULP_ISA {

// It is cut where its loops are: the fewer operations a round has, and the fewer wait for each other, the
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
    DoubleDouble sum = horner<0, 4>(c, DoubleDouble{polynomial(plain, z.high), 0}, z.high);
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
    return horner<4, 6>(constants::exp2_pair_pairs, DoubleDouble{polynomial(constants::exp2_pair, r), 0}, r);
}

HALFULP_INLINE PairPower exp2_pair(DoubleDouble t, DoubleDouble start) {
    double shifted = t.high + round_magic, r = t.high - (shifted - round_magic);
    DoubleDouble sum = horner<0, 4>(constants::exp2_pair_pairs, start, r);
    // times 2^t.low = 1 + t.low ln 2: |t.low| is below 2^-40.
    sum.low = multiply_add(t.low * constants::exp2_pair_pairs[1].high, sum.high, sum.low);
    return {sum, quotient_error.at(t.high), bits_of(shifted) - bits_of(round_magic)};
}

static bool all_positive_normal(const double* x, int n) {
    constexpr uint64_t least_normal = uint64_t{1} << 52, infinity = uint64_t{0x7ff} << 52;
    uint64_t outside = 0;
    for (int i = 0; i < n; ++i) {  // vector loop: avx2 neon scalar
        uint64_t bits = bits_of(x[i]);
        outside |= (bits - least_normal) | (infinity - 1 - bits);
    }
    return outside >> 63 == 0;
}

// y * log2(x) of a tile, as pairs.
struct PairLogarithms {
    alignas(64) double high[tile_size];
    alignas(64) double low[tile_size];

    // Between its loops it calls `between`. Returns whether all bases are positive normal numbers.
    template <bool may_be_subnormal, typename Y, typename Between>
    bool fill(const double* x, Y y, int n, Between between) {
        alignas(64) double s[tile_size], s_low[tile_size], e[tile_size];
        for (int i = 0; i < n; ++i) {  // vector loop: avx2 neon scalar
            PairQuotient quotient = quotient_pair<may_be_subnormal>(absolute(x[i]));
            s[i] = quotient.s.high;
            s_low[i] = quotient.s.low;
            e[i] = quotient.e;
        }
        between();
        for (int i = 0; i < n; ++i) {  // vector loop: avx2 neon scalar
            DoubleDouble t = log2_pair({{s[i], s_low[i]}, e[i]}, y.high(i), y.low(i));
            high[i] = t.high;
            low[i] = t.low;
        }
        return all_positive_normal(x, n);
    }

    // finish(i, power) for each 2^t.
    template <typename F, typename Between>
    [[gnu::always_inline]] void raise(int n, F finish, Between between) const {
        alignas(64) double start_high[tile_size], start_low[tile_size];
        for (int i = 0; i < n; ++i) {  // vector loop: avx2 neon scalar
            DoubleDouble start = exp2_pair_start(high[i]);
            start_high[i] = start.high;
            start_low[i] = start.low;
        }
        between();
        // vector loop: avx2 neon
        for (int i = 0; i < n; ++i) finish(i, exp2_pair({high[i], low[i]}, {start_high[i], start_low[i]}));
    }
};

}  // namespace halfulp::HALFULP_ISA
#endif
