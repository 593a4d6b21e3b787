// For one tile, everything that the phases do not handle: classifying operands, the sign of the result, special values.
#pragma once

#include "../../numerics/pow_special.h"
#include "../kernels.h"

namespace halfulp::HALFULP_ISA {

// Whether a tile has such operands.
struct OperandFlags {
    bool negative;   // a negative base, or -0
    bool special;    // see is_special
    bool subnormal;  // a subnormal base
};

// Detects all kinds of operands in a few integer instructions, by carries into the top bit.
struct DoubleBits {
    uint64_t any_bit = 0, carries = 0, borrows = 0, zeros = 0;

    void add(double value) {
        constexpr uint64_t least_normal = uint64_t{1} << 52;
        uint64_t bits = bits_of(value), magnitude = bits & ~double_sign, below = magnitude - 1;
        any_bit |= bits;
        carries |= magnitude + least_normal;
        zeros |= below;
        borrows |= (magnitude - least_normal) & ~below;
    }
    bool negative() const { return any_bit >> 63 != 0; }
    bool not_finite() const { return carries >> 63 != 0; }
    bool zero() const { return zeros >> 63 != 0; }
    bool subnormal() const { return borrows >> 63 != 0; }
};

[[maybe_unused]] static OperandFlags scan(const double* x, const double* y, int n) {
    DoubleBits of_x, of_y;
    for (int i = 0; i < n; ++i) {  // vector loop
        of_x.add(x[i]);
        of_y.add(y[i]);
    }
    return {of_x.negative(), of_x.not_finite() || of_x.zero() || of_y.not_finite(), of_x.subnormal()};
}

// Whether any exponent is infinite or NaN.
[[maybe_unused]] static bool any_not_finite(const float* y, int n) {
    uint32_t most = 0;
    for (int i = 0; i < n; ++i) {  // vector loop
        most = max(most, word_of(fabs(y[i])));
    }
    return most >= 0x7f800000;
}

[[maybe_unused]] static bool any_not_finite(const double* y, int n) {
    DoubleBits of_y;
    for (int i = 0; i < n; ++i) of_y.add(y[i]);  // vector loop
    return of_y.not_finite();
}

template <std::integral Integer>
[[maybe_unused]] static bool any_not_finite(const Integer*, int) {
    return false;
}

// Below all_normal only for a positive normal float.
HALFULP_INLINE uint32_t above_least_normal(float x) { return word_of(x) - 0x00800000; }
static constexpr uint32_t all_normal = 0x7f800000 - 0x00800000;

// `special` is about the bases only.
static OperandFlags scan_closely(const float* x, int n) {
    constexpr uint32_t infinity = 0x7f800000;
    uint32_t any_bit = 0, from_one = 0, subnormal = 0;
    for (int i = 0; i < n; ++i) {  // vector loop
        uint32_t bits = word_of(x[i]), magnitude = bits & 0x7fffffff;
        any_bit |= bits;
        from_one = max(from_one, magnitude - 1);
        subnormal |= above_least_normal(fabs(x[i])) & ~(magnitude - 1);
    }
    return {any_bit >> 31 != 0, from_one >= infinity - 1, subnormal >> 31 != 0};
}

[[maybe_unused]] static OperandFlags scan(const float* x, int n) {
    uint32_t most = 0;
    for (int i = 0; i < n; ++i) most = max(most, above_least_normal(x[i]));  // vector loop
    return most < all_normal ? OperandFlags{} : scan_closely(x, n);
}

// Applies the signs to magnitudes, in lanes as wide as the bases.
template <typename Type, typename X>
static void put_signs(const Type& type, const X* x, const Word<X>* parities, Word<X>* lanes, int n) {
    const ElementRow to = type;  // a copy, which no store to lanes changes
    // vector loop: avx512 avx2 neon(most) scalar(most)
    for (int i = 0; i < n; ++i) lanes[i] = with_sign(to, lanes[i], word_of(x[i]), parities[i]);
}

// Applies the signs and the special values (see special_power).
template <typename Type, typename X>
[[gnu::noinline]] static void put_specials(const Type& type, const PowOptions& options, const X* x, const X* y,
                                           const Word<X>* parities, Word<X>* lanes, int n) {
    using Lane = Word<X>;
    constexpr X infinite = __builtin_inf();
    const ElementRow to = type;  // a copy, which no store to lanes changes
    const Lane nan = static_cast<Lane>(to.nan), infinity = static_cast<Lane>(to.overflow);
    const Lane zero = to.has_zero() ? 0 : nan, one = static_cast<Lane>(to.bias) << to.fraction_bits();
    // The product has the sign of y log2 |x|. It is NaN if x or y is NaN, or if the power is 1.
    // vector loop: avx512 avx2 neon(most) scalar(most)
    for (int i = 0; i < n; ++i) {
        const X base = fabs(x[i]), product = (base - 1) * y[i];
        const Lane is_infinite = all_bits_if<Lane>(fabs(y[i]) == infinite);
        const Lane is_one =
            all_bits_if<Lane>(x[i] == 1) | all_bits_if<Lane>(y[i] == 0) | (all_bits_if<Lane>(base == 1) & is_infinite);
        const Lane is_number = all_bits_if<Lane>(base > 0) & all_bits_if<Lane>(base < infinite) &
                               all_bits_if<Lane>(y[i] == y[i]) & ~is_infinite;
        Lane power = product > 0 ? infinity : zero;
        power = product == product ? power : nan;
        power = (one & is_one) | (power & ~is_one);
        const Lane magnitude = (lanes[i] & is_number) | (power & ~is_number);
        lanes[i] = with_sign(to, magnitude, word_of(x[i]), parities[i] & (odd | is_number));
    }
    if (!options.domain_error) return;
    for (int i = 0; i < n; ++i) {
        const bool outside = parities[i] == not_integral || fabs(y[i]) == infinite;
        if (outside && x[i] < 0) lanes[i] = nan;
    }
}

// Applies signs and special values if the tile has operands that need them.
template <typename Type, typename X, typename Y>
static void finish(const Type& type, const PowOptions& options, const OperandFlags& operand_flags, const X* x, Y y,
                   Word<X>* lanes, int n) {
    if (!operand_flags.negative && !operand_flags.special) return;
    alignas(64) Word<X> parities[tile_size];
    for (int i = 0; i < n; ++i) parities[i] = static_cast<Word<X>>(y.parity(i));  // vector loop
    if (!operand_flags.special) return put_signs(type, x, parities, lanes, n);
    constexpr bool in_memory = requires {  // in the base's type
        requires !Y::has_lows;
        requires std::is_same_v<decltype(Y::highs), const X*>;
    };
    if constexpr (in_memory) {
        put_specials(type, options, x, y.highs, parities, lanes, n);
    } else {
        alignas(64) X exponents[tile_size];
        // vector loop: avx512 avx2 neon
        for (int i = 0; i < n; ++i) exponents[i] = y.template special<X>(i);
        put_specials(type, options, x, exponents, parities, lanes, n);
    }
}

}  // namespace halfulp::HALFULP_ISA
