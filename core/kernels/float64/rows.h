// The fast phase of numerics/pow_fast_float64.h for a tile, with AVX2: vector.h has its steps.
//
// The careful phase is the same for all operands: it also takes subnormal bases, and the powers that are subnormal or
// overflow. Lanes with special operands have the power 1^y there, which kernels/phases/signs.h replaces.
#pragma once

#include "vector.h"

#ifdef HALFULP_DOUBLE_ROWS
#include <cstring>

#include "../../numerics/pow_special.h"
#include "../../simd/tile.h"
#include "../phases/signs.h"

namespace halfulp::HALFULP_ISA {

// t = y log x of a tile, and the places of its powers in the table.
template <bool careful>
struct LogarithmsByRows {
    static constexpr int lanes = 4, step = 2 * lanes;

    alignas(64) double high[tile_size], low[tile_size], places[tile_size];
    alignas(64) double errors[careful ? tile_size : lanes];  // of the powers; unless careful, the same for all lanes
    OperandFlags operand_flags{};
    bool all_normal;  // every base is a normal number, positive unless there are flags of operands
    bool all_within;  // every |t| is at most greatest_float64_t

    template <typename Y>
    LogarithmsByRows(const double* x, Y y, int n) {
        __m256i not_normal = _mm256_setzero_si256(), beyond = not_normal, special = not_normal, any_bit = not_normal;
        Doubles most_low = 0;
        const auto add = [&](const double* some_x, Y some_y, int i) {
            const Doubles base = Doubles::load(some_x);
            Doubles y_high = Doubles::load(some_y.highs), y_low = 0;
            if constexpr (Y::has_lows) y_low = Doubles::load(some_y.lows);
            Pair<Doubles> t = {0, 0};
            if constexpr (careful) {
                any_bit = _mm256_or_si256(any_bit, bits_of(base));
                const Normal normal = normal_base(base, y_high);
                special = _mm256_or_si256(special, normal.special);
                normal.base.store(places + i);
                const Doubles limited = limit(y_high, 0x1p64);  // a greater y has the same power
                const auto begun = begin_float64_logs(normal.base, places + i, normal.bias);
                t = float64_t<Y::has_lows>(float64_log(begun), limited, y_low);
                float64_error_at(fabs(t.low)).store(errors + i);
                t = fast_two_sum(t.high, t.low);
            } else {
                not_normal = _mm256_or_si256(not_normal, bits_of_not_normal(base));
                const auto begun = begin_float64_logs(fabs(base), some_x, bias_of_binades);
                t = float64_t<Y::has_lows>(float64_log(begun), y_high, y_low);
                most_low = _mm256_max_pd(fabs(t.low).values, most_low.values);  // without NaN
            }
            beyond = _mm256_or_si256(beyond, bits_beyond(t.high));
            t.high.store(high + i);
            t.low.store(low + i);
            float64_exp_place(t.high).store(places + i);
        };
        int i = 0;
        for (; i + step <= n; i += step)
            for (int k = 0; k < step; k += lanes) add(x + i + k, y.from(i + k), i + k);
        if (i < n) {  // beyond n, operands whose power is decided
            alignas(64) double bases[step], exponents[step], exponents_low[step];
            for (int k = 0; k < step; ++k) {
                const bool is_one = i + k < n;
                bases[k] = is_one ? x[i + k] : 1.5;
                exponents[k] = is_one ? y.high(i + k) : 0.7;
                exponents_low[k] = is_one ? y.low(i + k) : 0;
            }
            const Y some_y = {exponents, exponents_low};
            for (int k = 0; k < step; k += lanes) add(bases + k, some_y.from(k), i + k);
        }
        all_within = !any_top_bit(beyond);
        operand_flags = {any_top_bit(any_bit), any_top_bit(special), false};
        all_normal = !any_top_bit(not_normal);
        if constexpr (!careful) {
            double most = greatest(most_low);
            if (most > greatest_float64_low) most = normalise(n);
            Doubles(float64_error_at(most)).store(errors);
        }
    }

    // Rounds the powers, and sets the bits of undecided lanes. `streaming`: by streaming stores, to an address where a
    // cache line begins.
    template <bool streaming>
    void round_lanes(uint64_t* out, uint64_t* undecided, int n) const {
        auto* masks = reinterpret_cast<unsigned char*>(undecided);
        raise(out, n, [&](int i, double* to, const Float64Ends<Doubles>& ends) {
            const unsigned mask = static_cast<unsigned>(_mm256_movemask_pd(differing(ends)));
            if (i % step == 0) masks[i / step] = static_cast<unsigned char>(mask);
            else masks[i / step] = static_cast<unsigned char>(masks[i / step] | mask << lanes);
            if (streaming) _mm256_stream_pd(to, ends.least.values);
            else ends.least.store(to);
        });
    }

    // Sets the bits of the lanes that are outside of the phase's domain, and clears those of the others. Negative bases
    // are inside: returns whether there are any.
    bool mark_outside(const double* x, uint64_t* outside, int n) const {
        std::memset(outside, 0, tile_size / 8);
        if (all_normal && all_within) return false;
        auto* masks = reinterpret_cast<unsigned char*>(outside);
        __m256i any_bit = _mm256_setzero_si256();
        const auto mask_of = [&](const double* some_x, int i) {
            const Doubles base = Doubles::load(some_x);
            const __m256i beyond = bits_beyond(Doubles::load(high + i));
            const __m256i bits = _mm256_or_si256(bits_of_not_normal(fabs(base)), beyond);
            any_bit = _mm256_or_si256(any_bit, _mm256_andnot_si256(bits, bits_of(base)));
            return _mm256_movemask_pd(doubles_of(bits).values);
        };
        int i = 0;
        for (; i + step <= n; i += step)
            masks[i / step] =
                static_cast<unsigned char>(mask_of(x + i, i) | mask_of(x + i + lanes, i + lanes) << lanes);
        if (i < n) {
            double last[step] = {1, 1, 1, 1, 1, 1, 1, 1};
            std::memcpy(last, x + i, sizeof(double) * static_cast<size_t>(n - i));
            masks[i / step] = static_cast<unsigned char>(mask_of(last, i) | mask_of(last + lanes, i + lanes) << lanes);
        }
        return any_top_bit(any_bit);
    }

    // Rounds the powers, in the careful phase, and writes to flags how the ends of their intervals differ. Returns
    // whether any do.
    bool round(uint64_t* out, uint64_t* flags, int n) {
        if (!all_within) return round_on_grid(out, flags, n);
        __m256d any = _mm256_setzero_pd();
        raise(out, n, [&](int i, double* to, const Float64Ends<Doubles>& ends) {
            const __m256d differ = differing(ends);
            any = _mm256_or_pd(any, differ);
            _mm256_storeu_pd(reinterpret_cast<double*>(flags + i), differ);
            ends.least.store(to);
        });
        return _mm256_movemask_pd(any) != 0;
    }

private:
    // Bases as positive normal numbers, with what is then to subtract from the numbers of their binades. A base is 1 if
    // it or its exponent is special.
    struct Normal {
        Doubles base, bias;
        __m256i special;
    };
    static Normal normal_base(Doubles x, Doubles y) {
        const __m256i x_bits = bits_of(fabs(x)), y_bits = bits_of(fabs(y)),
                      greatest = bits_of_each((uint64_t{0x7ff} << 52) - 1);
        const __m256i x_special =
            _mm256_or_si256(_mm256_cmpgt_epi64(bits_of_each(1), x_bits), _mm256_cmpgt_epi64(x_bits, greatest));
        const __m256i special = _mm256_or_si256(x_special, _mm256_cmpgt_epi64(y_bits, greatest));
        const __m256i bits = _mm256_blendv_epi8(x_bits, bits_of(Doubles(1)), special);
        const __m256d subnormal = doubles_of(_mm256_cmpgt_epi64(bits_of_each(uint64_t{1} << 52), bits)).values;
        // A subnormal number's bits are an integer: the number times 2^1074.
        const Doubles scaled = doubles_of(_mm256_or_si256(bits, bits_of(Doubles(0x1p52)))) - Doubles(0x1p52);
        return {_mm256_blendv_pd(doubles_of(bits).values, scaled.values, subnormal),
                _mm256_blendv_pd(_mm256_set1_pd(bias_of_binades), _mm256_set1_pd(bias_of_binades + 1074), subnormal),
                special};
    }

    // NaN becomes the limit.
    static Doubles limit(Doubles a, double most) {
        return _mm256_max_pd(_mm256_min_pd(a.values, _mm256_set1_pd(most)), _mm256_set1_pd(-most));
    }

    static bool any_top_bit(__m256i bits) { return _mm256_movemask_pd(_mm256_castsi256_pd(bits)) != 0; }

    // The top bits are set where |t| is too great, or NaN.
    static __m256i bits_beyond(Doubles t) {
        return _mm256_sub_epi64(bits_of(Doubles(greatest_float64_t)), bits_of(fabs(t)));
    }

    // Makes pairs of t. Returns the greatest low part before, where |t| is not too great.
    [[gnu::noinline]] double normalise(int n) {
        Doubles most_low = 0;
        for (int i = 0; i < n; i += lanes) {
            const Doubles sum = Doubles::load(high + i), rest = Doubles::load(low + i);
            const __m256d inside = _mm256_cmp_pd(fabs(sum).values, _mm256_set1_pd(greatest_float64_t), _CMP_LE_OQ);
            most_low = _mm256_max_pd(_mm256_and_pd(inside, fabs(rest).values), most_low.values);
            const Pair<Doubles> t = fast_two_sum(sum, rest);
            t.high.store(high + i);
            t.low.store(low + i);
            float64_exp_place(t.high).store(places + i);
        }
        return greatest(most_low);
    }

    // Without NaN.
    static double greatest(Doubles a) {
        alignas(32) double each[lanes];
        a.store(each);
        double most = 0;
        for (const double some : each) most = some > most ? some : most;
        return most;
    }

    // Calls finish(i, to, ends) for each vector of powers, of the lanes from i on: they belong to `to`.
    template <typename F>
    [[gnu::always_inline]] void raise(uint64_t* out, int n, F finish) const {
        alignas(64) double last[step];
        auto* powers = reinterpret_cast<double*>(out);
        int i = 0;
        for (; i + step <= n; i += step)
            for (int k = 0; k < step; k += lanes) finish(i + k, powers + i + k, ends_at(i + k));
        if (i == n) return;
        for (int k = 0; k < step; k += lanes) finish(i + k, last + k, ends_at(i + k));
        std::memcpy(powers + i, last, sizeof(double) * static_cast<size_t>(n - i));
    }

    Float64Ends<Doubles> ends_at(int i) const {
        const Float64Powers power = power_at(i, bits_of(Doubles::load(places + i)));
        return float64_ends(power.value, power.of_table, Doubles::load(errors + (careful ? i : 0)));
    }

    // The powers of a vector. `numbers` has n in its lower bits, without the octave unless it is to be in the power.
    Float64Powers power_at(int i, __m256i numbers) const {
        const Pair<Doubles> t = {Doubles::load(high + i), Doubles::load(low + i)};
        return float64_powers(t, Doubles::load(places + i), numbers, places + i);
    }

    // As round, where powers may be subnormal or overflow: as round_to (pow_dd.h), they are rounded without their octaves.
    [[gnu::noinline]] bool round_on_grid(uint64_t* out, uint64_t* flags, int n) {
        constexpr double overflowing_t = 710;  // the octave is at most 1024
        for (int i = 0; i < n; i += lanes) {
            const Doubles t = Doubles::load(high + i), t_low = Doubles::load(low + i);
            const Doubles limited =
                _mm256_min_pd(limit(t, greatest_float64_t_on_grid).values, _mm256_set1_pd(overflowing_t));
            const __m256d inside = _mm256_cmp_pd(t.values, limited.values, _CMP_EQ_OQ);
            limited.store(high + i);
            Doubles(_mm256_and_pd(t_low.values, inside)).store(low + i);
            float64_exp_place(limited).store(places + i);
            // With infinite errors, powers are undecided.
            const __m256d error = _mm256_and_pd(_mm256_load_pd(errors + i), inside);
            const __m256d great = _mm256_cmp_pd(error, _mm256_set1_pd(greatest_float64_error_on_grid), _CMP_GT_OQ);
            _mm256_store_pd(errors + i, _mm256_blendv_pd(error, _mm256_set1_pd(__builtin_inf()), great));
        }
        alignas(64) uint64_t last[step];
        __m256i any = _mm256_setzero_si256();
        for (int i = 0; i < n; i += lanes) {
            const Doubles place = Doubles::load(places + i);
            const __m256i octaves = _mm256_slli_epi64(_mm256_srli_epi64(bits_of(place), 8), 52);
            const Float64Powers power = power_at(i, _mm256_and_si256(bits_of(place), bits_of_each(255)));
            const Pair<Doubles> value = fast_two_sum(power.value.high, power.value.low);
            // Below 2^-1022. C is 2^-1022 there, divided by the octave.
            const __m256d below = _mm256_cmp_pd(place.values, _mm256_set1_pd(round_magic - 1022 * 256), _CMP_LT_OQ);
            const __m256d next = _mm256_cmp_pd(place.values, _mm256_set1_pd(round_magic - 1021 * 256), _CMP_LT_OQ);
            const __m256d less = _mm256_cmp_pd(value.high.values, _mm256_set1_pd(1), _CMP_LT_OQ);
            const __m256i is_subnormal = bits_of(_mm256_or_pd(below, _mm256_and_pd(next, less)));
            const __m256i one = _mm256_and_si256(bits_of_each(uint64_t{1} << 52), is_subnormal);
            const Doubles big = doubles_of(_mm256_and_si256(_mm256_sub_epi64(one, octaves), is_subnormal));
            const Pair<Doubles> ends = ends_on_grid(value, power.of_table * Doubles::load(errors + i), big);
            // A subnormal power's bits are those that it has more than C.
            const __m256i scale = _mm256_sub_epi64(octaves, one), infinity = bits_of(Doubles(__builtin_inf()));
            const auto encoding = [=](Doubles end) {
                const __m256i bits = _mm256_add_epi64(bits_of(end), scale);
                return _mm256_blendv_epi8(bits, infinity, _mm256_cmpgt_epi64(bits, infinity));
            };
            const __m256i least = encoding(ends.high), differing = _mm256_xor_si256(least, encoding(ends.low));
            any = _mm256_or_si256(any, differing);
            const bool is_whole = i + lanes <= n;
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(is_whole ? out + i : last), least);
            _mm256_store_si256(reinterpret_cast<__m256i*>(flags + i), differing);
            if (!is_whole) std::memcpy(out + i, last, sizeof(*out) * static_cast<size_t>(n - i));
        }
        return _mm256_testz_si256(any, any) == 0;
    }
};

}  // namespace halfulp::HALFULP_ISA
#endif
