// y log2(x) and 2^t of a tile by tables in registers (numerics/pow_dd.h), for processors with AVX-512. In short loops:
// the fewer operations a round has, and the fewer wait for each other, the more rounds a processor has under way.
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>

#include "../numerics/pow_dd.h"
#include "../simd/register_table.h"
#include "kernels.h"
#include "pow_signs.h"

namespace halfulp::HALFULP_ISA {

// y * log2(x) of a tile, as pairs.
struct DoubleDoubleLogarithms {
    alignas(64) double high[tile_size];
    alignas(64) double low[tile_size];

    // Between its loops it calls `between`. Returns whether all bases are positive normal numbers.
    template <bool may_be_subnormal, typename Y, typename Between>
    bool fill(const double* x, Y y, int n, Between between) {
        alignas(64) double f[tile_size], whole[tile_size], whole_low[tile_size], tail[tile_size];
        const bool all_normal = begin_logarithms<may_be_subnormal>(x, f, whole, whole_low, tail, n);
        between();
        for (int i = 0; i < n; ++i) {  // vector loop: avx512
            const TableLogarithm begun = {f[i], whole[i], whole_low[i], tail[i]};
            DoubleDouble t = log2_dd_by_table<Y::has_lows>(begun, y.high(i), y.low(i));
            high[i] = t.high;
            low[i] = t.low;
        }
        return all_normal;
    }

    // finish(i, power) for each 2^t.
    template <typename F, typename Between>
    [[gnu::always_inline]] void raise(int n, F finish, Between between) const {
        alignas(64) double sum_high[tile_size], sum_low[tile_size], power[tile_size], correction[tile_size];
        begin_powers(sum_high, sum_low, power, correction, n);
        between();
        for (int i = 0; i < n; ++i) {  // vector loop: avx512
            finish(i, exp2_dd_by_table({high[i], low[i]}, {{sum_high[i], sum_low[i]}, power[i], correction[i]}));
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
        const RegisterTable<32> reciprocals(constants::dd_reciprocals), logarithms(constants::dd_logarithms);
        const RegisterTable<32> lows(constants::dd_logarithms_low);
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
            Doubles f_of_these = _mm512_fmsub_pd(m.values, reciprocals[index].values, _mm512_set1_pd(1));
            f_of_these.store(f + i);
            sum.store(whole + i);
            lows[index].store(whole_low + i);
            polynomial(constants::log2_dd_by_table, f_of_these).store(tail + i);
        });
        return _mm512_cmpge_epu64_mask(most, _mm512_set1_epi64(int64_t{0x7fe} << 52)) == 0;
    }

    // What is looked up, and Q(s).
    void begin_powers(double* sum_high, double* sum_low, double* power, double* correction, int n) const {
        const RegisterTable<16> powers(constants::dd_powers), corrections_of_them(constants::dd_corrections);
        for (int i = 0; i < n; i += lanes) {
            Doubles t = _mm512_load_pd(high + i), shifted = t + sixteenths_magic, s = t - (shifted - sixteenths_magic);
            Pair<Doubles> tail = {polynomial(constants::exp2_dd_by_table, s), 0};
            Pair<Doubles> sum = horner<0, 2>(constants::exp2_dd_by_table_pairs, tail, s);
            __m512i index = _mm512_castpd_si512(shifted.values);
            sum.high.store(sum_high + i);
            sum.low.store(sum_low + i);
            powers[index].store(power + i);
            corrections_of_them[index].store(correction + i);
        }
    }
};

}  // namespace halfulp::HALFULP_ISA
#endif
