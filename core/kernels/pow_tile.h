// Powers of a floating type, a tile at a time: short loops over the phases of pow_float.h, then what they
// leave: signs, special values, undecided lanes. Two short loops are faster than a long one, because a processor's
// window holds several rounds of a short one.
#pragma once

#include "kernels.h"
#include "pow_exact.h"
#include "pow_float.h"

namespace halfulp::HALFULP_ISA {

HALFULP_INLINE double absolute(double value) { return double_of(bits_of(value) & ~double_sign); }

HALFULP_INLINE bool is_integral(double y) {
    double magnitude = absolute(y);
    return magnitude >= 0x1p52 || (magnitude + 0x1p52) - 0x1p52 == magnitude;
}

HALFULP_INLINE bool is_odd(double y) {
    double half = absolute(y) * 0.5;
    return half < 0x1p52 && (half + 0x1p52) - 0x1p52 != half && is_integral(y);
}

// Whether the phases' value has no meaning and pow_special's has.
HALFULP_INLINE bool is_special(double x, double y) {
    return !(absolute(x) > 0 && absolute(x) < __builtin_inf() && absolute(y) < __builtin_inf());
}

// Exponents as the phases take them: values, and what 64-bit integers beyond 2^53 have left of them (or null: nothing).
template <typename Real>
struct Exponents {
    const Real* values;
    const double* lows;

    double high(int i) const { return values[i]; }
    double low(int i) const { return lows ? lows[i] : 0; }
    bool integral(int i) const { return is_integral(high(i)); }
    bool odd(int i) const { return is_odd(high(i)) != is_odd(low(i)); }

    Dyadic dyadic(int i) const {
        if (low(i) == 0) return dyadic_of(high(i));
        __int128 sum = static_cast<__int128>(high(i)) + static_cast<__int128>(low(i));
        return dyadic_of_integer(static_cast<uint64_t>(sum < 0 ? -sum : sum));
    }
};

// A power's magnitude that is on the type's grid.
template <Element type>
HALFULP_INLINE Storage<type> pack(double magnitude) {
    if constexpr (type == Element::float64 || type == Element::float32) {
        return encode<type>(magnitude);
    } else {
        uint64_t encoding = round_magnitude<type>(magnitude).encoding;
        return static_cast<Storage<type>>(encoding > row(type).largest ? row(type).overflow : encoding);
    }
}

// The sign of x^y for x < 0: a minus where y is odd, NaN where y is not integral.
template <Element type>
HALFULP_INLINE Storage<type> with_sign(Storage<type> magnitude, bool negative, bool integral, bool odd) {
    constexpr ElementRow to = row(type);
    bool keeps_sign = (to.bits == 4 || magnitude != to.nan) && (to.has_minus_zero() || magnitude != 0);
    auto sign = static_cast<Storage<type>>(negative && odd && keeps_sign ? to.sign() : 0);
    return negative && !integral ? static_cast<Storage<type>>(to.nan) : static_cast<Storage<type>>(magnitude | sign);
}

template <typename Real>
HALFULP_INLINE bool is_negative(Real x) {
    return (bits_of(x) & double_sign) != 0;
}

// What kinds of operands a tile holds.
struct Contents {
    bool negative;   // a base below zero, or minus zero
    bool special;    // see is_special
    bool subnormal;  // a base
};

// Maxima of integers, which every instruction set has for 32-bit lanes and which see all kinds at once.
static Contents scan(const float* x, const float* y, int n) {
    constexpr uint32_t infinity = 0x7f800000, least_normal = 0x00800000;
    uint32_t from_normal = 0, y_magnitude = 0;
    for (int i = 0; i < n; ++i) {
        uint32_t x_bits = __builtin_bit_cast(uint32_t, x[i]) - least_normal;
        uint32_t y_bits = __builtin_bit_cast(uint32_t, y[i]) & 0x7fffffff;
        from_normal = from_normal > x_bits ? from_normal : x_bits;
        y_magnitude = y_magnitude > y_bits ? y_magnitude : y_bits;
    }
    if (from_normal < infinity - least_normal && y_magnitude < infinity) return {false, false, false};
    uint32_t negative = 0, from_one = 0, subnormal = 0;
    for (int i = 0; i < n; ++i) {
        uint32_t x_bits = __builtin_bit_cast(uint32_t, x[i]), magnitude = x_bits & 0x7fffffff;
        negative |= x_bits;
        from_one = from_one > magnitude - 1 ? from_one : magnitude - 1;
        subnormal |= magnitude < least_normal;
    }
    return {negative >> 31 != 0, from_one >= infinity - 1 || y_magnitude >= infinity, subnormal != 0};
}

template <typename Real>
static Contents scan(const Real* x, const double* y, int n) {
    uint64_t negative = 0, special = 0, subnormal = 0;
    for (int i = 0; i < n; ++i) {
        negative |= bits_of(x[i]);
        special |= is_special(x[i], y[i]);
        subnormal |= absolute(x[i]) < (sizeof(Real) == 4 ? 0x1p-126 : 0x1p-1022);
    }
    return {negative >> 63 != 0, special != 0, subnormal != 0};
}

// Signs, then the special values.
template <Element type, typename X, typename Y>
static void finish(const PowOptions& options, const Contents& contents, const X* x, Exponents<Y> y, Storage<type>* out, int n) {
    if (contents.negative)
        for (int i = 0; i < n; ++i) out[i] = with_sign<type>(out[i], is_negative(x[i]), y.integral(i), y.odd(i));
    if (!contents.special) return;
    for (int i = 0; i < n; ++i)
        if (is_special(x[i], y.high(i)))
            out[i] = encode<type>(pow_special(x[i], y.high(i), y.integral(i), y.odd(i), options.domain_error));
}

// The last phase for the lanes listed.
template <Element type, typename X, typename Y>
static void resolve_exactly(const X* x, Exponents<Y> y, Storage<type>* out, const int* lanes, int count) {
    for (int j = 0; j < count; ++j) {
        int i = lanes[j];
        if (is_special(x[i], y.high(i)) || absolute(x[i]) == 1 || y.high(i) == 0) continue;
        uint64_t magnitude = pow_exact(row(type), false, dyadic_of(x[i]), y.high(i) < 0, y.dyadic(i));
        out[i] = with_sign<type>(static_cast<Storage<type>>(magnitude), is_negative(x[i]), y.integral(i), y.odd(i));
    }
}

// The lanes whose flag is set.
template <typename Flag>
static int list_lanes(const Flag* flags, int n, int* lanes) {
    int count = 0;
    for (int i = 0; i < n; ++i) {
        lanes[count] = i;
        count += flags[i] != 0;
    }
    return count;
}

// The pair phase: magnitudes on the target's grid to `values`, flags where undecided.
template <typename X, typename Y>
static void pair_phase(const X* x, Exponents<Y> y, const PairTarget& target, double* values, uint64_t* flags, int n) {
    alignas(64) double t_high[tile_size], t_low[tile_size];
    for (int i = 0; i < n; ++i) {
        DoubleDouble t = log2_pair<sizeof(X) == 8>(absolute(x[i]), y.high(i), y.low(i));
        t_high[i] = limited(t.high, target.most_t);
        t_low[i] = limited(t.low, 0x1p-40);
    }
    for (int i = 0; i < n; ++i) {
        Rounding rounding = round_to(target, exp2_pair({t_high[i], t_low[i]}));
        values[i] = rounding.least;
        flags[i] = rounding.least != rounding.greatest;
    }
}

// The later phases for the lanes listed that the fast phase left undecided.
template <Element type, typename Y>
static void resolve(const float* x, Exponents<Y> y, Storage<type>* out, const int* lanes, int count) {
    alignas(64) double x_some[tile_size], y_some[tile_size], values[tile_size];
    alignas(64) uint64_t flags[tile_size];
    int left[tile_size + 1], left_lanes[tile_size];
    for (int j = 0; j < count; ++j) {
        x_some[j] = x[lanes[j]];
        y_some[j] = y.high(lanes[j]);
    }
    pair_phase(x_some, Exponents<double>{y_some, nullptr}, PairTarget::of(row(type)), values, flags, count);
    int left_count = list_lanes(flags, count, left);
    for (int j = 0; j < left_count; ++j) left_lanes[j] = lanes[left[j]];
    for (int j = 0; j < count; ++j) {
        int i = lanes[j];
        if (flags[j] || is_special(x[i], y.high(i))) continue;
        out[i] = with_sign<type>(pack<type>(values[j]), is_negative(x[i]), y.integral(i), y.odd(i));
    }
    resolve_exactly<type>(x, y, out, left_lanes, left_count);
}

// A power's encoding, and not zero where its interval holds a rounding boundary.
struct Encoded {
    uint32_t encoding, undecided;
};

// The fast phase's interval for t, rounded to float32.
HALFULP_INLINE Encoded round_fast(double t) {
    double power = exp2_fast(t);
    uint32_t least = __builtin_bit_cast(uint32_t, static_cast<float>(power));
    uint32_t greatest = __builtin_bit_cast(uint32_t, static_cast<float>(power * (1 + 2 * fast_error)));
    return {least, least ^ greatest};
}

// A float that is a power rounded to float32, rounded again to a shorter type. The two roundings are as good as one
// unless the float is a tie of the shorter type: a boundary between the power and the float would itself be
// the float nearest to the power.
template <Element type>
HALFULP_INLINE Encoded round_again(float power) {
    if constexpr (type == Element::bfloat16) {  // float32's upper half, subnormals included
        uint32_t bits = __builtin_bit_cast(uint32_t, power);
        return {(bits + 0x7fff + (bits >> 16 & 1)) >> 16, (bits & 0xffff) == 0x8000};
    } else if constexpr (type == Element::float16) {  // round_magnitude in 32-bit lanes
        constexpr float most = 0x1p17f, least_normal = 0x1p-14f;
        float magnitude = power < most ? power : most;
        uint32_t exponent = __builtin_bit_cast(uint32_t, magnitude > least_normal ? magnitude : least_normal) >> 23;
        float scaled = magnitude * __builtin_bit_cast(float, (10 + 254 - exponent) << 23);
        float shifted = scaled + 0x1p23f, rest = scaled - (shifted - 0x1p23f);
        uint32_t encoding = ((exponent - 113) << 10) + (__builtin_bit_cast(uint32_t, shifted) & 0x7fffff);
        return {encoding < 0x7c00 ? encoding : 0x7c00, rest == 0.5f || rest == -0.5f};
    } else {
        Rounded rounded = round_magnitude<type>(power);
        uint64_t encoding = rounded.encoding > row(type).largest ? row(type).overflow : rounded.encoding;
        return {static_cast<uint32_t>(encoding), rounded.rest == 0.5};
    }
}

// Every floating type but float64, whose values are floats.
template <Element type, typename Y>
static void pow_tile(const PowOptions& options, const float* x, const Y* exponents, Storage<type>* out, int n) {
    // float32's exponents are the widest of the types that come here; see pow_float.h on |t|.
    static_assert(row(type).precision <= 24 && row(type).least_exponent() >= -127);
    Exponents<Y> y{exponents, nullptr};
    alignas(64) double t[tile_size];
    alignas(64) uint32_t encodings[tile_size], flags[tile_size];
    Contents contents = scan(x, exponents, n);
    if (contents.subnormal) {
        for (int i = 0; i < n; ++i) t[i] = limited(y.values[i] * log2_fast(absolute(x[i])), 1000);
    } else {
        for (int i = 0; i < n; ++i) t[i] = limited(y.values[i] * log2_fast(__builtin_fabsf(x[i])), 1000);
    }

    uint32_t any = 0;
    uint32_t* floats = encodings;
    if constexpr (type == Element::float32) floats = out;
    for (int i = 0; i < n; ++i) {
        Encoded power = round_fast(t[i]);
        floats[i] = power.encoding;
        any |= power.undecided;
    }
    if constexpr (type != Element::float32) {
        // Here what matters is whether the float is undecided between two elements of the type.
        any = 0;
        for (int i = 0; i < n; ++i) {
            Encoded power = round_again<type>(__builtin_bit_cast(float, floats[i]));
            out[i] = static_cast<Storage<type>>(power.encoding);
            any |= power.undecided;
        }
    }
    finish<type>(options, contents, x, y, out, n);
    if (!any) return;
    for (int i = 0; i < n; ++i) {
        if constexpr (type == Element::float32) flags[i] = round_fast(t[i]).undecided;
        else flags[i] = round_again<type>(__builtin_bit_cast(float, floats[i])).undecided;
    }
    int lanes[tile_size + 1];
    resolve<type>(x, y, out, lanes, list_lanes(flags, n, lanes));
}

// float64.
static void pow_tile(const PowOptions& options, const double* x, Exponents<double> y, uint64_t* out, int n) {
    alignas(64) double t_high[tile_size], t_low[tile_size];
    alignas(64) uint64_t flags[tile_size];
    Contents contents = scan(x, y.values, n);
    uint64_t any = 0, far = contents.subnormal;
    if (!contents.subnormal) {
        if (y.lows) {
            for (int i = 0; i < n; ++i) {
                DoubleDouble t = log2_pair<false>(absolute(x[i]), y.values[i], y.lows[i]);
                t_high[i] = t.high;
                t_low[i] = t.low;
            }
        } else {
            for (int i = 0; i < n; ++i) {
                DoubleDouble t = log2_pair<false>(absolute(x[i]), y.values[i], 0);
                t_high[i] = t.high;
                t_low[i] = t.low;
            }
        }
        for (int i = 0; i < n; ++i) {
            Rounding rounding = round_normal(exp2_pair({t_high[i], t_low[i]}));
            out[i] = bits_of(rounding.least);
            flags[i] = bits_of(rounding.least) ^ bits_of(rounding.greatest);
            any |= flags[i];
            far |= !(absolute(t_high[i]) < 1020);
        }
    }
    if (far) {
        alignas(64) double values[tile_size];
        pair_phase(x, y, PairTarget::of(row(Element::float64)), values, flags, n);
        for (int i = 0; i < n; ++i) out[i] = bits_of(values[i]);
        any = 1;
    }
    finish<Element::float64>(options, contents, x, y, out, n);
    if (!any) return;
    int lanes[tile_size + 1];
    resolve_exactly<Element::float64>(x, y, out, lanes, list_lanes(flags, n, lanes));
}

}  // namespace halfulp::HALFULP_ISA
