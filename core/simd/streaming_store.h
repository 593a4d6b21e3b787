// Non-temporal (streaming) stores, which bypass the caches. An ordinary store first reads the line's old content, which
// costs time if the output is too large for a cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "tile.h"

namespace halfulp::HALFULP_ISA {

// Stores one cache line, at an address where one begins. (Compilers do not generate such stores.)
HALFULP_INLINE void stream_line(unsigned char* to, const unsigned char* from) {
#if defined(__AVX512F__)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
#elif defined(__SSE2__)
    for (int i = 0; i < cache_line; i += 16)
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
#else
    std::memcpy(to, from, cache_line);
#endif
}

HALFULP_INLINE int bytes_past_line(const void* p) {
    return static_cast<int>(reinterpret_cast<uintptr_t>(p) % cache_line);
}

// Prefetches a line of which only a part will be stored: later stores wait until the line is there.
HALFULP_INLINE void prefetch_end(const void* end) {
    if (bytes_past_line(end) != 0) __builtin_prefetch(end, 1);
}

// Copies whole lines by streaming stores, and the rest before and behind them by ordinary stores. Meanwhile prefetches
// as many bytes of each of `next`. (A prefetch never faults.)
template <typename... Next>
HALFULP_INLINE void copy_streaming(unsigned char* to, const unsigned char* from, int bytes, const Next*... next) {
    int i = (cache_line - bytes_past_line(to)) % cache_line;
    i = i < bytes ? i : bytes;
    if (i > 0) std::memcpy(to, from, static_cast<size_t>(i));
    for (; i + cache_line <= bytes; i += cache_line) {
        (__builtin_prefetch(next + i), ...);
        stream_line(to + i, from + i);
    }
    if (i < bytes) std::memcpy(to + i, from + i, static_cast<size_t>(bytes - i));
}

// Computes n results. y is one element for each x or one for all. `out` must not alias an operand. Returns whether all
// results are right.
using Fill = bool (*)(const void* x, const void* y, void* out, int n);

// Fills the output with results of `size` bytes. Elements of x have that size, and so do those of y unless one_y. If
// `fill` returns false, stops and returns false. It computes a few results at a time, so that the processor reads the
// next operands while these are stored. `fill` gets whole vectors: the last one may overlap results already stored.
[[maybe_unused]] static bool fill_streaming(Fill fill, const void* x, const void* y, bool one_y, void* out, int n,
                                            int size) {
    constexpr int most = 8 * cache_line;
    alignas(cache_line) unsigned char results[most];
    const auto *x_bytes = static_cast<const unsigned char*>(x), *y_bytes = static_cast<const unsigned char*>(y);
    unsigned char* out_bytes = static_cast<unsigned char*>(out);
    const int bytes = n * size;
    prefetch_end(out_bytes + bytes);
    for (int done = 0, count; done < bytes; done += count) {
        const int left = bytes - done, missing = left < most ? (cache_line - left % cache_line) % cache_line : 0;
        const int from = done - (missing < done ? missing : done), to = left < most ? bytes : from + most;
        if (!fill(x_bytes + from, one_y ? y : y_bytes + from, results, (to - from) / size)) return false;
        count = left < most ? left : most - bytes_past_line(out_bytes + done);
        unsigned char* target = out_bytes + done;
        const unsigned char *made = results + (done - from), *next_x = x_bytes + done + count;
        if (one_y) copy_streaming(target, made, count, next_x);
        else copy_streaming(target, made, count, next_x, y_bytes + done + count);
    }
    return true;
}

}  // namespace halfulp::HALFULP_ISA
