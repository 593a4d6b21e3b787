// t = y log2(x) of floats by tables in registers, for processors with AVX-512. Intrinsics, because compilers do not
// vectorise look-ups; without AVX-512 registers are too small for the tables. The quotient of pow_fast.h, without
// intrinsics, occupies a multiplication unit: with it this stage takes 1.24x the time on a Zen 4 (0.62 instead of 0.50
// ns per element).
//
//   formula     |x| = m * 2^e, m in [1, 2); r about 1/m, by m's four leading bits; f = m r - 1;
//               log2 |x| = e - log2 r + f P(f)
//   domain      normal floats; for others the result has no meaning
//   error       2^-45.4 relative to log2 |x|, of which pow_fast.h assumes 2^-45. Each operation's bound is beside it;
//               proofs/fast_by_table.py proves the sum
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>

#include <cstring>

#include "../../numerics/constants.h"
#include "../phases/signs.h"

namespace halfulp::HALFULP_ISA {

class Log2Table {
public:
    // y * log2(x) for a tile. t must have room for whole vectors. `one_y`: all exponents are equal. Returns whether all
    // bases are positive normal floats.
    template <bool one_y, typename Y>
    bool fill(const float* x, const Y* y, double* t, int n) const {
        __m512i most = _mm512_setzero_si512();
        const __m512d the_y = _mm512_set1_pd(static_cast<double>(y[0]));
        int i = 0;
        for (; i + step <= n; i += step)
            fill(x + i, [&](int k) { return one_y ? the_y : load(y + i + k * lanes); }, t + i, most);
        if (i < n) {
            float x_left[step];
            Y y_left[step] = {};
            for (int k = 0; k < step; ++k) x_left[k] = i + k < n ? x[i + k] : 1;
            std::memcpy(y_left, y + i, sizeof(*y) * static_cast<size_t>(n - i));
            fill(x_left, [&](int k) { return load(y_left + k * lanes); }, t + i, most);
        }
        return _mm512_cmpge_epu32_mask(most, _mm512_set1_epi32(all_normal)) == 0;
    }

private:
    // Two vectors at a time, so that the operations of one run while those of the other wait.
    static constexpr int lanes = 8, vectors = 2, step = lanes * vectors;

    // y(k) is the k-th vector of exponents.
    template <typename Y>
    void fill(const float* x, Y y, double* t, __m512i& most) const {
        most = _mm512_max_epu32(most, _mm512_sub_epi32(_mm512_loadu_si512(x), least_normal));
        __m512d f[vectors], whole[vectors];
        for (int k = 0; k < vectors; ++k) {
            __m512d base = load(x + k * lanes);
            __m512i bits = _mm512_castpd_si512(base), part = _mm512_srli_epi64(bits, 48);
            __m512i m = _mm512_ternarylogic_epi64(bits, fraction, one, 0xea);  // bits & fraction | one
            __m512d r = _mm512_permutex2var_pd(reciprocals[0], part, reciprocals[1]);
            // In the parts next to 1, r is a power of two: f is exact, and e - log2 r is 0. In the others |log2 x| >=
            // 0.0458; log2 r is rounded by 2^-54, and e - log2 r, at most 1.6 |log2 x|, by 2^-53 of itself: 2^-49 of
            // log2 x.
            f[k] = _mm512_fmsub_pd(_mm512_castsi512_pd(m), r, _mm512_castsi512_pd(one));
            whole[k] = _mm512_add_pd(_mm512_getexp_pd(base), _mm512_permutex2var_pd(parts[0], part, parts[1]));
        }
        // P has degree 7 on [-1/32, 1/16] and an error of 2^-45.62 (constants.h), and rounds by 5 units of 2^-53.
        __m512d sum[vectors], square[vectors];
        for (int k = 0; k < vectors; ++k) {
            square[k] = _mm512_mul_pd(f[k], f[k]);
            sum[k] = coefficients<terms - 2>(f[k]);
        }
        for (int k = 0; k < vectors; ++k) sum[k] = _mm512_fmadd_pd(sum[k], square[k], coefficients<4>(f[k]));
        for (int k = 0; k < vectors; ++k) sum[k] = _mm512_fmadd_pd(sum[k], square[k], coefficients<2>(f[k]));
        for (int k = 0; k < vectors; ++k) sum[k] = _mm512_fmadd_pd(sum[k], square[k], coefficients<0>(f[k]));
        for (int k = 0; k < vectors; ++k) {
            __m512d logarithm = _mm512_fmadd_pd(f[k], sum[k], whole[k]);
            _mm512_storeu_pd(t + k * lanes, _mm512_mul_pd(logarithm, y(k)));
        }
    }

    static __m512d load(const float* from) { return _mm512_cvtps_pd(_mm256_loadu_ps(from)); }
    static __m512d load(const double* from) { return _mm512_loadu_pd(from); }

    static constexpr int terms = 8;
    static_assert(sizeof(constants::log2_by_table) == terms * sizeof(double));

    template <int i>
    static __m512d coefficients(__m512d x) {
        const auto& c = constants::log2_by_table;
        return _mm512_fmadd_pd(_mm512_set1_pd(c[i + 1]), x, _mm512_set1_pd(c[i]));
    }

    const __m512i fraction = _mm512_set1_epi64((int64_t{1} << 52) - 1);
    const __m512i least_normal = _mm512_set1_epi32(0x00800000);
    const __m512i one = _mm512_set1_epi64(int64_t{1023} << 52);
    const __m512d reciprocals[2] = {_mm512_loadu_pd(constants::log2_reciprocals),
                                    _mm512_loadu_pd(constants::log2_reciprocals + lanes)};
    const __m512d parts[2] = {_mm512_loadu_pd(constants::log2_parts), _mm512_loadu_pd(constants::log2_parts + lanes)};
};

}  // namespace halfulp::HALFULP_ISA
#endif
