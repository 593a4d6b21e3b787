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

// An exponent: the nearest double, and what a 64-bit integer beyond 2^53 has left of it.
struct Exponent {
    double high, low;

    uint64_t parity() const { return parity_of(high) ^ (low == 0 ? 0 : parity_of(low)); }
    Dyadic magnitude() const {
        if (low == 0) return dyadic_of(high);
        const __int128 sum = static_cast<__int128>(high) + static_cast<__int128>(low);
        return dyadic_of_integer(static_cast<uint64_t>(sum < 0 ? -sum : sum));
    }
};

template <Element type>
static Exponent exponent_of(Storage<type> stored) {
    if constexpr (!row(type).is_float) {
        const auto value = widen<type>(stored);
        const double high = static_cast<double>(value);
        return {high,
                static_cast<double>(static_cast<int64_t>(static_cast<__int128>(value) - static_cast<__int128>(high)))};
    } else {
        return {decode<type>(stored), 0};
    }
}

// A power's magnitude as an encoding, and whether it is decided.
using Attempt = Decision<uint64_t>;

// The special values' encodings, signs included.
template <Element type>
static uint64_t encode_special(double x, const Exponent& y, bool domain_error) {
    const uint64_t power = special_power<double>(x, classify(y.high), y.parity(), domain_error);
    if (power == nan_power) return row(type).nan;
    const double magnitude = power == infinite_power ? __builtin_inf() : power == one_power ? 1 : 0;
    return with_sign<type, uint64_t>(encode<type>(magnitude), bits_of(x), y.parity() & odd);
}

template <Element type>
static Attempt try_closed_form(double x, const Exponent& y) {
    if constexpr (type == Element::float64) {
        if (is_one_operation(y.high, y.low)) return {bits_of(by_one_operation(x, y.high)), true};
        return {0, false};
    } else {
        if (mantissa_of(x) == 0) {
            const ExactPower power = power_of_power_of_two(x, y.high);
            if (power.inexact == 0) return {round_once<type>(power.value), true};
        }
        const ExactPower power = power_by_products(x, product_exponent(y.high));
        return {round_once<type>(power.value), power.inexact == 0};
    }
}

template <Element type>
static Attempt try_fast(double x, const Exponent& y) {
    const double power = exp2_fast(clamp(y.high * log2_fast(quotient_fast(x)), 1000));
    const uint64_t least = round_once<type>(power), greatest = round_once<type>(power * (1 + 2 * fast_error));
    return {least, least == greatest};
}

// To the type's grid; for types of at most 24 bits the double still has to be encoded.
template <Element type>
static Attempt attempt(const Rounding& rounding) {
    if constexpr (type == Element::float64) return {bits_of(rounding.least), rounding.least == rounding.greatest};
    else
        return {round_once<type>(rounding.least),
                round_once<type>(rounding.least) == round_once<type>(rounding.greatest)};
}

template <Element type>
static Attempt try_double_double(double x, const Exponent& y) {
    constexpr Target target = Target::of(row(type));
    DoubleDouble t = log2_dd(quotient_dd<true>(x), y.high, y.low);
    t = {clamp(t.high, target.most_t), clamp(t.low, greatest_t_low)};
    return attempt<type>(round_to(target, exp2_dd(t, exp2_dd_start(t.high))));
}

template <Element type>
static Attempt try_triple_double(double x, const Exponent& y) {
    const auto [t, power] = triple_double_power(x, y.high, y.low);
    if (!(fabs(t) <= greatest_td_t)) return {0, false};
    if constexpr (type == Element::float64) return attempt<type>(round_to_double(power));
    else return attempt<type>(round_to_odd(power));
}

template <Element type>
static Attempt try_exact(double x, const Exponent& y) {
    return pow_exact(row(type), dyadic_of(x), y.high < 0, y.magnitude());
}

// |x|^y for a positive finite x and a finite y other than 0.
template <Element type>
static uint64_t pow_magnitude(double x, const Exponent& y) {
    if (Attempt power = try_closed_form<type>(x, y); power.decided) return power.result;
    if constexpr (row(type).precision <= 24)
        if (Attempt power = try_fast<type>(x, y); power.decided) return power.result;
    if (Attempt power = try_double_double<type>(x, y); power.decided) return power.result;
    if (Attempt power = try_triple_double<type>(x, y); power.decided) return power.result;
    return try_exact<type>(x, y).result;
}

// A power of a floating type, as an encoding. `domain_error` is DirectML's rule (contract N9).
template <Element type>
static uint64_t pow_float(double x, const Exponent& y, bool domain_error) {
    if (y.high == 0 || is_special(x, classify(y.high))) return encode_special<type>(x, y, domain_error);
    return with_sign<type, uint64_t>(pow_magnitude<type>(fabs(x), y), bits_of(x), y.parity());
}

// A power of an integer type.
template <Element type, Element y_type>
static uint64_t pow_integer(Storage<type> stored, Storage<y_type> stored_y, bool domain_error) {
    constexpr IntegerRange range = IntegerRange::of(row(type));
    const auto x = widen<type>(stored);
    if constexpr (!row(y_type).is_float) {
        const auto y = widen<y_type>(stored_y);
        if (y < 0) return reciprocal_power(range, static_cast<int64_t>(x), (y & 1) != 0);
        return power<64>(static_cast<uint64_t>(x), static_cast<uint64_t>(y));
    } else {
        const uint64_t bits = static_cast<uint64_t>(x);
        const Operand base = Operand::of(static_cast<double>(x), x < 0 ? -bits : bits);
        const Operand exponent = Operand::of(decode<y_type>(stored_y));
        uint64_t power;
        if (pow_trunc_early(range, base, exponent, domain_error, power)) return power;
        const Decision<uint64_t> floor = pow_floor(base.magnitude, exponent.negative(), exponent.magnitude);
        return range.saturate(base.negative() && exponent.parity == odd, floor.result);
    }
}

// x^y of any two types.
template <Element type, Element y_type>
static Storage<type> pow(Storage<type> x, Storage<y_type> y, bool domain_error) {
    if constexpr (row(type).is_float)
        return static_cast<Storage<type>>(pow_float<type>(decode<type>(x), exponent_of<y_type>(y), domain_error));
    else return narrow<type>(pow_integer<type, y_type>(x, y, domain_error));
}

}  // namespace halfulp::HALFULP_ISA
