// Arithmetic wider than a double: pairs of doubles for the kernels' second phase, and fixed-point numbers
// of several 64-bit limbs for the last one.
#pragma once

#include <bit>
#include <cstdint>

#include "element.h"

namespace halfulp::HALFULP_ISA {

// An unevaluated sum high + low with |low| <= ulp(high) / 2, where a comment does not say otherwise. Real is double, or a
// vector of them.
template <typename Real>
struct Pair {
    Real high, low;
};
using DoubleDouble = Pair<double>;

// An unevaluated sum of three, each at most about an ulp of the one before.
struct Triple {
    double a, b, c;
};

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define HALFULP_FUSED
#endif

// a * b + c. Fused where the instruction set has it, rounded twice where it has not: the fast phases'
// error bounds hold for both, and their rounding test makes the results the same.
HALFULP_INLINE double multiply_add(double a, double b, double c) {
#ifdef HALFULP_FUSED
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}

// a + b, exactly. Needs |a| >= |b| or a = 0.
HALFULP_INLINE DoubleDouble fast_two_sum(double a, double b) {
    double sum = a + b;
    return {sum, b - (sum - a)};
}

// a + b, exactly. Where a fused multiply-add is there, it makes two of the five subtractions: processors add in other
// units than they multiply, and triples are sums above all. Each rounds the same difference either way.
HALFULP_INLINE DoubleDouble two_sum(double a, double b) {
    double sum = a + b;
#ifdef HALFULP_FUSED
    double b_part = __builtin_fma(a, -1.0, sum);
    return {sum, (a - (sum - b_part)) + __builtin_fma(b_part, -1.0, b)};
#else
    double b_part = sum - a;
    return {sum, (a - (sum - b_part)) + (b - b_part)};
#endif
}

// a + b rounded to odd: a further rounding, to fewer bits, then gives what rounding once gives.
HALFULP_INLINE double sum_to_odd(double a, double b) {
    DoubleDouble sum = two_sum(a, b);
    uint64_t bits = __builtin_bit_cast(uint64_t, sum.high);
    bool inexact = sum.low > 0 || sum.low < 0;
    uint64_t toward = (sum.low > 0) == (sum.high > 0) ? 1 : ~uint64_t{0};
    return __builtin_bit_cast(double, inexact && (bits & 1) == 0 ? bits + toward : bits);
}

// a * b, exactly, unless the product's low half underflows. Without a fused multiply-add: Dekker's
// splitting, which needs |a|, |b| < 2^995.
HALFULP_INLINE DoubleDouble two_product(double a, double b) {
    double product = a * b;
#ifdef HALFULP_FUSED
    return {product, __builtin_fma(a, b, -product)};
#else
    constexpr double splitter = 0x1p27 + 1;
    double a_scaled = splitter * a, b_scaled = splitter * b;
    double a_high = a_scaled - (a_scaled - a), b_high = b_scaled - (b_scaled - b);
    double a_low = a - a_high, b_low = b - b_high;
    return {product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low};
#endif
}

// a * b + c as a pair, to within 2^-105 of it. Needs c = 0, or |c| >= 2 |a * b|, or another reason why c less the rounded
// sum is exact.
template <typename Real>
HALFULP_INLINE Pair<Real> multiply_add_pair(Real a, Real b, Real c) {
#ifdef HALFULP_FUSED
    Real sum = multiply_add(a, b, c);
    return {sum, multiply_add(a, b, c - sum)};  // with |c| >= 2 |a * b|, sum is between c / 2 and 2 c
#else
    DoubleDouble product = two_product(a, b), sum = fast_two_sum(c, product.high);
    return {sum.high, sum.low + product.low};
#endif
}

// a - q * b, exactly where q is a / b to within some ulps.
HALFULP_INLINE double remainder_of(double a, double q, double b) {
#ifdef HALFULP_FUSED
    return __builtin_fma(-q, b, a);
#else
    DoubleDouble product = two_product(q, b);
    return (a - product.high) - product.low;
#endif
}

// A non-negative fixed-point number: limb[L-1] counts whole units, the others are the fraction, least first.
// Operations round down: each is below the exact value by less than one unit in the last place, 2^-fraction_bits.
template <int L>
struct Fixed {
    static constexpr int fraction_bits = 64 * (L - 1);
    uint64_t limb[L];

    static constexpr Fixed of(uint64_t units) {
        Fixed f{};
        f.limb[L - 1] = units;
        return f;
    }

    // The leading limbs of a longer constant.
    static constexpr Fixed leading(const uint64_t* limbs, int count) {
        Fixed f{};
        for (int i = 0; i < L; ++i) f.limb[i] = limbs[count - L + i];
        return f;
    }

    bool is_zero() const {
        uint64_t any = 0;
        for (uint64_t part : limb) any |= part;
        return any == 0;
    }

    Fixed operator+(const Fixed& other) const {
        Fixed sum;
        unsigned __int128 carry = 0;
        for (int i = 0; i < L; ++i) {
            carry += static_cast<unsigned __int128>(limb[i]) + other.limb[i];
            sum.limb[i] = static_cast<uint64_t>(carry);
            carry >>= 64;
        }
        return sum;
    }

    // Needs *this >= other.
    Fixed operator-(const Fixed& other) const {
        Fixed difference;
        uint64_t borrow = 0;
        for (int i = 0; i < L; ++i) {
            unsigned __int128 d = static_cast<unsigned __int128>(limb[i]) - other.limb[i] - borrow;
            difference.limb[i] = static_cast<uint64_t>(d);
            borrow = static_cast<uint64_t>(d >> 64) & 1;
        }
        return difference;
    }

    // The product must be below 2^64.
    Fixed operator*(const Fixed& other) const {
        uint64_t product[2 * L] = {};
        for (int i = 0; i < L; ++i) {
            if (limb[i] == 0) continue;  // as the leading ones of a series' terms become
            uint64_t carry = 0;
            for (int j = 0; j < L; ++j) {
                unsigned __int128 p = static_cast<unsigned __int128>(limb[i]) * other.limb[j] + product[i + j] + carry;
                product[i + j] = static_cast<uint64_t>(p);
                carry = static_cast<uint64_t>(p >> 64);
            }
            product[i + L] = carry;
        }
        Fixed result;
        for (int i = 0; i < L; ++i) result.limb[i] = product[L - 1 + i];
        return result;
    }

    constexpr Fixed operator/(uint64_t divisor) const {
        Fixed quotient{};
        uint64_t remainder = 0;
        for (int i = L - 1; i >= 0; --i) {
            if (remainder == 0 && limb[i] == 0) {
                quotient.limb[i] = 0;
                continue;
            }
            unsigned __int128 dividend = static_cast<unsigned __int128>(remainder) << 64 | limb[i];
            quotient.limb[i] = static_cast<uint64_t>(dividend / divisor);
            remainder = static_cast<uint64_t>(dividend % divisor);
        }
        return quotient;
    }

    Fixed operator>>(int shift) const {
        Fixed result{};
        int whole = shift / 64, part = shift % 64;
        for (int i = 0; i + whole < L; ++i) {
            uint64_t low = limb[i + whole] >> part;
            uint64_t high = part != 0 && i + whole + 1 < L ? limb[i + whole + 1] << (64 - part) : 0;
            result.limb[i] = low | high;
        }
        return result;
    }

    Fixed operator<<(int shift) const {
        Fixed result{};
        int whole = shift / 64, part = shift % 64;
        for (int i = L - 1; i - whole >= 0; --i) {
            uint64_t high = limb[i - whole] << part;
            uint64_t low = part != 0 && i - whole - 1 >= 0 ? limb[i - whole - 1] >> (64 - part) : 0;
            result.limb[i] = high | low;
        }
        return result;
    }

    // Position of the highest bit that is set, as a power of two: 0 for a value in [1, 2). Needs a value > 0.
    int exponent() const {
        for (int i = L - 1; i >= 0; --i)
            if (limb[i] != 0) return 64 * (i - (L - 1)) + 63 - std::countl_zero(limb[i]);
        return -fraction_bits - 1;
    }
};

}  // namespace halfulp::HALFULP_ISA
