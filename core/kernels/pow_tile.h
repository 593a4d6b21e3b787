// Powers of a floating type, a tile at a time: short loops over the phases of pow_float.h, then what they
// leave: signs, special values, undecided lanes.
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

// An exponent high + low, exactly; low is not zero only for 64-bit integers beyond 2^53.
HALFULP_INLINE Dyadic dyadic_of_sum(double high, double low) {
    if (low == 0) return dyadic_of(high);
    __int128 sum = static_cast<__int128>(high) + static_cast<__int128>(low);
    return dyadic_of_integer(static_cast<uint64_t>(sum < 0 ? -sum : sum));
}

// Exponents as the phases take them.
struct Exponents {
    const double* high;
    const double* low;  // or null: all zero
    double low_at(int i) const { return low ? low[i] : 0; }
};

// A power's magnitude, already on the type's grid.
template <Element type>
HALFULP_INLINE Storage<type> pack(uint64_t encoding) {
    constexpr ElementRow to = row(type);
    return static_cast<Storage<type>>(encoding > to.largest ? to.overflow : encoding);
}

template <Element type>
HALFULP_INLINE Storage<type> pack_on_grid(double magnitude) {
    if constexpr (type == Element::float64 || type == Element::float32) return encode<type>(magnitude);
    else return pack<type>(round_magnitude<type>(magnitude).encoding);
}

// The sign of x^y for x < 0: a minus where y is odd, NaN where y is not integral.
template <Element type>
HALFULP_INLINE Storage<type> with_sign(Storage<type> magnitude, double x, bool integral, bool odd) {
    constexpr ElementRow to = row(type);
    bool negative = (bits_of(x) & double_sign) != 0;
    bool keeps_sign = (to.bits == 4 || magnitude != to.nan) && (to.has_minus_zero() || magnitude != 0);
    uint64_t sign = negative && odd && keeps_sign ? to.sign() : 0;
    return static_cast<Storage<type>>(negative && !integral ? to.nan : magnitude | sign);
}

// The last phase for the lanes listed.
template <Element type>
static void resolve_exactly(const double* x, Exponents y, Storage<type>* out, const int* lanes, int count) {
    for (int j = 0; j < count; ++j) {
        int i = lanes[j];
        if (is_special(x[i], y.high[i]) || absolute(x[i]) == 1 || y.high[i] == 0) continue;
        uint64_t magnitude = pow_exact(row(type), false, dyadic_of(x[i]), y.high[i] < 0, dyadic_of_sum(y.high[i], y.low_at(i)));
        out[i] = with_sign<type>(static_cast<Storage<type>>(magnitude), x[i], is_integral(y.high[i]),
                                 is_odd(y.high[i]) != is_odd(y.low_at(i)));
    }
}

// The pair phase for a whole tile: magnitudes to `value`, 1 to `flags` where undecided. Returns whether any is.
static bool pair_phase(const double* x, Exponents y, const PairTarget& target, double* value, int64_t* flags, int n) {
    alignas(64) double t_high[tile_size], t_low[tile_size];
    if (y.low) {
        for (int i = 0; i < n; ++i) {
            DoubleDouble t = log2_pair(absolute(x[i]), y.high[i], y.low[i]);
            t_high[i] = t.high;
            t_low[i] = t.low;
        }
    } else {
        for (int i = 0; i < n; ++i) {
            DoubleDouble t = log2_pair(absolute(x[i]), y.high[i], 0);
            t_high[i] = t.high;
            t_low[i] = t.low;
        }
    }
    int64_t any = 0;
    for (int i = 0; i < n; ++i) {
        PairRounded rounded = exp2_pair({t_high[i], t_low[i]}, target);
        value[i] = rounded.value;
        flags[i] = rounded.undecided;
        any |= flags[i];
    }
    return any != 0;
}

// Lanes whose flag is set.
template <typename Flag>
static int list_lanes(const Flag* flags, int n, int* lanes) {
    int count = 0;
    for (int i = 0; i < n; ++i) {
        lanes[count] = i;
        count += flags[i] != 0;
    }
    return count;
}

// The later phases for the lanes listed that the fast phase left undecided.
template <Element type>
static void resolve(const double* x, Exponents y, Storage<type>* out, const int* lanes, int count) {
    alignas(64) double x_some[tile_size], y_high[tile_size], y_low[tile_size], value[tile_size];
    alignas(64) int64_t flags[tile_size];
    int left[tile_size];
    for (int j = 0; j < count; ++j) {
        x_some[j] = x[lanes[j]];
        y_high[j] = y.high[lanes[j]];
        y_low[j] = y.low_at(lanes[j]);
    }
    pair_phase(x_some, {y_high, y_low}, PairTarget::of(row(type)), value, flags, count);
    int left_count = 0;
    for (int j = 0; j < count; ++j) {
        int i = lanes[j];
        if (is_special(x[i], y.high[i])) continue;
        if (flags[j]) left[left_count++] = i;
        else out[i] = with_sign<type>(pack_on_grid<type>(value[j]), x[i], is_integral(y_high[j]), is_odd(y_high[j]) != is_odd(y_low[j]));
    }
    resolve_exactly<type>(x, y, out, left, left_count);
}

// What all types do after their phases: signs, then the special values.
template <Element type>
static void finish(const PowOptions& options, const double* x, Exponents y, Storage<type>* out, int n) {
    bool any_negative = false, any_special = false;
    for (int i = 0; i < n; ++i) {
        any_negative |= (bits_of(x[i]) & double_sign) != 0;
        any_special |= is_special(x[i], y.high[i]);
    }
    if (any_negative) {
        for (int i = 0; i < n; ++i)
            out[i] = with_sign<type>(out[i], x[i], is_integral(y.high[i]), is_odd(y.high[i]) != is_odd(y.low_at(i)));
    }
    if (any_special) {
        for (int i = 0; i < n; ++i) {
            if (!is_special(x[i], y.high[i])) continue;
            bool odd = is_odd(y.high[i]) != is_odd(y.low_at(i));
            out[i] = encode<type>(pow_special(x[i], y.high[i], is_integral(y.high[i]), odd, options.domain_error));
        }
    }
}

// Every floating type but float64.
template <Element type>
static void pow_tile(const PowOptions& options, const double* x, Exponents y, Storage<type>* out, int n) {
    constexpr ElementRow to = row(type);
    // float32's exponents are the widest of the types that come here; see pow_float.h on |t|.
    static_assert(to.precision <= 24 && to.least_exponent() >= -127);
    alignas(64) double t[tile_size];
    alignas(64) int32_t flags[tile_size];
    for (int i = 0; i < n; ++i) {
        double product = y.high[i] * log2_fast(absolute(x[i]));
        product = product < 1000 ? product : 1000;
        t[i] = product > -1000 ? product : -1000;
    }
    int32_t any = 0;
    for (int i = 0; i < n; ++i) {
        double power = exp2_fast(t[i]);
        if constexpr (type == Element::float32) {
            float low = static_cast<float>(power * (1 - fast_error)), high = static_cast<float>(power * (1 + fast_error));
            out[i] = __builtin_bit_cast(uint32_t, low);
            flags[i] = low != high;
        } else {
            Rounded rounded = round_magnitude<type>(power);
            constexpr double margin = fast_error * (uint64_t{1} << to.precision);
            out[i] = pack<type>(rounded.encoding);
            flags[i] = rounded.rest > 0.5 - margin;
        }
        any |= flags[i];
    }
    finish<type>(options, x, y, out, n);
    if (any) {
        int lanes[tile_size + 1];
        resolve<type>(x, y, out, lanes, list_lanes(flags, n, lanes));
    }
}

template <>
void pow_tile<Element::float64>(const PowOptions& options, const double* x, Exponents y, uint64_t* out, int n) {
    alignas(64) double value[tile_size];
    alignas(64) int64_t flags[tile_size];
    bool any = pair_phase(x, y, PairTarget::of(row(Element::float64)), value, flags, n);
    for (int i = 0; i < n; ++i) out[i] = bits_of(value[i]);
    finish<Element::float64>(options, x, y, out, n);
    if (any) {
        int lanes[tile_size + 1];
        resolve_exactly<Element::float64>(x, y, out, lanes, list_lanes(flags, n, lanes));
    }
}

}  // namespace halfulp::HALFULP_ISA
