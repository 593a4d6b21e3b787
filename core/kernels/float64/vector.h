// The steps of the phase of numerics/pow_fast_float64.h for a vector, with AVX2. Intrinsics, because compilers do not
// vectorise look-ups: a row of a table is loaded as one vector, and the columns are put together from the rows of four
// lanes. Each lane has the operations of one number, and so its bits.
#pragma once

#include "../../numerics/pow_fast_float64.h"
#include "../../simd/doubles.h"

#ifdef HALFULP_DOUBLE_ROWS

namespace halfulp::HALFULP_ISA {

// The number of a binade is read from a double's bits, as an integer above 2^52.
static constexpr double bias_of_binades = 0x1p52 + 2048;

// As float64_log_index.
HALFULP_INLINE const unsigned char* float64_log_row(const double* base) {
    uint32_t upper;
    __builtin_memcpy(&upper, reinterpret_cast<const char*>(base) + sizeof(upper), sizeof(upper));
    static_assert(sizeof(constants::LogEntry) == 32);
    const uint32_t offset = (upper + (uint32_t{1} << 12) - (uint32_t{1} << 5)) >> 8 & (float64_parts - 1) << 5;
    return reinterpret_cast<const unsigned char*>(constants::float64_log_entries) + offset;
}

// The start of the logarithms of `base`, whose look-ups take the upper half of each lane from memory. `bias` is
// subtracted from the numbers of the binades.
HALFULP_INLINE Float64Logarithm<Doubles> begin_float64_logs(Doubles base, const double* at, Doubles bias) {
    const __m256i from_least = _mm256_sub_epi64(bits_of(base), bits_of_each(bits_of(least_of_float64_parts)));
    const __m256i binade = _mm256_and_si256(from_least, bits_of_each(~uint64_t{0} << 52));
    const Doubles m = doubles_of(_mm256_sub_epi64(bits_of(base), binade));
    const Doubles biased =
        doubles_of(_mm256_xor_si256(_mm256_srli_epi64(from_least, 52), bits_of(Doubles(bias_of_binades))));
    const unsigned char* const rows[] = {float64_log_row(at), float64_log_row(at + 1), float64_log_row(at + 2),
                                         float64_log_row(at + 3)};
    const TwoColumns r_and_high(rows), low(rows, sizeof(__m128d));
    return begin_float64_log(m, biased - bias, r_and_high.first, r_and_high.second, low.first);
}

// The tables' powers, and the powers e^t.
struct Float64Powers {
    Doubles of_table;
    Pair<Doubles> value;
};

// The look-ups take the lowest byte of each place from memory. `numbers` has n in its lower bits, without the octave
// unless it is to be in the power.
HALFULP_INLINE Float64Powers float64_powers(const Pair<Doubles>& t, Doubles place, __m256i numbers, const double* at) {
    const auto row_of = [](const double* one) {
        static_assert(sizeof(constants::ExpEntry) == 16);
        const unsigned char index = *reinterpret_cast<const unsigned char*>(one);
        return reinterpret_cast<const unsigned char*>(constants::float64_exp_entries + index);
    };
    const unsigned char* const rows[] = {row_of(at), row_of(at + 1), row_of(at + 2), row_of(at + 3)};
    const TwoColumns row(rows);
    const Doubles power = doubles_of(_mm256_add_epi64(bits_of(row.first), _mm256_slli_epi64(numbers, 44)));
    return {power, float64_power(float64_remainder(t, place, row.second), power)};
}

// The top bits are set where a base is not a positive normal number.
HALFULP_INLINE __m256i bits_of_not_normal(Doubles base) {
    constexpr uint64_t least_normal = uint64_t{1} << 52, greatest = (uint64_t{0x7ff} << 52) - 1;
    return _mm256_or_si256(_mm256_sub_epi64(bits_of(base), bits_of_each(least_normal)),
                           _mm256_sub_epi64(bits_of_each(greatest), bits_of(base)));
}

HALFULP_INLINE __m256d differing(const Float64Ends<Doubles>& ends) {
    return _mm256_cmp_pd(ends.least.values, ends.greatest.values, _CMP_NEQ_UQ);
}

}  // namespace halfulp::HALFULP_ISA
#endif
