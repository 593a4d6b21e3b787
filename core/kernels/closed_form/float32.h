// Powers of float32 with a constant exponent that has a formula of a few operations, by four strategies:
//
//   operations.h   x^2, x^(1/2), 1/x: one operation
//   products.h     x^3, x^4: fused products, until a tile has a base beyond their range, and then products of doubles
//   pairs.h        x^-2, x^(-1/2), x^(3/2): pairs of floats, if multiplications are fused
//   doubles.h      the same exponents in doubles, otherwise and for bases beyond the pairs' range
//
// Special values: operations and products of doubles handle them in the same loop. For the other strategies, a loop
// that replaces special values takes over from the first tile that has any until a tile has none. (Trying the plain
// loop first on every tile would take up to twice the time.)
#pragma once

#include "doubles.h"
#include "operations.h"
#include "pairs.h"
#include "products.h"

namespace halfulp::HALFULP_ISA {

// Whether zero's power is infinity, and infinity's is zero.
static constexpr bool is_reciprocal(Shortcut shortcut) {
    return shortcut == Shortcut::reciprocal || shortcut == Shortcut::reciprocal_square ||
           shortcut == Shortcut::reciprocal_root;
}

// Which bases a tile has, and whether all its powers are decided. out_of_range: beyond the pairs' range.
struct Part {
    bool decided, special, out_of_range;
};

// A tile of any bases, by pairs or by doubles. With pairs, the powers of bases beyond their range are undecided.
template <Shortcut shortcut, bool by_pairs>
[[gnu::noinline]] static Part fill_with_specials(const float* __restrict x, float* __restrict powers, int n,
                                                 const PowOptions& options) {
    constexpr float change = change_of(shortcut), infinity = __builtin_inff();
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

// Returns whether all powers are decided; if not, what was stored must not be used.
template <Shortcut shortcut>
static bool fill_by_shortcut(const float* __restrict x, float* __restrict powers, int n, const PowOptions& options) {
    if constexpr (is_exact(shortcut)) {
        return fill_by_operation<shortcut>(x, powers, n, options);
    } else if constexpr (is_product(shortcut)) {
        int done = 0;
        if constexpr (has_fused_floats) {
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
            if constexpr (has_fused_floats) {
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
