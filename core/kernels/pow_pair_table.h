// y log2(x) and 2^t in pairs of doubles by tables in registers, for processors with AVX-512: compilers make no vectors of
// look-ups, and elsewhere registers hold too little. By quotients, and without intrinsics, powers of float64 take a third
// longer on a Zen 5 (2.4 instead of 1.8 ns).
//
//   formula     x = m * 2^e, m in [1 - 1/128, 2 - 1/64); r about 1/m, by m's leading bits; f = m r - 1;
//               log2 x = e - log2 r + f P(f);
//               2^t = 2^k 2^(i/16) (1 + s Q(s)), t = k + i/16 + s, |s| <= 1/32
//   domain      x a positive finite double, y finite. Other lanes yield a value without meaning
//
// Error. The bounds marked * stand in constants.h, where tools/make_constants.py has computed them.
//   f           exact: m has 53 bits and r 6, or 7 where |f| <= 2^-6
//   e - log2 r  the high part is a multiple of 2^-42, and exact; the low part, up to 2^-43, is rounded by 2^-97, and by up to
//               2^-96 in each of the two sums that it joins: 2^-94.6, where |log2 x| >= 2^-5.5: 2^-89.1 of it
//   P           its own 2^-73.82* of f P, which is at most 2^0.07* |log2 x|: 2^-73.75 of log2 x.
//               The plain tail c3 + c4 f + f^2 (..), about 0.36, ends in two operations that round by 2^-55 each; those
//               before them count 2^-10 of that: 2^-54 f^4, where f^4 <= 2^-18.33* |log2 x|: 2^-72.33.
//               The low parts of the pair steps round by 2^-105: 2^-104 of log2 x. Together, with the last line: 2^-71.87
//   t           y times that; its low part, below 2^-41, is rounded by 2^-93
//   Q           its own 2^-69.26* of |s Q| <= 2^-5.5: 2^-74.76. The plain tail c2 + c3 s + s^2 (..), about 0.056, ends in two
//               operations that round by 2^-58 each, and those before them 2^-9 of that: 2^-57 |s|^3 <= 2^-72. Low parts:
//               2^-93, and 2^-84 since 2^low is taken for 1 + low ln 2. Together: 2^-71.79
//   value       2^(i/16) (1 + s Q), where 2^(i/16) <= 2^(15/16) and the value is below 2^(31/32): 2.22 * 2^-72 by Q, and by the
//               logarithm 2^(31/32) ln 2 * 2^-71.87 |t| = 1.49 * 2^-72 |t|
//   Together below table_error. (docs/testing.md has the greatest error found.)
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>

#include "kernels.h"
#include "pow_pair.h"
#include "pow_signs.h"

namespace halfulp::HALFULP_ISA {

// Eight numbers as one.
struct Doubles {
    __m512d values;

    Doubles(double value) : values(_mm512_set1_pd(value)) {}
    Doubles(__m512d all) : values(all) {}
    void store(double* to) const { _mm512_store_pd(to, values); }

    friend Doubles operator+(Doubles a, Doubles b) { return _mm512_add_pd(a.values, b.values); }
    friend Doubles operator-(Doubles a, Doubles b) { return _mm512_sub_pd(a.values, b.values); }
    friend Doubles operator*(Doubles a, Doubles b) { return _mm512_mul_pd(a.values, b.values); }
    friend Doubles multiply_add(Doubles a, Doubles b, Doubles c) {
        return _mm512_fmadd_pd(a.values, b.values, c.values);
    }
};

// A table of 16 numbers in two registers, or of 32 in four.
template <int count>
class RegisterTable {
public:
    explicit RegisterTable(const double (&values)[count]) {
        for (int i = 0; i < count / lanes; ++i) parts_[i] = _mm512_loadu_pd(values + i * lanes);
    }

    // By the low bits of the indices.
    Doubles operator[](__m512i index) const {
        __m512d found = _mm512_permutex2var_pd(parts_[0], index, parts_[1]);
        if constexpr (count == 32) {
            __mmask8 upper = _mm512_test_epi64_mask(index, _mm512_set1_epi64(16));
            found = _mm512_mask_blend_pd(upper, found, _mm512_permutex2var_pd(parts_[2], index, parts_[3]));
        }
        return found;
    }

private:
    static constexpr int lanes = 8;
    __m512d parts_[count / lanes];
};

// y * log2(x) of a tile, as pairs. In short loops: the fewer operations a round has, and the fewer wait for each other, the
// more rounds a processor has under way.
struct PairLogarithms {
    alignas(64) double high[tile_size];
    alignas(64) double low[tile_size];

    // Between its loops it calls `between`. Returns whether all bases are positive normal numbers.
    template <bool may_be_subnormal, typename Y, typename Between>
    bool fill(const double* x, Y y, int n, Between between) {
        alignas(64) double f[tile_size], whole[tile_size], whole_low[tile_size], tail[tile_size];
        const bool all_normal = begin_logarithms<may_be_subnormal>(x, f, whole, whole_low, tail, n);
        between();
        for (int i = 0; i < n; ++i) {  // vector loop: avx512
            DoubleDouble sum = horner<0, 3>(constants::log2_pair_by_table_pairs, DoubleDouble{tail[i], 0}, f[i]);
            // The difference in it is exact: whole is a multiple of 2^-42, and what is added less than twice the sum.
            DoubleDouble log2 = multiply_add_pair(f[i], sum.high, whole[i]);
            log2.low += multiply_add(f[i], sum.low, whole_low[i]);
            log2 = fast_two_sum(log2.high, log2.low);  // whole_low is up to 2^-43
            DoubleDouble t = two_product(y.high(i), log2.high);
            t.low = multiply_add(y.high(i), log2.low, t.low);
            if constexpr (Y::has_lows) t.low = multiply_add(y.low(i), log2.high, t.low);
            high[i] = t.high;
            low[i] = t.low;
        }
        return all_normal;
    }

    // finish(i, power) for each 2^t.
    template <typename F, typename Between>
    [[gnu::always_inline]] void raise(int n, F finish, Between between) const {
        alignas(64) double sum_high[tile_size], sum_low[tile_size], power[tile_size], lost[tile_size];
        begin_powers(sum_high, sum_low, power, lost, n);
        between();
        for (int i = 0; i < n; ++i) {  // vector loop: avx512
            double shifted = high[i] + sixteenths_magic, s = high[i] - (shifted - sixteenths_magic);
            DoubleDouble more = two_product(s, sum_high[i]);
            more.low = multiply_add(s, sum_low[i], more.low);
            // Times 1 + what the table lost, and 2^low = 1 + low ln 2, where |low| is below 2^-41.
            double rest = multiply_add(low[i], constants::exp2_pair_pairs[1].high, lost[i]);
            more.low = multiply_add(rest, more.high, more.low + rest);
            DoubleDouble value = multiply_add_pair(power[i], more.high, power[i]);
            value.low = multiply_add(power[i], more.low, value.low);
            int64_t sixteenths = static_cast<int64_t>(bits_of(shifted) - bits_of(sixteenths_magic));
            finish(i, PairPower{value, table_error.at(high[i]), static_cast<uint64_t>(sixteenths >> 4)});
        }
    }

private:
    static constexpr int lanes = 8;

    // f(i, the lanes in use) for each vector of a tile.
    template <typename F>
    static void for_each_vector(int n, F f) {
        int i = 0;
        for (; i + lanes <= n; i += lanes) f(i, static_cast<__mmask8>(0xff));
        if (i < n) f(i, static_cast<__mmask8>((1 << (n - i)) - 1));
    }

    // What is looked up, f, and the plain tail of P(f). Returns whether all bases are positive normal numbers.
    template <bool may_be_subnormal>
    static bool begin_logarithms(const double* x, double* f, double* whole, double* whole_low, double* tail, int n) {
        const RegisterTable<32> reciprocals(constants::pair_reciprocals), logarithms(constants::pair_logarithms);
        const RegisterTable<32> lows(constants::pair_logarithms_low);
        const __m512i exponent = _mm512_set1_epi64(-(int64_t{1} << 52)),
                      least_normal = _mm512_set1_epi64(int64_t{1} << 52);
        const __m512i half_a_part_less_one = _mm512_set1_epi64((int64_t{1} << 46) - (int64_t{1023} << 52));
        __m512i most = _mm512_setzero_si512();
        for_each_vector(n, [&](int i, __mmask8 some) {
            __m512d base = _mm512_mask_loadu_pd(_mm512_set1_pd(1), some, x + i);
            most = _mm512_max_epu64(most, _mm512_sub_epi64(_mm512_castpd_si512(base), least_normal));
            base = _mm512_abs_pd(base);
            __mmask8 subnormal = 0;
            if constexpr (may_be_subnormal) {
                subnormal = _mm512_cmp_pd_mask(base, _mm512_set1_pd(0x1p-1022), _CMP_LT_OQ);
                base = _mm512_mask_mul_pd(base, subnormal, base, _mm512_set1_pd(0x1p54));
            }
            __m512i bits = _mm512_castpd_si512(base), from_one = _mm512_add_epi64(bits, half_a_part_less_one);
            __m512i scale = _mm512_and_epi64(from_one, exponent), index = _mm512_srli_epi64(from_one, 47);  // e * 2^52
            Doubles m = _mm512_castsi512_pd(_mm512_sub_epi64(bits, scale));
            Doubles sum = multiply_add(_mm512_cvtepi64_pd(scale), 0x1p-52, logarithms[index]);
            if constexpr (may_be_subnormal)
                sum = _mm512_mask_sub_pd(sum.values, subnormal, sum.values, _mm512_set1_pd(54));
            Doubles rest = _mm512_fmsub_pd(m.values, reciprocals[index].values, _mm512_set1_pd(1));
            rest.store(f + i);
            sum.store(whole + i);
            lows[index].store(whole_low + i);
            polynomial(constants::log2_pair_by_table, rest).store(tail + i);
        });
        return _mm512_cmpge_epu64_mask(most, _mm512_set1_epi64(int64_t{0x7fe} << 52)) == 0;
    }

    // What is looked up, and Q(s).
    void begin_powers(double* sum_high, double* sum_low, double* power, double* lost, int n) const {
        const RegisterTable<16> powers(constants::pair_powers), what_they_lost(constants::pair_powers_lost);
        for (int i = 0; i < n; i += lanes) {
            Doubles t = _mm512_load_pd(high + i), shifted = t + sixteenths_magic, s = t - (shifted - sixteenths_magic);
            Pair<Doubles> tail = {polynomial(constants::exp2_pair_by_table, s), 0};
            Pair<Doubles> sum = horner<0, 2>(constants::exp2_pair_by_table_pairs, tail, s);
            __m512i index = _mm512_castpd_si512(shifted.values);
            sum.high.store(sum_high + i);
            sum.low.store(sum_low + i);
            powers[index].store(power + i);
            what_they_lost[index].store(lost + i);
        }
    }
};

}  // namespace halfulp::HALFULP_ISA
#endif
