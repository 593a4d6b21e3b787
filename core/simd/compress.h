// Lists the lanes of a tile whose flag is not zero.
#pragma once

#include <bit>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "tile.h"

namespace halfulp::HALFULP_ISA {

// Room for compress_indices, which writes whole vectors.
inline constexpr int listed_size = tile_size + 16;

#ifdef __AVX512F__
// The lanes whose flag is not zero.
[[maybe_unused]] static int compress_indices(const uint32_t* flags, int n, int* listed) {
    constexpr int lanes = 16;
    __m512i number = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    int count = 0;
    for (int i = 0; i < n; i += lanes) {
        const __m512i some = _mm512_loadu_si512(flags + i);
        const auto in_use = static_cast<__mmask16>(n - i < lanes ? (1 << (n - i)) - 1 : 0xffff);
        const __mmask16 set = _mm512_mask_test_epi32_mask(in_use, some, some);
        _mm512_storeu_si512(listed + count, _mm512_maskz_compress_epi32(set, number));  // compressing to memory is slow
        count += std::popcount(static_cast<unsigned>(set));
        number = _mm512_add_epi32(number, _mm512_set1_epi32(lanes));
    }
    return count;
}

[[maybe_unused]] static int compress_indices(const uint64_t* flags, int n, int* listed) {
    constexpr int lanes = 8;
    const __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    int count = 0;
    for (int i = 0; i < n; i += lanes) {
        const __m512i some = _mm512_loadu_si512(flags + i);
        const auto in_use = static_cast<__mmask8>(n - i < lanes ? (1 << (n - i)) - 1 : 0xff);
        const __mmask8 set = _mm512_mask_test_epi64_mask(in_use, some, some);
        if (set == 0) continue;  // mostly
        const __m256i numbers = _mm256_add_epi32(number, _mm256_set1_epi32(i));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(listed + count), _mm256_maskz_compress_epi32(set, numbers));
        count += std::popcount(static_cast<unsigned>(set));
    }
    return count;
}
#else
// The lanes whose flag is not zero; in order if these are all lanes. Usually they are few, and so the search first
// combines every 16th lane, in vectors.
template <typename Flag>
[[maybe_unused]] static int compress_indices(const Flag* flags, int n, int* listed) {
    constexpr int groups = 16;
    alignas(64) Flag any[groups] = {};
    const int whole = n - n % groups;
    for (int i = 0; i < whole; i += groups)
        for (int k = 0; k < groups; ++k) any[k] |= flags[i + k];
    int count = 0;
    const auto list = [&](int i) {
        listed[count] = i;
        count += flags[i] != 0;
    };
    for (int k = 0; k < groups; ++k) {
        if (any[k] == 0) continue;
        for (int i = k; i < whole; i += groups) list(i);
    }
    for (int i = whole; i < n; ++i) list(i);
    if (count == n)
        for (int i = 0; i < n; ++i) listed[i] = i;
    return count;
}
#endif

// The number of lanes of n whose bits are set.
HALFULP_INLINE uint32_t count_lanes(const uint64_t* bits, int n) {
    int count = 0;
    for (int k = 0; k < (n + 63) / 64; ++k) count += std::popcount(bits[k]);
    return static_cast<uint32_t>(count);
}

}  // namespace halfulp::HALFULP_ISA
