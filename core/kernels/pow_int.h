// Powers of an integer type.
//
//   pow_wrap    y an integer >= 0: the exact integer modulo 2^bits, by squaring; 0^0 = 1
//   pow_trunc   y a float or a negative integer, or a base that is not an integer (a scaled one): the exact real
//               value truncated toward zero and saturated; NaN gives 0, and so 0 to a negative power the maximum
//   guarantee   exact; where x^y is no power with an integral exponent, a first value with relative error below
//               fast_error (pow_float.h) decides unless an integer lies within that error, else pow_exact.h
#pragma once

#include <bit>

#include "kernels.h"
#include "pow_tile.h"

namespace halfulp::HALFULP_ISA {

// x^y modulo 2^(bits of Word) for y below 2^bits.
template <int bits, typename Word, typename Exponent>
HALFULP_INLINE Word power(Word x, Exponent y) {
    const Word mask = -static_cast<Word>(y & 1);  // a selection, in what every vector has
    const Word odd = (x & mask) | (~mask & 1);
    if constexpr (bits == 1) return odd;
    else return odd * power<bits - 1>(x * x, y >> 1);
}

// out = x^y modulo 2^(bits of Word), y >= 0. As many squarings as the greatest exponent of the tile has bits.
template <typename Word, typename Exponent>
static void pow_wrap(Word* x, const Exponent* y, Word* out, int n) {
    Exponent all = 0;
    for (int i = 0; i < n; ++i) all |= y[i];  // vector loop
    const int bits = static_cast<int>(std::bit_width(all));
    if (bits <= 2) {
        for (int i = 0; i < n; ++i) out[i] = power<2>(x[i], y[i]);  // vector loop: avx512 avx2
    } else if (bits <= 4) {
        for (int i = 0; i < n; ++i) out[i] = power<4>(x[i], y[i]);  // vector loop: avx512 avx2
    } else {
        for (int i = 0; i < n; ++i) out[i] = 1;
        for (int bit = 0; bit < bits; ++bit) {
            for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2
                out[i] *= (y[i] >> bit & 1) != 0 ? x[i] : Word{1};
                x[i] *= x[i];
            }
        }
    }
}

// The same if all exponents are below 16, and returns whether they are: in one pass, which memory keeps up with (from beyond
// the caches it takes half the time that passes over copies do).
template <typename Word, typename Exponent>
static bool pow_wrap_below_16(const Word* __restrict x, const Exponent* __restrict y, Word* __restrict out, int n) {
    Exponent all = 0;
    for (int i = 0; i < n; ++i) all |= y[i];  // vector loop
    if (all >= 16) return false;              // as one below zero is, which has its top bit set
    if (all < 4) {
        for (int i = 0; i < n; ++i) out[i] = power<2>(x[i], y[i]);  // vector loop: avx512 avx2
    } else {
        for (int i = 0; i < n; ++i) out[i] = power<4>(x[i], y[i]);  // vector loop: avx512 avx2
    }
    return true;
}

// An integer type's bounds, as 64-bit patterns and magnitudes.
struct IntegerRange {
    bool is_signed;
    int bits;
    static constexpr IntegerRange of(const ElementRow& type) { return {type.is_signed, type.bits}; }
    uint64_t greatest() const { return ~uint64_t{0} >> (64 - bits + is_signed); }
    // -magnitude or magnitude, saturated.
    uint64_t saturate(bool negative, uint64_t magnitude) const {
        uint64_t least = is_signed ? greatest() + 1 : 0, most = negative ? least : greatest();
        magnitude = magnitude < most ? magnitude : most;
        return negative ? -magnitude : magnitude;
    }
};

// A base or exponent of any type: the exact value, and the nearest double.
struct Operand {
    double nearest;
    Dyadic magnitude;  // where finite
    uint32_t parity;

    // A minus zero, which a scaled base can be, counts as zero.
    static Operand of(double value) {
        return {value + 0.0, dyadic_of(value - value == 0 ? value : 0), static_cast<uint32_t>(parity_of(value))};
    }
    static Operand of(int64_t value) {
        uint64_t bits = static_cast<uint64_t>(value);
        return {static_cast<double>(value), dyadic_of_integer(value < 0 ? -bits : bits),
                static_cast<uint32_t>(bits & 1)};
    }
    static Operand of(uint64_t value) {
        return {static_cast<double>(value), dyadic_of_integer(value), static_cast<uint32_t>(value & 1)};
    }

    bool negative() const { return nearest < 0; }
    bool is_one() const { return magnitude.significand == 1 && magnitude.exponent == 0 && nearest - nearest == 0; }
};

static inline uint64_t pow_trunc(const IntegerRange& range, const Operand& x, const Operand& y, bool domain_error) {
    const uint64_t y_kinds = kinds_of(y.nearest);
    if (is_special(x.nearest, y_kinds) || y.nearest == 0) {
        uint64_t power = special_power<double>(x.nearest, y_kinds, y.parity, domain_error);
        if (power == nan_power) return 0;
        return range.saturate(x.negative() && y.parity == odd,
                              power == infinite_power ? ~uint64_t{0} : uint64_t{power == one_power});
    }
    if (x.negative() && y.parity == not_integral) return 0;
    bool negative = x.negative() && y.parity == odd;
    if (x.is_one()) return range.saturate(negative, 1);

    bool above_one = x.magnitude.exponent + static_cast<int>(std::bit_width(x.magnitude.significand)) > 0;
    if (above_one == y.negative()) return 0;  // |x|^y < 1
    double t = y.nearest * log2_fast(quotient_fast(absolute(x.nearest)));
    if (t > 80) return range.saturate(negative, ~uint64_t{0});
    double power = exp2_fast(t), low = power, high = power * (1 + 2 * fast_error);
    // Above 2^40 the error is greater than one; and a value near an integer, as exact powers are, is not decided.
    if (high < 0x1p40 && static_cast<int64_t>(low) == static_cast<int64_t>(high))
        return range.saturate(negative, static_cast<uint64_t>(low));
    return range.saturate(negative, pow_floor(x.magnitude, y.negative(), y.magnitude));
}

// The same for a tile of integer bases below 2^53, as doubles, in vector lanes as far as doubles decide. Sets flags[i]
// where they do not.
static void pow_trunc_tile(const IntegerRange& range, const double* x, const double* y, uint64_t* out, uint64_t* flags,
                           int n) {
    alignas(64) double power[tile_size];
    alignas(64) uint64_t magnitude[tile_size], parity[tile_size];
    for (int i = 0; i < n; ++i) {  // vector loop
        double base = absolute(x[i]);
        power[i] = limited(y[i] * log2_fast(quotient_fast(base > 1 ? base : 1)), 1000);
    }
    for (int i = 0; i < n; ++i) power[i] = exp2_fast(power[i]);  // vector loop
    // Exponents that are no integers from 0 to 2^20.
    uint64_t not_small = 0;
    for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2 neon
        parity[i] = parity_of(y[i]);
        not_small |= (parity[i] >> 1) | (y[i] >= 0 && y[i] <= 0x1p20 ? 0 : 1);
    }
    constexpr double most = 0x1p40;  // the types that have greater values need the bits that the fast phase has not
    const bool saturates = range.bits <= 32;
    if (!not_small) {
        alignas(64) uint64_t squares[tile_size];
        alignas(64) uint32_t exponents[tile_size];
        for (int i = 0; i < n; ++i) {  // vector loop: avx512 neon
            squares[i] = static_cast<uint64_t>(static_cast<int64_t>(absolute(x[i])));
            exponents[i] = static_cast<uint32_t>(static_cast<int32_t>(y[i]));
        }
        pow_wrap(squares, exponents, magnitude, n);
        for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2 neon
            bool fits = power[i] < 0x1p62;
            flags[i] = !fits && !saturates;
            magnitude[i] = fits ? magnitude[i] : ~uint64_t{0};
        }
    } else {
        for (int i = 0; i < n; ++i) {  // vector loop: avx512 neon
            double least = power[i] < most ? power[i] : most, greatest = power[i] * (1 + 2 * fast_error);
            greatest = greatest < most ? greatest : most;
            int64_t from = static_cast<int64_t>(least), to = static_cast<int64_t>(greatest);
            uint64_t open = static_cast<uint64_t>(from ^ to);
            open |= x[i] == 0 ? 1 : 0;
            open |= absolute(y[i]) < __builtin_inf() ? 0 : 1;
            open |= x[i] < 0 ? parity[i] >> 1 : 0;
            flags[i] = open | (saturates ? 0 : static_cast<uint64_t>(from) >> 40);
            magnitude[i] = static_cast<uint64_t>(from);
        }
    }
    // vector loop: avx512 avx2 neon
    for (int i = 0; i < n; ++i) out[i] = range.saturate(x[i] < 0 && parity[i] == odd, magnitude[i]);
}

// Powers with a negative integral exponent: only bases of -1, 0 and 1 leave anything.
HALFULP_INLINE uint64_t reciprocal_power(const IntegerRange& range, int64_t x, bool odd_exponent) {
    uint64_t sign = static_cast<uint64_t>(odd_exponent ? x : 1);
    return x == 0 ? range.greatest() : x == 1 || (x == -1 && range.is_signed) ? sign : 0;
}

}  // namespace halfulp::HALFULP_ISA
