// Powers of a tile of every floating type except float64: the fast phase, signs and special values, and then the later
// phases for the lanes that are still undecided.
//
// A thread may have a stack of only 64 KiB. `noinline` keeps the arrays of different phases from being on the stack at
// the same time.
#pragma once

#include "../phases/double_double.h"
#include "../phases/exact.h"
#include "../phases/triple_double.h"
#include "lanes.h"

namespace halfulp::HALFULP_ISA {

// The operands of the listed lanes, as doubles.
struct ListedOperands {
    alignas(64) double x[tile_size], y[tile_size];

    template <typename Y>
    void fill(const float* all_x, const Y* all_y, int n, const int* listed, int count) {
        if (count == n) {                      // then the indices are in order
            for (int j = 0; j < count; ++j) {  // vector loop
                x[j] = all_x[j];
                y[j] = static_cast<double>(all_y[j]);
            }
        } else {
            for (int j = 0; j < count; ++j) {
                x[j] = all_x[listed[j]];
                y[j] = static_cast<double>(all_y[listed[j]]);
            }
        }
    }
};

[[gnu::noinline]] static void run_double_doubles(const ElementRow& type, const ListedOperands& some, double* least,
                                                 double* greatest, int count) {
    double_double_phase<false>(some.x, Exponents<double>{some.y}, Target::of(type), least, greatest, count);
}

// The later phases, for the lanes that the fast phase left undecided. `listed` has their indices.
[[gnu::noinline]] static void resolve(const ElementRow& type, const OperandFlags& operand_flags,
                                      const ListedOperands& some, uint32_t* lanes, int n, const int* listed,
                                      int count) {
    alignas(64) double x_left[td_tile], y_left[td_tile], least[tile_size], greatest[tile_size];
    alignas(64) uint32_t magnitudes[tile_size], undecided[tile_size];
    int left[listed_size], left_count = 0;
    run_double_doubles(type, some, least, greatest, count);
    if (type.precision == 24) {
        for (int j = 0; j < count; ++j) magnitudes[j] = word_of(static_cast<float>(least[j]));  // vector loop
    } else {
        const ElementRow to = type;
        for (int j = 0; j < count; ++j) magnitudes[j] = round_short(to, least[j]);  // vector loop: avx512 avx2 neon
    }
    uint32_t any_undecided = 0;
    for (int j = 0; j < count; ++j) {  // vector loop: avx512 avx2 neon
        undecided[j] = least[j] != greatest[j] ? 1 : 0;
        any_undecided |= undecided[j];
    }
    for (int k = 0, number = any_undecided != 0 ? compress_indices(undecided, count, left) : 0; k < number; ++k) {
        const int j = left[k];
        if (!has_ties(some.y[j])) left[left_count++] = j;
        else if (magnitudes[j] & 1) magnitudes[j] = round_once(type, greatest[j]);  // a tie: the even neighbour
    }
    for (int from = 0; from < left_count; from += td_tile) {
        const int some_count = left_count - from < td_tile ? left_count - from : td_tile;
        for (int k = 0; k < some_count; ++k) {
            x_left[k] = some.x[left[from + k]];
            y_left[k] = some.y[left[from + k]];
        }
        triple_double_phase(x_left, Exponents<double>{y_left}, least, greatest, some_count, round_to_odd);
        for (int k = 0; k < some_count; ++k) {
            const int j = left[from + k];
            const double x = x_left[k], y = y_left[k];
            const uint32_t magnitude = round_once(type, least[k]);
            if (greatest[k] > 0 && magnitude == round_once(type, greatest[k])) magnitudes[j] = magnitude;
            else if (!is_special(x, classify(y)) && fabs(x) != 1 && y != 0)
                magnitudes[j] = static_cast<uint32_t>(exact_encoding(type, dyadic_of(x), y < 0, dyadic_of(y)));
        }
    }
    if (count == n && !operand_flags.special && !operand_flags.negative) {
        for (int i = 0; i < n; ++i) lanes[i] = magnitudes[i];
        return;
    }
    for (int j = 0; j < count; ++j) {
        const double x = some.x[j], y = some.y[j];
        if (operand_flags.special && is_special(x, classify(y))) continue;
        lanes[listed[j]] = static_cast<uint32_t>(with_sign<uint64_t>(type, magnitudes[j], bits_of(x), parity_of(y)));
    }
}

template <typename Y>
[[gnu::noinline]] static void resolve(const ElementRow& type, const OperandFlags& operand_flags, const float* x,
                                      const Y* y, uint32_t* lanes, int n, const int* listed, int count) {
    ListedOperands some;
    some.fill(x, y, n, listed, count);
    resolve(type, operand_flags, some, lanes, n, listed, count);
}

// For types of 8 bits or fewer, large arrays with a constant exponent use a look-up table instead (array/operation.h).
static constexpr bool takes_shortcuts(FloatKind kind) { return kind != FloatKind::shorter; }

// The values of these types are floats. If a constant exponent has a formula, y points to floats.
template <FloatKind kind, typename Y>
[[gnu::noinline]] static void pow_tile(const FloatType<kind>& type, const PowOptions& options, const float* x,
                                       const Y* y, typename FloatType<kind>::Stored* out, int n,
                                       const Prefetch& prefetch) {
    OperandFlags operand_flags{};
    alignas(64) uint32_t room[tile_size];
    uint32_t* lanes = room;
    if constexpr (kind == FloatKind::float32) lanes = out;
    FloatLanes<kind> power(type, lanes);
    const auto fill = [&](auto shortcut) {
        if constexpr (shortcut == Shortcut::none)
            power.fill_by_fast_phase(x, y, options.constant_exponent, operand_flags, n, prefetch);
        else power.template fill_by<shortcut>(x, operand_flags, n, prefetch);
    };
    if constexpr (takes_shortcuts(kind) && std::is_same_v<Y, float>)
        with_shortcut(options.constant_exponent ? shortcut_of(y[0]) : Shortcut::none, fill);
    else fill(std::integral_constant<Shortcut, Shortcut::none>{});
    if constexpr (kind != FloatKind::float32)
        if (!power.round(out, operand_flags.negative || operand_flags.special, n)) return;
    int listed[listed_size], count = power.any_flag ? compress_indices(power.flags, n, listed) : 0;
    if (count > 0) count = power.resolve(x, y, !options.scale_bias, n, listed, count);
    finish(type, options, operand_flags, x, Exponents<Y>{y}, lanes, n);
    if (count > 0) resolve(type, operand_flags, x, y, lanes, n, listed, count);
    if constexpr (kind != FloatKind::float32)
        for (int i = 0; i < n; ++i) out[i] = static_cast<typename FloatType<kind>::Stored>(lanes[i]);  // vector loop
}

}  // namespace halfulp::HALFULP_ISA
