// Sums of two and of three doubles that are not evaluated, and the operations that are exact.
#pragma once

#include "../formats/element.h"

namespace halfulp::HALFULP_ISA {

// An unevaluated sum high + low with |low| <= ulp(high) / 2, unless a comment says otherwise. Real is double or a
// vector of doubles.
template <typename Real>
struct Pair {
    Real high, low;
};
using DoubleDouble = Pair<double>;

// An unevaluated sum of three, each at most about an ulp of the one before.
struct TripleDouble {
    double a, b, c;
};

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__FP_FAST_FMA) || defined(__CUDA_ARCH__)
#define HALFULP_FUSED
#endif

// a * b + c: fused if the instruction set supports it, otherwise rounded twice. The error bounds hold for both, and the
// rounding test makes the results the same.
HALFULP_INLINE double multiply_add(double a, double b, double c) {
#ifdef HALFULP_FUSED
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}

// a * b + c of floats, always fused: for processors that have it.
HALFULP_INLINE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// a + b, exactly. Needs |a| >= |b| or a = 0.
template <typename Real>
HALFULP_INLINE Pair<Real> fast_two_sum(Real a, Real b) {
    Real sum = a + b;
    return {sum, b - (sum - a)};
}

// a + b, exactly. If multiply-add is fused, two of the five subtractions use it: processors have separate units for
// additions and multiplications, and triples are mostly additions. The rounded difference is the same either way.
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

// a + b rounded to odd. Rounding that again, to at most 51 bits, gives the same result as rounding a + b once.
HALFULP_INLINE double sum_to_odd(double a, double b) {
    DoubleDouble sum = two_sum(a, b);
    uint64_t bits = __builtin_bit_cast(uint64_t, sum.high);
    bool inexact = sum.low > 0 || sum.low < 0;
    uint64_t toward = (sum.low > 0) == (sum.high > 0) ? 1 : ~uint64_t{0};
    return __builtin_bit_cast(double, inexact && (bits & 1) == 0 ? bits + toward : bits);
}

// a * b, exactly, unless the product's low half underflows. Without fused multiply-add it uses Dekker's splitting,
// which needs |a|, |b| < 2^995.
template <typename Real>
HALFULP_INLINE Pair<Real> two_product(Real a, Real b) {
    Real product = a * b;
#ifdef HALFULP_FUSED
    return {product, multiply_add(a, b, -product)};
#else
    constexpr double splitter = 0x1p27 + 1;
    double a_scaled = splitter * a, b_scaled = splitter * b;
    double a_high = a_scaled - (a_scaled - a), b_high = b_scaled - (b_scaled - b);
    double a_low = a - a_high, b_low = b - b_high;
    return {product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low};
#endif
}

// a * b + c as a pair, within 2^-105 of the exact value. Needs c = 0, or |c| >= 2 |a * b|, or another reason why c
// minus the rounded sum is exact.
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

// a - q * b, exactly if q is a / b within some ulps.
HALFULP_INLINE double remainder_of(double a, double q, double b) {
#ifdef HALFULP_FUSED
    return __builtin_fma(-q, b, a);
#else
    DoubleDouble product = two_product(q, b);
    return (a - product.high) - product.low;
#endif
}

}  // namespace halfulp::HALFULP_ISA
