// Between the encodings of the element types and double, and from exact values to encodings. Branch-free
// where the hot loops use it.
#pragma once

#include <bit>

#include "element.h"

namespace halfulp::HALFULP_ISA {

static constexpr uint64_t double_sign = uint64_t{1} << 63;
static constexpr double round_magic = 0x1.8p52;  // x + round_magic - round_magic: x to an integer, |x| < 2^51

HALFULP_INLINE uint64_t bits_of(double value) { return __builtin_bit_cast(uint64_t, value); }
HALFULP_INLINE double double_of(uint64_t bits) { return __builtin_bit_cast(double, bits); }
// 2^exponent for a normal double.
HALFULP_INLINE double power_of_two(int64_t exponent) { return double_of(static_cast<uint64_t>(exponent + 1023) << 52); }

// An integer element as a number of its storage type. The upper half of a 4-bit element is ignored.
template <Element element>
HALFULP_INLINE Storage<element> widen(Storage<element> stored) {
    constexpr int spare = 8 * sizeof(stored) - row(element).bits;
    return static_cast<Storage<element>>(static_cast<Storage<element>>(stored << spare) >> spare);
}

// The low bits of a word as an integer element. The upper half of a 4-bit element is zero, as ml_dtypes stores it.
template <Element element>
HALFULP_INLINE Storage<element> narrow(uint64_t word) {
    return static_cast<Storage<element>>(row(element).bits == 4 ? word & 0xf : word);
}

// The exact value of an element of any type except the 64-bit integers.
template <Element element>
HALFULP_INLINE double decode(Storage<element> stored) {
    constexpr ElementRow type = row(element);
    if constexpr (element == Element::float64) {
        return double_of(stored);
    } else if constexpr (element == Element::float32) {
        return __builtin_bit_cast(float, stored);
    } else if constexpr (!type.is_float) {
        return static_cast<double>(widen<element>(stored));
    } else {
        constexpr uint64_t magnitude_mask = (type.sign() ? type.sign() : uint64_t{1} << type.bits) - 1;
        uint64_t magnitude = stored & magnitude_mask;
        // The exponent field of a double, subnormals included, then the difference of the biases.
        double value = double_of(magnitude << (52 - type.fraction_bits())) * power_of_two(1023 - type.bias);
        if constexpr (!type.has_zero()) value = double_of((magnitude + 1023 - type.bias) << 52);
        if constexpr (type.has_infinity()) value = magnitude == type.overflow ? __builtin_inf() : value;
        if constexpr (type.nan != type.sign())
            value = magnitude > (type.has_infinity() ? type.overflow : type.largest) ? __builtin_nan("") : value;
        value = (stored & type.sign()) != 0 ? -value : value;
        if constexpr (!type.has_minus_zero() && type.has_zero()) value = stored == type.nan ? __builtin_nan("") : value;
        return value;
    }
}

// The exact value as a float, in 32-bit lanes, for the types whose values are floats.
template <Element element>
HALFULP_INLINE float decode_float(Storage<element> stored) {
    if constexpr (element == Element::float32) {
        return __builtin_bit_cast(float, stored);
    } else if constexpr (element == Element::bfloat16) {
        return __builtin_bit_cast(float, static_cast<uint32_t>(stored) << 16);
    } else if constexpr (element == Element::float16) {
        uint32_t magnitude = stored & 0x7fffu, sign = (stored & 0x8000u) << 16;
        // The exponent field of a float, subnormals included, times the difference of the biases.
        float scaled = __builtin_bit_cast(float, magnitude << 13) * 0x1p112f;
        uint32_t bits = magnitude < 0x7c00 ? __builtin_bit_cast(uint32_t, scaled) : magnitude << 13 | 0x7f800000;
        return __builtin_bit_cast(float, bits | sign);
    } else {
        return static_cast<float>(decode<element>(stored));
    }
}

// The result of rounding a magnitude to the grid of a type, before it is packed.
struct Rounded {
    uint64_t encoding;  // may exceed the greatest finite encoding
    double residual;    // the distance of the magnitude from the grid, in units of its spacing: 1/2 is a tie
};

// Rounds a magnitude >= 0 to nearest, ties to even, for any type but float64. The magnitude is scaled so that
// the last bit of the result counts one; adding 2^52 then rounds it, once, at the right place for
// subnormals too.
HALFULP_INLINE Rounded round_magnitude(const ElementRow& type, double magnitude) {
    const double beyond = power_of_two(type.greatest_exponent() + 2), floor = power_of_two(type.least_exponent());
    double clamp = magnitude < beyond ? magnitude : beyond;
    uint64_t exponent = bits_of(clamp > floor ? clamp : floor) >> 52;
    double scale = double_of((static_cast<uint64_t>(type.fraction_bits() + 2046) - exponent) << 52);
    double scaled = clamp * scale;
    double shifted = scaled + 0x1p52;
    uint64_t integer = bits_of(shifted) & ((uint64_t{1} << 52) - 1);
    uint64_t binade = exponent - static_cast<uint64_t>(type.least_exponent() + 1023);
    double residual = scaled - (shifted - 0x1p52);
    uint64_t encoding = (binade << type.fraction_bits()) + integer;
    const uint64_t first = type.has_zero() ? 0 : 1;
    encoding -= encoding == 0 ? 0 : first;
    return {encoding, residual < 0 ? -residual : residual};
}

// A magnitude's encoding, rounded from a double, for any type but float64; and for those shorter than float32.
HALFULP_INLINE uint32_t round_short(const ElementRow& type, double magnitude) {
    uint64_t encoding = round_magnitude(type, magnitude).encoding;
    return static_cast<uint32_t>(encoding > type.largest ? type.overflow : encoding);
}
HALFULP_INLINE uint32_t round_once(const ElementRow& type, double magnitude) {
    if (type.precision == 24) return __builtin_bit_cast(uint32_t, static_cast<float>(magnitude));
    return round_short(type, magnitude);
}

// Rounds a float to float16 or bfloat16 in 32-bit lanes: the same as round_magnitude, with the final encoding.
struct RoundedFloat {
    uint32_t encoding;
    uint32_t from_tie;  // 0 for a tie
};

// float32's upper half, subnormals included.
HALFULP_INLINE RoundedFloat round_to_bfloat16(float magnitude) {
    uint32_t bits = __builtin_bit_cast(uint32_t, magnitude);
    return {(bits + 0x7fff + (bits >> 16 & 1)) >> 16, (bits & 0xffff) ^ 0x8000};
}

HALFULP_INLINE RoundedFloat round_to_float16(float magnitude) {
    constexpr float most = 0x1p17f, least_normal = 0x1p-14f;
    magnitude = magnitude < most ? magnitude : most;
    uint32_t exponent = __builtin_bit_cast(uint32_t, magnitude > least_normal ? magnitude : least_normal) >> 23;
    float scaled = magnitude * __builtin_bit_cast(float, (10 + 254 - exponent) << 23);
    float shifted = scaled + 0x1p23f;
    uint32_t encoding = ((exponent - 113) << 10) + (__builtin_bit_cast(uint32_t, shifted) & 0x7fffff);
    uint32_t residual = __builtin_bit_cast(uint32_t, __builtin_fabsf(scaled - (shifted - 0x1p23f)));
    return {encoding < 0x7c00 ? encoding : 0x7c00, residual ^ __builtin_bit_cast(uint32_t, 0.5f)};
}

// The same, for a magnitude not below float16's normal range.
HALFULP_INLINE RoundedFloat round_to_normal_float16(float magnitude) {
    uint32_t bits = __builtin_bit_cast(uint32_t, magnitude);
    uint32_t encoding = ((bits + 0xfff + (bits >> 13 & 1)) >> 13) - (112 << 10);
    return {encoding < 0x7c00 ? encoding : 0x7c00, (bits & 0x1fff) ^ 0x1000};
}

// A double to nearest, ties to even; infinities and overflow as elements.def says, NaN to the canonical NaN.
template <Element element>
HALFULP_INLINE Storage<element> encode(double value) {
    constexpr ElementRow type = row(element);
    if constexpr (element == Element::float64) {
        return value != value ? type.nan : bits_of(value);
    } else if constexpr (element == Element::float32) {
        return value != value ? static_cast<uint32_t>(type.nan)
                              : __builtin_bit_cast(uint32_t, static_cast<float>(value));
    } else {
        uint64_t negative = bits_of(value) >> 63;
        uint64_t encoding = round_magnitude(row(element), value < 0 ? -value : value).encoding;
        encoding = encoding > type.largest ? type.overflow : encoding;
        encoding = value != value ? type.nan : encoding;
        if constexpr (!type.has_zero()) {
            encoding = value == 0 || value < 0 ? type.nan : encoding;
        } else {
            uint64_t sign = value == value ? negative * type.sign() : 0;
            if constexpr (type.bits != 4) sign = encoding == type.nan ? 0 : sign;
            if constexpr (!type.has_minus_zero()) sign = encoding == 0 ? 0 : sign;
            encoding |= sign;
        }
        return static_cast<Storage<element>>(encoding);
    }
}

// Rounds significand * 2^(exponent - 63) once to a floating type. The significand's top bit is set. If `sticky`, the
// value is greater than that by less than one unit of the significand's last bit.
HALFULP_INLINE uint64_t encode_exact(const ElementRow& type, bool negative, uint64_t significand, int exponent,
                                     bool sticky) {
    int position = exponent > type.least_exponent() ? exponent : type.least_exponent();
    int dropped = 63 - type.fraction_bits() + (position - exponent);
    uint64_t integer = 0;
    bool up = false;
    if (dropped < 64) {
        integer = significand >> dropped;
        uint64_t residual = significand & ((uint64_t{1} << dropped) - 1), half = uint64_t{1} << (dropped - 1);
        up = residual > half || (residual == half && (sticky || (integer & 1)));
    } else if (dropped == 64) {
        up = significand > uint64_t{1} << 63 || sticky;
    }
    if (position > type.greatest_exponent() + 1) position = type.greatest_exponent() + 1;
    uint64_t binade = static_cast<uint64_t>(position - type.least_exponent());
    uint64_t encoding = (binade << type.fraction_bits()) + integer + up;
    if (!type.has_zero()) encoding -= encoding != 0;
    if (encoding > type.largest) encoding = type.overflow;
    if (negative && (type.bits == 4 || encoding != type.nan) && (type.has_minus_zero() || encoding != 0))
        encoding |= type.sign();
    return encoding;
}

// Rounds a magnitude or an infinity once, for any type. Zero means a magnitude that is too small for a double.
HALFULP_INLINE uint64_t encode_magnitude(const ElementRow& type, double magnitude) {
    return type.precision > 24 ? bits_of(magnitude) : round_once(type, magnitude);
}

}  // namespace halfulp::HALFULP_ISA
