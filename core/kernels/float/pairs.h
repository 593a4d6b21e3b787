// The phase of numerics/pow_pairs.h for a tile of float32, in vectors of AVX-512 and tables in registers, and the lanes
// that it leaves to others.
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "../../numerics/pow.h"
#include "../../numerics/pow_pairs.h"
#include "../../simd/compress.h"
#include "../../simd/prefetch.h"
#include "../../simd/streaming_store.h"
#include "../closed_form/products.h"
#include "../phases/exponents.h"
#include "../phases/signs.h"
#include "../tiles.h"

namespace halfulp::HALFULP_ISA {

// Two vectors of floats, so that the operations of one run while those of the other wait.
struct TwoVectors {
    static constexpr int lanes = 16, count = 2, size = lanes * count;

    __m512 first, second;

    TwoVectors(float value) : first(_mm512_set1_ps(value)), second(first) {}
    TwoVectors(__m512 a, __m512 b) : first(a), second(b) {}
    explicit TwoVectors(const float* from) : first(_mm512_loadu_ps(from)), second(_mm512_loadu_ps(from + lanes)) {}
    void store(float* to) const {
        _mm512_storeu_ps(to, first);
        _mm512_storeu_ps(to + lanes, second);
    }
    // f of each.
    template <typename F>
    TwoVectors each(F f) const {
        return {f(first), f(second)};
    }

    friend TwoVectors operator+(TwoVectors a, TwoVectors b) { return {a.first + b.first, a.second + b.second}; }
    friend TwoVectors operator-(TwoVectors a, TwoVectors b) { return {a.first - b.first, a.second - b.second}; }
    friend TwoVectors operator*(TwoVectors a, TwoVectors b) { return {a.first * b.first, a.second * b.second}; }
    friend TwoVectors operator-(TwoVectors a) { return {-a.first, -a.second}; }
    friend TwoVectors fused(TwoVectors a, TwoVectors b, TwoVectors c) {
        return {fused(a.first, b.first, c.first), fused(a.second, b.second, c.second)};
    }
};

// A table of 32 floats in two registers.
class TableOf32 {
public:
    explicit TableOf32(const float (&values)[2 * TwoVectors::lanes]) : parts_(values) {}
    // Looks up entries by the low bits of the indices.
    __m512 operator[](__m512i index) const { return _mm512_permutex2var_ps(parts_.first, index, parts_.second); }

private:
    const TwoVectors parts_;
};

// The powers of a tile.
class PairTile {
public:
    static constexpr int size = most_constants;

    explicit PairTile(uint64_t* undecided) : undecided_(undecided) { std::fill_n(undecided, words, uint64_t{0}); }

    // t = y ln|x| / 2.
    void fill_logarithms(const float* x, const float* y, int n) {
        const HalfLogTables tables;
        Most most;
        int i = 0;
        for (; i + TwoVectors::size <= n; i += TwoVectors::size) fill_logarithms(tables, x + i, y + i, i, most);
        if (i < n) {
            alignas(64) float x_left[TwoVectors::size], y_left[TwoVectors::size] = {};
            for (int k = 0; k < TwoVectors::size; ++k) x_left[k] = i + k < n ? x[i + k] : 1;
            std::copy(y + i, y + n, y_left);
            fill_logarithms(tables, x_left, y_left, i, most);
        }
        most_ = most;
    }

    // Whether the phase takes all lanes but those where t is NaN, which fill_powers leaves undecided.
    bool takes_all() const { return most_.is_within(); }
    bool has_negative() const { return most_.is_any_negative(); }

    // Rounds the powers. Marks the lanes that are undecided, and returns how many are. `streaming`: by streaming stores,
    // to an address where a cache line begins.
    int fill_powers(uint32_t* out, int n, bool streaming) {
        if (streaming)
            return most_.has_great_y() ? fill_powers_by<true, true>(out, n) : fill_powers_by<false, true>(out, n);
        return most_.has_great_y() ? fill_powers_by<true, false>(out, n) : fill_powers_by<false, false>(out, n);
    }

    // Leaves out the lanes that the phase is not for: it computes 2^0 there. Returns the number of those with special
    // operands.
    int leave_out(const float* x, const float* y, int n) {
        Most most;
        int specials = 0;
        const __m512i infinity = _mm512_set1_epi32(0x7f800000), one = _mm512_set1_epi32(1);
        const __m512 most_t = _mm512_set1_ps(greatest_pair_t);
        for (int i = 0; i < n; i += TwoVectors::lanes) {
            const __mmask16 used = in_use(i, n);
            const __m512 base = _mm512_maskz_loadu_ps(used, x + i), exponent = _mm512_maskz_loadu_ps(used, y + i);
            const __m512i bits = magnitude(base);
            most.any_bit = _mm512_or_si512(most.any_bit, _mm512_castps_si512(base));
            const __mmask16 special =
                _mm512_mask_cmpge_epu32_mask(used, _mm512_sub_epi32(bits, one), _mm512_sub_epi32(infinity, one)) |
                _mm512_mask_cmpge_epu32_mask(used, magnitude(exponent), infinity);
            const __mmask16 outside =
                _mm512_mask_cmp_ps_mask(used, _mm512_abs_ps(_mm512_loadu_ps(high_ + i)), most_t, _CMP_NLT_UQ);
            const auto taken = static_cast<__mmask16>(used & ~(outside | special));
            const __m512 high = _mm512_maskz_loadu_ps(taken, high_ + i);
            _mm512_storeu_ps(high_ + i, high);
            _mm512_storeu_ps(low_ + i, _mm512_maskz_loadu_ps(taken, low_ + i));
            most.add(high, _mm512_maskz_loadu_ps(taken, y + i));
            set(special_, i, special);
            set(beyond_, i, static_cast<__mmask16>(outside & ~special));
            specials += std::popcount(static_cast<unsigned>(special));
        }
        most_ = most;
        return specials;
    }

    // Adds the lanes that were left out to the undecided ones; those with special operands on demand.
    void add_left_out(bool special) {
        for (int k = 0; k < words; ++k) undecided_[k] |= beyond_[k] | (special ? special_[k] : 0);
    }

private:
    // The greatest magnitudes of each lane, without NaN, and the bits that any base has.
    struct Most {
        __m512 t = _mm512_setzero_ps(), y = t;
        __m512i any_bit = _mm512_setzero_si512();

        void add(__m512 some_t, __m512 some_y) {
            constexpr int of_magnitudes = 0x0b;
            t = _mm512_range_ps(t, some_t, of_magnitudes);
            y = _mm512_range_ps(y, some_y, of_magnitudes);
        }
        bool is_within() const { return _mm512_cmp_ps_mask(t, _mm512_set1_ps(greatest_pair_t), _CMP_NLT_UQ) == 0; }
        bool has_great_y() const {
            return _mm512_cmp_ps_mask(y, _mm512_set1_ps(PairTables::least_great_y), _CMP_NLE_UQ) != 0;
        }
        bool is_any_negative() const {
            return _mm512_cmpge_epu32_mask(any_bit, _mm512_set1_epi32(-0x7fffffff - 1)) != 0;
        }
    };

    // The lanes of the vector from i on.
    static __mmask16 in_use(int i, int n) {
        return static_cast<__mmask16>(n - i < TwoVectors::lanes ? (1 << (n - i)) - 1 : 0xffff);
    }

    static __m512i magnitude(__m512 v) { return _mm512_castps_si512(_mm512_abs_ps(v)); }

    static void set(uint64_t* lanes, int i, __mmask16 mask) {
        std::memcpy(reinterpret_cast<unsigned char*>(lanes) + i / 8, &mask, sizeof(mask));
    }

    struct HalfLogTables {
        const TableOf32 halves{constants::float_pair_halves}, highs{constants::float_pair_highs},
            lows{constants::float_pair_lows};
    };

    [[gnu::always_inline]] void fill_logarithms(const HalfLogTables& tables, const float* from, const float* y_from,
                                                int to, Most& most) {
        const TwoVectors x(from), y(y_from);
        prefetch_lines_ahead(from, sizeof(x));
        prefetch_lines_ahead(y_from, sizeof(y));
        const TwoVectors m =
            x.each([](__m512 v) { return _mm512_getmant_ps(v, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero); });
        const TwoVectors e = x.each([](__m512 v) { return _mm512_getexp_ps(v); });
        const __m512i parts[] = {_mm512_srli_epi32(_mm512_castps_si512(m.first), 18),
                                 _mm512_srli_epi32(_mm512_castps_si512(m.second), 18)};
        const auto of = [&](const TableOf32& table) { return TwoVectors(table[parts[0]], table[parts[1]]); };
        const HalfLogEntry<TwoVectors> entry{of(tables.halves), of(tables.highs), of(tables.lows)};
        const Pair<TwoVectors> t = times(y, half_log<PairTables>(start_half_log<PairTables>(m, e, entry)));
        // Copies, since GCC 12 keeps t in memory otherwise.
        const __m512 high_first = t.high.first, high_second = t.high.second;
        t.low.store(low_ + to);
        most.any_bit = _mm512_ternarylogic_epi64(most.any_bit, _mm512_castps_si512(x.first),
                                                 _mm512_castps_si512(x.second), 0xfe);  // or
        most.add(high_first, y.first);
        most.add(high_second, y.second);
        TwoVectors(high_first, high_second).store(high_ + to);
    }

    template <bool great_y, bool streaming>
    int fill_powers_by(uint32_t* out, int n) {
        uint64_t* const undecided = undecided_;  // a copy, which no store changes
        const TwoVectors error =
            pair_phase_error<PairTables>(TwoVectors(most_.y, most_.y), TwoVectors(most_.t, most_.t));
        const TwoVectors powers(constants::float_pair_powers);
        const TwoVectors corrections(constants::float_pair_corrections);
        int i = 0;
        for (; i + TwoVectors::size <= n; i += TwoVectors::size)
            fill_powers<great_y, streaming>(powers, corrections, error, i, out + i, undecided);
        if (i < n) {
            alignas(64) uint32_t left[TwoVectors::size];
            fill_powers<great_y, false>(powers, corrections, error, i, left, undecided);
            std::copy(left, left + (n - i), out + i);
            undecided_[i / 64] &= (uint64_t{1} << (n % 64)) - 1;
        }
        return static_cast<int>(count_lanes(undecided_, size));
    }

    template <bool great_y, bool streaming>
    [[gnu::always_inline]] void fill_powers(const TwoVectors& powers, const TwoVectors& corrections, TwoVectors error,
                                            int from, uint32_t* to, uint64_t* undecided) {
        Pair<TwoVectors> t{TwoVectors(high_ + from), TwoVectors(low_ + from)};
        if constexpr (great_y) t = renormalized(t);
        const TwoVectors place = pair_place<PairTables>(t.high);
        const auto of = [&](const TwoVectors& table) {
            return place.each(
                [&](__m512 v) { return _mm512_permutex2var_ps(table.first, _mm512_castps_si512(v), table.second); });
        };
        const TwoVectors table_power = of(powers);
        const Pair<TwoVectors> r = pair_remainder<PairTables>(t, place, of(corrections));
        const Pair<TwoVectors> power = pair_power<PairTables>(r, table_power);
        const PairEnds<TwoVectors> ends = ends_of(power, table_power, error);
        const TwoVectors octaves = pair_octaves<PairTables>(place);
        const auto store = [&](__m512 rounded, __m512 above, __m512 some_octaves, int k) {
            // Multiplied by the power of two at once, so that no number in between is subnormal.
            const __m512 scaled = _mm512_scalef_ps(rounded, some_octaves);
            uint32_t* lanes = to + TwoVectors::lanes * k;
            const __m512i bits = _mm512_castps_si512(scaled);
            if constexpr (streaming) _mm512_stream_si512(reinterpret_cast<__m512i*>(lanes), bits);
            else _mm512_storeu_si512(lanes, bits);
            set(undecided, from + TwoVectors::lanes * k, _mm512_cmp_ps_mask(rounded, above, _CMP_NEQ_UQ));
        };
        store(ends.least.first, ends.greatest.first, octaves.first, 0);
        store(ends.least.second, ends.greatest.second, octaves.second, 1);
    }

    alignas(64) float high_[size], low_[size];
    Most most_;
    static constexpr int words = size / 64;
    // A bit for each lane. Beyond are those with powers that are not surely normal.
    uint64_t* undecided_;
    uint64_t special_[words] = {}, beyond_[words] = {};
};

// The powers of a tile. Sets the bits of undecided lanes.
[[gnu::noinline]] static void run_pairs(const PowOptions& options, const float* x, const float* y, uint32_t* out,
                                        uint64_t* undecided, int n, bool streaming) {
    // Up to `few` special lanes are left to the other phases. If more than `most` lanes are undecided, NaN may be why.
    constexpr int few = 8, most = PairTile::size / 8;
    PairTile tile(undecided);
    tile.fill_logarithms(x, y, n);
    const bool negative = tile.has_negative(), takes_all = tile.takes_all();
    const bool to_line = streaming && !negative && bytes_past_line(out) == 0;
    const int count = takes_all ? tile.fill_powers(out, n, to_line) : 0;
    bool many_special = false;
    if (!takes_all || count > most) {
        many_special = tile.leave_out(x, y, n) > few;
        if (!takes_all || many_special) tile.fill_powers(out, n, false);
        tile.add_left_out(!many_special);
    }
    for (int i = 0; i < n && (negative || many_special); i += tile_size)
        finish(KnownType<Element::float32>(), options, {negative, many_special, false}, x + i, Exponents<float>{y + i},
               out + i, std::min(n - i, tile_size));
}

}  // namespace halfulp::HALFULP_ISA
#endif
