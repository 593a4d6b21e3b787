// Conversions of float16 by the processor's own instructions, if it has any. Compilers do not vectorise those, and with
// integer operations a PRelu takes twice the time, and a power 0.27 ns more than float32's instead of 0.16 ns (Zen 4).
#pragma once

#ifdef __F16C__
#include <immintrin.h>
#endif

#include "../formats/convert.h"
#include "../numerics/pow_special.h"
#include "tile.h"

namespace halfulp::HALFULP_ISA {

[[maybe_unused]] static void decode_half(const uint16_t* stored, float* values, int n) {
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

// f(x) rounded to float16 or bfloat16, for an f of floats or vectors of floats. NaN is not made canonical. (bfloat16
// uses vectors here because f may be faster in vectors: see reciprocal_root.)
template <Element type, typename F>
static void map_short(const uint16_t* __restrict x, uint16_t* __restrict out, int n, F f) {
    int i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16) {
        const __m256i stored = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
        __m256i rounded;
        if constexpr (type == Element::float16) {
            rounded = _mm512_cvtps_ph(f(_mm512_cvtph_ps(stored)), _MM_FROUND_TO_NEAREST_INT);
        } else {
            const __m512 value = f(_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(stored), 16)));
            const __m512i bits = _mm512_castps_si512(value), one = _mm512_set1_epi32(1);
            const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), one);
            const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
            rounded = _mm512_cvtepi32_epi16(_mm512_srli_epi32(sum, 16));
        }
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), rounded);
    }
#elif defined(__F16C__)
    for (; type == Element::float16 && i + 8 <= n; i += 8) {
        __m256 value = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i)));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm256_cvtps_ph(f(value), _MM_FROUND_TO_NEAREST_INT));
    }
#endif
    for (; i < n; ++i) {  // vector loop: scalar neon avx2(most)
        const float value = f(decode_float<type>(x[i]));
        if constexpr (type == Element::float16)
            out[i] = static_cast<uint16_t>(round_to_float16(fabs(value)).encoding | word_of(value) >> 31 << 15);
        else out[i] = static_cast<uint16_t>(round_to_bfloat16(value).encoding);
    }
}

// Rounds magnitudes to float16, and sets the flag of each that is a tie to 1. `normal`: none is below the normal range.
// Returns whether any is a tie.
template <bool normal>
static bool round_to_halves(const uint32_t* __restrict floats, uint16_t* __restrict stored, uint32_t* __restrict flags,
                            int n) {
    uint32_t any = 0;
    int i = 0;
#if defined(__AVX512F__)
    const __m512i lower = _mm512_set1_epi32(0x1fff), tie = _mm512_set1_epi32(0x1000);
    const __m512 half_spacing = _mm512_set1_ps(0x1p-25f), least_normal = _mm512_set1_ps(0x1p-14f);
    for (; i + 16 <= n; i += 16) {
        __m512i bits = _mm512_loadu_si512(floats + i);
        __m512 value = _mm512_castsi512_ps(bits);
        __m256i encoding = _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
        __mmask16 ties = _mm512_cmpeq_epi32_mask(_mm512_and_si512(bits, lower), tie);
        if (!normal) {
            __m512 residual = _mm512_abs_ps(_mm512_sub_ps(value, _mm512_cvtph_ps(encoding)));
            __mmask16 below = _mm512_cmp_ps_mask(value, least_normal, _CMP_LT_OQ);
            ties = (ties & ~below) | _mm512_mask_cmp_ps_mask(below, residual, half_spacing, _CMP_EQ_OQ);
        }
        any |= ties;
        _mm512_storeu_si512(flags + i, _mm512_maskz_set1_epi32(ties, 1));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(stored + i), encoding);
    }
#elif defined(__F16C__)
    const __m256i lower = _mm256_set1_epi32(0x1fff), tie = _mm256_set1_epi32(0x1000);
    __m256i any_tie = _mm256_setzero_si256();
    for (; i + 8 <= n; i += 8) {
        __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(floats + i));
        __m256 value = _mm256_castsi256_ps(bits);
        __m128i encoding = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
        __m256 ties = _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(bits, lower), tie));
        if (!normal) {
            __m256 residual = _mm256_sub_ps(value, _mm256_cvtph_ps(encoding)), sign = _mm256_set1_ps(-0.0f);
            __m256 is_half = _mm256_cmp_ps(_mm256_andnot_ps(sign, residual), _mm256_set1_ps(0x1p-25f), _CMP_EQ_OQ);
            ties = _mm256_blendv_ps(ties, is_half, _mm256_cmp_ps(value, _mm256_set1_ps(0x1p-14f), _CMP_LT_OQ));
        }
        __m256i tie_flags = _mm256_srli_epi32(_mm256_castps_si256(ties), 31);
        any_tie = _mm256_or_si256(any_tie, tie_flags);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(flags + i), tie_flags);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(stored + i), encoding);
    }
    any = _mm256_testz_si256(any_tie, any_tie) == 0 ? 1 : 0;
#endif
    alignas(64) uint32_t encodings[tile_size];
    for (int k = i; k < n; ++k) {  // vector loop: scalar(most) neon(most)
        const float value = __builtin_bit_cast(float, floats[k]);
        const RoundedFloat rounded = normal ? round_to_normal_float16(value) : round_to_float16(value);
        encodings[k] = rounded.encoding;
        flags[k] = (rounded.from_tie - 1) >> 31;
        any |= flags[k];
    }
    for (; i < n; ++i) stored[i] = static_cast<uint16_t>(encodings[i]);  // vector loop: scalar neon
    return any != 0;
}

}  // namespace halfulp::HALFULP_ISA
