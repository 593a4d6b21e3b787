// The AVX-512 intrinsics that kernels/float/log2_table.h uses, for recording numbers (traced.h). Only the operations of
// the first lane of each vector are recorded; of other lanes only tables are kept. Any other intrinsic is an error.
//
//   semantics  Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, under the instruction's name
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>

struct __m512d {
    double lanes[8];
};

struct __m512i {
    std::uint64_t lanes[8];
    bool is_constant = false;
};

struct __m256 {
    float first;
};

inline __m512d _mm512_set1_pd(double value) { return {{value, value, value, value, value, value, value, value}}; }
inline __m512i _mm512_set1_epi64(std::int64_t value) {
    const auto bits = static_cast<std::uint64_t>(value);
    return {{bits, bits, bits, bits, bits, bits, bits, bits}, true};
}
// Comparisons of 32-bit halves do not affect any number.
inline __m512i _mm512_setzero_si512() { return _mm512_set1_epi64(0); }
inline __m512i _mm512_set1_epi32(std::int32_t) { return _mm512_set1_epi64(0); }
inline __m512i _mm512_loadu_si512(const void*) { return _mm512_set1_epi64(0); }
inline __m512i _mm512_sub_epi32(__m512i a, __m512i) { return a; }
inline __m512i _mm512_max_epu32(__m512i a, __m512i) { return a; }
inline unsigned _mm512_cmpge_epu32_mask(__m512i, __m512i) { return 0; }

inline __m512d _mm512_loadu_pd(const double* from) {
    __m512d loaded;
    for (int i = 0; i < 8; ++i) loaded.lanes[i] = from[i];
    return loaded;
}
inline void _mm512_storeu_pd(double* to, __m512d from) {
    for (int i = 0; i < 8; ++i) to[i] = from.lanes[i];
}
inline __m256 _mm256_loadu_ps(const float* from) { return {*from}; }
inline __m512d _mm512_cvtps_pd(__m256 from) { return _mm512_set1_pd(from.first); }

inline __m512i _mm512_castpd_si512(__m512d from) {
    __m512i bits = _mm512_set1_epi64(0);
    bits.lanes[0] = __builtin_bit_cast(std::uint64_t, from.lanes[0]);
    bits.is_constant = from.lanes[0].node == traced::constant;
    return bits;
}
inline __m512d _mm512_castsi512_pd(__m512i from) {
    if (!from.is_constant) return _mm512_set1_pd(__builtin_bit_cast(double, from.lanes[0]));
    return _mm512_set1_pd(std::bit_cast<decltype(double{}.value)>(from.lanes[0]));
}
inline __m512i _mm512_srli_epi64(__m512i a, unsigned count) {
    a.lanes[0] >>= count;
    return a;
}
inline __m512i _mm512_ternarylogic_epi64(__m512i a, __m512i b, __m512i c, int table) {
    if (table != 0xea) std::abort();
    a.lanes[0] = (a.lanes[0] & b.lanes[0]) | c.lanes[0];
    return a;
}
inline __m512d _mm512_permutex2var_pd(__m512d a, __m512i index, __m512d b) {
    const std::uint64_t place = index.lanes[0] & 15;
    return _mm512_set1_pd(place < 8 ? a.lanes[place] : b.lanes[place - 8]);
}

inline __m512d _mm512_getexp_pd(__m512d a) {
    const int e = std::ilogb(a.lanes[0].value);
    return _mm512_set1_pd(a.lanes[0].node == traced::constant ? double(e) : double(static_cast<std::int64_t>(e)));
}
inline __m512d _mm512_add_pd(__m512d a, __m512d b) { return _mm512_set1_pd(a.lanes[0] + b.lanes[0]); }
inline __m512d _mm512_mul_pd(__m512d a, __m512d b) { return _mm512_set1_pd(a.lanes[0] * b.lanes[0]); }
inline __m512d _mm512_fmadd_pd(__m512d a, __m512d b, __m512d c) {
    return _mm512_set1_pd(__builtin_fma(a.lanes[0], b.lanes[0], c.lanes[0]));
}
inline __m512d _mm512_fmsub_pd(__m512d a, __m512d b, __m512d c) {
    return _mm512_set1_pd(__builtin_fma(a.lanes[0], b.lanes[0], -c.lanes[0]));
}
