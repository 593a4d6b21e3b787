// x^3 and x^4 of float32: by fused products of floats, in half the time of products of doubles, or by products of
// doubles. Every result is right, so that none is tested: tests/exhaustive/test_constant_exponents.py computed every
// base.
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "operations.h"

namespace halfulp::HALFULP_ISA {

#ifdef HALFULP_FUSED
static constexpr bool has_fused_floats = true;
#else
static constexpr bool has_fused_floats = false;
#endif

#ifdef __AVX512F__
HALFULP_INLINE __m512 fused(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
#endif

// high + low. Real is float or a vector of floats.
template <typename Real>
struct PairOfFloats {
    Real high, low;
};

// The absolute values of bases between which a product and its low part are normal floats.
static constexpr float least_pair_base = 0x1p-24f, greatest_pair_base = 0x1p24f;

// a b, exactly, for |a b| >= 2^-101.
template <typename Real>
HALFULP_INLINE PairOfFloats<Real> product_of_floats(Real a, Real b) {
    Real product = a * b;
    return {product, fused(a, b, -product)};
}

// x^3 or x^4 for a base within the pairs' range, and x^2.
template <Shortcut shortcut>
HALFULP_INLINE float fused_product_of(float x, float& square) {
    const auto [high, low] = product_of_floats(x, x);  // exact; |low| <= 2^-24 high
    square = high;
    // Before the last rounding: low x, at most 2^-24 of the power, is rounded by 2^-24 of itself: 2^-48 of the power.
    if constexpr (shortcut == Shortcut::cube) return fused(high, x, low * x);
    // 2 low high, at most 2^-23 of the power, is rounded by 2^-24 of itself, and low^2 <= 2^-48 high^2 is left out.
    else return fused(high, high, low * (high + high));
}

// Returns whether all bases are within the pairs' range: otherwise some powers may be wrong.
template <Shortcut shortcut>
[[gnu::noinline]] static bool fill_by_fused_products(const float* __restrict x, float* __restrict powers, int n) {
    constexpr uint32_t from = word_of(least_pair_base * least_pair_base);
    constexpr uint32_t to = word_of(greatest_pair_base * greatest_pair_base);
    uint32_t greatest = 0;
#pragma GCC unroll 4               // so that processors predict the loop's end
    for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2 neon
        float square;
        powers[i] = fused_product_of<shortcut>(x[i], square);
        greatest = max(greatest, word_of(square) - from);
    }
    return greatest <= to - from;
}

// Products of doubles (see product_power_of), for all bases.
template <Shortcut shortcut>
[[gnu::noinline]] static void fill_by_products(const float* __restrict x, float* __restrict powers, int n) {
    // vector loop
    for (int i = 0; i < n; ++i) powers[i] = with_nan<shortcut>(product_power_of<shortcut>(x[i]), x[i], 0.0f);
}

}  // namespace halfulp::HALFULP_ISA
