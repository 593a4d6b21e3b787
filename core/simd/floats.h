// Vectors of floats for kernels with an element in each 32-bit lane: 16 lanes with AVX-512, 8 with AVX2.
#pragma once

#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__) && defined(__F16C__))
#define HALFULP_FLOAT_VECTORS
#include <immintrin.h>

#include <bit>
#include <cstring>

#include "../formats/convert.h"
#include "load_vector.h"
#include "tile.h"

namespace halfulp::HALFULP_ISA {

#ifdef __AVX512F__
inline constexpr int float_lanes = 16;
using FloatMask = uint16_t;
#else
inline constexpr int float_lanes = 8;
using FloatMask = uint8_t;
#endif
using Floats [[gnu::vector_size(4 * float_lanes)]] = float;
using Words [[gnu::vector_size(4 * float_lanes)]] = uint32_t;
using Integers [[gnu::vector_size(4 * float_lanes)]] = int32_t;

HALFULP_INLINE Words bits_of(Floats a) { return __builtin_bit_cast(Words, a); }
HALFULP_INLINE Floats floats_of(Words a) { return __builtin_bit_cast(Floats, a); }
HALFULP_INLINE Floats floats_of(float value) { return Floats{} + value; }
HALFULP_INLINE Words words_of(uint32_t value) { return Words{} + value; }

#ifdef __AVX512F__
HALFULP_INLINE Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
HALFULP_INLINE Words greatest(Words a, Words b) {
    return __builtin_bit_cast(Words, _mm512_max_epu32(__builtin_bit_cast(__m512i, a), __builtin_bit_cast(__m512i, b)));
}
HALFULP_INLINE uint32_t greatest_lane(Words a) { return _mm512_reduce_max_epu32(__builtin_bit_cast(__m512i, a)); }
HALFULP_INLINE Floats to_floats(Words integers) { return _mm512_cvtepi32_ps(__builtin_bit_cast(__m512i, integers)); }
// The lanes for which a <= b.
HALFULP_INLINE FloatMask not_above(Words a, Words b) {
    return _mm512_cmpge_epu32_mask(__builtin_bit_cast(__m512i, b), __builtin_bit_cast(__m512i, a));
}
#else
HALFULP_INLINE Floats multiply_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
HALFULP_INLINE Words greatest(Words a, Words b) {
    return __builtin_bit_cast(Words, _mm256_max_epu32(__builtin_bit_cast(__m256i, a), __builtin_bit_cast(__m256i, b)));
}
HALFULP_INLINE uint32_t greatest_lane(Words a) {
    uint32_t most = 0;
    for (int i = 0; i < float_lanes; ++i) most = a[i] > most ? a[i] : most;
    return most;
}
HALFULP_INLINE Floats to_floats(Words integers) { return _mm256_cvtepi32_ps(__builtin_bit_cast(__m256i, integers)); }
// The lanes for which a <= b, for numbers below 2^31.
HALFULP_INLINE FloatMask not_above(Words a, Words b) {
    const __m256i above = _mm256_cmpgt_epi32(__builtin_bit_cast(__m256i, a), __builtin_bit_cast(__m256i, b));
    return static_cast<FloatMask>(~_mm256_movemask_ps(_mm256_castsi256_ps(above)));
}
#endif

// A table of eight floats in a register.
class FloatTable {
public:
    explicit FloatTable(const float (&values)[8]) {
        for (int i = 0; i < float_lanes; ++i) values_[i] = values[i % 8];
    }
    explicit FloatTable(Floats values) : values_(values) {}

    // Looks up entries by the low bits of the indices.
    Floats operator[](Words index) const {
#ifdef __AVX512F__
        return _mm512_permutexvar_ps(__builtin_bit_cast(__m512i, index), values_);
#else
        return _mm256_permutevar8x32_ps(values_, __builtin_bit_cast(__m256i, index));
#endif
    }

private:
    Floats values_;
};

// Elements of float16 or bfloat16 as floats.
template <Element type>
HALFULP_INLINE Floats load_floats(const uint16_t* from) {
#ifdef __AVX512F__
    const auto stored = load_vector<__m256i>(from);
    if constexpr (type == Element::float16) return _mm512_cvtph_ps(stored);
    else return floats_of(__builtin_bit_cast(Words, _mm512_cvtepu16_epi32(stored)) << 16);
#else
    const auto stored = load_vector<__m128i>(from);
    if constexpr (type == Element::float16) return _mm256_cvtph_ps(stored);
    else return floats_of(__builtin_bit_cast(Words, _mm256_cvtepu16_epi32(stored)) << 16);
#endif
}
template <Element type>
HALFULP_INLINE Floats load_floats(const float* from) {
    return load_vector<Floats>(from);
}

// The upper halves of words.
HALFULP_INLINE void store_upper_halves(uint16_t* to, Words a) {
#ifdef __AVX512F__
    const __m256i halves = _mm512_cvtepi32_epi16(__builtin_bit_cast(__m512i, a >> 16));
#else
    const __m256i words = __builtin_bit_cast(__m256i, a >> 16);
    const __m128i halves = _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
#endif
    std::memcpy(to, &halves, sizeof(halves));
}

// Rounds a to float16. Returns the lanes in which b rounds to something else.
HALFULP_INLINE FloatMask store_as_float16(uint16_t* to, Floats a, Floats b) {
#ifdef __AVX512F__
    const __m256i stored = _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT);
    const FloatMask differing = _mm256_cmpneq_epi16_mask(stored, _mm512_cvtps_ph(b, _MM_FROUND_TO_NEAREST_INT));
#else
    const __m128i stored = _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT);
    const __m128i equal = _mm_cmpeq_epi16(stored, _mm256_cvtps_ph(b, _MM_FROUND_TO_NEAREST_INT));
    const auto differing = static_cast<FloatMask>(~_mm_movemask_epi8(_mm_packs_epi16(equal, equal)));
#endif
    std::memcpy(to, &stored, sizeof(stored));
    return differing;
}

}  // namespace halfulp::HALFULP_ISA
#endif
