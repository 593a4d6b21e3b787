// The fast phase of numerics/pow_fast_sixteenths.h for a tile, with AVX-512. Intrinsics, because compilers do not
// vectorise look-ups.
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>

#include <cstring>
#include <functional>

#include "../../numerics/pow_fast_sixteenths.h"
#include "../../simd/prefetch.h"
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

// A table of sixteen entries, by the low bits of the indices.
struct Sixteen : RegisterTable<16> {
    using RegisterTable<16>::RegisterTable;

    TwoDoubles of(const __m512i (&indices)[2]) const { return {(*this)[indices[0]], (*this)[indices[1]]}; }
};

inline __m512i bits_of(Doubles a) { return _mm512_castpd_si512(a.values); }

// The maximum of some numbers' bits.
struct Maximum {
    __m512i values = _mm512_setzero_si512();

    void add(__m512i bits) { values = _mm512_max_epu64(values, bits); }
    bool is_below(uint64_t limit) const {
        return _mm512_cmpge_epu64_mask(values, _mm512_set1_epi64(static_cast<int64_t>(limit))) == 0;
    }
};

// t = y log(x)/2 of a tile as pairs, and the errors of its powers.
struct HalfLogarithms {
    static constexpr int lanes = 8, step = 2 * lanes;

    alignas(64) double high[tile_size], low[tile_size], error[tile_size];
    bool all_normal;  // every base is a positive normal number
    bool all_within;  // every |t| is at most greatest_half_t

    template <typename Y>
    HalfLogarithms(const double* x, Y y, int n) {
        const Sixteen reciprocals(column_of<constants::half_log_entries, &constants::HalfLogEntry::r>);
        const Sixteen highs(column_of<constants::half_log_entries, &constants::HalfLogEntry::high>);
        const Sixteen lows(column_of<constants::half_log_entries, &constants::HalfLogEntry::low>);
        Maximum most_base, most_t;
        alignas(64) double bases[step], exponents[step], exponents_low[step];
        for (int i = 0; i < n; i += step) {
            const double* some_x = x + i;
            Y some_y = y.from(i);
            if (n - i < step) {  // beyond n, operands whose power is decided
                for (int k = 0; k < step; ++k) {
                    const bool is_one = i + k < n;
                    bases[k] = is_one ? x[i + k] : 1.5;
                    exponents[k] = is_one ? y.high(i + k) : 0.7;
                    exponents_low[k] = is_one ? y.low(i + k) : 0;
                }
                some_x = bases;
                some_y = {exponents, exponents_low};
            }
            TwoDoubles m = 0, scale = 0;
            __m512i parts[2];
            for (int k = 0; k < 2; ++k) {  // as sixteenths_point
                const __m512d base = _mm512_loadu_pd(some_x + k * lanes);
                most_base.add(_mm512_sub_epi64(bits_of(base), _mm512_set1_epi64(int64_t{1} << 52)));
                const __m512i bits = bits_of(_mm512_abs_pd(base));
                const __m512i from_one = _mm512_add_epi64(bits, _mm512_set1_epi64(static_cast<int64_t>(bits_to_part)));
                const __m512i binade = _mm512_and_si512(from_one, _mm512_set1_epi64(-(int64_t{1} << 52)));
                m.values[k] = _mm512_castsi512_pd(_mm512_sub_epi64(bits, binade));
                scale.values[k] = _mm512_cvtepi64_pd(binade);
                parts[k] = _mm512_srli_epi64(from_one, 48);
            }
            const auto begun = begin_half_log(m, scale, reciprocals.of(parts), highs.of(parts), lows.of(parts));
            const TwoDoubles y_high = TwoDoubles::load(some_y.highs);
            prefetch_lines_ahead(some_x, sizeof(m));
            prefetch_lines_ahead(some_y.highs, sizeof(y_high));
            TwoDoubles y_low = 0;
            if constexpr (Y::has_lows) y_low = TwoDoubles::load(some_y.lows);
            const Pair<TwoDoubles> t = times<Y::has_lows>(half_log(begun), y_high, y_low);
            for (const Doubles& some : fabs(t.high).values) most_t.add(bits_of(some));
            t.high.store(high + i);
            t.low.store(low + i);
            sixteenths_error_at(y_high, begun.v).store(error + i);
        }
        all_normal = most_base.is_below(uint64_t{0x7fe} << 52);
        all_within = most_t.is_below(bits_of(greatest_half_t));
    }

    // Calls finish(i, value, place) for two vectors of powers, of the lanes from i on.
    template <typename F>
    [[gnu::always_inline]] void raise(int n, F finish) const {
        const Sixteen powers(column_of<constants::dd_exp_entries, &constants::PairExpEntry::power>);
        const Sixteen half_corrections(column_of<constants::dd_exp_entries, &constants::PairExpEntry::correction>, 0.5);
        for (int i = 0; i < n; i += step) {
            const Pair<TwoDoubles> t = {TwoDoubles::load(high + i), TwoDoubles::load(low + i)};
            const TwoDoubles place = half_exp_place(t.high);
            const __m512i places[2] = {bits_of(place.values[0]), bits_of(place.values[1])};
            const Pair<TwoDoubles> rest = half_exp_remainder(t, place, half_corrections.of(places));
            finish(i, half_exp(rest, powers.of(places)), places);
        }
    }

    // Writes the lower ends of the powers' intervals, and how they differ from the upper ones to flags. Returns whether
    // any does.
    bool round(uint64_t* out, uint64_t* flags, int n) const {
        __m512i any = _mm512_setzero_si512();
        alignas(64) uint64_t last[step];
        raise(n, [&](int i, const Pair<TwoDoubles>& power, const __m512i(&places)[2]) {
            const TwoDoubles e = TwoDoubles::load(error + i);
            const TwoDoubles least = power.high + (power.low - e), greatest = power.high + (power.low + e);
            uint64_t* to = i + step <= n ? out + i : last;
            for (int k = 0; k < 2; ++k) {
                const __m512i end = bits_of(least.values[k]), binades = _mm512_srli_epi64(places[k], 4);
                const __m512i undecided = _mm512_xor_si512(end, bits_of(greatest.values[k]));
                _mm512_storeu_si512(to + k * lanes, _mm512_add_epi64(end, _mm512_slli_epi64(binades, 52)));
                _mm512_storeu_si512(flags + i + k * lanes, undecided);
                any = _mm512_or_si512(any, undecided);
            }
        });
        const int whole = n - n % step;
        std::memcpy(out + whole, last, sizeof(uint64_t) * static_cast<size_t>(n - whole));
        return _mm512_test_epi64_mask(any, any) != 0;
    }

    // Rounds the powers, and sets the bits of undecided lanes. `streaming`: by streaming stores, to an address where a
    // cache line begins.
    template <bool streaming>
    void round_lanes(uint64_t* out, uint64_t* undecided, int n) const {
        alignas(64) uint64_t last[step];
        auto* masks = reinterpret_cast<unsigned char*>(undecided);
        raise(n, [&](int i, const Pair<TwoDoubles>& power, const __m512i(&places)[2]) {
            const TwoDoubles e = TwoDoubles::load(error + i);
            const TwoDoubles least = power.high + (power.low - e), greatest = power.high + (power.low + e);
            const bool whole = i + step <= n;
            uint64_t* to = whole ? out + i : last;
            for (int k = 0; k < 2; ++k) {
                const __m512i exponents = _mm512_slli_epi64(_mm512_srli_epi64(places[k], 4), 52);
                const __m512i power_bits = _mm512_add_epi64(bits_of(least.values[k]), exponents);
                if (streaming && whole) _mm512_stream_si512(reinterpret_cast<__m512i*>(to + k * lanes), power_bits);
                else _mm512_storeu_si512(to + k * lanes, power_bits);
                masks[i / lanes + k] =
                    _mm512_cmp_pd_mask(least.values[k].values, greatest.values[k].values, _CMP_NEQ_UQ);
            }
        });
        const int whole = n - n % step;
        std::memcpy(out + whole, last, sizeof(uint64_t) * static_cast<size_t>(n - whole));
    }

    // The lanes that are inside of the phase's domain.
    static __mmask8 inside(__m512d base, __m512d t) {
        const __m512d greatest_subnormal = _mm512_set1_pd(0x0.fffffffffffffp-1022);
        return _mm512_cmp_pd_mask(greatest_subnormal, base, _CMP_LT_OQ) &
               _mm512_cmp_pd_mask(base, _mm512_set1_pd(__builtin_inf()), _CMP_LT_OQ) &
               _mm512_cmp_pd_mask(_mm512_abs_pd(t), _mm512_set1_pd(greatest_half_t), _CMP_LT_OQ);
    }

    // Sets the bits of the lanes that are outside of the phase's domain, and clears those of the others. Returns whether
    // a negative base is inside: none is.
    bool mark_outside(const double* x, uint64_t* outside, int n) const {
        std::memset(outside, 0, tile_size / 8);
        if (all_normal && all_within) return false;
        auto* masks = reinterpret_cast<unsigned char*>(outside);
        for (int i = 0; i < n; i += lanes) {
            const auto used = static_cast<__mmask8>(n - i < lanes ? (1 << (n - i)) - 1 : 0xff);
            const __m512d base = _mm512_mask_loadu_pd(_mm512_set1_pd(1), used, x + i), t = _mm512_load_pd(high + i);
            masks[i / lanes] = static_cast<unsigned char>(used & ~inside(base, t));
        }
        return false;
    }
};

}  // namespace halfulp::HALFULP_ISA
#endif
