// PReLU: x < 0 ? slope * x : x.
//
//   guarantee   floating types: the product rounded once (types of at most 24 bits: the exact product of two
//               doubles' worth of bits, then one rounding); a NaN product is the canonical NaN; every x that is not
//               below zero, NaN and the zeros included, is copied bit for bit. Integers: the product modulo 2^bits
#pragma once

#include <cstring>

#include "../codec.h"
#include "half.h"

namespace halfulp::HALFULP_ISA {

// One of two encodings, by masks: of a selection compilers make a load that waits for the comparison, and memory is not
// read ahead.
template <typename Bits>
HALFULP_INLINE Bits chosen(bool is_first, Bits first, Bits second) {
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
        return chosen(base < 0, bits, x);
    } else if constexpr (to.is_float) {
        double base = decode<type>(x);
        return chosen(base < 0, encode<type>(base * decode<type>(slope)), x);
    } else if constexpr (to.is_signed) {
        // Unsigned arithmetic of at least 32 bits: it wraps, and narrow types do not promote to int.
        using Wide = std::conditional_t<sizeof(x) == 8, uint64_t, uint32_t>;
        using Bits = std::make_unsigned_t<Storage<type>>;
        Storage<type> base = widen<type>(x);
        Bits product = static_cast<Bits>(static_cast<Wide>(base) * static_cast<Wide>(slope));
        return narrow<type>(chosen(base < 0, product, static_cast<Bits>(base)));
    } else {
        return x;
    }
}

// bfloat16, two at a time in the halves of a 32-bit lane, each in turn as the upper half of a float: the product of two
// such numbers is a float, exactly, unless it is below float's normal range.
struct BFloat16Product {
    uint32_t result;
    uint32_t size;  // twice the product's magnitude, less 2: a zero, which needs no care, is the greatest
};

static constexpr uint32_t normal_size = (uint32_t{0x00800000} << 1) - 2;

HALFULP_INLINE BFloat16Product prelu_upper_half(uint32_t x, uint32_t slope) {
    float base = __builtin_bit_cast(float, x), product = base * __builtin_bit_cast(float, slope);
    uint32_t bits = __builtin_bit_cast(uint32_t, product);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    rounded = product != product ? 0x7fc00000 : rounded;
    return {chosen(base < 0, rounded, x), (bits << 1) - 2};
}

HALFULP_INLINE BFloat16Product prelu_both_halves(uint32_t x, uint32_t slope) {
    BFloat16Product upper = prelu_upper_half(x & 0xffff0000, slope & 0xffff0000);
    BFloat16Product lower = prelu_upper_half(x << 16, slope << 16);
    return {upper.result | lower.result >> 16, upper.size < lower.size ? upper.size : lower.size};
}

// Returns whether all products were exact; else the results mean nothing.
template <bool one_slope>
static bool prelu_bfloat16(const uint16_t* __restrict x, const uint16_t* __restrict slope, uint16_t* __restrict out,
                           int n) {
    uint32_t least = ~uint32_t{0};
    for (int i = 0; i < n / 2; ++i) {  // vector loop
        uint32_t bases, slopes = slope[0] * uint32_t{0x10001};
        std::memcpy(&bases, x + 2 * i, sizeof(bases));
        if (!one_slope) std::memcpy(&slopes, slope + 2 * i, sizeof(slopes));
        BFloat16Product product = prelu_both_halves(bases, slopes);
        std::memcpy(out + 2 * i, &product.result, sizeof(product.result));
        least = least < product.size ? least : product.size;
    }
    if (n % 2 != 0) out[n - 1] = prelu<Element::bfloat16>(x[n - 1], slope[one_slope ? 0 : n - 1]);
    return least >= normal_size;
}

}  // namespace halfulp::HALFULP_ISA
