// Tables in registers, for processors with AVX-512: compilers do not vectorise look-ups.
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>

#include <array>
#include <iterator>

#include "tile.h"

namespace halfulp::HALFULP_ISA {

// A vector of eight doubles.
struct Doubles {
    __m512d values;

    Doubles(double value) : values(_mm512_set1_pd(value)) {}
    Doubles(__m512d all) : values(all) {}
    void store(double* to) const { _mm512_store_pd(to, values); }

    friend Doubles operator+(Doubles a, Doubles b) { return _mm512_add_pd(a.values, b.values); }
    friend Doubles operator-(Doubles a, Doubles b) { return _mm512_sub_pd(a.values, b.values); }
    friend Doubles operator*(Doubles a, Doubles b) { return _mm512_mul_pd(a.values, b.values); }
    friend Doubles operator-(Doubles a) { return -a.values; }
    friend Doubles fabs(Doubles a) { return _mm512_abs_pd(a.values); }
    friend Doubles multiply_add(Doubles a, Doubles b, Doubles c) {
        return _mm512_fmadd_pd(a.values, b.values, c.values);
    }
    friend Doubles remainder_of(Doubles a, Doubles q, Doubles b) {
        return _mm512_fnmadd_pd(q.values, b.values, a.values);
    }
};

// The column of a table: one member of each entry.
template <auto& entries, auto member>
inline constexpr auto column_of = [] {
    std::array<double, std::size(entries)> column{};
    for (size_t i = 0; i < column.size(); ++i) column[i] = entries[i].*member;
    return column;
}();

// A table of 16 numbers in two registers, or of 32 in four.
template <int count>
class RegisterTable {
public:
    explicit RegisterTable(const std::array<double, count>& values, double factor = 1) {
        for (int i = 0; i < count / lanes; ++i) parts_[i] = _mm512_loadu_pd(values.data() + i * lanes) * factor;
    }

    // Looks up entries by the low bits of the indices.
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

}  // namespace halfulp::HALFULP_ISA
#endif
