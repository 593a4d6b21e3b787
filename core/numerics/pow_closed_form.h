// Powers that need few operations: by one correctly rounded operation, by a formula with an error bound, by exact
// products, and powers of two. Also tells which powers can be ties.
#pragma once

#include <type_traits>

#include "constants.h"
#include "pow_special.h"

namespace halfulp::HALFULP_ISA {

enum class Shortcut { none, square, root, reciprocal, cube, fourth, reciprocal_square, reciprocal_root, root_cube };

static inline Shortcut shortcut_of(double y) {
    if (y == 2) return Shortcut::square;
    if (y == 0.5) return Shortcut::root;
    if (y == -1) return Shortcut::reciprocal;
    if (y == 3) return Shortcut::cube;
    if (y == 4) return Shortcut::fourth;
    if (y == -2) return Shortcut::reciprocal_square;
    if (y == -0.5) return Shortcut::reciprocal_root;
    if (y == 1.5) return Shortcut::root_cube;
    return Shortcut::none;
}

// Calls f with a shortcut as a constant.
template <typename F>
HALFULP_INLINE auto with_shortcut(Shortcut shortcut, F f) {
    using enum Shortcut;
    switch (shortcut) {
        case square: return f(std::integral_constant<Shortcut, square>{});
        case root: return f(std::integral_constant<Shortcut, root>{});
        case reciprocal: return f(std::integral_constant<Shortcut, reciprocal>{});
        case cube: return f(std::integral_constant<Shortcut, cube>{});
        case fourth: return f(std::integral_constant<Shortcut, fourth>{});
        case reciprocal_square: return f(std::integral_constant<Shortcut, reciprocal_square>{});
        case reciprocal_root: return f(std::integral_constant<Shortcut, reciprocal_root>{});
        case root_cube: return f(std::integral_constant<Shortcut, root_cube>{});
        case none: break;
    }
    return f(std::integral_constant<Shortcut, none>{});
}

static constexpr bool is_exact(Shortcut shortcut) {
    return shortcut == Shortcut::square || shortcut == Shortcut::root || shortcut == Shortcut::reciprocal;
}

HALFULP_INLINE float square_root(float x) { return __builtin_sqrtf(x); }
HALFULP_INLINE double square_root(double x) { return __builtin_sqrt(x); }

template <Shortcut shortcut, typename Real>
HALFULP_INLINE Real exact_power_of(Real x) {
    if constexpr (shortcut == Shortcut::square) return x * x;
    else if constexpr (shortcut == Shortcut::reciprocal) return 1 / x;
    else return square_root(x);
}

// x^3 and x^4 of a float: the nearest float. The square is exact, so that there are two roundings. If the power is on a
// boundary between floats, it has at most 25 bits and the first rounding is exact. No other power is within 2^-53 of
// itself from a boundary: tests/exhaustive/test_constant_exponents.py verified every base.
static constexpr bool is_product(Shortcut shortcut) {
    return shortcut == Shortcut::cube || shortcut == Shortcut::fourth;
}

template <Shortcut shortcut>
HALFULP_INLINE float product_power_of(float base) {
    const double x = base, square = x * x;
    return static_cast<float>(square * (shortcut == Shortcut::cube ? x : square));
}

// v = x^y (1 - shortcut_error) in a double, for a float x: the exact value is in [v, v (1 + 2 shortcut_error)]. Each
// operation's bound is beside it. A root is computed as a float and corrected by its exact remainder, since a double's
// square root takes 3x the time of a float's.
static constexpr double shortcut_error = 0x1p-46;

template <Shortcut shortcut>
HALFULP_INLINE double power_of(float base) {
    constexpr double one = 1 - shortcut_error;
    const double x = base;
    if constexpr (shortcut == Shortcut::cube) {
        return x * x * (x * one);  // x x is exact, here and in the next two: at most two roundings by 2^-53
    } else if constexpr (shortcut == Shortcut::fourth) {
        return (x * x) * (x * x) * one;
    } else if constexpr (shortcut == Shortcut::reciprocal_square) {
        return one / (x * x);
    } else if constexpr (shortcut == Shortcut::reciprocal_root) {
        // r within 2^-23. d = 1 - x r^2, rounded by 2^-53 if not fused: 2^-54 of the power.
        double power = 1 / __builtin_sqrtf(base), d = multiply_add(-x, power * power, 1);
        // x^(-1/2) = r (1 + d/2 + 3 d^2/8 + ...); the terms left out are below d^3 = 2^-66.
        return multiply_add(power * d, multiply_add(d, 0.375, 0.5), power) * one;
    } else {
        float root = __builtin_sqrtf(base), half_reciprocal = 0.5f / root;
        double high = root, residual = multiply_add(-high, high, x);  // d = x - r^2, exact
        // x^(1/2) = r + d/(2 r): 2^-49 of it is left out. The factor 0.5/r, a float, is rounded by 2^-24: 2^-48 of it.
        return multiply_add(residual, half_reciprocal, high) * (x * one);
    }
}

// The same, but fast for subnormal bases too, whose roots are slow on many processors.
template <Shortcut shortcut>
HALFULP_INLINE double power_of_any(float base) {
    if constexpr (shortcut == Shortcut::reciprocal_root || shortcut == Shortcut::root_cube) {
        constexpr float down = shortcut == Shortcut::root_cube ? 0x1p-75f : 0x1p25f;
        const bool small = base < 0x1p-100f;
        const double scale = small ? down : 1.0f;
        return power_of<shortcut>(base * (small ? 0x1p100f : 1.0f)) * scale * scale;
    } else {
        return power_of<shortcut>(base);
    }
}

// y if power_by_products takes it, that is an integer from 2 to 15, and otherwise 0.
HALFULP_INLINE double product_exponent(double y) { return y >= 2 && y <= 15 && (y + 0x1p52) - 0x1p52 == y ? y : 0; }

// `inexact` is not zero unless the power is known to be exact.
struct ExactPower {
    double value;
    uint64_t inexact;
};

HALFULP_INLINE uint64_t mantissa_of(double x) { return bits_of(x) << 12; }

// x^y if x is a normal power of two and y log2(x) is an integer between -1000 and 1000; inexact otherwise.
HALFULP_INLINE ExactPower power_of_power_of_two(double x, double y) {
    const double e = double_of(bits_of(x) >> 52 | bits_of(0x1p52)) - (0x1p52 + 1023);
    const DoubleDouble t = two_product(e, y);
    const double shifted = t.high + round_magic, residual = t.high - (shifted - round_magic);
    const uint64_t out_of_range = t.high > -1000 && t.high < 1000 ? uint64_t{0} : 1;
    return {double_of((bits_of(shifted) << 52) + bits_of(1.0)),
            out_of_range | mantissa_of(x) | bits_of(t.low) << 1 | bits_of(residual) << 1};
}

// One step of squaring, for y's lowest bit. Unused factors are 1.
template <int bits_left>
HALFULP_INLINE void multiply_by_powers(ExactPower& power, double square, uint64_t bits) {
    double factor = (bits & 1) != 0 ? square : 1, root = bits > 1 ? square : 1;
    DoubleDouble product = two_product(power.value, factor), next = two_product(root, root);
    power.value = product.high;
    power.inexact |= bits_of(product.low) << 1 | bits_of(next.low) << 1;
    if constexpr (bits_left > 1) multiply_by_powers<bits_left - 1>(power, next.high, bits >> 1);
}

// x^y by squaring; `inexact` if a product was rounded or y is 0. No product is rounded if the power has at most 25
// bits, as ties have: its factors have no more bits than the power.
HALFULP_INLINE ExactPower power_by_products(double x, double y) {
    ExactPower power{1, y > 0 ? uint64_t{0} : 1};
    multiply_by_powers<4>(power, x, bits_of(y + 0x1p52) & 15);
    return power;
}

// Whether a power that the double-double phase leaves undecided may be exact, and so a tie. An exact power has at most
// 54 bits or is a power of two. Then the exponent's odd part is at most 1100, and a normal base with an exponent of 5/4
// or more has at most 44 bits. The last phase looks for ties too, so that missing one (a subnormal power of two) costs
// only time.
HALFULP_INLINE uint64_t may_be_tie(double x, double y_high, double y_low) {
    constexpr uint64_t of_y = (uint64_t{1} << 40) - 1, of_x = (uint64_t{1} << 9) - 1;
    uint64_t of_few_bits = ((bits_of(y_high) & of_y) | (bits_of(y_low) << 1)) == 0 ? 1 : 0;
    uint64_t root = y_high > 0 && y_high < 1.25 ? 1 : 0;
    return of_few_bits & (root | ((bits_of(x) & of_x) == 0 ? 1 : 0));
}

// Whether one operation of the processor computes the power, correctly rounded in the whole range.
HALFULP_INLINE uint64_t is_one_operation(double y_high, double y_low) {
    uint64_t is_one = (y_high == 2 ? 1 : 0) | (y_high == 0.5 ? 1 : 0) | (y_high == -1 ? 1 : 0);
    return y_low == 0 ? is_one : 0;
}

static inline double by_one_operation(double x, double y) {
    using enum Shortcut;
    return y == 2 ? exact_power_of<square>(x) : y == 0.5 ? exact_power_of<root>(x) : exact_power_of<reciprocal>(x);
}

// Whether some float32 powers with this exponent are ties of a type of at most 24 bits: y is an integer from 2 to 15,
// or n / 2^k with k <= 4 and n odd, at most 15. For these exponents, every power of a float32 base that the
// double-double phase leaves undecided is a tie: tests/exhaustive/ties.py verified every base.
static inline bool has_ties(double y) {
    for (int k = 0; k <= 4; ++k, y *= 2)
        if (parity_of(y) != not_integral) return y >= 1 && y <= 15;
    return false;
}

}  // namespace halfulp::HALFULP_ISA
