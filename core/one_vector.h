// The powers of one vector of floats or doubles, with AVX2: the fast phases of one_element.h for all lanes at once. The
// other lanes are for the caller.
#pragma once

#include "kernels/float64/vector.h"
#include "one_element.h"

#ifdef HALFULP_DOUBLE_ROWS

namespace halfulp::HALFULP_ISA {

// Each function returns a bit for each lane that it has not computed, in the default floating-point environment. The
// other lanes have the operations of quick_power, and so its bits, its proofs and its exceptions. Undecided lanes raise no
// more than inexact: the bits of every base are taken for a positive normal number's, and exponents and logarithms out of
// range are replaced.

HALFULP_INLINE unsigned top_bits(Doubles a) { return static_cast<unsigned>(_mm256_movemask_pd(a.values)); }
// The top bits are set where |a| is greater than `most`.
HALFULP_INLINE Doubles beyond(Doubles a, double most) {
    return _mm256_cmp_pd(fabs(a).values, _mm256_set1_pd(most), _CMP_GT_OQ);
}
// The lanes where `which` has the top bit have `other`.
HALFULP_INLINE Doubles replaced(Doubles a, double other, Doubles which) {
    return _mm256_blendv_pd(a.values, _mm256_set1_pd(other), which.values);
}

HALFULP_INLINE unsigned quick_powers(Doubles x, Doubles y, Doubles& powers) {
    const __m256i y_outside = _mm256_or_si256(_mm256_sub_epi64(bits_of(fabs(y)), bits_of(Doubles(least_quick_y))),
                                              _mm256_sub_epi64(bits_of(Doubles(greatest_quick_y)), bits_of(fabs(y))));
    const Doubles special = doubles_of(_mm256_or_si256(bits_of_not_normal(x), y_outside));
    unsigned undecided = top_bits(special);
    if (undecided != 0) [[unlikely]]
        y = replaced(y, 0.7, special);
    alignas(32) double bases[4], places[4];
    x.store(bases);
    Pair<Doubles> t = float64_t<false>(float64_log(begin_float64_logs(x, bases, bias_of_binades)), y, Doubles(0));
    const Doubles great = beyond(t.high, greatest_quick_t);
    const unsigned great_lanes = top_bits(great);
    if (great_lanes != 0) [[unlikely]] {
        t = {replaced(t.high, 0, great), replaced(t.low, 0, great)};
        undecided |= great_lanes;
    }
    const Doubles place = float64_exp_place(t.high);
    place.store(places);
    const Float64Powers power = float64_powers(t, place, bits_of(place), places);
    const auto ends = float64_ends(power.value, power.of_table, float64_error_at(fabs(t.low)));
    powers = ends.least;
    return undecided | top_bits(_mm256_or_pd(differing(ends), beyond(t.low, greatest_float64_low).values));
}

static constexpr double greatest_quick_float_t = 124 * 256;  // is_float32_place then

// The powers 2^(t/256), rounded to floats. The top bits of `near` are set where a boundary between floats is near.
HALFULP_INLINE __m128 float32_powers_of(Doubles t, Doubles& near) {
    const Doubles place = float32_place(t);
    alignas(32) uint64_t places[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(places), bits_of(place));
    const auto entry = [&](int i) { return static_cast<int64_t>(constants::float32_powers[places[i] & 255]); };
    const __m256i entries = _mm256_set_epi64x(entry(3), entry(2), entry(1), entry(0));
    const Doubles whole = doubles_of(_mm256_add_epi64(entries, _mm256_slli_epi64(bits_of(place), 44)));
    const Doubles power = float32_power(t, place, whole);
    // As round_float32_power.
    constexpr uint64_t half = uint64_t{1} << 28, width = static_cast<uint64_t>(float32_error * 0x1p53);
    const __m256i from_tie = _mm256_sub_epi64(bits_of(power), bits_of_each(half - width));
    const __m256i distance = _mm256_and_si256(from_tie, bits_of_each(2 * half - 1));
    near = doubles_of(_mm256_sub_epi64(distance, bits_of_each(2 * width + 1)));
    return _mm256_cvtpd_ps(power.values);
}

// Eight floats, or twice the same four.
template <bool four>
HALFULP_INLINE unsigned quick_powers(__m256 x, __m256 y, __m256& powers) {
    const auto each = [](uint32_t bits) { return _mm256_set1_epi32(static_cast<int>(bits)); };
    const auto not_normal = [=](__m256i bits) {
        return _mm256_or_si256(_mm256_sub_epi32(bits, each(0x00800000)), _mm256_sub_epi32(each(0x7f7fffff), bits));
    };
    const __m256i magnitude = _mm256_and_si256(_mm256_castps_si256(y), each(0x7fffffff));
    const __m256 special =
        _mm256_castsi256_ps(_mm256_or_si256(not_normal(_mm256_castps_si256(x)), not_normal(magnitude)));
    unsigned undecided = static_cast<unsigned>(_mm256_movemask_ps(special));
    if (undecided != 0) [[unlikely]]
        y = _mm256_blendv_ps(y, _mm256_set1_ps(0.7f), special);
    // As begin_float32_log of one number.
    const __m256i bits = _mm256_castps_si256(x), from_least = _mm256_sub_epi32(bits, each(least_of_float32_parts));
    const __m256i binade = _mm256_and_si256(from_least, each(0xff800000)), m = _mm256_sub_epi32(bits, binade);
    const __m256i e = _mm256_srai_epi32(binade, 23 - 8);
    static_assert(sizeof(constants::Float32LogEntry) == 16);
    alignas(32) uint32_t offsets[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(offsets),
                       _mm256_and_si256(_mm256_srli_epi32(from_least, 16 - 4), each(127 << 4)));
    const auto logarithms = [&](__m128i some_m, __m128i some_e, __m128 some_y, const uint32_t* at) {
        const auto* const table = reinterpret_cast<const unsigned char*>(constants::float32_log_entries);
        const unsigned char* const rows[] = {table + at[0], table + at[1], table + at[2], table + at[3]};
        const TwoColumns row(rows);
        const Doubles wide_m = _mm256_cvtps_pd(_mm_castsi128_ps(some_m)), wide_e = _mm256_cvtepi32_pd(some_e);
        const auto begun = begin_float32_log(wide_m, wide_e, row.first, row.second);
        return Doubles(_mm256_cvtps_pd(some_y)) * float32_log2(begun);
    };
    Doubles t = logarithms(_mm256_castsi256_si128(m), _mm256_castsi256_si128(e), _mm256_castps256_ps128(y), offsets);
    Doubles t_above = 0, great = beyond(t, greatest_quick_float_t), great_above = 0, near = 0, near_above = 0;
    if (!four) {
        t_above = logarithms(_mm256_extracti128_si256(m, 1), _mm256_extracti128_si256(e, 1),
                             _mm256_extractf128_ps(y, 1), offsets + 4);
        great_above = beyond(t_above, greatest_quick_float_t);
    }
    const unsigned great_lanes = top_bits(great) | top_bits(great_above) << 4;
    if (great_lanes != 0) [[unlikely]] {
        t = replaced(t, 0, great);
        t_above = replaced(t_above, 0, great_above);
        undecided |= great_lanes;
    }
    powers = _mm256_castps128_ps256(float32_powers_of(t, near));
    if (!four) powers = _mm256_insertf128_ps(powers, float32_powers_of(t_above, near_above), 1);
    return undecided | top_bits(near) | top_bits(near_above) << 4;
}

}  // namespace halfulp::HALFULP_ISA
#endif
