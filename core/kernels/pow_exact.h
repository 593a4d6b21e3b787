// x^y with any number of bits: the last phase of every power kernel, and the one that decides what the
// faster phases leave open.
//
//   formula     x = m * 2^e;  log2 x = e + (2/ln 2) atanh((m - 1)/(m + 1));  x^y = 2^k * exp(f ln 2), k + f = y log2 x
//   domain      x > 0, x != 1, y != 0, both finite, each an integer of up to 64 bits times a power of two
//   guarantee   the exact value rounded once: to nearest even for a floating type, toward zero and saturated for
//               an integer type
//   exact cases found first, by integer arithmetic (exact_power): every x^y that fits 66 bits. What is left is never on
//               a rounding boundary (a number of the type, or the middle between two, has at most 65 bits), so that
//               some precision separates it from the nearest one
//   phases      fixed-point numbers of 128 or 192, 512 and 1024 bits of fraction; each ends with an interval that
//               holds x^y, and decides where both its ends round to the same element. The rounding boundaries
//               nearest to a binary64 power are 2^-113 away (Lauter and Lefevre), where 192 bits decide.
//               If even the last one cannot decide, `undecided` counts it, which the tests read, and the nearer
//               candidate of the 1024-bit value is taken
//   error       log2 m: each of at most n = bits/5 + 3 series terms rounds down by less than 2 units in the last
//               place (ulp), the division and the products by less than 8 in all; so its relative error is below
//               2^(log2 n + 3) ulp, times |t| < 2^13 in t. exp: n terms, 2 ulp each, doubled by each of `halvings`
//               squarings. Together less than 2^26 ulp for n <= 2^8 and 9 halvings: error_bits has 6 to spare
//   subnormals  the interval's ends are rounded by encode_exact at the place that their exponent demands
#pragma once

#include <atomic>

#include "../codec.h"
#include "constants.h"

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

// A positive value between significand * 2^(exponent - 63) and one unit of its last bit more; exactly the
// former where not inexact. The significand's top bit is set.
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
static inline bool exact_power(Dyadic x, bool y_negative, Dyadic y, Magnitude& result) {
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

// An interval that holds x^y.
struct Interval {
    Magnitude low, high;
};

static constexpr int far_exponent = 1 << 13;  // |log2| of a power beyond this: outside every type

// x^y to about 64 * (L - 1) - 26 bits. Not for the cases that exact_power takes.
template <int L>
static Interval power_interval(Dyadic x, bool y_negative, Dyadic y) {
    using Number = Fixed<L>;
    constexpr int fraction_bits = Number::fraction_bits;
    constexpr int error_bits = 32;
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
        numerator <<= a;
        Number q;
        q.limb[L - 1] = static_cast<uint64_t>(numerator / denominator);
        unsigned __int128 remainder = numerator % denominator;
        for (int i = 2 * (L - 1) - 1; i >= 0; --i) {  // 32 bits at a time: the remainder has at most 66
            remainder <<= 32;
            uint64_t digit = static_cast<uint64_t>(remainder / denominator);
            remainder %= denominator;
            if (i & 1) q.limb[i / 2] = digit << 32;
            else q.limb[i / 2] |= digit;
        }
        Number z = (q * q) >> (2 * a);
        Number series = one, power = z;
        for (uint64_t divisor = 3; !power.is_zero(); divisor += 2) {
            series = series + power / divisor;
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

    // |t| = |y log2 x| = product * 2^shift.
    Fixed<L + 1> product{};
    uint64_t carry = 0;
    for (int i = 0; i < L; ++i) {
        unsigned __int128 p = static_cast<unsigned __int128>(logarithm.limb[i]) * y.significand + carry;
        product.limb[i] = static_cast<uint64_t>(p);
        carry = static_cast<uint64_t>(p >> 64);
    }
    product.limb[L] = carry;
    int shift = y.exponent - a;
    int t_exponent = product.exponent() + 64 + shift;  // product's units stand in limb[L - 1]
    bool t_negative = log_negative != y_negative;
    if (t_exponent >= 13) {
        Magnitude far = {uint64_t{1} << 63, t_negative ? -far_exponent : far_exponent, true};
        return {far, far};
    }
    if (t_exponent < -100) {  // 1 and a little more, or a little less
        Magnitude near = t_negative ? Magnitude{~uint64_t{0}, -1, true} : Magnitude{uint64_t{1} << 63, 0, true};
        return {near, near};
    }
    product = shift >= 0 ? product << shift : product >> -shift;
    Number t;
    for (int i = 0; i < L; ++i) t.limb[i] = product.limb[i];

    // k + f = t, f in [0, 1).
    int k = static_cast<int>(t.limb[L - 1]);
    t.limb[L - 1] = 0;
    if (t_negative) {
        k = -k;
        if (!t.is_zero()) {
            t = one - t;
            --k;
        }
    }
    constexpr int halvings = L <= 3 ? 7 : 9;
    Number u = (t * Number::leading(constants::ln2, 17)) >> halvings;
    Number exponential = one, term = u;
    for (uint64_t divisor = 2; !term.is_zero(); ++divisor) {
        exponential = exponential + term;
        term = term * u / divisor;
    }
    for (int i = 0; i < halvings; ++i) exponential = exponential * exponential;

    Number error{};
    error.limb[0] = uint64_t{1} << error_bits;
    Number ends[2] = {exponential - error, exponential + error};
    Magnitude magnitudes[2];
    for (int i = 0; i < 2; ++i) {
        int top = ends[i].exponent();
        Number aligned = top >= 0 ? ends[i] >> top : ends[i] << -top;  // in [1, 2)
        uint64_t significand = aligned.limb[L - 1] << 63 | aligned.limb[L - 2] >> 1;
        magnitudes[i] = {significand, k + top, true};
    }
    static_assert(fraction_bits > 2 * error_bits);
    return {magnitudes[0], magnitudes[1]};
}

// Powers that not even 1024 bits decided; nothing is known that would count here.
inline std::atomic<uint64_t> undecided{0};

// x^y rounded by `round`, a monotone function of a Magnitude. The first phase has numbers of so many limbs.
template <int first_limbs, typename Round>
static auto decided_power(Dyadic x, bool y_negative, Dyadic y, Round round) {
    Magnitude exact;
    if (exact_power(x, y_negative, y, exact)) return round(exact);
    Interval interval = power_interval<first_limbs>(x, y_negative, y);
    if (round(interval.low) == round(interval.high)) return round(interval.low);
    interval = power_interval<9>(x, y_negative, y);
    if (round(interval.low) == round(interval.high)) return round(interval.low);
    interval = power_interval<17>(x, y_negative, y);
    if (round(interval.low) != round(interval.high)) undecided.fetch_add(1, std::memory_order_relaxed);
    return round(interval.high);
}

// The encoding of +-x^y in a floating type.
static inline uint64_t pow_exact(const ElementRow& type, bool negative, Dyadic x, bool y_negative, Dyadic y) {
    const auto round = [&](const Magnitude& m) {
        return encode_exact(type, negative, m.significand, m.exponent, m.inexact);
    };
    // float64's powers come here from a phase that has about as many bits as 3 limbs.
    return type.precision > 24 ? decided_power<4>(x, y_negative, y, round) : decided_power<3>(x, y_negative, y, round);
}

// floor(x^y), at most 2^64 - 1.
static inline uint64_t pow_floor(Dyadic x, bool y_negative, Dyadic y) {
    return decided_power<3>(x, y_negative, y, [](const Magnitude& m) {
        if (m.exponent < 0) return uint64_t{0};
        return m.exponent > 63 ? ~uint64_t{0} : m.significand >> (63 - m.exponent);
    });
}

}  // namespace halfulp::HALFULP_ISA
