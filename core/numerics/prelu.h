// PReLU: x < 0 ? slope * x : x.
//
//   guarantee   floating types: the product, rounded once (types of at most 24 bits: the exact product, then one
//               rounding). A NaN product is the canonical NaN. Every x that is not negative, including NaN and both
//               zeros, is copied bit for bit. Integers: the product modulo 2^bits
#pragma once

#include "../formats/convert.h"

namespace halfulp::HALFULP_ISA {

// Selects one of two encodings by masks. For a conditional, compilers generate a load that depends on the comparison,
// so that memory is not prefetched.
template <typename Bits>
HALFULP_INLINE Bits select(bool is_first, Bits first, Bits second) {
    Bits mask = static_cast<Bits>(is_first ? -1 : 0);
    return static_cast<Bits>((first & mask) | (second & ~mask));
}

template <Element type>
HALFULP_INLINE Storage<type> prelu(Storage<type> x, Storage<type> slope) {
    constexpr ElementRow to = row(type);
    if constexpr (type == Element::float32 || type == Element::float64) {
        using Real = std::conditional_t<type == Element::float32, float, double>;
        Real base = __builtin_bit_cast(Real, x), product = base * __builtin_bit_cast(Real, slope);
        auto bits =
            product != product ? static_cast<Storage<type>>(to.nan) : __builtin_bit_cast(Storage<type>, product);
        return select(base < 0, bits, x);
    } else if constexpr (type == Element::float16 || type == Element::bfloat16) {
        // The exact product of two float16 is a float. So is the product of two bfloat16, unless it is below 2^-134:
        // then it rounds to zero, and so does the float next to it.
        const float base = decode_float<type>(x), product = base * decode_float<type>(slope);
        const uint32_t bits = __builtin_bit_cast(uint32_t, product), magnitude = bits & 0x7fffffff;
        const float size = __builtin_bit_cast(float, magnitude);
        const RoundedFloat rounded = type == Element::float16 ? round_to_float16(size) : round_to_bfloat16(size);
        const uint32_t encoding =
            magnitude > 0x7f800000 ? static_cast<uint32_t>(to.nan) : rounded.encoding | bits >> 31 << 15;
        return select(base < 0, static_cast<Storage<type>>(encoding), x);
    } else if constexpr (to.is_float) {
        double base = decode<type>(x);
        return select(base < 0, encode<type>(base * decode<type>(slope)), x);
    } else if constexpr (to.is_signed) {
        // Unsigned arithmetic of at least 32 bits: it wraps, and narrow types do not promote to int.
        using Wide = std::conditional_t<sizeof(x) == 8, uint64_t, uint32_t>;
        using Bits = std::make_unsigned_t<Storage<type>>;
        Storage<type> base = widen<type>(x);
        Bits product = static_cast<Bits>(static_cast<Wide>(base) * static_cast<Wide>(slope));
        return narrow<type>(select(base < 0, product, static_cast<Bits>(base)));
    } else {
        return x;
    }
}

}  // namespace halfulp::HALFULP_ISA
