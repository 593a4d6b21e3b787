// The memory-bandwidth yardstick: reads the operands' bytes, writes the result's, and computes next to nothing.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace {

using Line = long long __attribute__((vector_size(64)));  // a cache line

template <bool streaming>
void store(char* to, const Line& line) {
#if defined(__AVX512F__)
    if constexpr (streaming) {
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to), reinterpret_cast<const __m512i&>(line));
        return;
    }
#elif defined(__SSE2__)
    if constexpr (streaming) {
        for (int part = 0; part < 4; ++part)
            _mm_stream_si128(reinterpret_cast<__m128i*>(to) + part, reinterpret_cast<const __m128i*>(&line)[part]);
        return;
    }
#endif
    std::memcpy(to, &line, sizeof line);
}

Line load(const char* from) {
    Line line;
    std::memcpy(&line, from, sizeof line);
    return line;
}

// Blocks of 64 elements, so that an element's bytes are the cache lines of a block.
template <int x_bytes, int y_bytes, bool streaming>
void pass(const char* x, const char* y, char* out, ptrdiff_t blocks) {
    for (ptrdiff_t block = 0; block < blocks; ++block) {
        Line seen{};
        for (int line = 0; line < y_bytes; ++line) seen ^= load(y + (block * y_bytes + line) * 64);
        for (int line = 0; line < x_bytes; ++line)
            store<streaming>(out + (block * x_bytes + line) * 64, seen ^ load(x + (block * x_bytes + line) * 64));
    }
#if defined(__SSE2__)
    if constexpr (streaming) _mm_sfence();
#endif
}

using Pass = void (*)(const char*, const char*, char*, ptrdiff_t);

template <int x_bytes, bool streaming>
Pass choose(int y_bytes) {
    switch (y_bytes) {
        case 0: return pass<x_bytes, 0, streaming>;
        case 1: return pass<x_bytes, 1, streaming>;
        case 2: return pass<x_bytes, 2, streaming>;
        case 4: return pass<x_bytes, 4, streaming>;
        case 8: return pass<x_bytes, 8, streaming>;
        default: return nullptr;
    }
}

template <bool streaming>
Pass choose(int x_bytes, int y_bytes) {
    switch (x_bytes) {
        case 1: return choose<1, streaming>(y_bytes);
        case 2: return choose<2, streaming>(y_bytes);
        case 4: return choose<4, streaming>(y_bytes);
        case 8: return choose<8, streaming>(y_bytes);
        default: return nullptr;
    }
}

}  // namespace

// out, of the size of x, starts at a cache line; elements is a multiple of 64. Returns 0, or 1 for sizes that it lacks.
extern "C" int move_bytes(const char* x, int x_bytes, const char* y, int y_bytes, char* out, ptrdiff_t elements,
                          int streaming, int threads) {
    Pass pass = streaming ? choose<true>(x_bytes, y_bytes) : choose<false>(x_bytes, y_bytes);
    if (pass == nullptr) return 1;
    ptrdiff_t blocks = elements / 64, share = (blocks + threads - 1) / threads;
    auto part = [&](ptrdiff_t first) {
        ptrdiff_t count = std::min(share, blocks - first);
        if (count > 0) pass(x + first * x_bytes * 64, y + first * y_bytes * 64, out + first * x_bytes * 64, count);
    };
    std::vector<std::thread> others;
    for (int thread = 1; thread < threads; ++thread) others.emplace_back(part, thread * share);
    part(0);
    for (std::thread& other : others) other.join();
    return 0;
}

// The loads and stores of an operation on x, transposed, and y, square matrices of 4 bytes an element: panels of 16
// rows and 256 columns, in each of which a cache line of every column of x is read. The side is a multiple of 256.
extern "C" void pass_transposed(const char* x, const char* y, char* out, ptrdiff_t side) {
    const ptrdiff_t row = 4 * side;
    for (ptrdiff_t column = 0; column < side; column += 256) {
        for (ptrdiff_t i = 0; i < side; i += 16) {
            Line seen{};
            for (ptrdiff_t j = column; j < column + 256; ++j) seen ^= load(x + j * row + 4 * i);
            for (ptrdiff_t k = i; k < i + 16; ++k)
                for (ptrdiff_t j = 4 * column; j < 4 * (column + 256); j += 64)
                    store<false>(out + k * row + j, seen ^ load(y + k * row + j));
        }
    }
}
