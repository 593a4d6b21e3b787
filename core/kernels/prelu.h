// PReLU: x < 0 ? slope * x : x.
//
//   guarantee   floating types: the product rounded once (types of at most 24 bits: the exact product of two
//               doubles' worth of bits, then one rounding); a NaN product is the canonical NaN; every x that is not
//               below zero, NaN and the zeros included, is copied bit for bit. Integers: the product modulo 2^bits
#pragma once

#include "../codec.h"

namespace halfulp::HALFULP_ISA {

template <Element type>
HALFULP_INLINE Storage<type> prelu(Storage<type> x, Storage<type> slope) {
    constexpr ElementRow to = row(type);
    if constexpr (type == Element::float32) {
        float base = __builtin_bit_cast(float, x);
        float product = base * __builtin_bit_cast(float, slope);
        uint32_t bits = product != product ? static_cast<uint32_t>(to.nan) : __builtin_bit_cast(uint32_t, product);
        return base < 0 ? bits : x;
    } else if constexpr (to.is_float) {
        double base = decode<type>(x);
        return base < 0 ? encode<type>(base * decode<type>(slope)) : x;
    } else if constexpr (to.is_signed) {
        // Unsigned arithmetic of at least 32 bits: it wraps, and narrow types do not promote to int.
        using Wide = std::conditional_t<sizeof(x) == 8, uint64_t, uint32_t>;
        Storage<type> base = widen<type>(x);
        return base < 0 ? narrow<type>(static_cast<Wide>(base) * static_cast<Wide>(slope)) : x;
    } else {
        return x;
    }
}

}  // namespace halfulp::HALFULP_ISA
