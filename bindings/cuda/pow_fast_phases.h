// The first phase of a power for one element, on a GPU, where threads may diverge. It handles most special values,
// signs, overflow and underflow too; numerics/pow.h computes the elements that it leaves undecided. It prefers integer
// operations to conversions, which take as long as four operations of doubles there.
#pragma once

#include "numerics/pow.h"

namespace halfulp::HALFULP_ISA {

// A type's value as a float.
template <Element type>
HALFULP_INLINE float float_of(Storage<type> x) {
    if constexpr (type == Element::float16) return float_of_half(x);
    else return decode_float<type>(x);
}

// Rounds a float of any sign to a type of 16 bits. NaN gives a NaN.
template <Element type>
HALFULP_INLINE Storage<type> short_of(float value) {
    if constexpr (type == Element::float16) {
        return half_of_float(value);
    } else {
        const uint32_t bits = word_of(value);
        return static_cast<Storage<type>>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

// The encoding of a power, and whether it is decided. `special`: the operands need encode_special.
template <Element type>
struct FastPower {
    Storage<type> encoding;
    bool decided, special = false;
};

// Rounds a positive double to a type of at most 24 bits. It is decided if [power, power * up] rounds to one encoding.
template <Element type>
HALFULP_INLINE FastPower<type> round_interval(double power, double up) {
    const uint32_t encoding = round_once(row(type), power);
    return {static_cast<Storage<type>>(encoding), encoding == round_once(row(type), power * up)};
}

// The same for a power of the fast phase that is a normal float or overflows to infinity. For float32 it tests the
// double's lower bits (as kernels/float/lanes.h does for a tile).
template <Element type>
HALFULP_INLINE FastPower<type> round_normal_power(double power) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, static_cast<float>(power));
    if constexpr (type == Element::float32) {
        constexpr uint32_t boundary = uint32_t{1} << 28, lower_bits = 2 * boundary - 1;
        constexpr uint32_t width = static_cast<uint32_t>(2 * fast_error * 0x1p53);
        return {bits, ((boundary - static_cast<uint32_t>(bits_of(power))) & lower_bits) > width};
    } else {
        // The exact power is between the float's neighbours. The only boundary of bfloat16 there is the float itself.
        const float value = __builtin_bit_cast(float, bits);
        Storage<type> encoding;
        bool decided;
        if constexpr (type == Element::bfloat16) {
            const RoundedFloat rounded = round_to_bfloat16(value);
            encoding = static_cast<Storage<type>>(rounded.encoding);
            decided = rounded.from_tie != 0;
        } else {
            encoding = half_of_float(__builtin_bit_cast(float, bits - 1));
            decided = encoding == half_of_float(__builtin_bit_cast(float, bits + 1));
        }
        if (!decided) return round_interval<type>(power, 1 + 2 * fast_error);
        return {encoding, true};
    }
}

// x^y of float32, float16 and bfloat16.
template <Element type>
HALFULP_INLINE FastPower<type> pow_of_float(Storage<type> x, const Operand& y) {
    const uint32_t bits = word_of(float_of<type>(x)), magnitude = bits & 0x7fffffff;
    const double t = y.high * log2_fast_by_table(magnitude);
    FastPower<type> power = round_normal_power<type>(exp2_fast(t));
    const bool beyond = beyond_normal(t) >> 8 != 0;  // also for an infinite exponent and NaN
    // One branch for all rare cases: the base is not a positive normal float.
    if (beyond || bits - 0x00800000 >= 0x7f800000 - 0x00800000) {
        if (beyond) power = round_interval<type>(exp2_fast(clamp(t, 1000)), 1 + 2 * fast_error);
        power.special = is_special(__builtin_bit_cast(float, bits), classify(y.high));
        power.decided &= magnitude >= 0x00800000;
        const uint32_t parity = static_cast<uint32_t>(y.parity());
        power.encoding = static_cast<Storage<type>>(with_sign<uint32_t>(row(type), power.encoding, bits, parity));
    }
    return power;
}

// x^y of float64, by double-doubles and tables.
HALFULP_INLINE FastPower<Element::float64> pow_of_float64(uint64_t x, const Operand& y) {
    constexpr uint64_t least_normal = uint64_t{1} << 52, infinity = row(Element::float64).overflow;
    constexpr double overflowing = 1025, vanishing = -1080;
    const uint64_t magnitude = x & ~double_sign;
    const DoubleDouble t = log2_dd<true>(begin_dd_logarithm<false>(double_of(magnitude)), y.high, y.low);
    const NormalRounding rounding = round_normal(exp2_dd(t, begin_dd_power(t.high)));
    FastPower<Element::float64> power = {rounding.encoding, rounding.undecided == 0};
    const bool beyond = !(fabs(t.high) <= 1020);
    if (beyond || x - least_normal >= infinity - least_normal) {
        if (beyond) {
            power.encoding = t.high > 0 ? infinity : 0;
            power.decided = t.high >= overflowing || t.high <= vanishing;
        }
        power.special = is_special(double_of(x), classify(y.high));
        power.decided &= magnitude >= least_normal;
        power.encoding = with_sign<uint64_t>(row(Element::float64), power.encoding, x, y.parity());
    }
    return power;
}

// x^y, y of any type (see Operand).
template <Element type>
HALFULP_INLINE FastPower<type> pow_fast(Storage<type> x, const Operand& y) {
    if constexpr (type == Element::float64) return pow_of_float64(x, y);
    else return pow_of_float<type>(x, y);
}

// The base in the type in which formulas compute.
template <Element type>
HALFULP_INLINE auto formula_base(Storage<type> x) {
    if constexpr (type == Element::float64) return double_of(x);
    else return float_of<type>(x);
}

// The encoding of a number of that type. For shorter types both roundings together are right
// (kernels/closed_form/operations.h).
template <Element type, typename Real>
HALFULP_INLINE Storage<type> encode_formula(Real number) {
    if constexpr (sizeof(Real) == sizeof(Storage<type>)) return word_of(number);
    else return short_of<type>(number);
}

// x^2, 1/x and x^(1/2) by one correctly rounded operation, for special values too.
template <Element type, Shortcut shortcut>
HALFULP_INLINE FastPower<type> pow_by_operation(Storage<type> x) {
    constexpr Storage<type> sign = row(type).sign(), nan = row(type).nan, infinity = row(type).overflow;
    constexpr bool is_root = shortcut == Shortcut::root;
    const auto base = formula_base<type>(x);
    const Storage<type> power = encode_formula<type>(exact_power_of<shortcut>(is_root ? fabs(base) : base));
    const bool is_nan = base != base || (is_root && (x & sign) != 0 && power != 0 && power != infinity);
    return {is_nan ? nan : power, true};
}

// The power by the formula of a constant exponent.
template <Element type, Shortcut shortcut>
HALFULP_INLINE FastPower<type> pow_by_shortcut(Storage<type> x, const Operand& y) {
    if constexpr (is_exact(shortcut)) {
        return pow_by_operation<type, shortcut>(x);
    } else {
        const float base = float_of<type>(x);
        const uint32_t bits = word_of(base), parity = static_cast<uint32_t>(parity_of(y.high));
        FastPower<type> power = round_interval<type>(power_of_any<shortcut>(fabs(base)), 1 + 2 * shortcut_error);
        power.encoding = static_cast<Storage<type>>(with_sign<uint32_t>(row(type), power.encoding, bits, parity));
        power.special = is_special(base, uint32_t{0});
        return power;
    }
}

}  // namespace halfulp::HALFULP_ISA
