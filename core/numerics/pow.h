// x^y of one element: the page to read first. A type's kernels (core/kernels/) take many elements through the same
// functions at a time; core_check compares the two bit for bit.
//
//   special values   zero, infinity and NaN; y = 0                            pow_special.h
//   closed forms     y = 2, 1/2 and -1, small products, powers of two         pow_closed_form.h
//   fast             doubles; types of at most 24 bits                        pow_fast.h
//   double-double                                                             pow_dd.h
//   triple-double                                                             pow_td.h
//   exact            192, 320, 512 and 1024 bits                              pow_exact.h
//   integers         modulo 2^bits; or the real power's integer part          pow_int.h
//
// Each phase yields an interval that holds the exact power. Where both its ends round to one element, that is the
// result, and else the next phase decides (Ziv's strategy, whose last step always does: what can lie on a boundary is
// found before).
#pragma once

#include "pow_closed_form.h"
#include "pow_dd.h"
#include "pow_exact.h"
#include "pow_fast.h"
#include "pow_int.h"
#include "pow_special.h"
#include "pow_td.h"

namespace halfulp::HALFULP_ISA {

// An integer of any type of up to 64 bits.
struct Integer {
    uint64_t bits;  // of the two's complement
    bool negative;

    uint64_t magnitude() const { return negative ? -bits : bits; }
    double nearest() const {
        return negative ? static_cast<double>(static_cast<int64_t>(bits)) : static_cast<double>(bits);
    }
};

template <Element type>
static Integer integer_of(Storage<type> stored) {
    const auto value = widen<type>(stored);
    return {static_cast<uint64_t>(value), value < 0};
}

// An exponent: the nearest double, and what a 64-bit integer beyond 2^53 has left of it.
struct Exponent {
    double high, low;

    static Exponent of(double value) { return {value, 0}; }
    static Exponent of(const Integer& value) {
        const double high = value.nearest();
        const __int128 exact = value.negative ? __int128{static_cast<int64_t>(value.bits)} : __int128{value.bits};
        return {high, static_cast<double>(static_cast<int64_t>(exact - static_cast<__int128>(high)))};
    }
    uint64_t parity() const { return parity_of(high) ^ (low == 0 ? 0 : parity_of(low)); }
    Dyadic magnitude() const {
        if (low == 0) return dyadic_of(high);
        const __int128 sum = static_cast<__int128>(high) + static_cast<__int128>(low);
        return dyadic_of_integer(static_cast<uint64_t>(sum < 0 ? -sum : sum));
    }
};

// A power's magnitude as an encoding, and whether it is decided.
using Attempt = Decision<uint64_t>;

// The special values' encodings, signs included.
static inline uint64_t encode_special(const ElementRow& type, double x, const Exponent& y, bool domain_error) {
    const uint64_t power = special_power<double>(x, classify(y.high), y.parity(), domain_error);
    if (power == nan_power || (power == zero_power && !type.has_zero())) return type.nan;
    const double magnitude = power == infinite_power ? __builtin_inf() : power == one_power ? 1 : 0;
    return with_sign<uint64_t>(type, encode_magnitude(type, magnitude), bits_of(x), y.parity() & odd);
}

static inline Attempt try_closed_form(const ElementRow& type, double x, const Exponent& y) {
    if (type.precision > 24) {
        if (is_one_operation(y.high, y.low)) return {bits_of(by_one_operation(x, y.high)), true};
        return {0, false};
    }
    if (mantissa_of(x) == 0) {
        const ExactPower power = power_of_power_of_two(x, y.high);
        if (power.inexact == 0) return {encode_magnitude(type, power.value), true};
    }
    const ExactPower power = power_by_products(x, product_exponent(y.high));
    return {encode_magnitude(type, power.value), power.inexact == 0};
}

// Of the exact value's bounds.
static inline Attempt attempt(const ElementRow& type, double least, double greatest) {
    const uint64_t encoding = encode_magnitude(type, least);
    return {encoding, encoding == encode_magnitude(type, greatest)};
}

static inline Attempt try_fast(const ElementRow& type, double x, const Exponent& y) {
    if (type.precision > 24) return {0, false};
    const double power = exp2_fast(clamp(y.high * log2_fast(quotient_fast(x)), 1000));
    return attempt(type, power, power * (1 + 2 * fast_error));
}

static inline Attempt try_double_double(const ElementRow& type, double x, const Exponent& y) {
    const Target target = Target::of(type);
    DoubleDouble t = log2_dd<true>(begin_dd_logarithm<true>(x), y.high, y.low);
    t = {clamp(t.high, target.most_t), clamp(t.low, greatest_t_low)};
    const Rounding rounding = round_to(target, exp2_dd(t, begin_dd_power(t.high)));
    return attempt(type, rounding.least, rounding.greatest);
}

static inline Attempt try_triple_double(const ElementRow& type, double x, const Exponent& y) {
    const auto [t, power] = triple_double_power(x, y.high, y.low);
    if (!(fabs(t) <= greatest_td_t)) return {0, false};
    const Rounding rounding = type.precision > 24 ? round_to_double(power) : round_to_odd(power);
    return attempt(type, rounding.least, rounding.greatest);
}

// |x|^y for a positive finite x and a finite y other than 0.
static inline Attempt pow_magnitude(const ElementRow& type, double x, const Exponent& y) {
    if (Attempt power = try_closed_form(type, x, y); power.decided) return power;
    if (Attempt power = try_fast(type, x, y); power.decided) return power;
    if (Attempt power = try_double_double(type, x, y); power.decided) return power;
    if (Attempt power = try_triple_double(type, x, y); power.decided) return power;
    return pow_exact(type, dyadic_of(x), y.high < 0, y.magnitude());
}

// A power of a floating type, as an encoding. `domain_error` is DirectML's rule (contract N9).
static inline Attempt pow_float(const ElementRow& type, double x, const Exponent& y, bool domain_error) {
    if (y.high == 0 || is_special(x, classify(y.high))) return {encode_special(type, x, y, domain_error), true};
    const Attempt power = pow_magnitude(type, fabs(x), y);
    return {with_sign<uint64_t>(type, power.result, bits_of(x), y.parity()), power.decided};
}

// A power of an integer with an integer.
static inline uint64_t pow_integers(const IntegerRange& range, const Integer& x, const Integer& y) {
    if (y.negative) return reciprocal_power(range, static_cast<int64_t>(x.bits), (y.bits & 1) != 0);
    uint64_t power = 1;
    for (uint64_t square = x.bits, exponent = y.bits; exponent != 0; exponent >>= 1, square *= square)
        if ((exponent & 1) != 0) power *= square;
    return power;
}

// floor(x^y), at most 2^64 - 1, by double-doubles. (What a base beyond 2^53 adds is right: kernels/pow_int_tile.h.)
static inline Decision<uint64_t> try_floor(const Operand& x, double y) {
    constexpr double reciprocal_ln2 = 0x1.71547652b82fep+0;
    DoubleDouble t = log2_dd<false>(begin_dd_logarithm<false>(fabs(x.nearest)), y, 0);
    t.low = multiply_add(y * reciprocal_ln2, x.residual / x.nearest, t.low);
    t = {clamp(t.high, 1000), clamp(t.low, greatest_t_low)};
    const DoubleDoublePower power = exp2_dd(t, begin_dd_power(t.high));
    const DoubleDouble value = fast_two_sum(power.value.high, power.value.low);
    const int64_t k = static_cast<int64_t>(power.k);
    const uint64_t least = floor_of_power(value.high, value.low - power.error, k);
    return {least, least == floor_of_power(value.high, value.low + power.error, k)};
}

// A power of an integer with an exponent of a floating type.
static inline Attempt pow_trunc(const IntegerRange& range, const Integer& x, double y, bool domain_error) {
    const Operand base = Operand::of(x.nearest(), x.magnitude()), exponent = Operand::of(y);
    uint64_t power;
    if (pow_trunc_early(range, base, exponent, domain_error, power)) return {power, true};
    Decision<uint64_t> floor = try_floor(base, y);
    if (!floor.decided) floor = pow_floor(base.magnitude, exponent.negative(), exponent.magnitude);
    return {range.saturate(x.negative && exponent.parity == odd, floor.result), floor.decided};
}

// x^y of any two types.
template <Element type, Element y_type>
static Storage<type> pow(Storage<type> x, Storage<y_type> y, bool domain_error) {
    constexpr bool integral_exponent = !row(y_type).is_float;
    if constexpr (row(type).is_float) {
        Exponent exponent;
        if constexpr (integral_exponent) exponent = Exponent::of(integer_of<y_type>(y));
        else exponent = Exponent::of(decode<y_type>(y));
        return static_cast<Storage<type>>(pow_float(row(type), decode<type>(x), exponent, domain_error).result);
    } else {
        constexpr IntegerRange range = IntegerRange::of(row(type));
        if constexpr (integral_exponent)
            return narrow<type>(pow_integers(range, integer_of<type>(x), integer_of<y_type>(y)));
        else return narrow<type>(pow_trunc(range, integer_of<type>(x), decode<y_type>(y), domain_error).result);
    }
}

}  // namespace halfulp::HALFULP_ISA
