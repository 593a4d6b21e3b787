// What the phases leave aside: which bases and exponents a tile holds, the sign of a power, and special values. Short
// loops, a tile at a time.
#pragma once

#include <concepts>

#include "../codec.h"
#include "kernels.h"

namespace halfulp::HALFULP_ISA {

HALFULP_INLINE constexpr double absolute(double value) { return __builtin_fabs(value); }
HALFULP_INLINE constexpr float absolute(float value) { return __builtin_fabsf(value); }

// The unsigned integer of a number's width.
template <typename Number>
using Word = std::conditional_t<sizeof(Number) == 4, uint32_t, uint64_t>;

template <typename Real>
HALFULP_INLINE constexpr Word<Real> word_of(Real value) {
    return __builtin_bit_cast(Word<Real>, value);
}

HALFULP_INLINE constexpr uint32_t greater(uint32_t a, uint32_t b) { return a > b ? a : b; }

// What an exponent does to the sign of a base below zero. Numbers, so that vector lanes hold them.
static constexpr uint32_t even = 0, odd = 1, not_integral = 2;

template <std::integral Integer>
HALFULP_INLINE Word<Integer> parity_of(Integer y) {
    return static_cast<Word<Integer>>(y & 1);
}

template <std::floating_point Real>
HALFULP_INLINE Word<Real> parity_of(Real y) {
    constexpr Real all_integral = sizeof(Real) == 4 ? Real(0x1p23) : Real(0x1p52);  // every number from here on is
    Real magnitude = absolute(y), shifted = magnitude + all_integral;
    Word<Real> small = shifted - all_integral == magnitude ? word_of(shifted) & 1 : not_integral;
    Word<Real> great = magnitude < 2 * all_integral ? word_of(magnitude) & 1 : even;
    return magnitude < all_integral ? small : great;
}

// The encoding of x^y from its magnitude's: where x is below zero a minus for an odd y, NaN for one that is not
// integral.
template <Element type, typename Lane>
HALFULP_INLINE Lane with_sign(Lane magnitude, Lane x_bits, Lane parity) {
    constexpr ElementRow to = row(type);
    constexpr Lane nan = static_cast<Lane>(to.nan), sign = static_cast<Lane>(to.sign());
    constexpr bool nan_has_no_sign = to.bits != 4;
    Lane negative = x_bits >> (8 * sizeof(Lane) - 1);
    Lane minus = (negative & parity) * sign;  // parity's other values have no bit in common with 1
    minus = nan_has_no_sign && magnitude == nan ? 0 : minus;
    minus = !to.has_minus_zero() && magnitude == 0 ? 0 : minus;
    return (negative & (parity >> 1)) != 0 ? nan : magnitude | minus;
}

// A special value's magnitude.
static constexpr uint32_t zero_power = 0, one_power = 1, infinite_power = 2, nan_power = 3;

// What matters of an exponent for special values, as bits of a number, so that vector lanes hold them.
static constexpr uint32_t zero_exponent = 1, infinite_exponent = 2, nan_exponent = 4, negative_exponent = 8;

template <std::integral Integer>
HALFULP_INLINE Word<Integer> kinds_of(Integer y) {
    return (y == 0 ? zero_exponent : 0) | (y < 0 ? negative_exponent : 0);
}

template <std::floating_point Real>
HALFULP_INLINE Word<Real> kinds_of(Real y) {
    constexpr Word<Real> infinity = word_of(Real(__builtin_inf()));
    Word<Real> magnitude = word_of(absolute(y));
    Word<Real> kinds = magnitude == 0 ? zero_exponent : 0;
    kinds |= magnitude == infinity ? infinite_exponent : 0;
    kinds |= magnitude > infinity ? nan_exponent : 0;
    return kinds | (word_of(y) >> (8 * sizeof(Real) - 1)) * negative_exponent;
}

// Whether the phases' value has no meaning: x is zero, infinite or NaN, or y is infinite or NaN.
template <typename X, typename Kinds>
HALFULP_INLINE bool is_special(X x, Kinds y_kinds) {
    constexpr Word<X> infinity = word_of(X(__builtin_inf()));
    return word_of(absolute(x)) - 1 >= infinity - 1 || (y_kinds & (infinite_exponent | nan_exponent)) != 0;
}

// The magnitude that pow returns where is_special, or where y is zero (C23 F.10.4.4). Its sign is that of an ordinary
// power, where y is an odd integer. `domain_error` is the rule N9 of DirectML: a base below zero takes only finite
// integral exponents.
template <typename X>
HALFULP_INLINE Word<X> special_power(X x, Word<X> y_kinds, Word<X> parity, Word<X> domain_error) {
    constexpr Word<X> infinity = word_of(X(__builtin_inf())), one = word_of(X(1));
    Word<X> magnitude = word_of(absolute(x));
    Word<X> great = magnitude > one ? 1 : 0, small = y_kinds / negative_exponent,
            negative = word_of(x) >> (8 * sizeof(X) - 1);
    Word<X> power = great != small ? infinite_power : zero_power;
    power = magnitude == one ? one_power : power;
    Word<X> no_number = (y_kinds & nan_exponent) | (magnitude > infinity ? 1 : 0);
    Word<X> outside = parity >> 1 | (y_kinds & infinite_exponent);
    no_number |= magnitude != 0 ? domain_error & negative & (outside != 0 ? 1 : 0) : 0;
    power = no_number != 0 ? nan_power : power;
    power = word_of(x) == one ? one_power : power;
    return (y_kinds & zero_exponent) != 0 ? one_power : power;
}

// An exponent's sign, or that it is zero, infinite or NaN, as a number of the bases' type.
template <typename X, typename Number>
HALFULP_INLINE X special_exponent(Number y) {
    if constexpr (sizeof(Number) <= sizeof(X) || std::is_integral_v<Number>) return static_cast<X>(y);
    else return static_cast<X>(absolute(y) < __builtin_inf() ? (y > 0 ? 1 : y < 0 ? -1 : 0) : y);
}

// A condition in lanes.
template <typename Lane>
HALFULP_INLINE Lane all_bits_if(bool condition) {
    return condition ? ~Lane{0} : 0;
}

// What kinds of operands a tile holds.
struct Contents {
    bool negative;   // a base below zero, or minus zero
    bool special;    // see is_special
    bool subnormal;  // a base
};

// Integers that carry into their top bits, and maxima, see all kinds in a few instructions.
struct DoubleBits {
    uint64_t any_bit = 0, carries = 0, borrows = 0, zeros = 0;

    void add(double value) {
        constexpr uint64_t least_normal = uint64_t{1} << 52;
        uint64_t bits = bits_of(value), magnitude = bits & ~double_sign, below = magnitude - 1;
        any_bit |= bits;
        carries |= magnitude + least_normal;
        zeros |= below;
        borrows |= (magnitude - least_normal) & ~below;
    }
    bool negative() const { return any_bit >> 63 != 0; }
    bool not_finite() const { return carries >> 63 != 0; }
    bool zero() const { return zeros >> 63 != 0; }
    bool subnormal() const { return borrows >> 63 != 0; }
};

static Contents scan(const double* x, const double* y, int n) {
    DoubleBits of_x, of_y;
    for (int i = 0; i < n; ++i) {  // vector loop
        of_x.add(x[i]);
        of_y.add(y[i]);
    }
    return {of_x.negative(), of_x.not_finite() || of_x.zero() || of_y.not_finite(), of_x.subnormal()};
}

// Whether any exponent is infinite or NaN.
static bool any_not_finite(const float* y, int n) {
    uint32_t most = 0;
    for (int i = 0; i < n; ++i) {  // vector loop
        most = greater(most, word_of(absolute(y[i])));
    }
    return most >= 0x7f800000;
}

static bool any_not_finite(const double* y, int n) {
    DoubleBits of_y;
    for (int i = 0; i < n; ++i) of_y.add(y[i]);  // vector loop
    return of_y.not_finite();
}

template <std::integral Integer>
static bool any_not_finite(const Integer*, int) {
    return false;
}

// Below all_normal for a positive normal float, and only for such a one.
HALFULP_INLINE uint32_t above_least_normal(float x) { return word_of(x) - 0x00800000; }
static constexpr uint32_t all_normal = 0x7f800000 - 0x00800000;

// `special` of the bases only.
static Contents scan_closely(const float* x, int n) {
    constexpr uint32_t infinity = 0x7f800000;
    uint32_t any_bit = 0, from_one = 0, subnormal = 0;
    for (int i = 0; i < n; ++i) {  // vector loop
        uint32_t bits = word_of(x[i]), magnitude = bits & 0x7fffffff;
        any_bit |= bits;
        from_one = greater(from_one, magnitude - 1);
        subnormal |= above_least_normal(absolute(x[i])) & ~(magnitude - 1);
    }
    return {any_bit >> 31 != 0, from_one >= infinity - 1, subnormal >> 31 != 0};
}

static Contents scan(const float* x, int n) {
    uint32_t most = 0;
    for (int i = 0; i < n; ++i) most = greater(most, above_least_normal(x[i]));  // vector loop
    return most < all_normal ? Contents{} : scan_closely(x, n);
}

// Signs, for magnitudes in lanes as wide as the bases.
template <Element type, typename X>
static void put_signs(const X* x, const Word<X>* parities, Word<X>* lanes, int n) {
    // vector loop: avx512 avx2 neon(most) scalar(most)
    for (int i = 0; i < n; ++i) lanes[i] = with_sign<type>(lanes[i], word_of(x[i]), parities[i]);
}

// Signs, and special values (see special_power).
template <Element type, typename X>
[[gnu::noinline]] static void put_specials(const PowOptions& options, const X* x, const X* y, const Word<X>* parities,
                                           Word<X>* lanes, int n) {
    using Lane = Word<X>;
    constexpr X infinite = __builtin_inf();
    const Lane zero = encode<type>(0), one = encode<type>(1), infinity = encode<type>(__builtin_inf());
    const Lane nan = row(type).nan;
    // The product has the sign that log2 |x| has times y, and is NaN where x or y is, or where the power is 1.
    // vector loop: avx512 avx2 neon(most) scalar(most)
    for (int i = 0; i < n; ++i) {
        const X base = absolute(x[i]), product = (base - 1) * y[i];
        const Lane is_infinite = all_bits_if<Lane>(absolute(y[i]) == infinite);
        const Lane is_one =
            all_bits_if<Lane>(x[i] == 1) | all_bits_if<Lane>(y[i] == 0) | (all_bits_if<Lane>(base == 1) & is_infinite);
        const Lane is_number = all_bits_if<Lane>(base > 0) & all_bits_if<Lane>(base < infinite) &
                               all_bits_if<Lane>(y[i] == y[i]) & ~is_infinite;
        Lane power = product > 0 ? infinity : zero;
        power = product == product ? power : nan;
        power = (one & is_one) | (power & ~is_one);
        const Lane magnitude = (lanes[i] & is_number) | (power & ~is_number);
        lanes[i] = with_sign<type>(magnitude, word_of(x[i]), parities[i] & (odd | is_number));
    }
    if (!options.domain_error) return;
    for (int i = 0; i < n; ++i) {
        const bool outside = parities[i] == not_integral || absolute(y[i]) == infinite;
        if (outside && x[i] < 0) lanes[i] = nan;
    }
}

// Both, as far as the operands need them.
template <Element type, typename X, typename Y>
static void finish(const PowOptions& options, const Contents& contents, const X* x, Y y, Word<X>* lanes, int n) {
    if (!contents.negative && !contents.special) return;
    alignas(64) Word<X> parities[tile_size];
    for (int i = 0; i < n; ++i) parities[i] = static_cast<Word<X>>(y.parity(i));  // vector loop
    if (!contents.special) return put_signs<type>(x, parities, lanes, n);
    alignas(64) X exponents[tile_size];
    // vector loop: avx512 avx2 neon
    for (int i = 0; i < n; ++i) exponents[i] = y.template special<X>(i);
    put_specials<type>(options, x, exponents, parities, lanes, n);
}

}  // namespace halfulp::HALFULP_ISA
