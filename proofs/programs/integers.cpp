// Powers of integers (numerics/pow_int.h, kernels/int/pow.h). Exits with 1 at the first error, which it prints.
//
//   wrap8, wrap16   pow_wrap of every pair, against repeated products
//   series          binomial_series of 16 bits, for every u and b, against squarings
//   lemmas          squares of odd numbers, and the inverses that the series use
//   ask             prints results of functions for the operands on standard input
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/int/pow.h"

using namespace halfulp;
using namespace halfulp::HALFULP_ISA;

[[noreturn]] static void fail(const char* function, uint64_t x, uint64_t y, uint64_t got, uint64_t expected) {
    std::fprintf(stderr, "%s of %lu and %lu is %lu, not %lu\n", function, x, y, got, expected);
    std::exit(1);
}

template <typename Word>
static void check_wrap() {
    constexpr uint64_t count = uint64_t{1} << 8 * sizeof(Word);
    constexpr int n = static_cast<int>(std::min<uint64_t>(count, tile_size));
    alignas(64) Word bases[tile_size], exponents[tile_size], powers[tile_size];
    for (uint64_t x = 0; x < count; ++x) {
        Word expected = 1;
        for (uint64_t y = 0; y < count; y += n) {
            std::fill_n(bases, n, static_cast<Word>(x));
            for (int i = 0; i < n; ++i) exponents[i] = static_cast<Word>(y + static_cast<uint64_t>(i));
            pow_wrap(bases, exponents, powers, n);
            for (int i = 0; i < n; ++i) {
                if (powers[i] != expected) fail("the power", x, y + static_cast<uint64_t>(i), powers[i], expected);
                expected = static_cast<Word>(uint32_t{expected} * static_cast<uint32_t>(x));
            }
        }
    }
    std::printf("%lu pairs\n", count * count);
}

template <int zeros>
static void check_series() {
    for (uint32_t u = 0; u < uint32_t{1} << (16 - zeros); ++u) {
        uint16_t expected = 1;
        const auto base = static_cast<uint16_t>(1 + (u << zeros));
        for (uint32_t b = 0; b < 1 << 16; ++b) {
            const uint16_t series = binomial_series<1, zeros, 16>(static_cast<uint16_t>(u), static_cast<uint16_t>(b));
            if (series != expected) fail("the series", u, b, series, expected);
            expected = static_cast<uint16_t>(uint32_t{expected} * base);
        }
    }
}

static void check_lemmas() {
    constexpr uint32_t modulus = 1 << 10;
    for (uint32_t x = 1; x < modulus; x += 2) {
        uint32_t square = x;
        for (int j = 0; j < 8; ++j) square = square * square % modulus;
        if (square != 1) fail("the power 2^8", x, 8, square, 1);
    }
    for (uint64_t i = 1; i <= 64; ++i) {  // a series is shorter: each bracket has at least two bits less
        const uint64_t odd_part = i >> std::countr_zero(i);
        if (odd_part * inverse_of(odd_part) != 1) fail("the inverse", odd_part, 0, inverse_of(odd_part), 0);
    }
    std::printf("%u odd numbers, 64 inverses\n", modulus / 2);
}

template <typename Word>
static uint64_t wrapped(uint64_t x, uint64_t y) {
    alignas(64) Word base[tile_size] = {static_cast<Word>(x)}, exponent[tile_size] = {static_cast<Word>(y)};
    alignas(64) Word power[tile_size];
    pow_wrap(base, exponent, power, 1);
    return power[0];
}

static uint64_t reduced(uint64_t bits, uint64_t y) {
    switch (bits) {
        case 4: return reduced_exponent<4, uint8_t>(y);
        case 8: return reduced_exponent<8, uint8_t>(y);
        case 16: return reduced_exponent<16, uint16_t>(y);
        default: return reduced_exponent<32, uint32_t>(y);
    }
}

static void answer() {
    char word[16];
    const auto next = [] {
        unsigned long number;
        if (std::scanf("%lu", &number) != 1) std::exit(1);
        return static_cast<uint64_t>(number);
    };
    while (std::scanf("%15s", word) == 1) {
        const std::string what = word;
        const uint64_t a = next(), b = next();
        uint64_t result = 0;
        if (what == "wrap") result = a == 32 ? wrapped<uint32_t>(b, next()) : wrapped<uint64_t>(b, next());
        if (what == "reduced") result = reduced(a, b);
        if (what == "sum") result = floor_of_sum(double_of(a), double_of(b));
        if (what == "power") result = floor_of_power(double_of(a), double_of(b), static_cast<int64_t>(next()));
        if (what == "saturate") {
            const bool negative = next() != 0;
            result = IntegerRange{a != 0, static_cast<int>(b)}.saturate(negative, next());
        }
        std::printf("%lu\n", result);
    }
}

int main(int, char** arguments) {
    const std::string what = arguments[1];
    if (what == "wrap8") check_wrap<uint8_t>();
    if (what == "wrap16") check_wrap<uint16_t>();
    if (what == "lemmas") check_lemmas();
    if (what == "ask") answer();
    if (what != "series") return 0;
    check_series<5>();
    check_series<6>();
    check_series<7>();
    check_series<10>();
    std::printf("for 2^5, 2^6, 2^7 and 2^10\n");
}
