// PReLU (numerics/prelu.h) in loops.
#pragma once

#include <cstring>

#include "../numerics/prelu.h"
#include "../simd/float16.h"

namespace halfulp::HALFULP_ISA {

// Keeps the products of negative bases in `out`, with a canonical NaN, and replaces the others by their bases.
template <Element type>
static void take_products(const uint16_t* __restrict x, uint16_t* __restrict out, int n) {
    constexpr uint16_t infinity = row(type).overflow, nan = row(type).nan, least = 0x8001;
    for (int i = 0; i < n; ++i) {  // vector loop
        const uint16_t product = (out[i] & 0x7fff) > infinity ? nan : out[i];
        const uint16_t from_least = static_cast<uint16_t>(x[i] - least);
        out[i] = from_least < infinity ? product : x[i];
    }
}

// The product of two bfloat16 that are the upper halves of floats, rounded, in the upper half of the result. The exact
// product has 16 bits and is a float, unless it is below 2^-134: then the float next to it rounds to zero too, as it
// should. The lower half of a NaN is zero, so that nothing is carried.
HALFULP_INLINE uint32_t product_in_upper_half(uint32_t x, uint32_t slope) {
    uint32_t bits = word_of(__builtin_bit_cast(float, x) * __builtin_bit_cast(float, slope));
    return bits + 0x7fff + (bits >> 16 & 1);
}

// Two elements at a time, in the halves of a 32-bit lane.
template <bool one_slope>
static void prelu_bfloat16(const uint16_t* __restrict x, const uint16_t* __restrict slope, uint16_t* __restrict out,
                           int n) {
    constexpr uint32_t upper = 0xffff0000;
    for (int i = 0; i < n / 2; ++i) {  // vector loop
        uint32_t bases, slopes = slope[0] * uint32_t{0x10001};
        std::memcpy(&bases, x + 2 * i, sizeof(bases));
        if (!one_slope) std::memcpy(&slopes, slope + 2 * i, sizeof(slopes));
        uint32_t products = (product_in_upper_half(bases & upper, slopes & upper) & upper) |
                            product_in_upper_half(bases << 16, slopes << 16) >> 16;
        std::memcpy(out + 2 * i, &products, sizeof(products));
    }
    take_products<Element::bfloat16>(x, out, n / 2 * 2);
    if (n % 2 != 0) out[n - 1] = prelu<Element::bfloat16>(x[n - 1], slope[one_slope ? 0 : n - 1]);
}

// The product of two float16 is exactly a float. (simd/float16.h says why this uses intrinsics.)
template <bool one_slope>
static void prelu_half(const uint16_t* __restrict x, const uint16_t* __restrict slope, uint16_t* __restrict out,
                       int n) {
    constexpr uint16_t nan = 0x7e00;
    int i = 0;
#if defined(__AVX512F__)
    const auto load = [](const uint16_t* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); };
    const __m512 the_slope = _mm512_cvtph_ps(_mm256_set1_epi16(static_cast<short>(slope[0])));
    for (; i + 16 <= n; i += 16) {
        __m256i stored = load(x + i);
        __m512 base = _mm512_cvtph_ps(stored);
        __m512 product = _mm512_mul_ps(base, one_slope ? the_slope : _mm512_cvtph_ps(load(slope + i)));
        __m256i encoding = _mm512_cvtps_ph(product, _MM_FROUND_TO_NEAREST_INT);
        __mmask16 is_nan = _mm512_cmp_ps_mask(product, product, _CMP_UNORD_Q);
        encoding = _mm256_mask_mov_epi16(encoding, is_nan, _mm256_set1_epi16(nan));
        __mmask16 negative = _mm512_cmp_ps_mask(base, _mm512_setzero_ps(), _CMP_LT_OQ);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_mask_mov_epi16(stored, negative, encoding));
    }
#elif defined(__F16C__)
    const auto load = [](const uint16_t* from) {
        return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    };
    const __m256 the_slope = _mm256_cvtph_ps(_mm_set1_epi16(static_cast<short>(slope[0])));
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                         _mm256_cvtps_ph(_mm256_mul_ps(load(x + i), one_slope ? the_slope : load(slope + i)),
                                         _MM_FROUND_TO_NEAREST_INT));
    take_products<Element::float16>(x, out, i);
#endif
    for (; i < n; ++i) {  // vector loop: scalar neon
        float base = decode_float<Element::float16>(x[i]);
        float product = base * decode_float<Element::float16>(slope[one_slope ? 0 : i]);
        uint32_t bits = __builtin_bit_cast(uint32_t, product), magnitude = bits & 0x7fffffff;
        uint32_t encoding = round_to_float16(__builtin_bit_cast(float, magnitude)).encoding | bits >> 31 << 15;
        encoding = magnitude > 0x7f800000 ? nan : encoding;
        out[i] = base < 0 ? static_cast<uint16_t>(encoding) : x[i];
    }
}

}  // namespace halfulp::HALFULP_ISA
