// x^y for a positive finite x, the fast phase: plain functions without branches, which compilers vectorise in the short
// loops of kernels/float/lanes.h.
//
//   formula     x = m * 2^e, m in [sqrt(1/2), sqrt 2);  s = (m - 1)/(m + 1);  t = y (e + s P(s^2));
//               x^y = 2^t = 2^k Q(t - k)
//   domain      x a positive finite float, y finite. Other lanes yield a value without meaning, which
//               kernels/phases/signs.h replaces
//   constants   tools/make_constants.py, which prints each polynomial's error
//   guarantee   for types of at most 24 bits: the exact value is in [v, v (1 + 2 fast_error)]. The result is used only
//               if the whole interval rounds to one element; otherwise the next phase, pow_dd.h, runs
//   error       relative to x^y: 2^-39.77 of 2^t, and 2^-45.5 |t| from the logarithm. Each operation's bound is beside
//               it, with u = 2^-53, the rounding error of an operation (fusing saves a rounding, it never adds one).
//               proofs/fast.py and fast_by_table.py prove the sum
#pragma once

#include <type_traits>

#include "../formats/convert.h"
#include "constants.h"

namespace halfulp::HALFULP_ISA {

// |t| <= 150 if the result is finite and not zero, for types with exponents in [-149, 128]: below 1.22 * 2^-38 in all.
static constexpr double fast_error = constants::fast_error, fast_error_of_exp2 = 0x1.5p-40, fast_error_of_t = 0x1.8p-46;
static_assert(fast_error_of_exp2 + 150 * fast_error_of_t < fast_error);

// Limits a value to [-limit, limit]; NaN becomes +-limit. It compares integers, which are ordered as doubles of the
// same sign are, because compilers need four instructions for a floating minimum that must handle NaN. The baseline of
// x86-64 has vector comparisons of doubles only.
HALFULP_INLINE double clamp(double value, double limit) {
#if defined(__SSE2__) && !defined(__SSE4_2__)
    value = value < limit ? value : limit;
    return value > -limit ? value : -limit;
#else
    int64_t from_above = static_cast<int64_t>(bits_of(value)), most = static_cast<int64_t>(bits_of(limit));
    uint64_t bits = static_cast<uint64_t>(from_above < most ? from_above : most), least = bits_of(-limit);
    return double_of(bits < least ? bits : least);
#endif
}

// Horner's rule in x^2, with the coefficients c[begin] + c[begin + 1] x and so on: few multiplications, and a short
// dependency chain.
template <int begin, int count, typename Real>
HALFULP_INLINE Real horner_of_two(const double (&c)[count], Real x, Real x2) {
    if constexpr (begin + 1 == count) return c[begin];
    else {
        Real coefficient = multiply_add(Real(c[begin + 1]), x, Real(c[begin]));
        if constexpr (begin + 2 == count) return coefficient;
        else return multiply_add(x2, horner_of_two<begin + 2>(c, x, x2), coefficient);
    }
}

template <int count, typename Real>
HALFULP_INLINE Real polynomial(const double (&c)[count], Real x) {
    return horner_of_two<0>(c, x, x * x);
}

// x = m * 2^e.
template <typename Real>
struct Split {
    Real m;
    double e;
};

// Splits a positive normal x, with m in [least, 2 least). A float is split in a 32-bit lane, of which a vector has
// twice as many.
template <typename Real>
HALFULP_INLINE Split<Real> split(Real x, Real least) {
    constexpr bool is_float = std::is_same_v<Real, float>;
    constexpr int fraction_bits = is_float ? 23 : 52;
    using Bits = std::conditional_t<is_float, uint32_t, uint64_t>;
    const Bits bits = __builtin_bit_cast(Bits, x), from_least = bits - __builtin_bit_cast(Bits, least);
    double e;
    if constexpr (is_float) e = static_cast<double>(static_cast<int32_t>(from_least) >> fraction_bits);
    else e = double_of(from_least >> fraction_bits ^ bits_of(0x1p52 + 2048)) - (0x1p52 + 2048);
    return {__builtin_bit_cast(Real, bits - (from_least & (~Bits{0} << fraction_bits))), e};
}

// Tables divide a binade into equal parts; 1 is in the middle of the first part. These are the least number of the
// first part, and the index of x's part.
template <int parts>
static constexpr double least_of_parts = 1 - 0.25 / parts;

template <uint64_t parts>
HALFULP_INLINE uint64_t part_of(double x) {
    return (bits_of(x) + (uint64_t{1} << 51) / parts) / ((uint64_t{1} << 52) / parts) % parts;
}

template <typename Real>
static constexpr Real root_half = 0x1.6a09e667f3bcdp-1;

// x = m * 2^e and s = (m - 1)/(m + 1), for a positive normal x.
struct Quotient {
    double s;
    float e;
};

template <typename Real>
HALFULP_INLINE Quotient quotient_fast(Real x) {
    Split<Real> parts = split(x, root_half<Real>);
    double m = parts.m;
    // m - 1 is exact (Sterbenz), m + 1 rounds by u, the quotient by u: s within 2 u.
    return {(m - 1) / (m + 1), static_cast<float>(parts.e)};
}

HALFULP_INLINE double log2_fast(const Quotient& x) {
    // s^2 is within 5 u. P has degree 5 in it, for |s| <= 0.172, an error of 2^-45.07 (constants.h), and rounds by less
    // than 5 u: s P within 2^-45.07 and 8 u. |e + s P| >= |s P|, so that e adds no more: log2 x within 2^-45.02.
    return multiply_add(x.s, polynomial(constants::log2_fast, x.s * x.s), static_cast<double>(x.e));
}

// log2 x by tables, for processors with fast look-ups; kernels/float/log2_table.h does the same in vectors and derives
// the error. Takes the bits of a positive float. If it is subnormal, the result has no meaning.
HALFULP_INLINE double log2_fast_by_table(uint32_t float_bits) {
    const uint64_t bits = uint64_t{float_bits} << 29;  // those of a double, except for the exponent's bias
    const uint32_t part = float_bits >> 19 & 15;
    const double m = double_of((bits & ((uint64_t{1} << 52) - 1)) | bits_of(1.0));
    const double e = double_of(float_bits >> 23 | bits_of(0x1p52)) - (0x1p52 + 127);
    const double f = multiply_add(m, constants::log2_reciprocals[part], -1);
    // P has degree 7 on [-1/32, 1/16] and an error of 2^-45.62 (constants.h): log2 x within 2^-45.4.
    return multiply_add(f, polynomial(constants::log2_by_table, f), e + constants::log2_parts[part]);
}

// Below 2^8 if 2^t is a normal float or rounds to infinity: the integer nearest to t is -125 to 130. Otherwise, also
// for NaN, some higher bit is set.
HALFULP_INLINE uint64_t beyond_normal(double t) { return bits_of(t + round_magic) - bits_of(round_magic - 125); }

// 2^t (1 - fast_error) for |t| <= 1020.
HALFULP_INLINE double exp2_fast(double t) {
    double shifted = t + round_magic;
    // t - k is exact. Q has degree 8 on [-1/2, 1/2] and an error of 2^-39.77 (constants.h), and rounds by 2^-50.
    double sum = polynomial(constants::exp2_fast, t - (shifted - round_magic));
    return double_of(bits_of(sum) + (bits_of(shifted) << 52));
}

}  // namespace halfulp::HALFULP_ISA
