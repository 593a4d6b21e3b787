// All powers with one exponent of a floating type of 8 bits or fewer, or of 16, to be looked up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "kernels/kernels.h"

namespace halfulp {

template <typename Code>
class PowerTable {
public:
    static constexpr int element_size = sizeof(Code);
    // From so many elements on, a look-up costs less than the powers, and all powers less than these.
    static constexpr ptrdiff_t worthwhile = sizeof(Code) == 1 ? 1 << 11 : 1 << 18;

    // In the default floating-point environment.
    void fill(const Kernels& kernels, PowOptions options, Element type, Element y_type, const char* y) {
        constexpr int codes = 1 << 8 * sizeof(Code), step = codes < block_size ? codes : block_size;
        powers_.resize(codes);
        options.constant_exponent = true;
        for (int i = 0; i < codes; ++i) powers_[i] = static_cast<Code>(i);
        for (int i = 0; i < codes; i += step) kernels.pow(options, type, y_type, &powers_[i], y, &powers_[i], step);
    }

    void look_up(const void* x, void* out, int n) const {
        const Code *codes = static_cast<const Code*>(x), *powers = powers_.data();
        Code* to = static_cast<Code*>(out);
        int i = 0;
#ifdef __SSE2__
        // Put together in a vector, a store of eight takes a third less time than eight (0.19 and 0.28 ns a power on a Zen 4).
        for (; sizeof(Code) == 2 && i + 8 <= n; i += 8) {
            uint64_t low, high;  // four codes each
            std::memcpy(&low, codes + i, sizeof(low));
            std::memcpy(&high, codes + i + 4, sizeof(high));
            __m128i eight = _mm_cvtsi32_si128(powers[low & 0xffff]);
            eight = _mm_insert_epi16(eight, powers[low >> 16 & 0xffff], 1);
            eight = _mm_insert_epi16(eight, powers[low >> 32 & 0xffff], 2);
            eight = _mm_insert_epi16(eight, powers[low >> 48], 3);
            eight = _mm_insert_epi16(eight, powers[high & 0xffff], 4);
            eight = _mm_insert_epi16(eight, powers[high >> 16 & 0xffff], 5);
            eight = _mm_insert_epi16(eight, powers[high >> 32 & 0xffff], 6);
            eight = _mm_insert_epi16(eight, powers[high >> 48], 7);
            _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), eight);
        }
#endif
        for (; i < n; ++i) to[i] = powers[codes[i]];
    }

private:
    std::vector<Code> powers_;
};

}  // namespace halfulp
