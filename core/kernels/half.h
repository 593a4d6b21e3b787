// What is done with float16 by the processor's own conversions, where it has them: compilers make no vectors of those,
// and by integer operations a PRelu takes twice as long.
#pragma once

#ifdef __F16C__
#include <immintrin.h>
#endif

#include "../codec.h"
#include "kernels.h"

namespace halfulp::HALFULP_ISA {

static void decode_half(const uint16_t* stored, float* values, int n) {
    int i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(values + i, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(stored + i))));
#elif defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(values + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(stored + i))));
#endif
    for (; i < n; ++i) values[i] = decode_float<Element::float16>(stored[i]);  // vector loop: scalar neon
}

// PReLU (see prelu.h). The product of two such numbers is a float, exactly.
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
    for (int j = 0; j < i; ++j) {  // vector loop: avx2
        uint16_t product = (out[j] & 0x7fff) > 0x7c00 ? nan : out[j];
        uint16_t from_least = static_cast<uint16_t>(x[j] - 0x8001);  // negative numbers are 0x8001 to 0xfc00
        out[j] = from_least < 0x7c00 ? product : x[j];
    }
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
