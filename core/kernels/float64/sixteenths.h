// The fast phase of numerics/pow_fast_sixteenths.h for a tile, with AVX-512. Intrinsics, because compilers do not
// vectorise look-ups.
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>

#include <cstring>
#include <functional>

#include "../../numerics/pow_fast_sixteenths.h"
#include "../../simd/register_table.h"
#include "../kernels.h"

namespace halfulp::HALFULP_ISA {

// Two vectors, so that the operations of one run while those of the other wait.
struct TwoDoubles {
    Doubles values[2];

    TwoDoubles(double value) : values{value, value} {}
    TwoDoubles(Doubles first, Doubles second) : values{first, second} {}

    static TwoDoubles load(const double* from) { return {_mm512_loadu_pd(from), _mm512_loadu_pd(from + 8)}; }
    void store(double* to) const {
        values[0].store(to);
        values[1].store(to + 8);
    }

    // f of the first vectors, and of the second.
    template <typename F, typename... Operands>
    static TwoDoubles both(F f, const Operands&... operands) {
        return {f(operands.values[0]...), f(operands.values[1]...)};
    }
    friend TwoDoubles operator+(TwoDoubles a, TwoDoubles b) { return both(std::plus(), a, b); }
    friend TwoDoubles operator-(TwoDoubles a, TwoDoubles b) { return both(std::minus(), a, b); }
    friend TwoDoubles operator*(TwoDoubles a, TwoDoubles b) { return both(std::multiplies(), a, b); }
    friend TwoDoubles operator-(TwoDoubles a) { return both(std::negate(), a); }
    friend TwoDoubles fabs(TwoDoubles a) {
        return both([](Doubles x) { return fabs(x); }, a);
    }
    friend TwoDoubles multiply_add(TwoDoubles a, TwoDoubles b, TwoDoubles c) {
        return both([](Doubles x, Doubles y, Doubles z) { return multiply_add(x, y, z); }, a, b, c);
    }
    friend TwoDoubles remainder_of(TwoDoubles a, TwoDoubles q, TwoDoubles b) {
        return both([](Doubles x, Doubles y, Doubles z) { return remainder_of(x, y, z); }, a, q, b);
    }
};

// t = y log(x)/2 of a tile as pairs, and the errors of its powers.
struct HalfLogarithms {
    alignas(64) double high[tile_size], low[tile_size], error[tile_size];
    bool all_normal;  // every base is a positive normal number
    bool all_within;  // every |t| is at most greatest_half_t

    template <typename Y>
    HalfLogarithms(const double* x, Y y, int n) {
        Maximum base, t;
        int i = 0;
        for (; i + step <= n; i += step) fill(x + i, y.from(i), i, base, t);
        if (i < n) {
            // Any operands do beyond n whose power is decided.
            alignas(64) double left[3][step];
            for (int k = 0; k < step; ++k) {
                const bool is_one = i + k < n;
                left[0][k] = is_one ? x[i + k] : 1.5;
                left[1][k] = is_one ? y.high(i + k) : 0.7;
                left[2][k] = is_one ? y.low(i + k) : 0;
            }
            fill(left[0], Y{left[1], left[2]}, i, base, t);
        }
        all_normal = base.is_below(uint64_t{0x7fe} << 52);
        all_within = t.is_below(bits_of(greatest_half_t));
    }

    // Writes the lower ends of the powers' intervals, and their difference to the upper ones to flags. Returns whether
    // there is any.
    bool raise(uint64_t* out, uint64_t* flags, int n) const {
        const RegisterTable<16> powers(column_of<constants::dd_exp_entries, &constants::PairExpEntry::power>);
        const RegisterTable<16> half_corrections(
            column_of<constants::dd_exp_entries, &constants::PairExpEntry::correction>, 0.5);
        __m512i any = _mm512_setzero_si512();
        alignas(64) uint64_t left[step];
        int i = 0;
        for (; i < n; i += step) {
            const Pair<TwoDoubles> t = {TwoDoubles::load(high + i), TwoDoubles::load(low + i)};
            const TwoDoubles place = half_exp_place(t.high), e = TwoDoubles::load(error + i);
            const Pair<TwoDoubles> power =
                half_exp(half_exp_remainder(t, place, look_up(half_corrections, place)), look_up(powers, place));
            const TwoDoubles least = power.high + (power.low - e), greatest = power.high + (power.low + e);
            uint64_t* to = i + step <= n ? out + i : left;
            for (int k = 0; k < 2; ++k) {
                const __m512i binades = _mm512_slli_epi64(_mm512_srli_epi64(bits(place.values[k]), 4), 52);
                const __m512i end = bits(least.values[k]), undecided = _mm512_xor_si512(end, bits(greatest.values[k]));
                _mm512_storeu_si512(to + k * lanes, _mm512_add_epi64(end, binades));
                _mm512_storeu_si512(flags + i + k * lanes, undecided);
                any = _mm512_or_si512(any, undecided);
            }
        }
        if (i > n) std::memcpy(out + i - step, left, sizeof(uint64_t) * static_cast<size_t>(n - (i - step)));
        return _mm512_test_epi64_mask(any, any) != 0;
    }

private:
    static constexpr int lanes = 8, step = 2 * lanes;

    // The maximum of some numbers' bits.
    struct Maximum {
        __m512i values = _mm512_setzero_si512();

        void add(__m512i bits) { values = _mm512_max_epu64(values, bits); }
        bool is_below(uint64_t limit) const {
            return _mm512_cmpge_epu64_mask(values, _mm512_set1_epi64(static_cast<int64_t>(limit))) == 0;
        }
    };

    // As numerics/pow_fast_sixteenths.h has it.
    struct Points {
        TwoDoubles m = 0, scale = 0;
        __m512i parts[2];
    };

    static __m512i bits(Doubles a) { return _mm512_castpd_si512(a.values); }
    static TwoDoubles look_up(const RegisterTable<16>& table, TwoDoubles indices) {
        return {table[bits(indices.values[0])], table[bits(indices.values[1])]};
    }

    static Points points(const double* x, Maximum& base) {
        Points found;
        for (int k = 0; k < 2; ++k) {
            const __m512d loaded = _mm512_loadu_pd(x + k * lanes);
            base.add(_mm512_sub_epi64(bits(loaded), _mm512_set1_epi64(int64_t{1} << 52)));
            const __m512i magnitude = bits(_mm512_abs_pd(loaded));
            const __m512i from_one = _mm512_add_epi64(magnitude, _mm512_set1_epi64(static_cast<int64_t>(bits_to_part)));
            const __m512i scale = _mm512_and_si512(from_one, _mm512_set1_epi64(-(int64_t{1} << 52)));
            found.m.values[k] = _mm512_castsi512_pd(_mm512_sub_epi64(magnitude, scale));
            found.scale.values[k] = _mm512_cvtepi64_pd(scale);
            found.parts[k] = _mm512_srli_epi64(from_one, 48);
        }
        return found;
    }

    template <typename Y>
    void fill(const double* x, Y y, int i, Maximum& base, Maximum& most_t) {
        const Points at = points(x, base);
        const auto look_up = [&](const RegisterTable<16>& table) {
            return TwoDoubles(table[at.parts[0]], table[at.parts[1]]);
        };
        const auto begun =
            begin_half_log(at.m, at.scale, look_up(reciprocals_), look_up(log_highs_), look_up(log_lows_));
        const TwoDoubles y_high = TwoDoubles::load(y.highs);
        TwoDoubles y_low = 0;
        if constexpr (Y::has_lows) y_low = TwoDoubles::load(y.lows);
        const Pair<TwoDoubles> t = times<Y::has_lows>(half_log(begun), y_high, y_low);
        for (const Doubles& some : fabs(t.high).values) most_t.add(bits(some));
        t.high.store(high + i);
        t.low.store(low + i);
        sixteenths_error_at(y_high, begun.v).store(error + i);
    }

    const RegisterTable<16> reciprocals_{column_of<constants::half_log_entries, &constants::HalfLogEntry::r>};
    const RegisterTable<16> log_highs_{column_of<constants::half_log_entries, &constants::HalfLogEntry::high>};
    const RegisterTable<16> log_lows_{column_of<constants::half_log_entries, &constants::HalfLogEntry::low>};
};

}  // namespace halfulp::HALFULP_ISA
#endif
