// x^y with any number of bits: the last phase of every kernel of powers, for the powers that the faster phases leave
// undecided.
//
//   formula     x = m * 2^e;  log2 x = e + (2/ln 2) atanh((m - 1)/(m + 1));  x^y = 2^k * exp(f ln 2), k + f = y log2 x
//   domain      x > 0, x != 1, y != 0, both finite, each an integer of up to 64 bits times a power of two
//   guarantee   the exact value rounded once: to nearest even for a floating type, toward zero and saturated for
//               an integer type
//   exact cases found first, by integer arithmetic (exact_power): every x^y that has at most 66 bits. Any other power
//   is
//               never on a rounding boundary (an element, or the middle between two, has at most 65 bits), so that some
//               precision separates it from the nearest boundary
//   phases      fixed-point numbers of 128 or 192, then 320, 512 and 1024 bits of fraction. Each ends with an interval
//               that contains x^y, and decides if both ends round to the same element. The smallest distance between an
//               inexact power and a rounding boundary is known for 16-bit types (by exhaustive search), but not for
//               longer types (the bound of Lauter and Lefevre for binary64, 2^-113, is for part of the exponents). If
//               even 1024 bits cannot decide, the result says so, and is the interval's upper end
//   error       below 2^27 units in the last place (ulp), where error_bits allows 2^32. Each operation's bound is
//               beside it; proofs/exact_phase.py proves the sum
//   subnormals  encode_exact rounds the interval's ends at the place that their exponent requires
#pragma once

#include <bit>

#include "../formats/convert.h"
#include "constants.h"
#include "fixed_point.h"

namespace halfulp::HALFULP_ISA {

// significand * 2^exponent, the significand odd or zero.
struct Dyadic {
    uint64_t significand;
    int exponent;
};

static inline Dyadic dyadic_of_integer(uint64_t value) {
    if (value == 0) return {0, 0};
    int zeros = std::countr_zero(value);
    return {value >> zeros, zeros};
}

// |value|, finite.
static inline Dyadic dyadic_of(double value) {
    uint64_t bits = bits_of(value) & ~double_sign;
    uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
    int biased = static_cast<int>(bits >> 52);
    Dyadic d = dyadic_of_integer(biased == 0 ? fraction : fraction | uint64_t{1} << 52);
    d.exponent += (biased == 0 ? 1 : biased) - 1075;
    return d;
}

// A positive value: significand * 2^(exponent - 63), plus less than one unit of its last bit if inexact. The
// significand's top bit is set.
struct Magnitude {
    uint64_t significand;
    int exponent;
    bool inexact;
};

static inline Magnitude magnitude_of(unsigned __int128 value, int exponent) {
    uint64_t high = static_cast<uint64_t>(value >> 64), low = static_cast<uint64_t>(value);
    if (high == 0) {
        int zeros = std::countl_zero(low);
        return {low << zeros, exponent + 63 - zeros, false};
    }
    int zeros = std::countl_zero(high);
    value <<= zeros;
    return {static_cast<uint64_t>(value >> 64), exponent + 127 - zeros, static_cast<uint64_t>(value) != 0};
}

// floor(sqrt(value)).
static inline uint64_t integer_sqrt(uint64_t value) {
    uint64_t root = static_cast<uint64_t>(__builtin_sqrt(static_cast<double>(value)));
    while (static_cast<unsigned __int128>(root) * root > value) --root;
    while (static_cast<unsigned __int128>(root + 1) * (root + 1) <= value) ++root;
    return root;
}

// Whether x^y is an integer of at most 66 bits times a power of two; if so, `result` is it.
HALFULP_CALLED static inline bool exact_power(Dyadic x, bool y_negative, Dyadic y, Magnitude& result) {
    // y = n / 2^r with n odd: x must be a 2^r-th power, so its exponent r times even and its odd part r times a square.
    for (; y.exponent < 0; ++y.exponent) {
        if (x.exponent & 1) return false;
        x.exponent /= 2;
        if (x.significand == 1) continue;
        if ((x.significand & 7) != 1) return false;  // an odd square is 1 modulo 8
        uint64_t root = integer_sqrt(x.significand);
        if (root * root != x.significand) return false;
        x.significand = root;
    }
    // Beyond this every power of two is far outside every type.
    constexpr uint64_t huge = uint64_t{1} << 20;
    uint64_t n = y.exponent > 20 || y.significand > huge ? huge : y.significand << y.exponent;
    if (n > huge) n = huge;
    if (x.significand == 1) {
        int64_t exponent = (y_negative ? -1 : 1) * static_cast<int64_t>(n) * x.exponent;
        constexpr int64_t limit = 1 << 20;
        exponent = exponent > limit ? limit : exponent < -limit ? -limit : exponent;
        result = {uint64_t{1} << 63, static_cast<int>(exponent), false};
        return true;
    }
    // m^n has more than (bits of m - 1) * n bits, and at most n more than that: no overflow below.
    uint64_t least_bits = static_cast<uint64_t>(std::bit_width(x.significand) - 1) * n;
    if (y_negative || least_bits > 65) return false;
    unsigned __int128 power = 1;
    for (uint64_t i = 0; i < n; ++i) power *= x.significand;
    if (power >> 66 != 0) return false;
    result = magnitude_of(power, static_cast<int>(n) * x.exponent);
    return true;
}

// An interval that contains x^y.
struct Interval {
    Magnitude low, high;
};

static constexpr int exponent_out_of_range = 1 << 13;  // if |log2| of a power is greater, it is outside every type

// 1/d for the divisors d of the series, unless they are long: a multiplication takes a third of the time of a division.
template <int L>
struct Reciprocals {
    static constexpr bool are_tabled = L <= 6;
    static constexpr int count = are_tabled ? 2 * (Fixed<L>::fraction_bits / 5 + 4) : 1;
    Fixed<L> of[count]{};

    constexpr Reciprocals() {
        for (int d = 1; d < count; ++d) of[d] = Fixed<L>::of(1) / static_cast<uint64_t>(d);
    }
};

template <int L>
inline constexpr Reciprocals<L> reciprocals;

template <int L>
HALFULP_INLINE Fixed<L> divided(const Fixed<L>& term, int divisor) {
    if constexpr (Reciprocals<L>::are_tabled) return term * reciprocals<L>.of[divisor];
    else return term / static_cast<uint64_t>(divisor);
}

// The quotient of two numbers below 2^67, the first one less than twice the second.
template <int L>
HALFULP_CALLED static Fixed<L> quotient(unsigned __int128 numerator, unsigned __int128 denominator) {
    Fixed<L> q;
    q.limb[L - 1] = static_cast<uint64_t>(numerator / denominator);
    unsigned __int128 remainder = numerator % denominator;
    HALFULP_ROLLED
    for (int i = 2 * (L - 1) - 1; i >= 0; --i) {  // 32 bits at a time: the remainder has at most 66
        remainder <<= 32;
        uint64_t digit = static_cast<uint64_t>(remainder / denominator);
        remainder %= denominator;
        if (i & 1) q.limb[i / 2] = digit << 32;
        else q.limb[i / 2] |= digit;
    }
    return q;
}

// y log2 x = k + f, f in [0, 1). If y log2 x is out_of_range or near zero, only its sign matters.
template <int L>
struct WideExponent {
    enum Size { ordinary, out_of_range, near };

    Size size;
    bool negative;
    int k;
    Fixed<L> f;
};

template <int L>
static WideExponent<L> wide_exponent(Dyadic x, bool y_negative, Dyadic y) {
    using Number = Fixed<L>;
    using Result = WideExponent<L>;
    const Number one = Number::of(1);

    // x = m * 2^e with m in [sqrt(1/2), sqrt 2), near enough: m = significand / 2^width.
    int width = static_cast<int>(std::bit_width(x.significand));
    int e = x.exponent + width;
    if (width > 1 && static_cast<double>(x.significand) < 0.70710678 * power_of_two(width)) {
        --width;
        --e;
    } else if (width == 1) {
        width = 0;  // significand 1
        --e;
    }

    // log2 m = +-w * 2^-a; s = |significand - 2^width| / (significand + 2^width) = q * 2^-a, q in [1/2, 2).
    unsigned __int128 unit = static_cast<unsigned __int128>(1) << width;
    bool m_below_one = x.significand < unit;
    unsigned __int128 numerator = m_below_one ? unit - x.significand : x.significand - unit;
    unsigned __int128 denominator = unit + x.significand;
    Number w = Number::of(0);
    int a = 0;
    if (numerator != 0) {
        while (numerator << a < denominator) ++a;
        const Number q = quotient<L>(numerator << a, denominator);
        Number z = (q * q) >> (2 * a);
        // atanh s = s (1 + z/3 + z^2/5 + ...), z = s^2 <= 0.0295: n <= bits/5 + 3 terms, each rounded by less than 4
        // ulp. The quotient and the products round by less than 8 ulp in all: w is within 2^(log2 n + 4) ulp, relative.
        Number series = one, power = z;
        for (int divisor = 3; !power.is_zero(); divisor += 2) {
            series = series + divided(power, divisor);
            power = power * z;
        }
        w = q * series * Number::leading(constants::two_over_ln2, 17);
    }

    // |log2 x| = logarithm * 2^-a, logarithm >= 1/2.
    bool log_negative = e != 0 ? e < 0 : m_below_one;
    Number logarithm = w;
    if (e != 0) {
        Number whole = Number::of(static_cast<uint64_t>(e < 0 ? -e : e));
        logarithm = (e < 0) == m_below_one ? whole + (w >> a) : whole - (w >> a);
        a = 0;
    }

    // |t| = |y log2 x| = product * 2^shift. The product is exact; below 2^13, t is within 2^(log2 n + 17) ulp.
    Fixed<L + 1> product{};
    uint64_t carry = 0;
    for (int i = 0; i < L; ++i) {
        unsigned __int128 p = static_cast<unsigned __int128>(logarithm.limb[i]) * y.significand + carry;
        product.limb[i] = static_cast<uint64_t>(p);
        carry = static_cast<uint64_t>(p >> 64);
    }
    product.limb[L] = carry;
    int shift = y.exponent - a;
    int t_exponent = product.exponent() + 64 + shift;  // the product's integer part is limb[L - 1]
    bool t_negative = log_negative != y_negative;
    if (t_exponent >= 13) return {Result::out_of_range, t_negative, 0, {}};
    if (t_exponent < -100) return {Result::near, t_negative, 0, {}};
    product = shift >= 0 ? product << shift : product >> -shift;
    Result t{Result::ordinary, t_negative, static_cast<int>(product.limb[L - 1]), {}};
    for (int i = 0; i < L - 1; ++i) t.f.limb[i] = product.limb[i];
    if (t_negative) {
        t.k = -t.k;
        if (!t.f.is_zero()) {
            t.f = one - t.f;
            --t.k;
        }
    }
    return t;
}

// 2^f for f in [0, 1).
template <int L>
static Fixed<L> wide_exp2(const Fixed<L>& f) {
    constexpr int halvings = L <= 4 ? 7 : 9;
    Fixed<L> u = (f * Fixed<L>::leading(constants::ln2, 17)) >> halvings;
    // exp u = 1 + u + u^2/2 + ..., at most n terms, each rounded by less than 4 ulp. Each squaring doubles the error:
    // with t's below 2^27 ulp, for n <= 2^8 and 9 squarings.
    Fixed<L> exponential = Fixed<L>::of(1), term = u;
    for (int divisor = 2; !term.is_zero(); ++divisor) {
        exponential = exponential + term;
        term = divided(term * u, divisor);
    }
    for (int i = 0; i < halvings; ++i) exponential = exponential * exponential;
    return exponential;
}

// The maximum error of wide_exp2(t.f), in ulp, is 2^error_bits.
static constexpr int error_bits = 32;

// x^y to about 64 * (L - 1) - error_bits bits. Not for powers that exact_power finds.
template <int L>
HALFULP_CALLED static Interval power_interval(Dyadic x, bool y_negative, Dyadic y) {
    static_assert(Fixed<L>::fraction_bits > 2 * error_bits);
    const WideExponent<L> t = wide_exponent<L>(x, y_negative, y);
    if (t.size == t.out_of_range) {
        Magnitude beyond = {uint64_t{1} << 63, t.negative ? -exponent_out_of_range : exponent_out_of_range, true};
        return {beyond, beyond};
    }
    if (t.size == t.near) {  // slightly more or less than 1
        Magnitude near = t.negative ? Magnitude{~uint64_t{0}, -1, true} : Magnitude{uint64_t{1} << 63, 0, true};
        return {near, near};
    }
    const Fixed<L> power = wide_exp2(t.f);
    Fixed<L> error{};
    error.limb[0] = uint64_t{1} << error_bits;
    const auto end = [&](const Fixed<L>& value) {
        const int top = value.exponent();
        const Fixed<L> aligned = top >= 0 ? value >> top : value << -top;  // in [1, 2)
        return Magnitude{aligned.limb[L - 1] << 63 | aligned.limb[L - 2] >> 1, t.k + top, true};
    };
    return {end(power - error), end(power + error)};
}

// A result, and whether it is certain to be right.
template <typename Result>
struct Decision {
    Result result;
    bool decided;
};

// x^y rounded by `round`, a monotone function of a Magnitude. The first phase computes with first_limbs limbs.
template <int first_limbs, typename Round>
static auto decided_power(Dyadic x, bool y_negative, Dyadic y, Round round) {
    using Result = decltype(round(Magnitude{}));
    Magnitude exact;
    if (exact_power(x, y_negative, y, exact)) return Decision<Result>{round(exact), true};
    const auto phase = [&](const Interval& interval) {
        const Result low = round(interval.low), high = round(interval.high);
        return Decision<Result>{high, low == high};
    };
    Decision<Result> power = phase(power_interval<first_limbs>(x, y_negative, y));
    if (!power.decided) power = phase(power_interval<6>(x, y_negative, y));
    if (!power.decided) power = phase(power_interval<9>(x, y_negative, y));
    if (!power.decided) power = phase(power_interval<17>(x, y_negative, y));
    return power;
}

// The encoding of x^y in a floating type.
static inline Decision<uint64_t> pow_exact(const ElementRow& type, Dyadic x, bool y_negative, Dyadic y) {
    const auto round = [&](const Magnitude& m) {
        return encode_exact(type, false, m.significand, m.exponent, m.inexact);
    };
    return decided_power<4>(x, y_negative, y, round);  // 3 limbs have no more bits than triples
}

// At most 2^64 - 1.
static inline uint64_t floor_of(const Magnitude& m) {
    if (m.exponent < 0) return 0;
    return m.exponent > 63 ? ~uint64_t{0} : m.significand >> (63 - m.exponent);
}

// floor(x^y), at most 2^64 - 1.
static inline Decision<uint64_t> pow_floor(Dyadic x, bool y_negative, Dyadic y) {
    return decided_power<3>(x, y_negative, y, floor_of);
}

}  // namespace halfulp::HALFULP_ISA
