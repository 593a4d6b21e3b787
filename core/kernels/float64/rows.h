// The fast phase of numerics/pow_fast_float64.h for a tile, with AVX2. Intrinsics, because compilers do not vectorise
// look-ups: a row of a table is loaded as one vector, and the columns are put together from the rows of four lanes.
#pragma once

#include "../../numerics/pow_fast_float64.h"

#if defined(__AVX2__) && defined(__FMA__) && !defined(__AVX512F__)
#define HALFULP_DOUBLE_ROWS
#include <immintrin.h>

#include <cstring>

#include "../../numerics/pow_special.h"
#include "../../simd/tile.h"

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

// t = y log x of a tile, and the places of its powers in the table.
struct LogarithmsByRows {
    static constexpr int lanes = 4, step = 2 * lanes;

    alignas(64) double high[tile_size], low[tile_size], places[tile_size];
    double error;     // of the powers
    bool all_normal;  // every base is a positive normal number
    bool all_within;  // every |t| is at most greatest_float64_t

    template <typename Y>
    LogarithmsByRows(const double* x, Y y, int n) {
        __m256i not_normal = _mm256_setzero_si256(), beyond = not_normal;
        Doubles most_low = 0;
        const auto add = [&](const double* some_x, Y some_y, int i) {
            const Doubles base = Doubles::load(some_x);
            constexpr uint64_t least_normal = uint64_t{1} << 52, greatest = (uint64_t{0x7ff} << 52) - 1;
            not_normal = _mm256_or_si256(not_normal, _mm256_sub_epi64(bits_of(base), bits_of_each(least_normal)));
            not_normal = _mm256_or_si256(not_normal, _mm256_sub_epi64(bits_of_each(greatest), bits_of(base)));
            const Pair<Doubles> log = float64_log(begin(fabs(base), some_x));
            Doubles y_low = 0;
            if constexpr (Y::has_lows) y_low = Doubles::load(some_y.lows);
            const Pair<Doubles> t = float64_t<Y::has_lows>(log, Doubles::load(some_y.highs), y_low);
            beyond = _mm256_or_si256(beyond, bits_beyond(t.high));
            most_low = _mm256_max_pd(fabs(t.low).values, most_low.values);  // without NaN
            t.high.store(high + i);
            t.low.store(low + i);
            float64_exp_place(t.high).store(places + i);
        };
        int i = 0;
        for (; i + step <= n; i += step)
            for (int k = 0; k < step; k += lanes) add(x + i + k, y.from(i + k), i + k);
        if (i < n) {  // beyond n, operands whose power is decided
            alignas(64) double bases[step], exponents[step], exponents_low[step];
            for (int k = 0; k < step; ++k) {
                const bool is_one = i + k < n;
                bases[k] = is_one ? x[i + k] : 1.5;
                exponents[k] = is_one ? y.high(i + k) : 0.7;
                exponents_low[k] = is_one ? y.low(i + k) : 0;
            }
            const Y some_y = {exponents, exponents_low};
            for (int k = 0; k < step; k += lanes) add(bases + k, some_y.from(k), i + k);
        }
        all_normal = _mm256_movemask_pd(_mm256_castsi256_pd(not_normal)) == 0;
        all_within = _mm256_movemask_pd(_mm256_castsi256_pd(beyond)) == 0;
        double most = greatest(most_low);
        if (most > greatest_float64_low) most = normalise(n);
        error = float64_error_at(most);
    }

    // Writes the lower ends of the powers' intervals, and to flags whether they differ from the upper ones. Returns
    // whether any does.
    bool round(uint64_t* out, uint64_t* flags, int n) const {
        __m256d any = _mm256_setzero_pd();
        raise(out, n, [&](int i, double* to, const Float64Ends<Doubles>& ends) {
            const __m256d differ = differing(ends);
            any = _mm256_or_pd(any, differ);
            _mm256_storeu_pd(reinterpret_cast<double*>(flags + i), differ);
            ends.least.store(to);
        });
        return _mm256_movemask_pd(any) != 0;
    }

    // Rounds the powers, and sets the bits of undecided lanes. `streaming`: by streaming stores, to an address where a
    // cache line begins.
    template <bool streaming>
    void round_lanes(uint64_t* out, uint64_t* undecided, int n) const {
        auto* masks = reinterpret_cast<unsigned char*>(undecided);
        raise(out, n, [&](int i, double* to, const Float64Ends<Doubles>& ends) {
            const unsigned mask = static_cast<unsigned>(_mm256_movemask_pd(differing(ends)));
            if (i % step == 0) masks[i / step] = static_cast<unsigned char>(mask);
            else masks[i / step] = static_cast<unsigned char>(masks[i / step] | mask << lanes);
            if (streaming) _mm256_stream_pd(to, ends.least.values);
            else ends.least.store(to);
        });
    }

    // Sets the bits of the lanes that are outside of the phase's domain, and clears those of the others.
    void mark_outside(const double* x, uint64_t* outside, int n) const {
        std::memset(outside, 0, tile_size / 8);
        if (all_normal && all_within) return;
        for (int i = 0; i < n; ++i) outside[i / 64] |= uint64_t{x[i] < 0 || !is_inside(x[i], i)} << i % 64;
    }

private:
    // The start of the logarithms of these bases, whose look-ups take the upper half of a base from memory.
    static Float64Logarithm<Doubles> begin(Doubles base, const double* at) {
        const __m256i from_least =
            _mm256_sub_epi64(bits_of(base), bits_of_each(halfulp::HALFULP_ISA::bits_of(least_of_float64_parts)));
        const __m256i binade = _mm256_and_si256(from_least, bits_of_each(~uint64_t{0} << 52));
        const Doubles m = doubles_of(_mm256_sub_epi64(bits_of(base), binade));
        const Doubles biased =
            doubles_of(_mm256_xor_si256(_mm256_srli_epi64(from_least, 52), bits_of(Doubles(0x1p52 + 2048))));
        const unsigned char* const rows[] = {row_of(at), row_of(at + 1), row_of(at + 2), row_of(at + 3)};
        const TwoColumns r_and_high(rows), low(rows, sizeof(__m128d));
        return begin_float64_log(m, biased - Doubles(0x1p52 + 2048), r_and_high.first, r_and_high.second, low.first);
    }

    // As float64_log_index.
    static const unsigned char* row_of(const double* base) {
        uint32_t upper;
        std::memcpy(&upper, reinterpret_cast<const char*>(base) + sizeof(upper), sizeof(upper));
        static_assert(sizeof(constants::LogEntry) == 32);
        const uint32_t offset = (upper + (uint32_t{1} << 12) - (uint32_t{1} << 5)) >> 8 & (float64_parts - 1) << 5;
        return reinterpret_cast<const unsigned char*>(constants::float64_log_entries) + offset;
    }

    // The top bits are set where |t| is too great, or NaN.
    static __m256i bits_beyond(Doubles t) {
        return _mm256_sub_epi64(bits_of(Doubles(greatest_float64_t)), bits_of(fabs(t)));
    }

    bool is_inside(double base, int i) const {
        return fabs(base) >= 0x1p-1022 && fabs(base) < __builtin_inf() && fabs(high[i]) <= greatest_float64_t;
    }

    // Makes pairs of t. Returns the greatest low part before, where |t| is not too great.
    [[gnu::noinline]] double normalise(int n) {
        Doubles most_low = 0;
        for (int i = 0; i < n; i += lanes) {
            const Doubles sum = Doubles::load(high + i), rest = Doubles::load(low + i);
            const __m256d inside = _mm256_cmp_pd(fabs(sum).values, _mm256_set1_pd(greatest_float64_t), _CMP_LE_OQ);
            most_low = _mm256_max_pd(_mm256_and_pd(inside, fabs(rest).values), most_low.values);
            const Pair<Doubles> t = fast_two_sum(sum, rest);
            t.high.store(high + i);
            t.low.store(low + i);
            float64_exp_place(t.high).store(places + i);
        }
        return greatest(most_low);
    }

    // Without NaN.
    static double greatest(Doubles a) {
        alignas(32) double each[lanes];
        a.store(each);
        double most = 0;
        for (const double some : each) most = some > most ? some : most;
        return most;
    }

    static __m256d differing(const Float64Ends<Doubles>& ends) {
        return _mm256_cmp_pd(ends.least.values, ends.greatest.values, _CMP_NEQ_UQ);
    }

    // Calls finish(i, to, ends) for each vector of powers, of the lanes from i on: they belong to `to`.
    template <typename F>
    [[gnu::always_inline]] void raise(uint64_t* out, int n, F finish) const {
        alignas(64) double last[step];
        auto* powers = reinterpret_cast<double*>(out);
        int i = 0;
        for (; i + step <= n; i += step)
            for (int k = 0; k < step; k += lanes) finish(i + k, powers + i + k, ends_at(i + k));
        if (i == n) return;
        for (int k = 0; k < step; k += lanes) finish(i + k, last + k, ends_at(i + k));
        std::memcpy(powers + i, last, sizeof(double) * static_cast<size_t>(n - i));
    }

    Float64Ends<Doubles> ends_at(int i) const {
        const Doubles place = Doubles::load(places + i);
        const unsigned char* const rows[] = {row_at(i), row_at(i + 1), row_at(i + 2), row_at(i + 3)};
        const TwoColumns row(rows);
        const __m256i octave = _mm256_slli_epi64(bits_of(place), 44);
        const Doubles power = doubles_of(_mm256_add_epi64(bits_of(row.first), octave));  // as float64_exp
        const Pair<Doubles> t = {Doubles::load(high + i), Doubles::load(low + i)};
        return float64_ends(float64_power(float64_remainder(t, place, row.second), power), power, Doubles(error));
    }

    const unsigned char* row_at(int i) const {
        static_assert(sizeof(constants::ExpEntry) == 16);
        const unsigned char index = *reinterpret_cast<const unsigned char*>(places + i);  // the lowest byte
        return reinterpret_cast<const unsigned char*>(constants::float64_exp_entries + index);
    }
};

}  // namespace halfulp::HALFULP_ISA
#endif
