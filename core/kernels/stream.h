// Copies by stores past the caches, which compilers don't make themselves.
#pragma once

#include <cstddef>
#include <cstring>

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace halfulp::HALFULP_ISA {

// Whole cache lines to where such a line begins.
static void stream(char* to, const char* from, size_t bytes) {
#if defined(__AVX512F__)
    for (size_t i = 0; i < bytes; i += sizeof(__m512i))
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_loadu_si512(from + i));
#elif defined(__SSE2__)
    for (size_t i = 0; i < bytes; i += sizeof(__m128i))
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
#else
    std::memcpy(to, from, bytes);
#endif
}

}  // namespace halfulp::HALFULP_ISA
