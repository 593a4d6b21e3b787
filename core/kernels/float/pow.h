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
#include "pairs.h"

namespace halfulp::HALFULP_ISA {

// The later phases, for the lanes that the fast phase left undecided. `listed` has their indices.
template <Element type, typename Y>
[[gnu::noinline]] static void resolve(const OperandFlags& operand_flags, const float* x, Y y, Storage<type>* out, int n,
                                      const int* listed, int count) {
    alignas(64) double x_some[tile_size], y_some[tile_size], least[tile_size], greatest[tile_size];
    alignas(64) uint32_t magnitudes[tile_size], undecided[tile_size];
    int listed_undecided[listed_size], left[tile_size], left_count = 0;
    const bool all = count == n;  // then the indices are in order
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
            magnitudes[j] = round_once<type>(greatest[j]);  // a tie: the even neighbour
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

// For types of 8 bits or fewer, large arrays with a constant exponent use a look-up table instead (array/operation.h).
static constexpr bool takes_shortcuts(Element type) { return row(type).bits >= 16; }

// The values of these types are floats. If a constant exponent has a formula, y points to floats.
template <Element type, typename Y>
[[gnu::noinline]] static void pow_by_doubles(const PowOptions& options, const float* x, const Y* y, Storage<type>* out,
                                             int n, const Prefetch& prefetch) {
    // No type here has a wider range of exponents than float32; see fast_error on |t|.
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

template <Element type, typename Y>
static void pow_tile(const PowOptions& options, const float* x, const Y* y, Storage<type>* out, int n,
                     const Prefetch& prefetch) {
#ifdef __AVX512F__
    if constexpr (type == Element::float32 && std::is_same_v<Y, float>) {
        const bool has_formula = options.constant_exponent && shortcut_of(y[0]) != Shortcut::none;
        if (!has_formula && pow_by_pairs(options, x, y, out, n, prefetch, pow_by_doubles<type, Y>)) return;
    }
#endif
    pow_by_doubles<type>(options, x, y, out, n, prefetch);
}

}  // namespace halfulp::HALFULP_ISA
