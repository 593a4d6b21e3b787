// Powers of a floating type, a tile at a time: the phases in loops, signs and special values, and the later
// phases for the lanes that stay undecided. A thread may have a stack of 64 KiB only: functions that are not made part
// of others (noinline) have their arrays one after the other in the same place of it.
#pragma once

#include "../numerics/pow_closed_form.h"
#include "../numerics/pow_dd.h"
#include "../numerics/pow_exact.h"
#include "../numerics/pow_fast.h"
#include "pow_dd_quotient.h"
#include "pow_dd_table.h"
#include "pow_lanes.h"
#include "pow_td_tile.h"
#include "tiles.h"

namespace halfulp::HALFULP_ISA {

// Exponents as the phases take them: floats, doubles, integers, or doubles with what 64-bit integers beyond 2^53 have
// left of them. (Without that, integers serve bases of at most 24 bits: such an exponent sends these to zero or
// infinity, or is one of their fixed points.)
template <typename Number>
struct Exponents {
    static constexpr bool has_lows = false;
    const Number* highs;

    double high(int i) const { return static_cast<double>(highs[i]); }
    double low(int) const { return 0; }
    Word<Number> parity(int i) const { return parity_of(highs[i]); }
    Word<Number> kinds(int i) const { return classify(highs[i]); }
    template <typename X>
    X special(int i) const {
        return special_exponent<X>(highs[i]);
    }
    Dyadic dyadic(int i) const { return dyadic_of(high(i)); }
    Exponents from(int i) const { return {highs + i}; }
};

struct PairExponents {
    static constexpr bool has_lows = true;
    const double* highs;
    const double* lows;

    double high(int i) const { return highs[i]; }
    double low(int i) const { return lows[i]; }
    uint64_t parity(int i) const { return parity_of(highs[i]) ^ parity_of(lows[i]); }
    uint64_t kinds(int i) const { return classify(highs[i]); }
    template <typename X>
    X special(int i) const {
        return highs[i];
    }
    Dyadic dyadic(int i) const {
        if (lows[i] == 0) return dyadic_of(highs[i]);
        __int128 sum = static_cast<__int128>(highs[i]) + static_cast<__int128>(lows[i]);
        return dyadic_of_integer(static_cast<uint64_t>(sum < 0 ? -sum : sum));
    }
    PairExponents from(int i) const { return {highs + i, lows + i}; }
};

static inline uint64_t counted(const Decision<uint64_t>& power) {
    if (!power.decided) undecided.fetch_add(1, std::memory_order_relaxed);
    return power.result;
}

// The last phase for the lanes listed.
template <Element type, typename X, typename Y>
static void resolve_exactly(const X* x, Y y, Storage<type>* out, const int* listed, int count) {
    for (int j = 0; j < count; ++j) {
        int i = listed[j];
        if (is_special(x[i], y.kinds(i)) || fabs(x[i]) == 1 || y.high(i) == 0) continue;
        uint64_t magnitude = counted(pow_exact(row(type), dyadic_of(x[i]), y.high(i) < 0, y.dyadic(i)));
        out[i] = static_cast<Storage<type>>(with_sign<type, uint64_t>(magnitude, bits_of(x[i]), y.parity(i)));
    }
}

// 2^t as the interval's ends on the target's grid.
HALFULP_INLINE void raise_to(const Target& target, DoubleDoubleLogarithms& t, double* least, double* greatest, int n) {
    for (int i = 0; i < n; ++i) {  // vector loop
        t.high[i] = clamp(t.high[i], target.most_t);
        t.low[i] = clamp(t.low[i], greatest_t_low);
    }
    const auto finish = [=](int i, const DoubleDoublePower& power) {
        Rounding rounding = round_to(target, power);
        least[i] = rounding.least;
        greatest[i] = rounding.greatest;
    };
    t.raise(n, finish, [] {});
}

// The double-double phase.
template <bool may_be_subnormal, typename Y>
static void double_double_phase(const double* x, Y y, const Target& target, double* least, double* greatest, int n) {
    DoubleDoubleLogarithms t;
    t.fill<may_be_subnormal>(x, y, n, [] {});
    raise_to(target, t, least, greatest, n);
}

// The later phases for the lanes listed that the fast phase left undecided.
template <Element type, typename Y>
[[gnu::noinline]] static void resolve(const OperandFlags& operand_flags, const float* x, Y y, Storage<type>* out, int n,
                                      const int* listed, int count) {
    alignas(64) double x_some[tile_size], y_some[tile_size], least[tile_size], greatest[tile_size];
    alignas(64) uint32_t magnitudes[tile_size], undecided[tile_size];
    int listed_undecided[listed_size], left[tile_size], left_count = 0;
    const bool all = count == n;  // listed in order
    if (all) {
        for (int j = 0; j < count; ++j) {  // vector loop
            x_some[j] = x[j];
            y_some[j] = y.high(j);
        }
    } else {
        for (int j = 0; j < count; ++j) {
            x_some[j] = x[listed[j]];
            y_some[j] = y.high(listed[j]);
        }
    }
    double_double_phase<false>(x_some, Exponents<double>{y_some}, Target::of(row(type)), least, greatest, count);
    uint32_t any_undecided = 0;
    for (int j = 0; j < count; ++j) {  // vector loop: avx512(most) avx2(most) neon(most)
        magnitudes[j] = round_once<type>(least[j]);
        undecided[j] = least[j] != greatest[j] ? 1 : 0;
        any_undecided |= undecided[j];
    }
    for (int k = 0, number = any_undecided != 0 ? compress_indices(undecided, count, listed_undecided) : 0; k < number;
         ++k) {
        const int j = listed_undecided[k], i = listed[j];
        const double exponent = y.high(i);
        if (!has_ties(exponent)) {
            x_some[left_count] = x[i];
            y_some[left_count] = exponent;
            left[left_count++] = i;
        } else if (magnitudes[j] & 1) {
            magnitudes[j] = round_once<type>(greatest[j]);  // the even one of a tie's neighbours
        }
    }
    const auto take = [&](int i, uint32_t magnitude) {
        if (operand_flags.special && is_special(x[i], y.kinds(i))) return;
        out[i] = static_cast<Storage<type>>(x[i] < 0 ? with_sign<type, uint64_t>(magnitude, bits_of(x[i]), y.parity(i))
                                                     : magnitude);
    };
    if (all && !operand_flags.special && !operand_flags.negative) {
        for (int i = 0; i < n; ++i) out[i] = static_cast<Storage<type>>(magnitudes[i]);  // vector loop
    } else {
        for (int j = 0; j < count; ++j) take(listed[j], magnitudes[j]);
    }
    if (left_count == 0) return;
    triple_double_phase(x_some, Exponents<double>{y_some}, least, greatest, left_count, round_to_odd);
    int exact_count = 0;
    for (int k = 0; k < left_count; ++k) {
        const uint32_t magnitude = round_once<type>(least[k]);
        if (greatest[k] > 0 && magnitude == round_once<type>(greatest[k])) take(left[k], magnitude);
        else listed_undecided[exact_count++] = left[k];
    }
    resolve_exactly<type>(x, y, out, listed_undecided, exact_count);
}

// Of types of fewer bits, many powers with one exponent are looked up (power_table.h).
static constexpr bool takes_shortcuts(Element type) { return row(type).bits >= 16; }

// Every floating type but float64, whose values are floats. A constant exponent that has a formula comes as a float.
template <Element type, typename Y>
[[gnu::noinline]] static void pow_tile(const PowOptions& options, const float* x, const Y* y, Storage<type>* out, int n,
                                       const Prefetch& prefetch) {
    // float32's exponents are the widest of the types that come here; see pow_fast.h on |t|.
    static_assert(row(type).precision <= 24 && row(type).least_exponent() >= -127);
    OperandFlags operand_flags{};
    alignas(64) uint32_t lanes[tile_size];
    FloatLanes<type> power;
    if constexpr (type == Element::float32) power.lanes = out;
    else power.lanes = lanes;
    const auto fill = [&](auto shortcut) {
        if constexpr (shortcut == Shortcut::none)
            power.fill_by_fast_phase(x, y, options.constant_exponent, operand_flags, n, prefetch);
        else power.template fill_by<shortcut>(x, operand_flags, n, prefetch);
    };
    if constexpr (takes_shortcuts(type) && std::is_same_v<Y, float>)
        with_shortcut(options.constant_exponent ? shortcut_of(y[0]) : Shortcut::none, fill);
    else fill(std::integral_constant<Shortcut, Shortcut::none>{});
    if constexpr (type != Element::float32)
        if (!power.round(out, operand_flags.negative || operand_flags.special, n)) return;
    int listed[listed_size], count = power.any_flag ? compress_indices(power.flags, n, listed) : 0;
    if (count > 0) count = power.resolve(x, y, !options.scale_bias, n, listed, count);
    finish<type>(options, operand_flags, x, Exponents<Y>{y}, power.lanes, n);
    if constexpr (type != Element::float32)
        for (int i = 0; i < n; ++i) out[i] = static_cast<Storage<type>>(lanes[i]);  // vector loop
    if (count > 0) resolve<type>(operand_flags, x, Exponents<Y>{y}, out, n, listed, count);
}

// Some lanes of operands of float64, one after the other.
template <typename Y>
struct SomeLanes {
    alignas(64) double x[tile_size], y_high[tile_size], y_low[Y::has_lows ? tile_size : 1];
    int lane[tile_size];

    void put(int k, const double* all_x, Y all_y, int i) {
        x[k] = all_x[i];
        y_high[k] = all_y.high(i);
        if constexpr (Y::has_lows) y_low[k] = all_y.low(i);
        lane[k] = i;
    }
    Y y() const {
        if constexpr (Y::has_lows) return {y_high, y_low};
        else return {y_high};
    }
};

// Powers of float64 in the making: encodings, and a flag for each that is undecided.
struct DoubleLanes {
    uint64_t* out;
    alignas(64) uint64_t flags[tile_size];

    void put(int i, const Rounding& rounding) {
        out[i] = bits_of(rounding.least);
        flags[i] = bits_of(rounding.least) ^ bits_of(rounding.greatest);
    }

    // By the double-double phase. Returns whether any lane may be flagged.
    template <typename Y>
    bool fill(const double* x, Y y, OperandFlags& operand_flags, int n, const Prefetch& prefetch) {
        DoubleDoubleLogarithms t;
        const Open found = fill_near(x, y, operand_flags, t, n, prefetch);
        if (found.out_of_range) fill_out_of_range(t, n);
        return found.any;
    }

private:
    // The top bit is set where |t| > 1020, or t is NaN: integers, which every instruction set has in vectors.
    static uint64_t beyond(double t) { return bits_of(1020.0) - bits_of(fabs(t)); }

    // Sets the logarithms of special operands to zero, so that no phase takes their powers for undecided or out of
    // range.
    template <typename Y>
    void replace_specials(const double* x, Y y, DoubleDoubleLogarithms& t, int n) {
        constexpr double infinity = __builtin_inf();
        for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2 neon
            const double base = fabs(x[i]);
            const uint64_t is_number = all_bits_if<uint64_t>(base > 0) & all_bits_if<uint64_t>(base < infinity) &
                                       all_bits_if<uint64_t>(fabs(y.high(i)) < infinity);
            t.high[i] = double_of(bits_of(t.high[i]) & is_number);
            t.low[i] = double_of(bits_of(t.low[i]) & is_number);
            flags[i] &= is_number;
        }
    }

    struct Open {
        bool any,
            out_of_range;  // whether a lane may be flagged; whether a power may overflow or be subnormal
    };

    // All lanes that are in range. (A function of its own, whose room on the stack is free again when these take
    // theirs.)
    template <typename Y>
    [[gnu::noinline]] Open fill_near(const double* x, Y y, OperandFlags& operand_flags, DoubleDoubleLogarithms& t,
                                     int n, const Prefetch& prefetch) {
        prefetch.issue(0);
        const bool all_normal = t.fill<false>(x, y, n, [&] { prefetch.issue(1); });
        if (!all_normal) operand_flags = scan(x, y.highs, n);
        if (operand_flags.subnormal) return {fill_slowly(x, y, n), false};
        if (operand_flags.special) replace_specials(x, y, t, n);
        prefetch.issue(2);
        uint64_t any = 0, any_out_of_range = 0;
        const auto finish = [&](int i, const DoubleDoublePower& power) {
            const NormalRounding rounding = round_normal(power);
            out[i] = rounding.encoding;
            flags[i] = rounding.undecided;
            any |= rounding.undecided;
            any_out_of_range |= beyond(t.high[i]);
        };
        t.raise(n, finish, [&] { prefetch.issue(3); });
        if (any_out_of_range >> 63 != 0 && all_normal) {  // not all exponents need be finite
            operand_flags = scan(x, y.highs, n);
            if (operand_flags.special) replace_specials(x, y, t, n);
            any = any_out_of_range = 0;
            for (int i = 0; i < n; ++i) {  // vector loop
                any |= flags[i];
                any_out_of_range |= beyond(t.high[i]);
            }
        }
        const bool out_of_range = any_out_of_range >> 63 != 0;
        return {out_of_range || any != 0, out_of_range};
    }

    // With subnormal bases.
    template <typename Y>
    [[gnu::noinline]] bool fill_slowly(const double* x, Y y, int n) {
        alignas(64) double least[tile_size], greatest[tile_size];
        double_double_phase<true>(x, y, target, least, greatest, n);
        for (int i = 0; i < n; ++i) put(i, {least[i], greatest[i]});
        return true;
    }

    // The lanes whose powers may overflow or be subnormal. What is left in t has no meaning.
    [[gnu::noinline]] void fill_out_of_range(DoubleDoubleLogarithms& t, int n) {
        alignas(64) uint64_t is_out_of_range[tile_size];
        int listed[listed_size];
        DoubleDoubleLogarithms those;
        for (int i = 0; i < n; ++i) is_out_of_range[i] = beyond(t.high[i]) >> 63;  // vector loop
        const int count = compress_indices(is_out_of_range, n, listed);
        for (int j = 0; j < count; ++j) {
            those.high[j] = t.high[listed[j]];
            those.low[j] = t.low[listed[j]];
        }
        double *least = t.high, *greatest = t.low;  // which are needed no more
        raise_to(target, those, least, greatest, count);
        for (int j = 0; j < count; ++j) put(listed[j], {least[j], greatest[j]});
    }

    static constexpr Target target = Target::of(row(Element::float64));
};

// The later phases for the lanes listed. Ties are found first, which no phase decides, and single operations.
template <typename Y>
[[gnu::noinline]] static void resolve(const double* x, Y y, bool any_special, uint64_t* out, int n, const int* listed,
                                      int count) {
    alignas(64) double least[tile_size], greatest[tile_size];
    alignas(64) uint64_t is_early[tile_size];
    constexpr ElementRow type = row(Element::float64);
    SomeLanes<Y> some;
    int some_count = 0, left[tile_size], left_count = 0;
    const auto take = [&](int i, uint64_t magnitude) {
        out[i] = x[i] < 0 ? with_sign<Element::float64, uint64_t>(magnitude, bits_of(x[i]), y.parity(i)) : magnitude;
    };
    const auto take_early = [&](int i) {
        if (is_one_operation(y.high(i), y.low(i))) {
            take(i, bits_of(by_one_operation(fabs(x[i]), y.high(i))));
            return true;
        }
        Magnitude exact;
        if (!exact_power(dyadic_of(x[i]), y.high(i) < 0, y.dyadic(i), exact)) return false;
        take(i, encode_exact(type, false, exact.significand, exact.exponent, exact.inexact));
        return true;
    };
    for (int i = 0; i < n; ++i)  // vector loop: avx512 avx2
        is_early[i] = is_one_operation(y.high(i), y.low(i)) | may_be_tie(x[i], y.high(i), y.low(i));
    for (int j = 0; j < count; ++j) {
        const int i = listed[j];
        some.put(some_count, x, y, i);
        const bool special = any_special && is_special(x[i], y.kinds(i));
        some_count += !special && !(is_early[i] && take_early(i));
    }
    triple_double_phase(some.x, some.y(), least, greatest, some_count, round_to_double);
    for (int j = 0; j < some_count; ++j) {
        if (least[j] == greatest[j]) take(some.lane[j], bits_of(least[j]));
        else left[left_count++] = some.lane[j];
    }
    resolve_exactly<Element::float64>(x, y, out, left, left_count);
}

template <typename Y>
[[gnu::noinline]] static void pow_tile(const PowOptions& options, const double* x, Y y, uint64_t* out, int n,
                                       const Prefetch& prefetch) {
    DoubleLanes power;
    power.out = out;
    OperandFlags operand_flags{};
    const Shortcut shortcut = options.constant_exponent && y.low(0) == 0 ? shortcut_of(y.high(0)) : Shortcut::none;
    const bool any = with_shortcut(shortcut, [&](auto known) {
        if constexpr (!is_exact(known)) return power.fill(x, y, operand_flags, n, prefetch);
        operand_flags = scan(x, y.highs, n);
        for (int i = 0; i < n; ++i) out[i] = bits_of(exact_power_of<known>(fabs(x[i])));  // vector loop
        return false;
    });
    finish<Element::float64>(options, operand_flags, x, y, out, n);
    if (!any) return;
    int listed[listed_size];
    resolve(x, y, operand_flags.special, out, n, listed, compress_indices(power.flags, n, listed));
}

}  // namespace halfulp::HALFULP_ISA
