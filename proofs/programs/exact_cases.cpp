// exact_power and integer_sqrt (numerics/pow_exact.h) and has_ties (numerics/pow_closed_form.h). Exits with 1 at the
// first error, which it prints.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "numerics/pow_closed_form.h"
#include "numerics/pow_exact.h"

using namespace halfulp::HALFULP_ISA;
using Wide = unsigned __int128;

// w^n, or 0 if it has more than `bits` bits.
static Wide product(uint64_t w, int n, int bits) {
    Wide power = 1;
    for (int i = 0; i < n; ++i) {
        if (power > (~Wide{0} >> (128 - bits)) / w) return 0;
        power *= w;
    }
    return power;
}

// Checks that (w^(2^r) 2^(e 2^r))^(n/2^r) is found, and is w^n 2^(e n).
static void check(uint64_t w, int n, int r) {
    for (const int e : {-3, 0, 5}) {
        Magnitude found{};
        const uint64_t x = static_cast<uint64_t>(product(w, 1 << r, 64));
        const Dyadic base = {x, e * (1 << r)}, exponent = {static_cast<uint64_t>(n) >> std::countr_zero(unsigned(n)),
                                                           std::countr_zero(unsigned(n)) - r};
        const Magnitude expected = magnitude_of(product(w, n, 66), e * n);
        if (exact_power(base, false, exponent, found) && found.significand == expected.significand &&
            found.exponent == expected.exponent && found.inexact == expected.inexact)
            continue;
        std::fprintf(stderr, "(%lu^(2^%d))^(%d/2^%d) is not found\n", w, r, n, r);
        std::exit(1);
    }
}

static void check_powers() {
    long count = 0;
    for (uint64_t w = 3; product(w, 3, 66) != 0; w += 2) {
        for (int n = 1; product(w, n, 66) != 0; ++n) {
            for (int r = 0; (r == 0 || n % 2 == 1) && product(w, 1 << r, 64) != 0; ++r) {
                check(w, n, r);
                ++count;
            }
        }
    }
    std::printf("%ld powers\n", count);
}

static void check_root(uint64_t w) {
    const uint64_t square = w * w;
    const uint64_t roots[] = {integer_sqrt(square - 1), integer_sqrt(square), integer_sqrt(square + 2 * w)};
    if (roots[0] != w - 1 || roots[1] != w || roots[2] != w) {
        std::fprintf(stderr, "a root next to %lu^2 is wrong\n", w);
        std::exit(1);
    }
    if (w % 2 == 1 && w > 1) check(w, 1, 1);
}

static void check_roots(bool all) {
    constexpr uint64_t end = uint64_t{1} << 32, some = uint64_t{1} << 20;
    if (all) {
        for (uint64_t w = 1; w < end; ++w) check_root(w);
        std::printf("%lu squares\n", end - 1);
        return;
    }
    std::mt19937_64 chance;
    for (uint64_t i = 1; i < some; ++i) {
        check_root(i);
        check_root(end - i);
        check_root(chance() % (end - 1) + 1);
    }
    std::printf("%lu squares\n", 3 * (some - 1));
}

// Checks powers of two with every kind of exponent, and numbers with one bit changed, for which a positive answer must
// be right.
static void check_others() {
    long count = 0;
    for (int e = -64; e <= 64; ++e) {
        for (int n = -70; n <= 70; ++n) {
            for (int r = 0; r < 8; ++r, ++count) {
                if (n == 0 || e == 0) continue;
                const unsigned size = static_cast<unsigned>(std::abs(n));
                const int zeros = std::countr_zero(size);
                Magnitude found{};
                const bool is_exact = exact_power({1, e}, n < 0, {size >> zeros, zeros - r}, found);
                const bool expected = (e * n) % (1 << r) == 0;
                if (is_exact != expected || (is_exact && found.exponent != e * n / (1 << r))) {
                    std::fprintf(stderr, "(2^%d)^(%d/2^%d)\n", e, n, r);
                    std::exit(1);
                }
            }
        }
    }
    std::mt19937_64 chance;
    for (int i = 0; i < 1000000; ++i, ++count) {
        const uint64_t w = chance() >> chance() % 60 | 1;
        const int r = static_cast<int>(chance() % 5), n = static_cast<int>(chance() % 41) | (r > 0 ? 1 : 0);
        const Wide power = product(w, 1 << r, 64);
        if (power == 0 || n == 0) continue;
        const uint64_t x = static_cast<uint64_t>(power) ^ uint64_t { 2 } << chance() % 62;
        const int zeros = std::countr_zero(static_cast<unsigned>(n));
        Magnitude found{};
        if (!exact_power({x, 0}, false, {static_cast<uint64_t>(n >> zeros), zeros - r}, found)) continue;
        uint64_t root = x;
        for (int j = 0; j < r; ++j) root = integer_sqrt(root);
        const Magnitude expected = magnitude_of(product(root, n, 66), 0);
        if (product(root, 1 << r, 64) != x || product(root, n, 66) == 0 || found.significand != expected.significand ||
            found.exponent != expected.exponent) {
            std::fprintf(stderr, "%lu^(%d/2^%d) is not such a power\n", x, n, r);
            std::exit(1);
        }
    }
    std::printf("%ld\n", count);
}

int main(int, char** arguments) {
    const std::string what = arguments[1];
    if (what == "powers") check_powers();
    if (what == "some_roots" || what == "all_roots") check_roots(what == "all_roots");
    if (what == "others") check_others();
    double y;
    if (what == "ties")
        while (std::scanf("%la", &y) == 1) std::printf("%d\n", has_ties(y) ? 1 : 0);
}
