// Powers of a tile of integers (numerics/pow_int.h).
#pragma once

#include "../../numerics/pow_int.h"
#include "../../simd/compress.h"
#include "../phases/double_double.h"
#include "../phases/exact.h"
#include "../phases/triple_double.h"

namespace halfulp::HALFULP_ISA {

// Whether small powers of 64-bit integers are computed as products of doubles. AVX2 multiplies four doubles by one
// instruction, but four 64-bit integers by about eight. (AVX-512 multiplies integers by one; with SSE2 compilers do not
// vectorise this loop.)
#if defined(__AVX2__) && !defined(__AVX512DQ__)
static constexpr bool multiplies_doubles_only = true;
#else
static constexpr bool multiplies_doubles_only = false;
#endif

// out = x^y for y < 16, by doubles. Returns whether all are right; they are if the powers are small.
template <typename Exponent>
[[gnu::noinline]] static bool fill_small_powers(const uint64_t* __restrict x, const Exponent* __restrict y,
                                                uint64_t* __restrict out, int n) {
    uint64_t excess = 0;
    // vector loop: avx2
    for (int i = 0; i < n; ++i) out[i] = power_by_doubles<4>(x[i], uint64_t{y[i]}, excess);
    return excess >> 52 == 0;
}

// The same in parts, up to the first part with a wrong power. Returns how many elements are right. A part is as long as
// all parts before it, so that a failed part costs no more time than those saved.
template <typename Exponent>
static int pow_by_doubles(const uint64_t* x, const Exponent* y, uint64_t* out, int n) {
    int done = 0;
    for (int part = 16; done < n; part = done) {
        const int count = part < n - done ? part : n - done;
        if (!fill_small_powers(x + done, y + done, out + done, count)) break;
        done += count;
    }
    return done;
}

// out = x^y modulo 2^(bits of Word) for y < 2^bits, bits = 2 or 4. (For y < 4 doubles would save 25 % of the time if
// powers are small, and cost 10 % if not.)
template <int bits, typename Word, typename Exponent>
[[gnu::noinline]] static void pow_of_few_bits(const Word* __restrict x, const Exponent* __restrict y,
                                              Word* __restrict out, int n) {
    int i = 0;
    if constexpr (multiplies_doubles_only && sizeof(Word) == 8 && bits == 4) i = pow_by_doubles(x, y, out, n);
    for (; i < n; ++i) out[i] = power<bits>(x[i], y[i]);  // vector loop: avx512 avx2
}

// out = x^y modulo 2^(bits of Word), y >= 0; x is overwritten. Unless exponents are small, the loops are short: a
// processor has more iterations of a short dependency chain in flight.
template <typename Word>
[[gnu::noinline]] static void pow_wrap(Word* __restrict x, const Word* __restrict y, Word* __restrict out, int n) {
    constexpr int bits = 8 * sizeof(Word), j = 8;
    Word all = 0;
    for (int i = 0; i < n; ++i) all |= y[i];  // vector loop
    if (all < 4) return pow_of_few_bits<2>(x, y, out, n);
    if (all < 16) return pow_of_few_bits<4>(x, y, out, n);
    for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2
        const Word square = x[i] * x[i], fourth = square * square, eighth = fourth * fourth;
        out[i] = power<4>(x[i], y[i]);
        x[i] = eighth * eighth;
    }
    for (int bit = 4; bit < j && all >> bit != 0; bit += 2) {
        for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2
            const Word square = x[i] * x[i];
            out[i] *= power<2>(x[i], y[i] >> bit);
            x[i] = square * square;
        }
    }
    if (all >> j == 0) return;
    for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2
        const Word b = y[i] >> j, u = (x[i] - 1) >> (j + 2);
        const Word series = binomial_series<1, j + 2, bits>(u, b);
        out[i] *= b == 0 || (x[i] & 1) != 0 ? series : 0;
    }
}

// The same if all exponents are below 16; returns whether they are. One pass over the operands in place: if they are
// not in the cache, it takes half the time of several passes over copies.
template <typename Word, typename Exponent>
[[gnu::noinline]] static bool pow_wrap_below_16(const Word* __restrict x, const Exponent* __restrict y,
                                                Word* __restrict out, int n) {
    Exponent all = 0;
    for (int i = 0; i < n; ++i) all |= y[i];  // vector loop
    if (all >= 16) return false;              // a negative exponent has its top bit set
    if (all < 4) pow_of_few_bits<2>(x, y, out, n);
    else pow_of_few_bits<4>(x, y, out, n);
    return true;
}

// A tile's bases or exponents: the nearest doubles, and the magnitudes if they are integers.
struct Operands {
    const double* nearest;
    const uint64_t* magnitudes;  // or null

    bool are_integers() const { return magnitudes != nullptr; }
    Operand operator[](int i) const {
        if (!are_integers()) return Operand::of(nearest[i] + 0.0);  // a scaled base of -0 counts as 0
        const bool negative = nearest[i] < 0;
        return Operand::of(Integer{negative ? -magnitudes[i] : magnitudes[i], negative});
    }
};

// The packed operands of undecided powers, and their lanes.
struct UndecidedPowers {
    alignas(64) double x[td_tile], x_residual[td_tile], y[td_tile], y_low[td_tile];
    int lane[td_tile];
    int count = 0;

    void put(const Operand& base, const Operand& exponent, int i) {
        x[count] = fabs(base.high);
        x_residual[count] = base.low / base.high;
        y[count] = exponent.high;
        y_low[count] = exponent.low;
        lane[count++] = i;
    }
    PairExponents exponents() const { return {y, y_low}; }
};

// Powers (high + low) 2^k, within error 2^k of the exact value.
struct PowersWithin {
    alignas(64) double high[td_tile], low[td_tile], error[td_tile];
    alignas(64) uint64_t k[td_tile];

    void put(int j, double power, double more, double at_most, uint64_t exponent) {
        const DoubleDouble value = fast_two_sum(power, more);
        high[j] = value.high;
        low[j] = value.low;
        error[j] = at_most;
        k[j] = exponent;
    }
    // The integer part, at most 2^64 - 1, of the power plus `times` the maximum error.
    uint64_t floor(int j, double times) const {
        return floor_of_power(high[j], low[j] + times * error[j], static_cast<int64_t>(k[j]));
    }
};

// The double-double phase; pow_trunc derives the error.
[[gnu::noinline]] static void raise_double_doubles(const UndecidedPowers& undecided, PowersWithin& powers) {
    constexpr double reciprocal_ln2 = 0x1.71547652b82fep+0;
    DoubleDoubleLogarithms t;
    t.fill<false>(undecided.x, undecided.exponents(), undecided.count);
    for (int j = 0; j < undecided.count; ++j) {  // vector loop
        t.low[j] =
            clamp(multiply_add(undecided.y[j] * reciprocal_ln2, undecided.x_residual[j], t.low[j]), greatest_t_low);
        t.high[j] = clamp(t.high[j], 1000);
    }
    const auto finish = [&](int j, const DoubleDoublePower& power) {
        powers.put(j, power.value.high, power.value.low, power.error, power.k);
    };
    t.raise(undecided.count, finish);
}

// out[i] = x[i]^y[i] for the listed i, at most td_tile: first the closed forms (pow_trunc_early), then the
// double-double phase and the triple-double phase in vectors, and pow_exact.h for the powers still undecided.
//
// A base beyond 2^53 is b (1 + r) with b the nearest double and |r| <= 2^-53: log2(b + r b) = log2 b + r/ln 2 within
// 2^-106. If the power is below 2^65, then y < 65/53, so that y r/ln 2 is below 2^-52 and right to 2^-104, and with it
// the low part of t stays below 2^-42. All of that is negligible beside the double-double phase's error. In the
// triple-double phase the power is b^y (1 + y r) within 2^-107; error_of_triple_doubles is 2^-95, more than all errors
// together. (Powers above 2^65 saturate, and so does the double-double phase's result for t = 1000.)
[[gnu::noinline]] static void pow_trunc(const IntegerRange& range, const Operands& x, const Operands& y,
                                        bool domain_error, uint64_t* out, const int* listed, int count) {
    constexpr double error_of_triple_doubles = 0x1p-95;
    static_assert(triple_double_error.fixed + 65 * triple_double_error.of_t + 0x1p-106 < error_of_triple_doubles);
    UndecidedPowers first, remaining;
    PowersWithin powers;
    for (int j = 0; j < count; ++j) {
        const int i = listed[j];
        const Operand base = x[i], exponent = y[i];
        if (!pow_trunc_early(range, base, exponent, domain_error, out[i])) first.put(base, exponent, i);
    }
    if (first.count == 0) return;
    const auto saturated = [&](int i, uint64_t magnitude) {
        return range.saturate(x.nearest[i] < 0 && y[i].parity() == odd, magnitude);
    };
    // Whether power j, which belongs to lane i, is decided. Stores it.
    const auto decides = [&](int j, int i) {
        const uint64_t least = powers.floor(j, -1), greatest = powers.floor(j, 1);
        out[i] = saturated(i, least);
        return least == greatest || out[i] == saturated(i, greatest);
    };

    raise_double_doubles(first, powers);
    for (int j = 0; j < first.count; ++j) {
        const int i = first.lane[j];
        if (!decides(j, i)) remaining.put(x[i], y[i], i);
    }
    if (remaining.count == 0) return;

    const auto from_triple = [&](int j, double, const TripleDoublePower& power) {
        const double more = multiply_add(power.value.a, remaining.y[j] * remaining.x_residual[j], power.value.b);
        powers.put(j, power.value.a, more, error_of_triple_doubles, power.k);
    };
    raise_triple_doubles(remaining.x, remaining.exponents(), remaining.count, from_triple);
    for (int j = 0; j < remaining.count; ++j) {
        const int i = remaining.lane[j];
        if (decides(j, i)) continue;
        const Operand base = x[i], exponent = y[i];
        out[i] = saturated(i, exact_floor(base.magnitude(), exponent.negative(), exponent.magnitude()));
    }
}

// The fast phase for a tile of integers, in vector lanes. Lists the lanes left undecided, and returns how many there
// are. (A base beyond 2^53 is off by 2^-53; if its power does not saturate, the exponent is below 65/53.)
[[gnu::noinline]] static int pow_trunc_fast(const IntegerRange& range, const Operands& bases, const double* y,
                                            uint64_t* out, int* listed, int n) {
    const double* x = bases.nearest;
    alignas(64) uint64_t flags[tile_size];
    alignas(64) double power[tile_size];
    alignas(64) uint64_t magnitude[tile_size], parity[tile_size];
    for (int i = 0; i < n; ++i) {  // vector loop
        double base = fabs(x[i]);
        power[i] = clamp(y[i] * log2_fast(quotient_fast(base > 1 ? base : 1)), 1000);
    }
    for (int i = 0; i < n; ++i) power[i] = exp2_fast(power[i]);  // vector loop
    // Set if some exponent is not an integer from 0 to 2^20.
    uint64_t not_small = 0;
    for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2 neon
        parity[i] = parity_of(y[i]);
        not_small |= (parity[i] >> 1) | (y[i] >= 0 && y[i] <= 0x1p20 ? 0 : 1);
    }
    constexpr double most = 0x1p40;  // greater integers need more bits than the fast phase computes
    const bool saturates = range.bits <= 32;
    if (!not_small) {
        alignas(64) uint64_t squares[tile_size], exponents[tile_size];
        for (int i = 0; i < n; ++i) {  // vector loop
            squares[i] = bases.magnitudes[i];
            exponents[i] = bits_of(y[i] + 0x1p52) & 0x1fffff;
        }
        pow_wrap(squares, exponents, magnitude, n);
        for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2 neon
            const bool fits = power[i] < 0x1p64 * (1 - 4 * fast_error), overflows = power[i] >= 0x1p64;
            flags[i] = !fits && !overflows && !saturates;
            magnitude[i] = fits ? magnitude[i] : ~uint64_t{0};
        }
    } else {
        for (int i = 0; i < n; ++i) {  // vector loop: avx512 neon
            double least = power[i] < most ? power[i] : most, greatest = power[i] * (1 + 2 * fast_error);
            greatest = greatest < most ? greatest : most;
            int64_t from = static_cast<int64_t>(least), to = static_cast<int64_t>(greatest);
            uint64_t undecided = static_cast<uint64_t>(from ^ to);
            undecided |= x[i] == 0 ? 1 : 0;
            undecided |= fabs(y[i]) < __builtin_inf() ? 0 : 1;
            undecided |= x[i] < 0 ? parity[i] >> 1 : 0;
            flags[i] = undecided | (saturates ? 0 : static_cast<uint64_t>(from) >> 40);
            magnitude[i] = static_cast<uint64_t>(from);
        }
    }
    uint64_t any_flag = 0;
    for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2 neon
        out[i] = range.saturate(x[i] < 0 && parity[i] == odd, magnitude[i]);
        any_flag |= flags[i];
    }
    return any_flag != 0 ? compress_indices(flags, n, listed) : 0;
}

// x^y for a tile of integers with exponents of a floating type, or of scaled integers with exponents of any type.
[[gnu::noinline]] static void pow_trunc_tile(const IntegerRange& range, const Operands& x, const Operands& y,
                                             bool domain_error, uint64_t* out, int n) {
    int listed[listed_size], count = n;
    if (x.are_integers()) count = pow_trunc_fast(range, x, y.nearest, out, listed, n);
    else
        for (int i = 0; i < n; ++i) listed[i] = i;
    for (int from = 0; from < count; from += td_tile)
        pow_trunc(range, x, y, domain_error, out, listed + from, count - from < td_tile ? count - from : td_tile);
}

}  // namespace halfulp::HALFULP_ISA
