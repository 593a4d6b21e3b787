// y log2(x) and 2^t of a tile in pairs of doubles (numerics/pow_dd.h). The loops are short: the fewer operations an
// iteration has, and the fewer wait for each other, the more iterations a processor has in flight.
#pragma once

#include "../../numerics/pow_dd.h"
#include "../../simd/register_table.h"
#include "../kernels.h"
#include "exponents.h"

namespace halfulp::HALFULP_ISA {

// A TableLogarithm of each lane.
struct TableLogarithms {
    alignas(64) double f[tile_size], whole[tile_size], whole_low[tile_size], tail[tile_size];

    template <bool may_be_subnormal>
    void fill(const double* x, int n);

    TableLogarithm operator[](int i) const { return {f[i], whole[i], whole_low[i], tail[i]}; }
};

// A TablePower of each lane.
struct TablePowers {
    alignas(64) double sum_high[tile_size], sum_low[tile_size], power[tile_size], correction[tile_size];

    void fill(const double* t, int n);

    TablePower operator[](int i) const { return {{sum_high[i], sum_low[i]}, power[i], correction[i]}; }
};

#ifdef __AVX512F__
// The tables are in registers.
constexpr int lanes = 8;

// Calls f(i, mask of the lanes in use) for each vector of a tile.
template <typename F>
static void for_each_vector(int n, F f) {
    int i = 0;
    for (; i + lanes <= n; i += lanes) f(i, static_cast<__mmask8>(0xff));
    if (i < n) f(i, static_cast<__mmask8>((1 << (n - i)) - 1));
}

template <bool may_be_subnormal>
void TableLogarithms::fill(const double* x, int n) {
    constexpr auto& entries = constants::dd_log_entries;
    using Entry = constants::PairLogEntry;
    const RegisterTable<32> reciprocals(column_of<entries, &Entry::r>), logarithms(column_of<entries, &Entry::high>);
    const RegisterTable<32> lows(column_of<entries, &Entry::low>);
    const __m512i exponent = _mm512_set1_epi64(-(int64_t{1} << 52));
    const __m512i half_a_part_less_one = _mm512_set1_epi64((int64_t{1} << 46) - (int64_t{1023} << 52));
    for_each_vector(n, [&](int i, __mmask8 some) {
        __m512d base = _mm512_abs_pd(_mm512_mask_loadu_pd(_mm512_set1_pd(1), some, x + i));
        __mmask8 subnormal = 0;
        if constexpr (may_be_subnormal) {
            subnormal = _mm512_cmp_pd_mask(base, _mm512_set1_pd(0x1p-1022), _CMP_LT_OQ);
            base = _mm512_mask_mul_pd(base, subnormal, base, _mm512_set1_pd(0x1p54));
        }
        __m512i bits = _mm512_castpd_si512(base), from_one = _mm512_add_epi64(bits, half_a_part_less_one);
        __m512i scale = _mm512_and_epi64(from_one, exponent), index = _mm512_srli_epi64(from_one, 47);  // e * 2^52
        Doubles m = _mm512_castsi512_pd(_mm512_sub_epi64(bits, scale));
        Doubles sum = multiply_add(_mm512_cvtepi64_pd(scale), 0x1p-52, logarithms[index]);
        if constexpr (may_be_subnormal) sum = _mm512_mask_sub_pd(sum.values, subnormal, sum.values, _mm512_set1_pd(54));
        Doubles f_of_these = _mm512_fmsub_pd(m.values, reciprocals[index].values, _mm512_set1_pd(1));
        f_of_these.store(f + i);
        sum.store(whole + i);
        lows[index].store(whole_low + i);
        polynomial(constants::log2_dd, f_of_these).store(tail + i);
    });
}

inline void TablePowers::fill(const double* t, int n) {
    constexpr auto& entries = constants::dd_exp_entries;
    using Entry = constants::PairExpEntry;
    const RegisterTable<16> powers(column_of<entries, &Entry::power>);
    const RegisterTable<16> corrections_of_them(column_of<entries, &Entry::correction>);
    for (int i = 0; i < n; i += lanes) {
        Doubles of_these = _mm512_load_pd(t + i), shifted = of_these + sixteenths_magic;
        Doubles s = of_these - (shifted - sixteenths_magic);
        Pair<Doubles> tail = {polynomial(constants::exp2_dd, s), 0};
        Pair<Doubles> sum = horner<0, 2>(constants::exp2_dd_pairs, tail, s);
        __m512i index = _mm512_castpd_si512(shifted.values);
        sum.high.store(sum_high + i);
        sum.low.store(sum_low + i);
        powers[index].store(power + i);
        corrections_of_them[index].store(correction + i);
    }
}
#else
// The tables are in memory. Look-ups have loops of their own, since compilers do not vectorise them.
template <bool may_be_subnormal>
void TableLogarithms::fill(const double* x, int n) {
    for (int i = 0; i < n; ++i) {
        const TableLogarithm begun = begin_dd_logarithm<may_be_subnormal>(fabs(x[i]));
        f[i] = begun.f;
        whole[i] = begun.whole;
        whole_low[i] = begun.whole_low;
        tail[i] = begun.tail;
    }
}

inline void TablePowers::fill(const double* t, int n) {
    for (int i = 0; i < n; ++i) {
        const TablePower begun = begin_dd_power(t[i]);
        sum_high[i] = begun.sum.high;
        sum_low[i] = begun.sum.low;
        power[i] = begun.power;
        correction[i] = begun.correction;
    }
}
#endif

// t = y * log2(x) of a tile, as pairs.
struct DoubleDoubleLogarithms {
    alignas(64) double high[tile_size];
    alignas(64) double low[tile_size];

    template <bool may_be_subnormal, typename Y>
    [[gnu::noinline]] void fill(const double* x, Y y, int n) {
        TableLogarithms begun;
        begun.fill<may_be_subnormal>(x, n);
        for (int i = 0; i < n; ++i) {  // vector loop
            const DoubleDouble t = log2_dd<Y::has_lows>(begun[i], y.high(i), y.low(i));
            high[i] = t.high;
            low[i] = t.low;
        }
    }

    // Calls finish(i, power) for each power 2^t.
    template <typename F>
    [[gnu::always_inline]] void raise(int n, F finish) const {
        TablePowers begun;
        begun.fill(high, n);
        for (int i = 0; i < n; ++i) finish(i, exp2_dd({high[i], low[i]}, begun[i]));  // vector loop: avx512 avx2 neon
    }
};

// 2^t as the ends of its interval, rounded to the target's grid. Out of line, as the logarithms are: a compiler may
// otherwise have the stack hold the arrays of both at the same time.
[[gnu::noinline]] static void raise_to(const Target& target, DoubleDoubleLogarithms& t, double* least, double* greatest,
                                       int n) {
    for (int i = 0; i < n; ++i) {  // vector loop
        t.high[i] = clamp(t.high[i], target.most_t);
        t.low[i] = clamp(t.low[i], greatest_t_low);
    }
    const auto finish = [=](int i, const DoubleDoublePower& power) {
        Rounding rounding = round_to(target, power);
        least[i] = rounding.least;
        greatest[i] = rounding.greatest;
    };
    t.raise(n, finish);
}

// The double-double phase.
template <bool may_be_subnormal, typename Y>
static void double_double_phase(const double* x, Y y, const Target& target, double* least, double* greatest, int n) {
    DoubleDoubleLogarithms t;
    t.fill<may_be_subnormal>(x, y, n);
    raise_to(target, t, least, greatest, n);
}

}  // namespace halfulp::HALFULP_ISA
