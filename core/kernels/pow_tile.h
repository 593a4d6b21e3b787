// Powers of a floating type, a tile at a time: short loops over the phases of pow_float.h, then what they
// leave: signs, special values, undecided lanes. Two short loops are faster than a long one, because a processor's
// window holds several rounds of a short one.
#pragma once

#include "kernels.h"
#include "pow_exact.h"
#include "pow_float.h"

namespace halfulp::HALFULP_ISA {

HALFULP_INLINE double absolute(double value) { return __builtin_fabs(value); }
HALFULP_INLINE float absolute(float value) { return __builtin_fabsf(value); }

// The unsigned integer of a float's or a double's width.
template <typename Real>
using Word = std::conditional_t<sizeof(Real) == 4, uint32_t, uint64_t>;

template <typename Real>
HALFULP_INLINE Word<Real> word_of(Real value) {
    return __builtin_bit_cast(Word<Real>, value);
}

// What an exponent does to the sign of a base below zero. Numbers, so that vector lanes hold them.
static constexpr uint32_t even = 0, odd = 1, not_integral = 2;

template <typename Real>
HALFULP_INLINE Word<Real> parity_of(Real y) {
    constexpr Real all_integral = sizeof(Real) == 4 ? Real(0x1p23) : Real(0x1p52);  // every number from here on is
    Real magnitude = absolute(y), shifted = magnitude + all_integral;
    Word<Real> small = shifted - all_integral == magnitude ? word_of(shifted) & 1 : not_integral;
    Word<Real> great = magnitude < 2 * all_integral ? word_of(magnitude) & 1 : even;
    return magnitude < all_integral ? small : great;
}

// What pow returns where x is zero, infinite or NaN, or y is infinite or NaN (C23 F.10.4.4). `domain_error` is
// the rule N9 of DirectML: a base below zero takes only finite integral exponents.
static inline double pow_special(double x, double y, uint32_t parity, bool domain_error) {
    constexpr double infinity = __builtin_inf();
    double magnitude = x < 0 ? -x : x;
    bool x_negative = bits_of(x) >> 63;
    if (y == 0) return 1;
    if (domain_error && x < 0 && (parity == not_integral || y - y != 0)) return __builtin_nan("");
    if (x == 1) return 1;
    if (x != x || y != y) return __builtin_nan("");
    if (y == infinity || y == -infinity) {
        if (magnitude == 1) return 1;
        return (magnitude > 1) == (y > 0) ? infinity : 0;
    }
    double result = (magnitude == 0) == (y < 0) ? infinity : 0;
    return x_negative && parity == odd ? -result : result;
}

// Whether the phases' value has no meaning and pow_special's has.
template <typename X, typename Y>
HALFULP_INLINE bool is_special(X x, Y y) {
    return !(absolute(x) > 0 && absolute(x) < X(__builtin_inf()) && absolute(y) < Y(__builtin_inf()));
}

// Exponents as the phases take them: floats, doubles, or doubles with what 64-bit integers beyond 2^53 have left of
// them.
template <typename Real>
struct Exponents {
    const Real* values;

    Real high(int i) const { return values[i]; }
    double low(int) const { return 0; }
    Word<Real> parity(int i) const { return parity_of(values[i]); }
    Dyadic dyadic(int i) const { return dyadic_of(values[i]); }
};

struct PairExponents {
    const double* highs;
    const double* lows;

    double high(int i) const { return highs[i]; }
    double low(int i) const { return lows[i]; }
    uint64_t parity(int i) const { return parity_of(highs[i]) ^ parity_of(lows[i]); }
    Dyadic dyadic(int i) const {
        if (lows[i] == 0) return dyadic_of(highs[i]);
        __int128 sum = static_cast<__int128>(highs[i]) + static_cast<__int128>(lows[i]);
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

// The encoding of x^y from its magnitude's: where x is below zero a minus for an odd y, NaN for one that is not
// integral.
template <Element type, typename Lane>
HALFULP_INLINE Lane with_sign(Lane magnitude, Lane x_bits, Lane parity) {
    constexpr ElementRow to = row(type);
    constexpr Lane nan = static_cast<Lane>(to.nan), sign = static_cast<Lane>(to.sign());
    constexpr bool nan_has_no_sign = to.bits != 4;
    Lane negative = x_bits >> (8 * sizeof(Lane) - 1);
    Lane minus = (negative & parity) * sign;  // parity's other values have no bit in common with 1
    minus = nan_has_no_sign && magnitude == nan ? 0 : minus;
    minus = !to.has_minus_zero() && magnitude == 0 ? 0 : minus;
    return (negative & (parity >> 1)) != 0 ? nan : magnitude | minus;
}

// What kinds of operands a tile holds.
struct Contents {
    bool negative;   // a base below zero, or minus zero
    bool special;    // see is_special
    bool subnormal;  // a base
};

// Integers that carry into their top bits, and maxima, see all kinds in a few instructions.
struct DoubleBits {
    uint64_t any_bit = 0, carries = 0, borrows = 0;

    void add(double value) {
        constexpr uint64_t least_normal = uint64_t{1} << 52;
        uint64_t bits = bits_of(value), magnitude = bits & ~double_sign;
        any_bit |= bits;
        carries |= magnitude + least_normal;
        borrows |= magnitude - least_normal;
    }
    bool negative() const { return any_bit >> 63 != 0; }
    bool not_finite() const { return carries >> 63 != 0; }
    bool below_normal() const { return borrows >> 63 != 0; }
};

static Contents scan(const double* x, const double* y, int n) {
    DoubleBits of_x, of_y;
    for (int i = 0; i < n; ++i) {  // vector loop
        of_x.add(x[i]);
        of_y.add(y[i]);
    }
    // A zero among the subnormals is found out where they are handled.
    return {of_x.negative(), of_x.not_finite() || of_x.below_normal() || of_y.not_finite(), of_x.below_normal()};
}

// Whether any exponent is infinite or NaN.
static bool any_not_finite(const float* y, int n) {
    uint32_t most = 0;
    for (int i = 0; i < n; ++i) {  // vector loop
        uint32_t magnitude = __builtin_bit_cast(uint32_t, y[i]) & 0x7fffffff;
        most = most > magnitude ? most : magnitude;
    }
    return most >= 0x7f800000;
}

static bool any_not_finite(const double* y, int n) {
    DoubleBits of_y;
    for (int i = 0; i < n; ++i) of_y.add(y[i]);  // vector loop
    return of_y.not_finite();
}

template <typename Y>
static Contents scan(const float* x, const Y* y, int n) {
    constexpr uint32_t infinity = 0x7f800000, least_normal = 0x00800000;
    uint32_t from_normal = 0;
    for (int i = 0; i < n; ++i) {  // vector loop
        uint32_t bits = __builtin_bit_cast(uint32_t, x[i]) - least_normal;
        from_normal = from_normal > bits ? from_normal : bits;
    }
    bool y_special = any_not_finite(y, n);
    if (from_normal < infinity - least_normal) return {false, y_special, false};
    uint32_t any_bit = 0, from_one = 0, below_normal = 0;
    for (int i = 0; i < n; ++i) {  // vector loop
        uint32_t bits = __builtin_bit_cast(uint32_t, x[i]), magnitude = bits & 0x7fffffff;
        any_bit |= bits;
        from_one = from_one > magnitude - 1 ? from_one : magnitude - 1;
        below_normal |= magnitude - least_normal;
    }
    return {any_bit >> 31 != 0, from_one >= infinity - 1 || y_special, below_normal >> 31 != 0};
}

// Signs, then the special values, for magnitudes in lanes as wide as the bases.
template <Element type, typename X, typename Y>
static void finish(const PowOptions& options, const Contents& contents, const X* x, Y y, Word<X>* lanes, int n) {
    if (contents.negative) {
        alignas(64) Word<X> parities[tile_size];
        for (int i = 0; i < n; ++i) parities[i] = static_cast<Word<X>>(y.parity(i));  // vector loop
        // vector loop: avx512 avx2 neon(most) scalar(most)
        for (int i = 0; i < n; ++i) lanes[i] = with_sign<type>(lanes[i], word_of(x[i]), parities[i]);
    }
    if (!contents.special) return;
    for (int i = 0; i < n; ++i)
        if (is_special(x[i], y.high(i)))
            lanes[i] =
                encode<type>(pow_special(x[i], y.high(i), static_cast<uint32_t>(y.parity(i)), options.domain_error));
}

// The last phase for the lanes listed.
template <Element type, typename X, typename Y>
static void resolve_exactly(const X* x, Y y, Storage<type>* out, const int* listed, int count) {
    for (int j = 0; j < count; ++j) {
        int i = listed[j];
        if (is_special(x[i], y.high(i)) || absolute(x[i]) == 1 || y.high(i) == 0) continue;
        uint64_t magnitude = pow_exact(row(type), false, dyadic_of(x[i]), y.high(i) < 0, y.dyadic(i));
        out[i] = static_cast<Storage<type>>(with_sign<type, uint64_t>(magnitude, bits_of(x[i]), y.parity(i)));
    }
}

// The lanes whose flag is set.
template <typename Flag>
static int list_lanes(const Flag* flags, int n, int* listed) {
    int count = 0;
    for (int i = 0; i < n; ++i) {
        listed[count] = i;
        count += flags[i] != 0;
    }
    return count;
}

// Whether some float32 powers with this exponent are ties of a type of at most 24 bits: integers from 2 to 15, and
// n / 2^k with k <= 4 and n odd, at most 15. For these, tests/exhaustive/ties.py has shown for every float32 base that
// a power which the pair phase leaves undecided is a tie.
static inline bool has_ties(double y) {
    for (int k = 0; k <= 4; ++k, y *= 2)
        if (parity_of(y) != not_integral) return y >= 1 && y <= 15;
    return false;
}

// y * log2(x) of a tile, as pairs.
struct PairLogarithms {
    alignas(64) double high[tile_size];
    alignas(64) double low[tile_size];

    template <bool may_be_subnormal, typename X, typename Y>
    void fill(const X* x, Y y, int n) {
        alignas(64) double s[tile_size], s_low[tile_size], e[tile_size];
        for (int i = 0; i < n; ++i) {  // vector loop
            PairQuotient quotient = quotient_pair<may_be_subnormal>(absolute(x[i]));
            s[i] = quotient.s.high;
            s_low[i] = quotient.s.low;
            e[i] = quotient.e;
        }
        for (int i = 0; i < n; ++i) {  // vector loop
            DoubleDouble t = log2_pair({{s[i], s_low[i]}, e[i]}, y.high(i), y.low(i));
            high[i] = t.high;
            low[i] = t.low;
        }
    }

    // finish(i, power) for each 2^t.
    template <typename F>
    void raise(int n, F finish) const {
        alignas(64) double start_high[tile_size], start_low[tile_size];
        for (int i = 0; i < n; ++i) {  // vector loop
            DoubleDouble start = exp2_pair_start(high[i]);
            start_high[i] = start.high;
            start_low[i] = start.low;
        }
        // vector loop: avx512 avx2 neon
        for (int i = 0; i < n; ++i) finish(i, exp2_pair({high[i], low[i]}, {start_high[i], start_low[i]}));
    }
};

// The pair phase: the interval's ends on the target's grid.
template <typename X, typename Y>
static void pair_phase(const X* x, Y y, const PairTarget& target, double* least, double* greatest, int n) {
    PairLogarithms t;
    t.fill<true>(x, y, n);
    for (int i = 0; i < n; ++i) {  // vector loop
        t.high[i] = limited(t.high[i], target.most_t);
        t.low[i] = limited(t.low[i], 0x1p-40);
    }
    t.raise(n, [=](int i, const PairPower& power) {
        Rounding rounding = round_to(target, power);
        least[i] = rounding.least;
        greatest[i] = rounding.greatest;
    });
}

// The later phases for the lanes listed that the fast phase left undecided.
template <Element type, typename Y>
static void resolve(const float* x, Y y, Storage<type>* out, const int* listed, int count) {
    alignas(64) double x_some[tile_size], y_some[tile_size], least[tile_size], greatest[tile_size];
    int left[tile_size], left_count = 0;
    for (int j = 0; j < count; ++j) {
        x_some[j] = x[listed[j]];
        y_some[j] = y.high(listed[j]);
    }
    pair_phase(x_some, Exponents<double>{y_some}, PairTarget::of(row(type)), least, greatest, count);
    for (int j = 0; j < count; ++j) {
        int i = listed[j];
        if (is_special(x[i], y.high(i))) continue;
        Storage<type> magnitude = pack<type>(least[j]);
        if (least[j] != greatest[j]) {
            if (!has_ties(y_some[j])) {
                left[left_count++] = i;
                continue;
            }
            if (magnitude & 1) magnitude = pack<type>(greatest[j]);  // of a tie's neighbours, the even one
        }
        out[i] = magnitude;
        if (x[i] < 0)
            out[i] = static_cast<Storage<type>>(with_sign<type, uint64_t>(magnitude, bits_of(x[i]), y.parity(i)));
    }
    resolve_exactly<type>(x, y, out, left, left_count);
}

// A power's encoding, and not zero where its interval holds a rounding boundary.
struct Encoded {
    uint32_t encoding, undecided;
};

// A power in [least, least * (1 + 2 error)], rounded to float32.
HALFULP_INLINE Encoded round_interval(double least, double error) {
    uint32_t from = __builtin_bit_cast(uint32_t, static_cast<float>(least));
    uint32_t to = __builtin_bit_cast(uint32_t, static_cast<float>(least * (1 + 2 * error)));
    return {from, from ^ to};
}

// A float that is a power rounded to float32, rounded again to a shorter type. The two roundings are as good as one
// unless the float is a tie of the shorter type: a boundary between the power and the float would itself be
// the float nearest to the power.
template <Element type>
HALFULP_INLINE Encoded round_again(float power) {
    if constexpr (type == Element::bfloat16) {
        RoundedFloat rounded = round_to_bfloat16(power);
        return {rounded.encoding, rounded.tie};
    } else if constexpr (type == Element::float16) {
        RoundedFloat rounded = round_to_float16(power);
        return {rounded.encoding, rounded.tie};
    } else {
        Rounded rounded = round_magnitude<type>(power);
        uint64_t encoding = rounded.encoding > row(type).largest ? row(type).overflow : rounded.encoding;
        return {static_cast<uint32_t>(encoding), rounded.rest == 0.5};
    }
}

// What the phases that a tile went through leave: magnitudes in lanes, as float32, and the flags of the undecided ones.
struct FloatLanes {
    alignas(64) uint32_t lanes[tile_size];
    alignas(64) uint32_t flags[tile_size];
    uint32_t any_flag = 0;

    // Flags are made only where there are any: the second time that the loop's values are computed is seldom.
    template <typename F>
    void fill(int n, F interval) {
        for (int i = 0; i < n; ++i) {  // vector loop
            Encoded power = interval(i);
            lanes[i] = power.encoding;
            any_flag |= power.undecided;
        }
        if (any_flag)
            for (int i = 0; i < n; ++i) flags[i] = interval(i).undecided;  // vector loop
    }
};

template <Shortcut shortcut>
static void fill_by(const float* x, FloatLanes& power, int n) {
    if constexpr (is_exact(shortcut)) {
        for (int i = 0; i < n; ++i) power.lanes[i] = word_of(exact_power_of<shortcut>(absolute(x[i])));  // vector loop
    } else {
        power.fill(n, [x](int i) { return round_interval(power_of<shortcut>(absolute(x[i])), shortcut_error); });
    }
}

template <typename Y>
static void fill_by_fast_phase(const float* x, const Y* y, bool any_subnormal, FloatLanes& power, int n) {
    alignas(64) double t[tile_size];
    if (any_subnormal) {
        // vector loop
        for (int i = 0; i < n; ++i) t[i] = limited(y[i] * log2_fast(static_cast<double>(absolute(x[i]))), 1000);
    } else {
        for (int i = 0; i < n; ++i) t[i] = limited(y[i] * log2_fast(absolute(x[i])), 1000);  // vector loop
    }
    power.fill(n, [&t](int i) { return round_interval(exp2_fast(t[i]), fast_error); });
}

// Every floating type but float64, whose values are floats.
template <Element type, typename Y>
static void pow_tile(const PowOptions& options, const float* x, const Y* y, Storage<type>* out, int n) {
    // float32's exponents are the widest of the types that come here; see pow_float.h on |t|.
    static_assert(row(type).precision <= 24 && row(type).least_exponent() >= -127);
    Contents contents = scan(x, y, n);
    FloatLanes power;
    switch (options.constant_exponent ? shortcut_of(y[0]) : Shortcut::none) {
        case Shortcut::none: fill_by_fast_phase(x, y, contents.subnormal, power, n); break;
        case Shortcut::square: fill_by<Shortcut::square>(x, power, n); break;
        case Shortcut::root: fill_by<Shortcut::root>(x, power, n); break;
        case Shortcut::reciprocal: fill_by<Shortcut::reciprocal>(x, power, n); break;
        case Shortcut::cube: fill_by<Shortcut::cube>(x, power, n); break;
        case Shortcut::fourth: fill_by<Shortcut::fourth>(x, power, n); break;
        case Shortcut::reciprocal_square: fill_by<Shortcut::reciprocal_square>(x, power, n); break;
        case Shortcut::reciprocal_root: fill_by<Shortcut::reciprocal_root>(x, power, n); break;
        case Shortcut::root_cube: fill_by<Shortcut::root_cube>(x, power, n); break;
    }
    if constexpr (type != Element::float32) {
        // What matters is whether the float is undecided between two elements of the type.
        for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2 neon
            Encoded again = round_again<type>(__builtin_bit_cast(float, power.lanes[i]));
            power.lanes[i] = again.encoding;
            power.flags[i] = again.undecided;
        }
        power.any_flag = 0;  // by a loop of its own: not every compiler makes vectors of an or of comparisons
        for (int i = 0; i < n; ++i) power.any_flag |= power.flags[i];  // vector loop
    }
    finish<type>(options, contents, x, Exponents<Y>{y}, power.lanes, n);
    for (int i = 0; i < n; ++i) out[i] = static_cast<Storage<type>>(power.lanes[i]);  // vector loop
    if (!power.any_flag) return;
    int listed[tile_size + 1];
    resolve<type>(x, Exponents<Y>{y}, out, listed, list_lanes(power.flags, n, listed));
}

template <Shortcut shortcut>
static void fill_exactly(const double* x, uint64_t* out, int n) {
    for (int i = 0; i < n; ++i) out[i] = bits_of(exact_power_of<shortcut>(absolute(x[i])));  // vector loop
}

// float64, by the pair phase. Returns whether any lane is flagged as undecided.
static bool fill_by_pair_phase(const double* x, PairExponents y, bool any_subnormal, uint64_t* out, uint64_t* flags,
                               int n) {
    uint64_t any = 0, far = any_subnormal;
    if (!any_subnormal) {
        PairLogarithms t;
        t.fill<false>(x, y, n);
        t.raise(n, [&](int i, const PairPower& power) {
            Rounding rounding = round_normal(power);
            out[i] = bits_of(rounding.least);
            flags[i] = bits_of(rounding.least) ^ bits_of(rounding.greatest);
        });
        for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2 neon
            any |= flags[i];
            far |= !(absolute(t.high[i]) < 1020);
        }
    }
    if (!far) return any != 0;
    alignas(64) double least[tile_size], greatest[tile_size];
    pair_phase(x, y, PairTarget::of(row(Element::float64)), least, greatest, n);
    for (int i = 0; i < n; ++i) {
        out[i] = bits_of(least[i]);
        flags[i] = bits_of(least[i]) ^ bits_of(greatest[i]);
    }
    return true;
}

static void pow_tile(const PowOptions& options, const double* x, PairExponents y, uint64_t* out, int n) {
    alignas(64) uint64_t flags[tile_size];
    Contents contents = scan(x, y.highs, n);
    bool any = false;
    switch (options.constant_exponent && y.lows[0] == 0 ? shortcut_of(y.highs[0]) : Shortcut::none) {
        case Shortcut::square: fill_exactly<Shortcut::square>(x, out, n); break;
        case Shortcut::root: fill_exactly<Shortcut::root>(x, out, n); break;
        case Shortcut::reciprocal: fill_exactly<Shortcut::reciprocal>(x, out, n); break;
        default: any = fill_by_pair_phase(x, y, contents.subnormal, out, flags, n);
    }
    finish<Element::float64>(options, contents, x, y, out, n);
    if (!any) return;
    int listed[tile_size + 1];
    resolve_exactly<Element::float64>(x, y, out, listed, list_lanes(flags, n, listed));
}

}  // namespace halfulp::HALFULP_ISA
