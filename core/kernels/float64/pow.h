// Powers of a tile of float64. The first phase is the fast phase: numerics/pow_fast_float64.h, with AVX2 in rows.h; or with
// AVX-512 sixteenths.h, whose tables fit in registers. Look-ups in memory have loops of their own, since compilers do not
// vectorise them.
#pragma once

#include "../../numerics/pow_closed_form.h"
#include "../../numerics/pow_fast_float64.h"
#include "../../simd/compress.h"
#include "../phases/double_double.h"
#include "../phases/exact.h"
#include "../phases/signs.h"
#include "../phases/triple_double.h"
#include "logarithms.h"

namespace halfulp::HALFULP_ISA {

// The operands of some lanes, packed.
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
    Y y() const { return {y_high, y_low}; }
};

// The powers of a tile so far: encodings, and flags that are not zero if the lane is undecided.
struct DoubleLanes {
    uint64_t* out;
    alignas(64) uint64_t flags[tile_size];

    // Runs the first phase, and the double-double phase for the lanes left undecided. Returns whether any flag may be
    // set.
    template <typename Y>
    bool fill(const double* x, Y y, OperandFlags& operand_flags, int n, const Prefetch& prefetch) {
        return fill_by_first_phase(x, y, operand_flags, n, prefetch) &&
               fill_by_double_doubles(x, y, operand_flags.special, n);
    }

private:
    // The top bit is set if |t| is too great for the first phase, or NaN. (In integers, which every instruction set
    // supports in vectors.)
    static uint64_t beyond(double t) { return bits_of(greatest_fast_t) - bits_of(fabs(t)); }

    // The top bit is set if a base is not a positive normal number.
    static uint64_t not_normal(double base) {
        constexpr uint64_t least_normal = uint64_t{1} << 52, infinity = uint64_t{0x7ff} << 52;
        return (bits_of(base) - least_normal) | (infinity - 1 - bits_of(base));
    }

    // Flags the lanes that the first phase leaves undecided or does not apply to. Returns whether there are any.
    template <typename Y>
    [[gnu::noinline]] bool fill_by_first_phase(const double* x, Y y, OperandFlags& operand_flags, int n,
                                               const Prefetch& prefetch) {
        prefetch.issue(0);
#ifdef HALFULP_DOUBLE_ROWS
        prefetch.issue(1);
        LogarithmsByRows<true> t(x, y, n);
        prefetch.issue(2);
        operand_flags = t.operand_flags;
        const bool any_undecided = t.round(out, flags, n);
        prefetch.issue(3);
        return any_undecided;
#else
#ifdef __AVX512F__
        prefetch.issue(1);
        const FastLogarithms t(x, y, n);
        prefetch.issue(2);
        bool any = t.round(out, flags, n);
        prefetch.issue(3);
        const bool all_normal = t.all_normal, all_within = t.all_within;
#else
        alignas(64) constants::LogEntry logs[tile_size];
        alignas(64) constants::ExpEntry powers[tile_size];
        alignas(64) double places[tile_size], errors[tile_size];
        DoubleDoubleLogarithms t;  // natural ones
        uint64_t any_flag = 0, any_not_normal = 0, any_beyond = 0;
#pragma GCC unroll 4
        for (int i = 0; i < n; ++i) logs[i] = constants::float64_log_entries[float64_log_index(x[i])];
        prefetch.issue(1);
        for (int i = 0; i < n; ++i) {  // vector loop: neon scalar
            any_not_normal |= not_normal(x[i]);
            const DoubleDouble log = float64_log(begin_float64_log(fabs(x[i]), logs[i]));
            const DoubleDouble sum = float64_t<Y::has_lows>(log, y.high(i), y.low(i));
            const DoubleDouble product = fast_two_sum(sum.high, sum.low);
            t.high[i] = product.high;
            t.low[i] = product.low;
            places[i] = float64_exp_place(product.high);
            errors[i] = float64_error_at(fabs(sum.low));
        }
        prefetch.issue(2);
#pragma GCC unroll 4
        for (int i = 0; i < n; ++i) powers[i] = constants::float64_exp_entries[float64_exp_index(places[i])];
        prefetch.issue(3);
        for (int i = 0; i < n; ++i) {  // vector loop: neon scalar
            const Float64Power power = float64_exp({t.high[i], t.low[i]}, places[i], powers[i]);
            const Float64Ends<double> ends = float64_ends(power.value, power.power, errors[i]);
            out[i] = bits_of(ends.least);
            flags[i] = bits_of(ends.least) ^ bits_of(ends.greatest);
            any_flag |= flags[i];
            any_beyond |= beyond(t.high[i]);
        }
        bool any = any_flag != 0;
        const bool all_normal = any_not_normal >> 63 == 0, all_within = any_beyond >> 63 == 0;
#endif
        if (all_within && all_normal) return any;
        operand_flags = scan(x, y.highs, n);
        if (all_within && !operand_flags.special && !operand_flags.subnormal) return any;
        uint64_t any_outside = 0;
        for (int i = 0; i < n; ++i) {  // vector loop: avx512 neon scalar
            const uint64_t outside = (beyond(t.high[i]) | not_normal(fabs(x[i]))) >> 63;
            flags[i] |= outside;
            any_outside |= outside;
        }
        return any | (any_outside != 0);
#endif
    }

    // The double-double phase for the flagged lanes. Special values count as decided. Returns whether any flag is still
    // set.
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

// The later phases for the listed lanes. Powers by one operation, and ties, which no interval decides, are found first.
template <typename Y>
[[gnu::noinline]] static void resolve(const double* x, Y y, bool any_special, uint64_t* out, int n, const int* listed,
                                      int count) {
    alignas(64) double least[tile_size], greatest[tile_size];
    alignas(64) uint64_t is_early[tile_size];
    constexpr ElementRow type = row(Element::float64);
    SomeLanes<Y> some;
    int some_count = 0, left[tile_size], left_count = 0;
    const auto take = [&](int i, uint64_t magnitude) {
        out[i] = x[i] < 0 ? with_sign<uint64_t>(type, magnitude, bits_of(x[i]), y.parity(i)) : magnitude;
    };
    const auto take_early = [&](int i) {
        if (is_one_operation(y.high(i), y.low(i))) {
            take(i, bits_of(by_one_operation(fabs(x[i]), y.high(i))));
            return true;
        }
        Magnitude exact;
        if (!exact_power(dyadic_of(x[i]), y.high(i) < 0, y[i].magnitude(), exact)) return false;
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
    resolve_exactly(type, x, y, out, left, left_count);
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
    finish(KnownType<Element::float64>(), options, operand_flags, x, y, out, n);
    if (!any) return;
    int listed[listed_size];
    resolve(x, y, operand_flags.special, out, n, listed, compress_indices(power.flags, n, listed));
}

}  // namespace halfulp::HALFULP_ISA
