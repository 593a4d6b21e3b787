// Signs and special values of a power: the sign for negative bases, and x^y if x or y is zero, infinite or NaN.
// Branch-free, for vector lanes.
#pragma once

#include <concepts>

#include "../formats/convert.h"

namespace halfulp::HALFULP_ISA {

HALFULP_INLINE constexpr double fabs(double value) { return __builtin_fabs(value); }
HALFULP_INLINE constexpr float fabs(float value) { return __builtin_fabsf(value); }

// The unsigned integer of a number's width.
template <typename Number>
using Word = std::conditional_t<sizeof(Number) == 4, uint32_t, uint64_t>;

template <typename Real>
HALFULP_INLINE constexpr Word<Real> word_of(Real value) {
    return __builtin_bit_cast(Word<Real>, value);
}

HALFULP_INLINE constexpr uint32_t max(uint32_t a, uint32_t b) { return a > b ? a : b; }

// The effect of an exponent on a negative base. Integers, not an enumeration, for vector lanes.
static constexpr uint32_t even = 0, odd = 1, not_integral = 2;

template <std::integral Integer>
HALFULP_INLINE Word<Integer> parity_of(Integer y) {
    return static_cast<Word<Integer>>(y & 1);
}

template <std::floating_point Real>
HALFULP_INLINE Word<Real> parity_of(Real y) {
    constexpr Real all_integral = sizeof(Real) == 4 ? Real(0x1p23) : Real(0x1p52);  // from here on all are integers
    Real magnitude = fabs(y), shifted = magnitude + all_integral;
    Word<Real> small = shifted - all_integral == magnitude ? word_of(shifted) & 1 : not_integral;
    Word<Real> great = magnitude < 2 * all_integral ? word_of(magnitude) & 1 : even;
    return magnitude < all_integral ? small : great;
}

// The encoding of x^y from that of its magnitude. If x is negative, an odd y sets the sign, and a y that is not
// integral gives NaN.
template <typename Lane>
HALFULP_INLINE Lane with_sign(const ElementRow& to, Lane magnitude, Lane x_bits, Lane parity) {
    const Lane nan = static_cast<Lane>(to.nan), sign = static_cast<Lane>(to.sign());
    const bool nan_has_no_sign = to.bits != 4;
    Lane negative = x_bits >> (8 * sizeof(Lane) - 1);
    Lane minus = (negative & parity) * sign;  // of parity's values only `odd` has the lowest bit
    minus = nan_has_no_sign && magnitude == nan ? 0 : minus;
    minus = !to.has_minus_zero() && magnitude == 0 ? 0 : minus;
    return (negative & (parity >> 1)) != 0 ? nan : magnitude | minus;
}

// A special value's magnitude.
static constexpr uint32_t zero_power = 0, one_power = 1, infinite_power = 2, nan_power = 3;

// The properties of an exponent on which special values depend, as bits.
static constexpr uint32_t zero_exponent = 1, infinite_exponent = 2, nan_exponent = 4, negative_exponent = 8;

template <std::integral Integer>
HALFULP_INLINE Word<Integer> classify(Integer y) {
    return (y == 0 ? zero_exponent : 0) | (y < 0 ? negative_exponent : 0);
}

template <std::floating_point Real>
HALFULP_INLINE Word<Real> classify(Real y) {
    constexpr Word<Real> infinity = word_of(Real(__builtin_inf()));
    Word<Real> magnitude = word_of(fabs(y));
    Word<Real> kinds = magnitude == 0 ? zero_exponent : 0;
    kinds |= magnitude == infinity ? infinite_exponent : 0;
    kinds |= magnitude > infinity ? nan_exponent : 0;
    return kinds | (word_of(y) >> (8 * sizeof(Real) - 1)) * negative_exponent;
}

// Whether the phases do not apply: x is zero, infinite or NaN, or y is infinite or NaN.
template <typename X, typename Kinds>
HALFULP_INLINE bool is_special(X x, Kinds y_kinds) {
    constexpr Word<X> infinity = word_of(X(__builtin_inf()));
    return word_of(fabs(x)) - 1 >= infinity - 1 || (y_kinds & (infinite_exponent | nan_exponent)) != 0;
}

// The magnitude of pow if is_special or if y is zero (C23 F.10.4.4). Its sign follows the rule for ordinary powers.
// `domain_error` is DirectML's rule N9: a negative base takes only finite integral exponents.
template <typename X>
HALFULP_INLINE Word<X> special_power(X x, Word<X> y_kinds, Word<X> parity, Word<X> domain_error) {
    constexpr Word<X> infinity = word_of(X(__builtin_inf())), one = word_of(X(1));
    Word<X> magnitude = word_of(fabs(x));
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

// A number of the bases' type with the exponent's sign, that is zero, infinite or NaN if the exponent is.
template <typename X, typename Number>
HALFULP_INLINE X special_exponent(Number y) {
    if constexpr (sizeof(Number) <= sizeof(X) || std::is_integral_v<Number>) return static_cast<X>(y);
    else return static_cast<X>(fabs(y) < __builtin_inf() ? (y > 0 ? 1 : y < 0 ? -1 : 0) : y);
}

// A condition as a mask.
template <typename Lane>
HALFULP_INLINE Lane all_bits_if(bool condition) {
    return condition ? ~Lane{0} : 0;
}

}  // namespace halfulp::HALFULP_ISA
