// x^y of one element: the page to read first. The kernels (core/kernels/) compute many elements with the same
// functions; core_check compares the two bit for bit.
//
//   special values   zero, infinity and NaN; y = 0                            pow_special.h
//   closed forms     y = 2, 1/2 and -1, small products, powers of two         pow_closed_form.h
//   fast             doubles; types of at most 24 bits                        pow_fast.h
//   double-double    pairs of doubles                                         pow_dd.h
//   triple-double    triples of doubles                                       pow_td.h
//   exact            192, 320, 512 and 1024 bits                              pow_exact.h
//   integers         modulo 2^bits; or the real power's integer part          pow_int.h
//
// Each phase yields an interval that contains the exact power. If both ends round to the same element, that is the
// result; otherwise the next phase runs (Ziv's strategy). The last phase always decides, because powers that can lie on
// a rounding boundary are found before. ARCHITECTURE.md lists the phases with their errors and proofs.
#pragma once

#include "pow_closed_form.h"
#include "pow_dd.h"
#include "pow_exact.h"
#include "pow_fast.h"
#include "pow_int.h"
#include "pow_special.h"
#include "pow_td.h"

namespace halfulp::HALFULP_ISA {

// The encoding of a power's magnitude, and whether it is decided.
using Attempt = Decision<uint64_t>;

// The encoding of a special value, with its sign.
static inline uint64_t encode_special(const ElementRow& type, double x, const Operand& y, bool domain_error) {
    const uint64_t power = special_power<double>(x, classify(y.high), y.parity(), domain_error);
    if (power == nan_power || (power == zero_power && !type.has_zero())) return type.nan;
    const double magnitude = power == infinite_power ? __builtin_inf() : power == one_power ? 1 : 0;
    return with_sign<uint64_t>(type, encode_magnitude(type, magnitude), bits_of(x), y.parity() & odd);
}

static inline Attempt try_closed_form(const ElementRow& type, double x, const Operand& y) {
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

// Rounds both ends of the interval.
static inline Attempt attempt(const ElementRow& type, double least, double greatest) {
    const uint64_t encoding = encode_magnitude(type, least);
    return {encoding, encoding == encode_magnitude(type, greatest)};
}

static inline Attempt try_fast(const ElementRow& type, double x, const Operand& y) {
    if (type.precision > 24) return {0, false};
    const double power = exp2_fast(clamp(y.high * log2_fast(quotient_fast(x)), 1000));
    return attempt(type, power, power * (1 + 2 * fast_error));
}

static inline Attempt try_double_double(const ElementRow& type, double x, const Operand& y) {
    const Target target = Target::of(type);
    DoubleDouble t = log2_dd<true>(begin_dd_logarithm<true>(x), y.high, y.low);
    t = {clamp(t.high, target.most_t), clamp(t.low, greatest_t_low)};
    const Rounding rounding = round_to(target, exp2_dd(t, begin_dd_power(t.high)));
    return attempt(type, rounding.least, rounding.greatest);
}

static inline Attempt try_triple_double(const ElementRow& type, double x, const Operand& y) {
    const auto [t, power] = triple_double_power(x, y.high, y.low);
    if (!(fabs(t) <= greatest_td_t)) return {0, false};
    const Rounding rounding = type.precision > 24 ? round_to_double(power) : round_to_odd(power);
    return attempt(type, rounding.least, rounding.greatest);
}

// |x|^y for a positive finite x and a finite y other than 0.
static inline Attempt pow_magnitude(const ElementRow& type, double x, const Operand& y) {
    if (Attempt power = try_closed_form(type, x, y); power.decided) return power;
    if (Attempt power = try_fast(type, x, y); power.decided) return power;
    if (Attempt power = try_double_double(type, x, y); power.decided) return power;
    if (Attempt power = try_triple_double(type, x, y); power.decided) return power;
    return pow_exact(type, dyadic_of(x), y.negative(), y.magnitude());
}

// A power of a floating type, as an encoding. `domain_error` is DirectML's rule (contract N9).
static inline Attempt pow_float(const ElementRow& type, double x, const Operand& y, bool domain_error) {
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

// floor(x^y), at most 2^64 - 1, by double-doubles. (kernels/int/pow.h derives the error for bases beyond 2^53.)
static inline Decision<uint64_t> try_floor(const Operand& x, double y) {
    constexpr double reciprocal_ln2 = 0x1.71547652b82fep+0;
    DoubleDouble t = log2_dd<false>(begin_dd_logarithm<false>(fabs(x.high)), y, 0);
    t.low = multiply_add(y * reciprocal_ln2, x.low / x.high, t.low);
    t = {clamp(t.high, 1000), clamp(t.low, greatest_t_low)};
    const DoubleDoublePower power = exp2_dd(t, begin_dd_power(t.high));
    const DoubleDouble value = fast_two_sum(power.value.high, power.value.low);
    const int64_t k = static_cast<int64_t>(power.k);
    const uint64_t least = floor_of_power(value.high, value.low - power.error, k);
    return {least, least == floor_of_power(value.high, value.low + power.error, k)};
}

// A power of an integer with an exponent of a floating type.
static inline Attempt pow_trunc(const IntegerRange& range, const Integer& x, double y, bool domain_error) {
    const Operand base = Operand::of(x), exponent = Operand::of(y);
    uint64_t power;
    if (pow_trunc_early(range, base, exponent, domain_error, power)) return {power, true};
    Decision<uint64_t> floor = try_floor(base, y);
    if (!floor.decided) floor = pow_floor(base.magnitude(), exponent.negative(), exponent.magnitude());
    return {range.saturate(x.negative && exponent.parity() == odd, floor.result), floor.decided};
}

// x^y of any two types.
template <Element type, Element y_type>
static Storage<type> pow(Storage<type> x, Storage<y_type> y, bool domain_error) {
    const auto exponent_of = [=] {
        if constexpr (row(y_type).is_float) return decode<y_type>(y);
        else return Integer::of(widen<y_type>(y));
    };
    if constexpr (row(type).is_float) {
        const Operand exponent = Operand::of(exponent_of());
        return static_cast<Storage<type>>(pow_float(row(type), decode<type>(x), exponent, domain_error).result);
    } else {
        constexpr IntegerRange range = IntegerRange::of(row(type));
        const Integer base = Integer::of(widen<type>(x));
        if constexpr (row(y_type).is_float)
            return narrow<type>(pow_trunc(range, base, exponent_of(), domain_error).result);
        else return narrow<type>(pow_integers(range, base, exponent_of()));
    }
}

}  // namespace halfulp::HALFULP_ISA
