// The phase of numerics/pow_pairs.h for a tile of float32, in vectors of AVX2 and tables in memory, and the lanes that it
// leaves to others.
//
// Each loop starts a vector, with its look-ups, before it ends the vector before: they wait for nothing of each other, and
// a processor's window holds too few vectors otherwise.
#pragma once

#include "../../simd/doubles.h"

#ifdef HALFULP_DOUBLE_ROWS
#include <bit>
#include <cstring>

#include "../../numerics/pow_pairs.h"
#include "../../simd/load_vector.h"
#include "../../simd/prefetch.h"
#include "../../simd/streaming_store.h"
#include "../tiles.h"
#include "single.h"

namespace halfulp::HALFULP_ISA {

// A vector of eight floats.
struct EightFloats {
    static constexpr int lanes = 8;

    __m256 values;

    EightFloats(float value) : values(_mm256_set1_ps(value)) {}
    EightFloats(__m256 all) : values(all) {}
    static EightFloats load(const float* from) { return _mm256_loadu_ps(from); }
    void store(float* to) const { _mm256_storeu_ps(to, values); }

    friend EightFloats operator+(EightFloats a, EightFloats b) { return _mm256_add_ps(a.values, b.values); }
    friend EightFloats operator-(EightFloats a, EightFloats b) { return _mm256_sub_ps(a.values, b.values); }
    friend EightFloats operator*(EightFloats a, EightFloats b) { return _mm256_mul_ps(a.values, b.values); }
    friend EightFloats operator-(EightFloats a) { return -a.values; }
    friend EightFloats fabs(EightFloats a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.values); }
    friend EightFloats fused(EightFloats a, EightFloats b, EightFloats c) {
        return _mm256_fmadd_ps(a.values, b.values, c.values);
    }
};

// Of two numbers the greater one; b if a is NaN.
inline EightFloats greater(EightFloats a, EightFloats b) { return _mm256_max_ps(a.values, b.values); }
inline __m256i bits_of(EightFloats a) { return _mm256_castps_si256(a.values); }
inline __m256i words_of_each(uint32_t bits) { return _mm256_set1_epi32(static_cast<int>(bits)); }
inline unsigned lanes_where(__m256 condition) { return static_cast<unsigned>(_mm256_movemask_ps(condition)); }

// The powers of a tile.
class PairTile {
public:
    static constexpr int size = most_constants, lanes = EightFloats::lanes, two = 2 * lanes;

    // n is a multiple of `lanes`.
    PairTile(const float* x, const float* y, int n) {
        // Where great exponents are expected, t is renormalized at once.
        great_y_ = greatest(greater(fabs(EightFloats::load(y)), 0.0f)) > PairRows::least_great_y;
        great_y_ ? fill_logarithms<true>(x, y, n) : fill_logarithms<false>(x, y, n);
    }

    // Whether many of the first lanes are not for the phase: special bases, or powers that are not surely normal.
    static bool begins_outside(const float* x, const float* y, int n) {
        constexpr int first = 4 * lanes, few = 1;
        int outside = 0;
        for (int i = 0; i + lanes <= n && i < first; i += lanes) {
            const __m256i bits = load_vector<__m256i>(x + i);
            const EightFloats e = _mm256_cvtepi32_ps(
                _mm256_sub_epi32(_mm256_srli_epi32(_mm256_add_epi32(bits, bits), 24), words_of_each(127)));
            const EightFloats t = fabs(e * EightFloats::load(y + i));
            const __m256 beyond = _mm256_cmp_ps(t.values, _mm256_set1_ps(126), _CMP_NLE_UQ);
            outside += std::popcount(lanes_where(_mm256_or_ps(beyond, not_normal(bits).values)));
        }
        return outside > few;
    }

    // Rounds the powers of n lanes, and sets the bits of undecided ones. `streaming`: by streaming stores, to an address
    // where a cache line begins. Returns false if too many lanes are not for the phase.
    bool round(const float* x, const float* y, uint32_t* out, uint64_t* undecided, int n, bool streaming) {
        uint64_t outside[size / 64];
        const bool takes_all = all_normal_ && most_t_ <= greatest_pair_t;
        if (!takes_all && !leave_out(x, y, outside, n)) return false;
        if (!great_y_ && most_y_ > PairRows::least_great_y) renormalize(n);
        great_y_ |= most_y_ > PairRows::least_great_y;
        if (streaming) fill_powers<true>(y, out, undecided, n);
        else fill_powers<false>(y, out, undecided, n);
        if (!takes_all)
            for (int k = 0; k < (n + 63) / 64; ++k) undecided[k] |= outside[k];
        return true;
    }

private:
    static constexpr uint32_t least_normal = 0x00800000, infinity = 0x7f800000;

    // The top bits are set where bits are not those of a positive normal number.
    static EightFloats not_normal(__m256i bits) {
        return _mm256_castsi256_ps(_mm256_or_si256(_mm256_sub_epi32(bits, words_of_each(least_normal)),
                                                   _mm256_sub_epi32(words_of_each(infinity - 1), bits)));
    }

    // The greatest of the lanes, which are not NaN.
    static float greatest(EightFloats a) {
        const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a.values), _mm256_extractf128_ps(a.values, 1));
        const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
        return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
    }

    struct Most {
        EightFloats t = 0, y = 0;
        __m256i base = _mm256_setzero_si256();  // less the least normal number
    };

    [[gnu::always_inline]] static HalfLogStart<EightFloats> start(const float* x, Most& most) {
        constexpr uint32_t of_half = 0x3f000000;
        const __m256i bits = load_vector<__m256i>(x);
        most.base = _mm256_max_epu32(most.base, _mm256_sub_epi32(bits, words_of_each(least_normal)));
        const __m256i scale =
            _mm256_and_si256(_mm256_sub_epi32(bits, words_of_each(of_half)), words_of_each(0xff000000));
        const EightFloats m = _mm256_castsi256_ps(_mm256_sub_epi32(bits, scale)), e = _mm256_cvtepi32_ps(scale);
        // The number of a row is a byte of the base.
        const auto row = [x](int lane) {
            unsigned char bytes[sizeof(float)];
            std::memcpy(bytes, x + lane, sizeof(bytes));
            return reinterpret_cast<const float*>(constants::float_row_logs + bytes[2]);
        };
        const auto rows = [&](int lane) {
            return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_load_ps(row(lane))), _mm_load_ps(row(lane + 4)), 1);
        };
        const __m256 a = rows(0), b = rows(1), c = rows(2), d = rows(3);
        const __m256d ab = _mm256_castps_pd(_mm256_unpacklo_ps(a, b)), cd = _mm256_castps_pd(_mm256_unpacklo_ps(c, d));
        const __m256d ab_low = _mm256_castps_pd(_mm256_unpackhi_ps(a, b)),
                      cd_low = _mm256_castps_pd(_mm256_unpackhi_ps(c, d));
        const HalfLogEntry<EightFloats> entry{_mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd)),
                                              _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd)),
                                              _mm256_castpd_ps(_mm256_unpacklo_pd(ab_low, cd_low))};
        return start_half_log<PairRows>(m, e, entry);
    }

    template <bool great_y>
    [[gnu::always_inline]] void end(const HalfLogStart<EightFloats>& started, const float* y, int i, Most& most) {
        const EightFloats exponent = EightFloats::load(y);
        Pair<EightFloats> t = times(exponent, half_log<PairRows>(started));
        most.y = greater(fabs(exponent), most.y);
        if constexpr (great_y) t = renormalized(t);
        most.t = greater(fabs(t.high), most.t);
        store(t, i);
    }

    [[gnu::always_inline]] void store(const Pair<EightFloats>& t, int i) {
        t.high.store(high_ + i);
        t.low.store(low_ + i);
        pair_place<PairRows>(t.high).store(places_ + i);
    }
    [[gnu::always_inline]] Pair<EightFloats> load(int i) const {
        return {EightFloats::load(high_ + i), EightFloats::load(low_ + i)};
    }

    template <bool great_y>
    [[gnu::noinline]] void fill_logarithms(const float* x, const float* y, int n) {
        Most most;
        HalfLogStart<EightFloats> started = start(x, most);
        int i = 0;
        for (; i + two < n; i += two) {
            prefetch_lines_ahead(x + i, two * sizeof(float));
            prefetch_lines_ahead(y + i, two * sizeof(float));
            const HalfLogStart<EightFloats> second = start(x + i + lanes, most);
            end<great_y>(started, y + i, i, most);
            started = start(x + i + two, most);
            end<great_y>(second, y + i + lanes, i + lanes, most);
        }
        if (i + lanes < n) {
            const HalfLogStart<EightFloats> second = start(x + i + lanes, most);
            end<great_y>(started, y + i, i, most);
            started = second;
            i += lanes;
        }
        end<great_y>(started, y + i, i, most);
        store({0, 0}, n);
        most_t_ = greatest(most.t);
        most_y_ = greatest(most.y);
        const __m256i limit = words_of_each(infinity - 1 - least_normal);
        all_normal_ = _mm256_movemask_epi8(_mm256_cmpeq_epi32(_mm256_max_epu32(most.base, limit), limit)) == -1;
    }

    [[gnu::noinline]] void renormalize(int n) {
        for (int i = 0; i < n; i += lanes) store(renormalized(load(i)), i);
    }

    // Marks the lanes that the phase is not for, and computes 2^0 there. Returns false if they are many.
    [[gnu::noinline]] bool leave_out(const float* x, const float* y, uint64_t* outside, int n) {
        auto* const masks = reinterpret_cast<unsigned char*>(outside);
        std::memset(outside, 0, size / lanes);
        EightFloats most_t = 0, most_y = 0;
        int count = 0;
        for (int i = 0; i < n; i += lanes) {
            const Pair<EightFloats> t = load(i);
            const EightFloats exponent = fabs(EightFloats::load(y + i));
            const __m256 beyond = _mm256_cmp_ps(fabs(t.high).values, _mm256_set1_ps(greatest_pair_t), _CMP_NLE_UQ);
            const EightFloats special = not_normal(load_vector<__m256i>(x + i));
            const __m256 left_out =
                _mm256_castsi256_ps(_mm256_srai_epi32(_mm256_castps_si256(_mm256_or_ps(beyond, special.values)), 31));
            masks[i / lanes] = static_cast<unsigned char>(lanes_where(left_out));
            count += std::popcount(lanes_where(left_out));
            const Pair<EightFloats> taken{_mm256_andnot_ps(left_out, t.high.values),
                                          _mm256_andnot_ps(left_out, t.low.values)};
            most_t = greater(fabs(taken.high), most_t);
            most_y = greater(_mm256_andnot_ps(left_out, exponent.values), most_y);
            store(taken, i);
        }
        most_t_ = greatest(most_t);
        most_y_ = greatest(most_y);
        return count <= n / 32;
    }

    struct Started {
        EightFloats r, r_low, power;
    };

    [[gnu::always_inline]] Started start_power(int i) const {
        const float* const places = places_ + i;
        const auto row = [places](int lane) {
            unsigned char bytes[sizeof(float)];
            std::memcpy(bytes, places + lane, sizeof(bytes));
            return reinterpret_cast<const double*>(constants::float_row_powers + bytes[0]);
        };
        const auto rows = [&](int lane) { return _mm_loadh_pd(_mm_load_sd(row(lane)), row(lane + 1)); };
        const auto four = [&](int lane) {
            return _mm256_castpd_ps(_mm256_insertf128_pd(_mm256_castpd128_pd256(rows(lane)), rows(lane + 4), 1));
        };
        const __m256 a = four(0), b = four(2);
        const EightFloats power = _mm256_shuffle_ps(a, b, 0x88), correction = _mm256_shuffle_ps(a, b, 0xdd);
        const Pair<EightFloats> r = pair_remainder<PairRows>(load(i), EightFloats::load(places), correction);
        return {r.high, r.low, power};
    }

    // Returns the bits of undecided lanes.
    template <bool streaming>
    [[gnu::always_inline]] static unsigned end_power(const Started& started, const float* place, EightFloats error,
                                                     uint32_t* to) {
        const auto power = pair_power<PairRows>(Pair<EightFloats>{started.r, started.r_low}, started.power);
        const auto ends = ends_of(power, started.power, error);
        const __m256i octaves = _mm256_slli_epi32(_mm256_srai_epi32(load_vector<__m256i>(place), 8), 23);
        const __m256i bits = _mm256_add_epi32(bits_of(ends.least), octaves);
        auto* const vector = reinterpret_cast<__m256i*>(to);
        streaming ? _mm256_stream_si256(vector, bits) : _mm256_storeu_si256(vector, bits);
        return lanes_where(_mm256_cmp_ps(ends.least.values, ends.greatest.values, _CMP_NEQ_UQ));
    }

    template <bool streaming>
    void fill_powers(const float* y, uint32_t* out, uint64_t* undecided, int n) const {
        great_y_ ? fill_powers<streaming, true>(y, out, undecided, n)
                 : fill_powers<streaming, false>(y, out, undecided, n);
    }

    // Where exponents are great, each lane has an error of its own: a tile's greatest would leave twice as many undecided.
    template <bool streaming, bool great_y>
    [[gnu::noinline]] void fill_powers(const float* y, uint32_t* out, uint64_t* undecided, int n) const {
        auto* masks = reinterpret_cast<unsigned char*>(undecided);
        const EightFloats most_t = most_t_, error = pair_phase_error<PairRows>(EightFloats(most_y_), most_t);
        const auto error_at = [&](int i) __attribute__((always_inline)) {
            if constexpr (!great_y) return error;
            else return pair_phase_error<PairRows, true>(fabs(EightFloats::load(y + i)), most_t);
        };
        const auto end = [&](const Started& started, int i) __attribute__((always_inline)) {
            *masks++ = static_cast<unsigned char>(end_power<streaming>(started, places_ + i, error_at(i), out + i));
        };
        Started started = start_power(0);
        int i = 0;
        for (; i + two <= n; i += two) {
            const Started second = start_power(i + lanes);
            end(started, i);
            started = start_power(i + two);
            end(second, i + lanes);
        }
        if (i < n) end(started, i);
    }

    // t, and the places of the powers in the table: with a vector that is started and not ended.
    alignas(64) float high_[size + lanes], low_[size + lanes], places_[size + lanes];
    float most_t_, most_y_;
    bool all_normal_, great_y_;
};

// The powers of a tile. Sets the bits of undecided lanes.
[[gnu::noinline]] static void run_pairs(const PowOptions&, const float* x, const float* y, uint32_t* out,
                                        uint64_t* undecided, int n, bool streaming) {
    constexpr int lanes = PairTile::lanes;
    if (PairTile::begins_outside(x, y, n)) return all_undecided(undecided, n);
    const int whole = n / lanes * lanes;
    if (whole > 0) {
        const bool to_line = streaming && bytes_past_line(out) == 0;
        if (!PairTile(x, y, whole).round(x, y, out, undecided, whole, to_line)) return all_undecided(undecided, n);
    }
    if (whole < n) {  // ones to the power of 0 fill the last vector
        alignas(32) float bases[lanes], exponents[lanes] = {};
        alignas(32) uint32_t powers[lanes];
        const auto bytes = sizeof(float) * static_cast<size_t>(n - whole);
        for (float& base : bases) base = 1;
        std::memcpy(bases, x + whole, bytes);
        std::memcpy(exponents, y + whole, bytes);
        uint64_t last = 0;
        if (!PairTile(bases, exponents, lanes).round(bases, exponents, powers, &last, lanes, false)) last = 0xff;
        std::memcpy(out + whole, powers, bytes);
        undecided[whole / 64] = (whole % 64 == 0 ? 0 : undecided[whole / 64]) | last << whole % 64;
    }
}

}  // namespace halfulp::HALFULP_ISA
#endif
