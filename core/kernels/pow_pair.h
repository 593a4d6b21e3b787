// x^y in pairs of doubles, for float64 and for what the fast phase leaves undecided: what is done with 2^t, which
// pow_pair_quotient.h or pow_pair_table.h computes. Plain functions without branches, as in pow_float.h.
//
//   guarantee   the exact value lies within their PairError of the scaled value. A result is taken only where the whole
//               interval rounds to one element; otherwise the next phase decides: pow_triple.h for float64, at last
//               pow_exact.h
#pragma once

#include "pow_float.h"

namespace halfulp::HALFULP_ISA {

// How far 2^(t - k) may be from the exact value.
struct PairError {
    double fixed, of_t;

    double at(double t) const { return multiply_add(double_of(bits_of(t) & ~double_sign), of_t, fixed); }
};
static constexpr PairError quotient_error{0x1p-69, 0x1p-73}, table_error{0x1.3p-71, 0x1.ap-72};

// Added and subtracted again, it rounds to sixteenths, as which powers are looked up.
static constexpr double sixteenths_magic = round_magic / 16;

// c[from] + x (c[from + 1] + ... x (c[to - 1] + x rest)), by Horner's rule, for coefficients that are pairs. The parts
// are not normalised between steps: the chain of additions through `high` is what the loop waits for.
template <int from, int to, int pairs, typename Real>
HALFULP_INLINE Pair<Real> horner(const DoubleDouble (&c)[pairs], Pair<Real> rest, Real x) {
    if constexpr (from + 1 < to) rest = horner<from + 1, to>(c, rest, x);
    Pair<Real> sum = multiply_add_pair(rest.high, x, Real(c[from].high));
    return {sum.high, sum.low + multiply_add(rest.low, x, Real(c[from].low))};
}

// 2^(t - k) for an integer k, and how far it may be from the exact value.
struct PairPower {
    DoubleDouble value;  // about [sqrt(1/2), 2); not normalised: low is up to 2^-40
    double error;
    uint64_t k;  // modulo 2^64: unsigned arithmetic is what every instruction set has for 64-bit lanes
};

// A power in a range [least, greatest] that holds the exact value, rounded both times: decided where they are equal.
struct Rounding {
    double least, greatest;
};

// A power in the range, as an encoding of float64, and not zero in `open` where it is undecided. For |t| <= 1020.
struct NormalRounding {
    uint64_t encoding, open;
};

HALFULP_INLINE NormalRounding round_normal(const PairPower& power) {
    uint64_t least = bits_of(power.value.high + (power.value.low - power.error));
    uint64_t greatest = bits_of(power.value.high + (power.value.low + power.error));
    return {least + (power.k << 52), least ^ greatest};
}

// What a power is rounded to in the pair phase, where a result may be subnormal, overflow, or have fewer bits.
struct PairTarget {
    double most_t;  // beyond which every t gives the same element
    int64_t least_exponent, fraction_bits;

    static constexpr PairTarget of(const ElementRow& type) {
        int below = type.precision + 2 - type.least_exponent(), above = type.greatest_exponent() + 2;
        return {static_cast<double>(below > above ? below : above), type.least_exponent(), type.fraction_bits()};
    }
};

// value * 2^k, in two steps, since 2^k may be no double.
HALFULP_INLINE double scaled(double value, uint64_t k) {
    uint64_t half = (k + 2048) >> 1;
    double first = double_of((half - 1024 + 1023) << 52);
    double second = double_of((k + 2048 - half - 1024 + 1023) << 52);
    return value * first * second;
}

// To a target's grid; beyond its greatest number where the power overflows. |t| <= target.most_t. With C = 2^52 times
// the grid's spacing, adding C rounds at that place; what the addition loses is exact, so the low part joins it before
// the second, deciding addition.
HALFULP_INLINE Rounding round_to(const PairTarget& target, const PairPower& power) {
    DoubleDouble value = fast_two_sum(power.value.high, power.value.low);  // whose binade is then the value's
    uint64_t k = power.k;
    uint64_t binade = (bits_of(value.high) >> 52) - 1023 + k + 2048;
    uint64_t least = static_cast<uint64_t>(target.least_exponent + 2048);
    bool is_subnormal = static_cast<int64_t>(binade) < static_cast<int64_t>(least);
    uint64_t grid = (is_subnormal ? least : binade) - 2048 - static_cast<uint64_t>(target.fraction_bits) - k;
    double big = double_of((grid + 52 + 1023) << 52);
    if (target.fraction_bits == 52 && !is_subnormal) big = 0;

    double rounded = big + value.high;
    double lost = value.high - (rounded - big);
    double error = multiply_add(big, 0x1p-104, power.error);
    double least_value = rounded + (lost + (value.low - error));
    double greatest_value = rounded + (lost + (value.low + error));
    return {scaled(least_value - big, k), scaled(greatest_value - big, k)};
}

}  // namespace halfulp::HALFULP_ISA
