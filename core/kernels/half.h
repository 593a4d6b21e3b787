// float16 to float and back, a tile at a time, by the processor's own conversions where it has them: compilers make no
// vectors of those, and by integer operations a PRelu takes twice as long.
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

// To nearest, ties to even. A NaN becomes any NaN.
static void encode_half(const float* values, uint16_t* encodings, int n) {
    int i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(encodings + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(encodings + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; ++i) {  // vector loop: scalar neon
        uint32_t bits = __builtin_bit_cast(uint32_t, values[i]), magnitude = bits & 0x7fffffff;
        uint32_t encoding = round_to_float16(__builtin_bit_cast(float, magnitude)).encoding | bits >> 31 << 15;
        encodings[i] = static_cast<uint16_t>(magnitude > 0x7f800000 ? 0x7e00 : encoding);
    }
}

}  // namespace halfulp::HALFULP_ISA
