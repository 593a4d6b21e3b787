// Powers with a constant exponent that has a formula of a few operations.
//
//   exact       x^2, x^(1/2), 1/x: single operations, which IEEE 754 rounds correctly. To a shorter type the result is
//               rounded a second time: a square of 16 bits is exact, or so small that it goes to zero (see prelu.h),
//               and a root's or a quotient's distance from a boundary is more than float's rounding (24 bits are at
//               least twice float16's 11 and 2 more)
//   products    x^3 and x^4, whose last rounding is right for every float, so that none is tested: of doubles (see
//               product_power_of), or, in half the time, of floats where they are fused (see fused_product_of), up to
//               the first tile of a block that has bases beyond their range
//   by pairs    of floats, where they are fused: p + c with p the float nearest to the power, or next to it, and c a
//               float that makes up for p's error. In 32-bit lanes, twice as many as double's
//   by doubles  where floats are not fused, and for bases beyond the pairs' range
//   specials    in the same loop for the single operations, and for products of doubles. For the others a loop that
//               replaces them takes over from the first part of a block that has any, until a part has none: a
//               processor that finds out in vain too often would take twice the time
//
// Error of the pairs, relative to the power; u = 2^-24, which is what an operation rounds by:
//   h + h' = x^2, p + p' = s x and so on are exact (a product's low part, fused, is a float)
//   x^-2:       p = 1/h within u, d = (1 - p h) - p h' <= 2u, rounded by 2u^2, c = p d, by 2u^2; p d^2 <= 4u^2 is left
//               out
//   x^(-1/2):   p = 1/sqrt x within 2u: by a root and a quotient, or as f + f e/2 from f, the processor's first 14
//               bits, with e = 1 - x f^2 within u, of which half counts; 3 e^2/8 < u/8 is left out, and it is rounded
//               by u. d = 1 - x p^2 <= 4.1u in two steps of 5u^2 each, of which half counts, c = p d/2, rounded by
//               2u^2; 3 p d^2/8 <= 6.4u^2 is left out
//   x^(3/2):    s = sqrt x, d = x - s^2 exact, c = x d/(2s) + p' <= 2u, rounded by 2u^2; d/(2s) by 2u^2; the square of
//               that, u^2/2, is left out
//   For bases from 2^-24 to 2^24 no operation leaves float's normal range but c's, which may lose 2^-149, 2^-77 of
//   x^(3/2): each error is below pair_error_of = 8 or 16 u^2.
// The rounding test takes c (1 - e) and c (1 + e), e = 4 error/u, which needs no addition: where |c| >= p u/4, its
// change is at least the error; where it is less, the power is nearer to p than any boundary, which are p u/2 away or
// more.
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "../numerics/pow_closed_form.h"
#include "kernels.h"
#include "pow_signs.h"

namespace halfulp::HALFULP_ISA {

#ifdef HALFULP_FUSED
static constexpr bool has_pairs_of_floats = true;
#else
static constexpr bool has_pairs_of_floats = false;
#endif

HALFULP_INLINE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
HALFULP_INLINE float reciprocal_root(float x) { return 1 / square_root(x); }

#ifdef __AVX512F__
HALFULP_INLINE __m512 fused(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }

// Of numbers: of zero and infinity this is NaN. (By a root and a quotient all of x^(-1/2) takes a quarter longer.)
HALFULP_INLINE __m512 reciprocal_root(__m512 x) {
    const __m512 first = _mm512_rsqrt14_ps(x), residual = _mm512_fnmadd_ps(x * first, first, _mm512_set1_ps(1));
    return fused(0.5f * first, residual, first);
}
#endif

// The bases that the pairs are for, in size.
static constexpr float least_pair_base = 0x1p-24f, greatest_pair_base = 0x1p24f;

static constexpr float pair_error_of(Shortcut shortcut) {
    return shortcut == Shortcut::root_cube ? 0x1p-45f : 0x1p-44f;
}

// Of floats, or of vectors of them.
template <typename Real>
struct PairOfFloats {
    Real high, low;
};

template <typename Real>
HALFULP_INLINE PairOfFloats<Real> product_of_floats(Real a, Real b) {
    Real product = a * b;
    return {product, fused(a, b, -product)};
}

template <Shortcut shortcut, typename Real>
HALFULP_INLINE PairOfFloats<Real> pair_power_of(Real x) {
    if constexpr (shortcut == Shortcut::reciprocal_square) {
        auto square = product_of_floats(x, x);
        Real power = 1 / square.high, d = fused(-power, square.low, fused(-power, square.high, 1));
        return {power, power * d};
    } else if constexpr (shortcut == Shortcut::reciprocal_root) {
        Real power = reciprocal_root(x), one = Real{} + 1;
        auto product = product_of_floats(x, power);
        Real d = fused(-product.low, power, fused(-product.high, power, one));
        return {power, 0.5f * power * d};
    } else {
        Real root = square_root(x), residual = fused(-root, root, x);
        auto power = product_of_floats(x, root);
        return {power.high, fused(x, residual * (0.5f / root), power.low)};
    }
}

static constexpr bool takes_any_sign(Shortcut shortcut) {
    return shortcut != Shortcut::root && shortcut != Shortcut::reciprocal_root && shortcut != Shortcut::root_cube;
}

// A base's size, as an integer: where the formula is not for bases below zero, these are beyond all others.
template <Shortcut shortcut>
HALFULP_INLINE uint32_t magnitude_of(uint32_t x) {
    return takes_any_sign(shortcut) ? x & 0x7fffffff : x;
}

// What a special base's power depends on.
static constexpr bool is_reciprocal(Shortcut shortcut) {
    return shortcut == Shortcut::reciprocal || shortcut == Shortcut::reciprocal_square ||
           shortcut == Shortcut::reciprocal_root;
}

// The base below zero whose power is a number nevertheless where the exponent is not integral.
template <typename Real>
HALFULP_INLINE Real only_negative_base(const PowOptions& options) {
    return options.domain_error ? Real(0) : -Real(__builtin_inf());
}

// A power, or NaN where there is none.
template <Shortcut shortcut, typename Real>
HALFULP_INLINE Real with_nan(Real power, Real x, Real only_negative) {
    bool is_number = x == x;
    if constexpr (!takes_any_sign(shortcut)) is_number = (x >= 0) | (x == only_negative);
    return is_number ? power : Real(__builtin_nan(""));
}

// By single operations. Returns true: all are right.
template <Shortcut shortcut, typename Real>
static bool fill_by_operation(const Real* __restrict x, Real* __restrict powers, int n, const PowOptions& options) {
    const Real only_negative = only_negative_base<Real>(options);
    for (int i = 0; i < n; ++i) {  // vector loop
        const Real base = takes_any_sign(shortcut) ? x[i] : fabs(x[i]);
        powers[i] = with_nan<shortcut>(exact_power_of<shortcut>(base), x[i], only_negative);
    }
    return true;
}

// x^3 or x^4 for a base in the pairs' range, and x^2. h + l = x^2 is exact, and h x + l x, or h^2 + 2 h l, is rounded
// once; but its small term was rounded by itself, by at most 2^-24 of that and 2^-47 of the power, and l^2 <= 2^-48 h^2
// is left out. That much takes none of these powers across a boundary, as a look at every base has shown
// (tests/exhaustive/test_constant_exponents.py).
template <Shortcut shortcut>
HALFULP_INLINE float fused_product_of(float x, float& square) {
    const auto [high, low] = product_of_floats(x, x);
    square = high;
    if constexpr (shortcut == Shortcut::cube) return fused(high, x, low * x);
    else return fused(high, high, low * (high + high));
}

// By fused products. Returns whether all bases are in the pairs' range: otherwise some powers may be wrong.
template <Shortcut shortcut>
[[gnu::noinline]] static bool fill_by_fused_products(const float* __restrict x, float* __restrict powers, int n) {
    constexpr uint32_t from = word_of(least_pair_base * least_pair_base);
    constexpr uint32_t to = word_of(greatest_pair_base * greatest_pair_base);
    uint32_t greatest = 0;
#pragma GCC unroll 4               // so that processors foresee the loop's end
    for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2 neon
        float square;
        powers[i] = fused_product_of<shortcut>(x[i], square);
        greatest = max(greatest, word_of(square) - from);
    }
    return greatest <= to - from;
}

// By products of doubles, for all bases.
template <Shortcut shortcut>
[[gnu::noinline]] static void fill_by_products(const float* __restrict x, float* __restrict powers, int n) {
    // vector loop
    for (int i = 0; i < n; ++i) powers[i] = with_nan<shortcut>(product_power_of<shortcut>(x[i]), x[i], 0.0f);
}

// By pairs, for positive bases in their range, or of any sign where the formula takes that. Returns whether these are
// all, and all are decided.
template <Shortcut shortcut>
[[gnu::noinline]] static bool fill_by_pairs(const float* __restrict x, float* __restrict powers, int n) {
    constexpr uint32_t from = word_of(least_pair_base), to = word_of(greatest_pair_base);
    constexpr float change = pair_error_of(shortcut) * 0x1p26f;
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

// By doubles, for a tile of bases greater than zero, or of any sign where the formula takes that. Returns whether these
// are all, and all are decided.
template <Shortcut shortcut>
static bool fill_by_doubles(const float* __restrict x, float* __restrict powers, int n) {
    alignas(64) double doubles[tile_size];
    uint32_t carries = 0, undecided = 0;
    for (int i = 0; i < n; ++i) doubles[i] = power_of<shortcut>(x[i]);  // vector loop: scalar
    for (int i = 0; i < n; ++i) {                                       // vector loop: scalar
        const uint32_t magnitude = magnitude_of<shortcut>(word_of(x[i]));
        carries |= (magnitude + 0x00800000) | (magnitude - 1);
        powers[i] = static_cast<float>(doubles[i]);
        undecided |= word_of(powers[i]) ^ word_of(static_cast<float>(doubles[i] * (1 + 2 * shortcut_error)));
    }
    return carries >> 31 == 0 && undecided == 0;
}

// What a part of a block holds, and whether all of it is decided.
struct Part {
    bool decided, special, out_of_range;  // out_of_range: beyond the pairs' range
};

// All bases of a tile, by pairs, for which those beyond their range are undecided, or by doubles.
template <Shortcut shortcut, bool by_pairs>
[[gnu::noinline]] static Part fill_with_specials(const float* __restrict x, float* __restrict powers, int n,
                                                 const PowOptions& options) {
    constexpr float change = pair_error_of(shortcut) * 0x1p26f, infinity = __builtin_inff();
    constexpr uint32_t from = word_of(least_pair_base), to = word_of(greatest_pair_base);
    const float only_negative = only_negative_base<float>(options);
    uint32_t any_undecided = 0, any_special = 0, any_out_of_range = 0;
    alignas(64) double doubles[tile_size];
    if constexpr (!by_pairs)
        for (int i = 0; i < n; ++i) doubles[i] = power_of_any<shortcut>(fabs(x[i]));  // vector loop
    for (int i = 0; i < n; ++i) {                                                     // vector loop: avx512 avx2 scalar
        const float base = fabs(x[i]);
        float end, other_end;
        if constexpr (by_pairs) {
            const auto power = pair_power_of<shortcut>(base);
            end = fused(power.low, 1 - change, power.high);
            other_end = fused(power.low, 1 + change, power.high);
        } else {
            end = static_cast<float>(doubles[i]);
            other_end = static_cast<float>(doubles[i] * (1 + 2 * shortcut_error));
        }
        const uint32_t bits = word_of(base);
        const uint32_t plain = all_bits_if<uint32_t>(base > 0) & all_bits_if<uint32_t>(base < infinity);
        const uint32_t out_of_range = ((to - bits) | (bits - from)) >> 31 & plain;
        uint32_t undecided = word_of(end) ^ word_of(other_end);
        if constexpr (by_pairs) undecided |= out_of_range;
        any_undecided |= undecided & plain;
        any_special |= ~plain;
        any_out_of_range |= out_of_range;
        float special = base;
        if constexpr (is_reciprocal(shortcut)) special = base == 0 ? infinity : 0;
        uint32_t power = (word_of(end) & plain) | (word_of(special) & ~plain);
        powers[i] = with_nan<shortcut>(__builtin_bit_cast(float, power), x[i], only_negative);
        if constexpr (!takes_any_sign(shortcut)) any_special |= word_of(x[i]) >> 31;
    }
    return {any_undecided == 0, any_special != 0, any_out_of_range != 0};
}

// Powers of float32. Returns whether all are decided.
template <Shortcut shortcut>
static bool fill_by_shortcut(const float* __restrict x, float* __restrict powers, int n, const PowOptions& options) {
    if constexpr (is_exact(shortcut)) {
        return fill_by_operation<shortcut>(x, powers, n, options);
    } else if constexpr (is_product(shortcut)) {
        int done = 0;
        if constexpr (has_pairs_of_floats) {
            for (int count; done < n; done += count) {
                count = n - done < tile_size ? n - done : tile_size;
                if (!fill_by_fused_products<shortcut>(x + done, powers + done, count)) break;
            }
        }
        if (done < n) fill_by_products<shortcut>(x + done, powers + done, n - done);
        return true;
    } else {
        Part before = {true, false, false};
        for (int i = 0; i < n; i += tile_size) {
            const int count = n - i < tile_size ? n - i : tile_size;
            if constexpr (has_pairs_of_floats) {
                if (!before.special && !before.out_of_range && fill_by_pairs<shortcut>(x + i, powers + i, count))
                    continue;
                if (!before.out_of_range) {
                    before = fill_with_specials<shortcut, true>(x + i, powers + i, count, options);
                    if (before.decided) continue;
                }
            } else {
                if (!before.special && fill_by_doubles<shortcut>(x + i, powers + i, count)) continue;
            }
            before = fill_with_specials<shortcut, false>(x + i, powers + i, count, options);
            if (!before.decided) return false;
        }
        return true;
    }
}

}  // namespace halfulp::HALFULP_ISA
