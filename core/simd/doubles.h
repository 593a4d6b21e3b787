// Vectors of four doubles, with AVX2.
#pragma once

#if defined(__AVX2__) && defined(__FMA__) && !defined(__AVX512F__)
#define HALFULP_DOUBLE_ROWS
#include <immintrin.h>

#include "../numerics/double_double.h"

namespace halfulp::HALFULP_ISA {

// A vector of four doubles.
struct Doubles {
    __m256d values;

    Doubles(double value) : values(_mm256_set1_pd(value)) {}
    Doubles(__m256d all) : values(all) {}
    static Doubles load(const double* from) { return _mm256_loadu_pd(from); }
    void store(double* to) const { _mm256_storeu_pd(to, values); }

    friend Doubles operator+(Doubles a, Doubles b) { return _mm256_add_pd(a.values, b.values); }
    friend Doubles operator-(Doubles a, Doubles b) { return _mm256_sub_pd(a.values, b.values); }
    friend Doubles operator*(Doubles a, Doubles b) { return _mm256_mul_pd(a.values, b.values); }
    friend Doubles operator-(Doubles a) { return -a.values; }
    friend Doubles fabs(Doubles a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a.values); }
    friend Doubles multiply_add(Doubles a, Doubles b, Doubles c) {
        return _mm256_fmadd_pd(a.values, b.values, c.values);
    }
    friend Doubles remainder_of(Doubles a, Doubles q, Doubles b) {
        return _mm256_fnmadd_pd(q.values, b.values, a.values);
    }
};

inline __m256i bits_of(Doubles a) { return _mm256_castpd_si256(a.values); }
inline Doubles doubles_of(__m256i bits) { return _mm256_castsi256_pd(bits); }
inline __m256i bits_of_each(uint64_t bits) { return _mm256_set1_epi64x(static_cast<int64_t>(bits)); }

// The first two columns, or the next two, of the rows at four addresses.
struct TwoColumns {
    Doubles first, second;

    TwoColumns(const unsigned char* const (&rows)[4], int from = 0)
        : TwoColumns(both(rows[0] + from, rows[2] + from), both(rows[1] + from, rows[3] + from)) {}

private:
    TwoColumns(__m256d even, __m256d odd)
        : first(_mm256_unpacklo_pd(even, odd)), second(_mm256_unpackhi_pd(even, odd)) {}
    static __m256d both(const void* a, const void* b) {
        const auto load = [](const void* from) { return _mm_load_pd(static_cast<const double*>(from)); };
        return _mm256_insertf128_pd(_mm256_castpd128_pd256(load(a)), load(b), 1);
    }
};

}  // namespace halfulp::HALFULP_ISA
#endif
