// Powers of float16 and bfloat16 with a constant exponent that is half of a small integer.
//
//   formula     x^(n/2) by products of floats, square roots and one quotient, two to four roundings in all; then
//               rounded to the type
//   guarantee   the right power of each of the 65536 bases: none is so near to a boundary that these roundings cross
//               it. This was verified by computing every base (tests/oracle/test_pow.py), for these n and this order of
//               operations. It is not a theorem: x^(7/2), for one, fails
//   specials    NaN, and if n is odd, -0 and negative bases: afterwards, in a loop over blocks that have any
#pragma once

#include <utility>

#include "../../simd/float16.h"
#include "pairs.h"

namespace halfulp::HALFULP_ISA {

#if defined(__AVX512F__)
HALFULP_INLINE __m512 square_root(__m512 x) { return _mm512_sqrt_ps(x); }
#elif defined(__F16C__)
HALFULP_INLINE __m256 square_root(__m256 x) { return _mm256_sqrt_ps(x); }
#endif

template <typename Real>
HALFULP_INLINE Real any_reciprocal_root(Real x) {
    return 1 / square_root(x);
}
#ifdef __AVX512F__
// Within 2^-23. No power of float16 or bfloat16 is nearer than 2^-22 to a boundary.
HALFULP_INLINE __m512 any_reciprocal_root(__m512 x) {
    constexpr int zero = 0x02 | 0x04, infinity = 0x08;
    return _mm512_mask_mov_ps(reciprocal_root(x), _mm512_fpclass_ps_mask(x, zero | infinity), _mm512_rsqrt14_ps(x));
}
#endif

// x^(halves/2). Real is float or a vector of floats. A negative power begins with the reciprocal, since the power of x
// could overflow.
template <int halves, typename Real>
HALFULP_INLINE Real power_of_halves(Real x) {
    constexpr int lowest_bit = halves & -halves;
    if constexpr (halves == -1) return any_reciprocal_root(x);
    else if constexpr (halves < 0) return power_of_halves<-halves>(1 / x);
    else if constexpr (halves == 1) return square_root(x);
    else if constexpr (halves == 2) return x;
    else if constexpr (halves == lowest_bit) return power_of_halves<halves / 2>(x) * power_of_halves<halves / 2>(x);
    else return power_of_halves<lowest_bit>(x) * power_of_halves<halves - lowest_bit>(x);
}

// Calls f with twice the exponent as a constant, if the exponent has a formula.
template <typename F>
HALFULP_INLINE void with_halves(double y, F f) {
    const auto one_of = [&]<int... halves>(std::integer_sequence<int, halves...>) {
        ((2 * y == halves ? f(std::integral_constant<int, halves>{}) : void()), ...);
    };
    one_of(std::integer_sequence<int, -8, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 8>{});
}

// The maximum of the bases' encodings as integers, each masked with `bits`.
static uint16_t greatest_encoding(const uint16_t* x, uint16_t bits, int n) {
    uint16_t greatest = 0;
    for (int i = 0; i < n; ++i) {  // vector loop
        const uint16_t base = x[i] & bits;
        greatest = greatest > base ? greatest : base;
    }
    return greatest;
}

// Returns true: every result is right.
template <int halves, Element type>
static bool fill_by_halves(const uint16_t* __restrict x, uint16_t* __restrict powers, int n,
                           const PowOptions& options) {
    constexpr bool is_root = halves % 2 != 0;
    constexpr uint16_t minus = 0x8000, all_bits = 0xffff, bits = is_root ? all_bits : all_bits ^ minus;
    constexpr uint16_t infinity = row(type).overflow, nan = row(type).nan;
    constexpr uint16_t of_zero = halves < 0 ? infinity : 0, of_infinity = halves < 0 ? 0 : infinity;
    map_short<type>(x, powers, n, [](auto base) { return power_of_halves<halves>(base); });
    // As integers, NaN is beyond infinity; so are negative bases and -0, unless their signs are masked.
    if (greatest_encoding(x, bits, n) <= infinity) return true;
    const uint16_t of_minus_infinity = options.domain_error ? nan : of_infinity;
    for (int i = 0; i < n; ++i) {  // vector loop
        const uint16_t base = x[i] & bits;
        uint16_t power = nan;
        if (is_root) {
            power = base == minus ? of_zero : power;
            power = base == (minus | infinity) ? of_minus_infinity : power;
        }
        powers[i] = base > infinity ? power : powers[i];
    }
    return true;
}

}  // namespace halfulp::HALFULP_ISA
