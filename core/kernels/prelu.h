// PReLU: x < 0 ? slope * x : x.
//
//   guarantee   floating types: the product rounded once (types of at most 24 bits: the exact product of two
//               doubles' worth of bits, then one rounding); a NaN product is the canonical NaN; every x that is not
//               below zero, NaN and the zeros included, is copied bit for bit. Integers: the product modulo 2^bits
#pragma once

#include "../codec.h"
#include "half.h"

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

// float16: the product of two such numbers is a float, exactly.
static void prelu_half(const uint16_t* __restrict x, const uint16_t* __restrict slope, uint16_t* __restrict out,
                       int n) {
    alignas(64) float products[tile_size], slopes[tile_size];
    alignas(64) uint16_t encodings[tile_size];
    decode_half(x, products, n);
    decode_half(slope, slopes, n);
    for (int i = 0; i < n; ++i) products[i] *= slopes[i];  // vector loop
    encode_half(products, encodings, n);
    for (int i = 0; i < n; ++i) {  // vector loop
        uint16_t magnitude = encodings[i] & 0x7fff;
        uint16_t product = magnitude > 0x7c00 ? uint16_t{0x7e00} : encodings[i];
        uint16_t from_least = static_cast<uint16_t>(x[i] - 0x8001);  // negative numbers are 0x8001 to 0xfc00
        out[i] = from_least < 0x7c00 ? product : x[i];
    }
}

// bfloat16, in 32-bit lanes: the product of two such numbers is a float, exactly, unless it is below float's normal
// range.
struct BFloat16Product {
    uint16_t result;
    uint32_t
        size;  // the product's magnitude, as a float's encoding minus 1: a zero, which needs no care, is the greatest
};

HALFULP_INLINE BFloat16Product prelu_bfloat16(uint16_t x, uint16_t slope) {
    float base = decode_float<Element::bfloat16>(x), product = base * decode_float<Element::bfloat16>(slope);
    uint32_t bits = __builtin_bit_cast(uint32_t, product), magnitude = bits & 0x7fffffff;
    uint32_t encoding = round_to_bfloat16(__builtin_bit_cast(float, magnitude)).encoding | bits >> 31 << 15;
    encoding = product != product ? 0x7fc0 : encoding;
    return {base < 0 ? static_cast<uint16_t>(encoding) : x, magnitude - 1};
}

}  // namespace halfulp::HALFULP_ISA
