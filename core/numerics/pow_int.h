// Powers of an integer type.
//
//   pow_wrap    y an integer >= 0: the exact integer modulo 2^bits, by squaring; 0^0 = 1
//   pow_trunc   y a float or a negative integer, or a base that is not an integer (a scaled one): the exact real
//               value truncated toward zero and saturated. NaN gives 0; 0 to a negative power gives the maximum
//   guarantee   exact. If x^y is not a power with an integral exponent, the phases take turns: fast (pow_fast.h),
//               double-double (pow_dd.h), triple-double (pow_td.h), exact (pow_exact.h). Each decides unless an integer
//               is within its error
//
// Large exponents, for types of n bits, n >= 4:
//   - x odd: the units modulo 2^n have a period that divides 2^(n-2), so that only y modulo 2^(n-2) matters
//   - x even, y >= n: the power is zero
//   - so y = a + 2^j b with a < 2^j, and x^y = x^a X^b with X = x^(2^j), computed by squaring. If x is even and 2^j >=
//     n, then X is zero, and so is the power unless b = 0. If x is odd, then X = 1 + w with w divisible by 2^(j+2): x^2
//     - 1 = (x - 1)(x + 1) is divisible by 8, and each squaring adds a factor of 2, since (1 + w)^2 - 1 = 2 w (1 + w/2)
//   - X^b = 1 + b w (1 + (b - 1) w/2 (1 + (b - 2) w/3 (...))), the binomial series. In the 2-adic integers each factor
//     w/i exists: i's odd part has an inverse, and i has fewer factors of 2 (z) than w. So the series is exact modulo
//     2^n if every bracket is right modulo 2^n divided by the factors of 2 before it: w = 2^(j+2) u, u is known modulo
//     2^(n-j-2), and the factor (b - i + 1) u/(i/2^z) is multiplied by 2^(j+2-z). The series ends when no bits are left
#pragma once

#include <bit>

#include "operand.h"

namespace halfulp::HALFULP_ISA {

// x^y modulo 2^(bits of Word) for y below 2^bits.
template <int bits, typename Word, typename Exponent>
HALFULP_INLINE Word power(Word x, Exponent y) {
    const Word mask = -static_cast<Word>(y & 1);  // selects by operations that every instruction set has in vectors
    const Word odd = (x & mask) | (~mask & 1);
    if constexpr (bits == 1) return odd;
    else return odd * power<bits - 1>(x * x, y >> 1);
}

// Converts an integer to a double by an addition. It is exact for -2^51 <= x < 2^51, since 2^52 + 2^51 + x is then the
// pattern of a double from 2^52 to 2^53. For any other x the result has a magnitude of 2^51 or more, or is NaN.
HALFULP_INLINE double double_of_small(uint64_t x) { return double_of(x + bits_of(round_magic)) - round_magic; }

// x^y modulo 2^64 by products of doubles, for y below 2^bits. The result is right if `excess` has no bits from bit 52
// up.
//
// If |x^y| < 2^51, all factors are exact integers not greater than the power (unless x is zero), and the power is
// right. If the power or x is greater, some product is at least 2^51, rounded or not, and so are all products that
// contain it, since the other factors are at least 1. Adding 2^52 + 2^51 to such a product leaves the range 2^52 to
// 2^53, which the pattern shows.
template <int bits, typename Exponent>
HALFULP_INLINE double power_of_double(double x, Exponent y) {
    const double odd = (y & 1) != 0 ? x : 1;
    if constexpr (bits == 1) return odd;
    else return odd * power_of_double<bits - 1>(x * x, y >> 1);
}

template <int bits, typename Exponent>
HALFULP_INLINE uint64_t power_by_doubles(uint64_t x, Exponent y, uint64_t& excess) {
    const double power = power_of_double<bits>(double_of_small(x), y);
    const uint64_t integer = bits_of(power + round_magic) - bits_of(round_magic);
    excess |= integer + (uint64_t{1} << 51);
    return integer;
}

// 1/i modulo 2^64 for an odd i: i is right modulo 8, and each step doubles the bits.
constexpr uint64_t inverse_of(uint64_t i) {
    uint64_t inverse = i;
    for (int step = 0; step < 5; ++step) inverse *= 2 - i * inverse;
    return inverse;
}

// 1 + (b - i + 1) w/i (1 + (b - i) w/(i + 1) (...)) modulo 2^bits, for w = 2^zeros u; see above.
template <int i, int zeros, int bits, typename Word>
HALFULP_INLINE Word binomial_series(Word u, Word b) {
    constexpr int twos = std::countr_zero(static_cast<unsigned>(i)), shift = zeros - twos;
    if constexpr (bits <= shift) {
        return 1;
    } else {
        constexpr Word inverse = static_cast<Word>(inverse_of(i >> twos));
        const Word factor = (b - (i - 1)) * (u * inverse);
        return 1 + (factor * binomial_series<i + 1, zeros, bits - shift>(u, b) << shift);
    }
}

// Reduces an exponent >= 0 to one of few bits that gives the same powers modulo 2^bits.
template <int bits, typename Word, typename Exponent>
HALFULP_INLINE Word reduced_exponent(Exponent y) {
    if constexpr (8 * sizeof(Exponent) <= bits) {
        return y;
    } else {
        constexpr Exponent period = Exponent{1} << (bits - 2);
        const Exponent remainder = y & (period - 1);
        return static_cast<Word>(y >= period ? remainder + period : remainder);
    }
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

// The powers that need no logarithm: special values, powers below 1, exact powers. Returns whether x^y is one of these.
static inline bool pow_trunc_early(const IntegerRange& range, const Operand& x, const Operand& y, bool domain_error,
                                   uint64_t& power) {
    const uint64_t y_kinds = classify(y.high), parity = y.parity();
    const bool negative = x.negative() && parity == odd;
    if (is_special(x.high, y_kinds) || y.high == 0) {
        uint64_t special = special_power<double>(x.high, y_kinds, parity, domain_error);
        uint64_t magnitude = special == infinite_power ? ~uint64_t{0} : uint64_t{special == one_power};
        power = special == nan_power ? 0 : range.saturate(negative, magnitude);
        return true;
    }
    power = 0;
    if (x.negative() && parity == not_integral) return true;
    if (fabs(x.high) == 1) {
        power = range.saturate(negative, 1);
        return true;
    }
    if ((fabs(x.high) > 1) == y.negative()) return true;  // |x|^y < 1
    // An exact power has an exponent of at most 6 bits, as 3^42 has 67, or its base is a power of two.
    const bool may_be_exact = bits_of(y.high) << 17 == 0 || bits_of(x.high) << 12 == 0;
    Magnitude exact;
    if (!may_be_exact || !exact_power(x.magnitude(), y.negative(), y.magnitude(), exact)) return false;
    power = range.saturate(negative, floor_of(exact));
    return true;
}

// floor(high + low) modulo 2^64, for 0 < high < 2^65 and |low| at most slightly more than half a unit in high's last
// place. If high is not an integer, it is at least one such unit away from the integers.
HALFULP_INLINE uint64_t floor_of_sum(double high, double low) {
    const bool carries = high >= 0x1p64;
    const double below = carries ? high - 0x1p64 : high;  // exact
    const uint64_t whole = static_cast<uint64_t>(below);
    const int64_t more = static_cast<int64_t>(low);
    const uint64_t floor_of_low = static_cast<uint64_t>(more) - (static_cast<double>(more) > low ? 1 : 0);
    return static_cast<double>(whole) == below ? whole + floor_of_low : whole;
}

// floor((high + low) 2^k), at most 2^64 - 1.
HALFULP_INLINE uint64_t floor_of_power(double high, double low, int64_t k) {
    const double scale = power_of_two(k), value = high * scale, residual = low * scale;
    if (value > 0x1p64 || (value == 0x1p64 && residual >= 0)) return ~uint64_t{0};
    return floor_of_sum(value, residual);
}

// A power with a negative integral exponent. It is zero unless the base is -1, 0 or 1.
HALFULP_INLINE uint64_t reciprocal_power(const IntegerRange& range, int64_t x, bool odd_exponent) {
    uint64_t sign = static_cast<uint64_t>(odd_exponent ? x : 1);
    return x == 0 ? range.greatest() : x == 1 || (x == -1 && range.is_signed) ? sign : 0;
}

}  // namespace halfulp::HALFULP_ISA
