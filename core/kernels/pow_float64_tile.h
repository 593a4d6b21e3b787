// Powers of float64, a tile at a time: by the fast phase (numerics/pow_fast_float64.h), or where vectors have 512 bits by the
// double-double phase at once, whose tables registers hold there. Look-ups in memory are loops of their own, which no
// compiler need make vectors of.
#pragma once

#include "../numerics/pow_fast_float64.h"
#include "pow_tile.h"

namespace halfulp::HALFULP_ISA {

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

#ifdef __AVX512F__
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
        for (int i = 0; i < n; ++i) {  // vector loop: avx512
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
            for (int i = 0; i < n; ++i) {  // vector loop: avx512
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
        for (int i = 0; i < n; ++i) is_out_of_range[i] = beyond(t.high[i]) >> 63;  // vector loop: avx512
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
#else
// Powers of float64 in the making: encodings, and a flag for each that is undecided.
struct DoubleLanes {
    uint64_t* out;
    alignas(64) uint64_t flags[tile_size];

    // By the fast phase, and for what that leaves by the double-double phase. Returns whether any lane may be flagged.
    template <typename Y>
    bool fill(const double* x, Y y, OperandFlags& operand_flags, int n, const Prefetch& prefetch) {
        const Open found = fill_by_fast_phase(x, y, n, prefetch);
        if (found.out_of_range) operand_flags = scan(x, y.highs, n);
        return found.any && fill_by_double_doubles(x, y, operand_flags.special, n);
    }

private:
    struct Open {
        bool any,
            out_of_range;  // whether a lane is flagged; whether the fast phase is not for a lane, or a base is negative
    };

    // The top bit is set where |t| is too great for the fast phase, or NaN.
    static uint64_t beyond(double t) { return bits_of(greatest_float64_t) - (bits_of(t) & ~double_sign); }

    // And where a base is no positive normal number.
    static uint64_t not_normal(uint64_t base) {
        constexpr uint64_t least_normal = uint64_t{1} << 52, infinity = uint64_t{0x7ff} << 52;
        return (base - least_normal) | (infinity - 1 - base);
    }

    template <typename Y>
    [[gnu::noinline]] Open fill_by_fast_phase(const double* x, Y y, int n, const Prefetch& prefetch) {
        alignas(64) constants::LogEntry logs[tile_size];
        alignas(64) constants::ExpEntry powers[tile_size];
        alignas(64) double t_high[tile_size], t_low[tile_size], places[tile_size];
        prefetch.issue(0);
#pragma GCC unroll 4
        for (int i = 0; i < n; ++i) logs[i] = constants::float64_log_entries[float64_log_index(x[i])];
        prefetch.issue(1);
        uint64_t any = 0, any_out_of_range = 0;
        for (int i = 0; i < n; ++i) {  // vector loop: avx2 neon scalar
            any_out_of_range |= not_normal(bits_of(x[i]));
            const DoubleDouble log = float64_log(begin_float64_log(float64_split(fabs(x[i])), logs[i]));
            const DoubleDouble t = times<Y::has_lows>(log, y.high(i), y.low(i));
            t_high[i] = t.high;
            t_low[i] = t.low;
            places[i] = float64_exp_place(t.high);
        }
        prefetch.issue(2);
#pragma GCC unroll 4
        for (int i = 0; i < n; ++i) powers[i] = constants::float64_exp_entries[float64_exp_index(places[i])];
        prefetch.issue(3);
        for (int i = 0; i < n; ++i) {  // vector loop: avx2 neon scalar
            const Rounding ends = float64_ends(float64_exp({t_high[i], t_low[i]}, places[i], powers[i]));
            out[i] = bits_of(ends.least);
            flags[i] = bits_of(ends.least) ^ bits_of(ends.greatest);
            any |= flags[i];
            any_out_of_range |= beyond(t_high[i]);
        }
        if (any_out_of_range >> 63 == 0) return {any != 0, false};
        for (int i = 0; i < n; ++i) {  // vector loop: avx2 neon scalar
            flags[i] |= (beyond(t_high[i]) | not_normal(bits_of(fabs(x[i])))) >> 63;
            any |= flags[i];
        }
        return {any != 0, true};
    }

    // The lanes that are flagged, but for special ones, which are taken for decided. Returns whether any still is.
    template <typename Y>
    [[gnu::noinline]] bool fill_by_double_doubles(const double* x, Y y, bool any_special, int n) {
        alignas(64) double least[tile_size], greatest[tile_size];
        SomeLanes<Y> some;
        int listed[listed_size], some_count = 0;
        const int count = compress_indices(flags, n, listed);
        for (int j = 0; j < count; ++j) {
            const int i = listed[j];
            flags[i] = 0;
            some.put(some_count, x, y, i);
            some_count += !(any_special && is_special(x[i], y.kinds(i)));
        }
        double_double_phase<true>(some.x, some.y(), Target::of(row(Element::float64)), least, greatest, some_count);
        uint64_t any = 0;
        for (int j = 0; j < some_count; ++j) {
            const int i = some.lane[j];
            out[i] = bits_of(least[j]);
            flags[i] = bits_of(least[j]) ^ bits_of(greatest[j]);
            any |= flags[i];
        }
        return any != 0;
    }
};
#endif

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
