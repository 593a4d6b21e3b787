// x^-2, x^(-1/2) and x^(3/2) of float32 by pairs of floats, if multiplications are fused: a 32-bit lane per element, of
// which a vector has twice as many as of 64 bits.
//
//   formula     p + c: p is the float nearest to the power or next to it, c a float that corrects p's error
//   domain      |x| from 2^-24 to 2^24. There only c leaves the normal range of floats; it may lose 2^-149, which is
//               2^-77 of x^(3/2) and less of the others
//   error       pair_error_of, relative to the power. Each operation's bound is beside it, with u = 2^-24, which an
//               operation rounds by. tests/phases measures the errors
#pragma once

#include "products.h"

namespace halfulp::HALFULP_ISA {

// 16 u^2 and 8 u^2.
static constexpr float pair_error_of(Shortcut shortcut) {
    return shortcut == Shortcut::root_cube ? 0x1p-45f : 0x1p-44f;
}

// Within 2u.
HALFULP_INLINE float reciprocal_root(float x) { return 1 / square_root(x); }

#ifdef __AVX512F__
// Within 2u for numbers; NaN for zero and infinity. (All of x^(-1/2) takes 1.25x the time by a root and a quotient.)
HALFULP_INLINE __m512 reciprocal_root(__m512 x) {
    // f is right to 14 bits. The residual e = 1 - x f^2 is rounded by u, of which half counts; 3 e^2/8 < u/8 is left
    // out; the last operation rounds by u.
    const __m512 first = _mm512_rsqrt14_ps(x), residual = _mm512_fnmadd_ps(x * first, first, _mm512_set1_ps(1));
    return fused(0.5f * first, residual, first);
}
#endif

template <Shortcut shortcut, typename Real>
HALFULP_INLINE PairOfFloats<Real> pair_power_of(Real x) {
    if constexpr (shortcut == Shortcut::reciprocal_square) {
        auto square = product_of_floats(x, x);  // h + h', exact
        // p = 1/h within u. d = (1 - p h) - p h' is at most 2u and rounded by 2u^2.
        Real power = 1 / square.high, d = fused(-power, square.low, fused(-power, square.high, 1));
        // c = p d, rounded by 2u^2. p d^2 <= 4u^2 is left out. In all 8u^2.
        return {power, power * d};
    } else if constexpr (shortcut == Shortcut::reciprocal_root) {
        Real power = reciprocal_root(x), one = Real{} + 1;  // p, within 2u
        auto product = product_of_floats(x, power);         // exact
        // d = 1 - x p^2 is at most 4.1u, in two steps that round by 5u^2 each, of which half counts: 5u^2.
        Real d = fused(-product.low, power, fused(-product.high, power, one));
        // c = p d/2, rounded by 2u^2. 3 p d^2/8 <= 6.4u^2 is left out. In all 13.4u^2.
        return {power, 0.5f * power * d};
    } else {
        Real root = square_root(x), residual = fused(-root, root, x);  // s within u; d = x - s^2, exact
        auto power = product_of_floats(x, root);                       // p + p', exact
        // c = x d/(2s) + p' is at most 2u and rounded by 2u^2; d/(2s) by 2u^2. Half the square of d/(2s), u^2/2, is
        // left out. In all 4.5u^2.
        return {power.high, fused(x, residual * (0.5f / root), power.low)};
    }
}

// Rounding test: p + c (1 - e) and p + c (1 + e) must round to the same float, with e = 4 pair_error_of/u, which needs
// no addition. If |c| >= p u/4, c e is at least the error. If |c| is less, the power is nearer to p than any boundary,
// since those are p u/2 or more away.
static constexpr float change_of(Shortcut shortcut) { return pair_error_of(shortcut) * 0x1p26f; }

// A base's magnitude as an integer. If the formula is for positive bases only, negative ones are beyond all others.
template <Shortcut shortcut>
HALFULP_INLINE uint32_t magnitude_of(uint32_t x) {
    return takes_any_sign(shortcut) ? x & 0x7fffffff : x;
}

// Returns whether all bases are within the range (and positive, unless the formula takes any sign) and all powers are
// decided.
template <Shortcut shortcut>
[[gnu::noinline]] static bool fill_by_pairs(const float* __restrict x, float* __restrict powers, int n) {
    constexpr uint32_t from = word_of(least_pair_base), to = word_of(greatest_pair_base);
    constexpr float change = change_of(shortcut);
    uint32_t greatest = 0, undecided = 0;
    int i = 0;
#ifdef __AVX512F__
    if constexpr (shortcut == Shortcut::reciprocal_root) {
        __m512i any_undecided = _mm512_setzero_si512(), all_greatest = _mm512_setzero_si512();
        for (; i + 16 <= n; i += 16) {
            const __m512 base = _mm512_loadu_ps(x + i);
            const auto power = pair_power_of<shortcut>(base);
            const __m512 end = fused(power.low, _mm512_set1_ps(1 - change), power.high);
            const __m512 other_end = fused(power.low, _mm512_set1_ps(1 + change), power.high);
            any_undecided |= _mm512_castps_si512(end) ^ _mm512_castps_si512(other_end);
            const __m512i past_from = _mm512_sub_epi32(_mm512_castps_si512(base), _mm512_set1_epi32(from));
            all_greatest = _mm512_max_epu32(all_greatest, past_from);
            _mm512_storeu_ps(powers + i, end);
        }
        undecided = static_cast<uint32_t>(_mm512_reduce_or_epi32(any_undecided));
        greatest = _mm512_reduce_max_epu32(all_greatest);
    }
#endif
    for (; i < n; ++i) {  // vector loop: avx512 avx2 neon
        const auto power = pair_power_of<shortcut>(x[i]);
        float end = fused(power.low, 1 - change, power.high);
        undecided |= word_of(end) ^ word_of(fused(power.low, 1 + change, power.high));
        greatest = max(greatest, magnitude_of<shortcut>(word_of(x[i])) - from);
        powers[i] = end;
    }
    return greatest <= to - from && undecided == 0;
}

}  // namespace halfulp::HALFULP_ISA
