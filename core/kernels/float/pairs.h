// The phase of numerics/pow_pairs.h for a tile of float32, in vectors of AVX-512 and tables in registers, and the lanes
// that it leaves to others.
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "../../numerics/pow.h"
#include "../../numerics/pow_pairs.h"
#include "../../simd/compress.h"
#include "../../simd/prefetch.h"
#include "../closed_form/products.h"
#include "../phases/exact.h"
#include "../phases/exponents.h"
#include "../phases/signs.h"

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
    // The lanes that the phase is not for, and whether any base is negative.
    struct LeftOut {
        int special = 0;  // see is_special
        int beyond = 0;   // subnormal bases, and powers that are not surely normal
        bool negative = false;
    };

    // t = y ln|x| / 2. Returns whether all bases are positive and normal and all powers are normal floats.
    bool fill_logarithms(const float* x, const float* y, int n) {
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
        return (_mm512_cmpge_epu32_mask(most.x, _mm512_set1_epi32(all_normal)) |
                _mm512_cmpge_epu32_mask(most.t, greatest_t)) == 0;
    }

    // Rounds the powers. Marks the lanes that are undecided.
    void fill_powers(float* out, int n) {
        const TwoVectors error = pair_phase_error(both(most_.y), both(_mm512_castsi512_ps(most_.t)));
        const __m512 powers = _mm512_loadu_ps(constants::float_pair_powers);
        const __m512 corrections = _mm512_loadu_ps(constants::float_pair_corrections);
        int i = 0;
        for (; i + TwoVectors::size <= n; i += TwoVectors::size) fill_powers(powers, corrections, error, i, out + i);
        if (i < n) {
            alignas(64) float left[TwoVectors::size];
            fill_powers(powers, corrections, error, i, left);
            std::copy(left, left + (n - i), out + i);
        }
    }

    // Leaves out the lanes that the phase is not for: it computes 2^0 there.
    LeftOut leave_out(const float* x, const float* y, int n) {
        Most most;
        LeftOut found;
        const __m512i least_normal = _mm512_set1_epi32(0x00800000), infinity = _mm512_set1_epi32(0x7f800000);
        const __m512i one = _mm512_set1_epi32(1), normal = _mm512_set1_epi32(all_normal);
        __m512i any_bit = _mm512_setzero_si512();
        for (int i = 0; i < n; i += TwoVectors::lanes) {
            const auto in_use = static_cast<__mmask16>(n - i < TwoVectors::lanes ? (1 << (n - i)) - 1 : 0xffff);
            const __m512 base = _mm512_maskz_loadu_ps(in_use, x + i), exponent = _mm512_maskz_loadu_ps(in_use, y + i);
            const __m512i bits = magnitude(base), t = magnitude(_mm512_loadu_ps(high_ + i));
            any_bit = _mm512_or_si512(any_bit, _mm512_castps_si512(base));
            const __mmask16 special =
                _mm512_mask_cmpge_epu32_mask(in_use, _mm512_sub_epi32(bits, one), _mm512_sub_epi32(infinity, one)) |
                _mm512_mask_cmpge_epu32_mask(in_use, magnitude(exponent), infinity);
            const __mmask16 outside =
                _mm512_mask_cmpge_epu32_mask(in_use, _mm512_sub_epi32(bits, least_normal), normal) |
                _mm512_mask_cmpge_epu32_mask(in_use, t, greatest_t);
            const auto taken = static_cast<__mmask16>(in_use & ~(outside | special));
            const __m512 high = _mm512_maskz_loadu_ps(taken, high_ + i);
            _mm512_storeu_ps(high_ + i, high);
            _mm512_storeu_ps(low_ + i, _mm512_maskz_loadu_ps(taken, low_ + i));
            most.add(high, _mm512_maskz_loadu_ps(taken, y + i));
            special_[i / TwoVectors::lanes] = special;
            beyond_[i / TwoVectors::lanes] = static_cast<__mmask16>(outside & ~special);
            found.special += std::popcount(static_cast<unsigned>(special));
            found.beyond += std::popcount(static_cast<unsigned>(outside & ~special));
        }
        most_ = most;
        found.negative = _mm512_reduce_or_epi32(any_bit) < 0;
        return found;
    }

    // Adds the lanes that were left out to the undecided ones: those beyond, or those with special operands.
    void add_beyond(int n) { add(beyond_, n); }
    void add_special(int n) { add(special_, n); }

    int count_undecided(int n) const {
        int count = 0;
        for (int i = 0; i < n; i += TwoVectors::lanes) count += std::popcount(undecided_in(i, n));
        return count;
    }

    // f(i) for each undecided lane.
    template <typename F>
    void each_undecided(int n, F f) const {
        for (int i = 0; i < n; i += TwoVectors::lanes)
            for (unsigned bits = undecided_in(i, n); bits != 0; bits &= bits - 1) f(i + std::countr_zero(bits));
    }

    // The undecided lanes side by side, and back.
    void compress(const float* from, float* some, int n) const {
        for (int i = 0; i < n; i += TwoVectors::lanes) {
            const unsigned set = undecided_in(i, n);
            const auto mask = static_cast<__mmask16>(set);
            _mm512_storeu_ps(some, _mm512_maskz_compress_ps(mask, _mm512_maskz_loadu_ps(mask, from + i)));
            some += std::popcount(set);
        }
    }
    void expand(const uint32_t* some, uint32_t* to, int n) const {
        for (int i = 0; i < n; i += TwoVectors::lanes) {
            const unsigned set = undecided_in(i, n);
            const auto mask = static_cast<__mmask16>(set);
            _mm512_mask_storeu_epi32(to + i, mask, _mm512_maskz_expand_epi32(mask, _mm512_loadu_si512(some)));
            some += std::popcount(set);
        }
    }

private:
    // The greatest of each lane: of the bases' distances from the least normal float; of |t| as integers, which NaN
    // exceeds; of |y|.
    struct Most {
        __m512i x = _mm512_setzero_si512(), t = x;
        __m512 y = _mm512_setzero_ps();

        void add_x(__m512i bits) { x = _mm512_max_epu32(x, _mm512_sub_epi32(bits, _mm512_set1_epi32(0x00800000))); }
        void add(__m512 some_t, __m512 some_y) {
            t = _mm512_max_epu32(t, _mm512_castps_si512(_mm512_abs_ps(some_t)));
            y = _mm512_range_ps(y, some_y, 0x0b);  // the greater magnitude; of a number and NaN, the number's
        }
    };

    static __m512i magnitude(__m512 v) { return _mm512_castps_si512(_mm512_abs_ps(v)); }

    void add(const __mmask16* lanes, int n) {
        for (int i = 0; i * TwoVectors::lanes < n; ++i) undecided_[i] |= lanes[i];
    }

    unsigned undecided_in(int i, int n) const {
        const unsigned in_use = n - i < TwoVectors::lanes ? (1u << (n - i)) - 1 : 0xffff;
        return undecided_[i / TwoVectors::lanes] & in_use;
    }

    struct HalfLogTables {
        const TableOf32 halves{constants::float_pair_halves}, highs{constants::float_pair_highs},
            lows{constants::float_pair_lows};
    };

    [[gnu::always_inline]] void fill_logarithms(const HalfLogTables& tables, const float* from, const float* y_from,
                                                int to, Most& most) {
        const TwoVectors x(from), y(y_from);
        const TwoVectors m =
            x.each([](__m512 v) { return _mm512_getmant_ps(v, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero); });
        const TwoVectors e = x.each([](__m512 v) { return _mm512_getexp_ps(v); });
        const __m512i bits[] = {_mm512_castps_si512(x.first), _mm512_castps_si512(x.second)};
        const __m512i parts[] = {_mm512_srli_epi32(bits[0], 18), _mm512_srli_epi32(bits[1], 18)};
        const auto of = [&](const TableOf32& table) { return TwoVectors(table[parts[0]], table[parts[1]]); };
        const HalfLogEntry<TwoVectors> entry{of(tables.halves), of(tables.highs), of(tables.lows)};
        const Pair<TwoVectors> t = times(y, half_log(m, e, entry));
        // Copies, since GCC 12 keeps t in memory otherwise.
        const __m512 high_first = t.high.first, high_second = t.high.second;
        t.low.store(low_ + to);
        most.add_x(bits[0]);
        most.add_x(bits[1]);
        most.add(high_first, y.first);
        most.add(high_second, y.second);
        TwoVectors(high_first, high_second).store(high_ + to);
    }

    [[gnu::always_inline]] void fill_powers(__m512 powers, __m512 corrections, TwoVectors error, int from, float* to) {
        const Pair<TwoVectors> t{TwoVectors(high_ + from), TwoVectors(low_ + from)};
        const TwoVectors place = pair_place(t.high);
        const auto of = [&](__m512 table) {
            return place.each([&](__m512 v) { return _mm512_permutexvar_ps(_mm512_castps_si512(v), table); });
        };
        const PairEnds<TwoVectors> ends = ends_of(pair_power(t, place, {of(powers), of(corrections)}), error);
        const auto store = [&](__m512 least, __m512 greatest, __m512 n, int k) {
            // The power of two joins as an integer, so that no number in between is subnormal.
            const __m512i exponent =
                _mm512_and_si512(_mm512_slli_epi32(_mm512_castps_si512(n), 19), _mm512_set1_epi32(-(1 << 23)));
            const __m512i bits = _mm512_castps_si512(least);
            _mm512_storeu_si512(to + TwoVectors::lanes * k, _mm512_add_epi32(bits, exponent));
            undecided_[from / TwoVectors::lanes + k] = _mm512_cmpneq_epi32_mask(bits, _mm512_castps_si512(greatest));
        };
        store(ends.least.first, ends.greatest.first, place.first, 0);
        store(ends.least.second, ends.greatest.second, place.second, 1);
    }

    static TwoVectors both(__m512 v) { return {v, v}; }

    const __m512i greatest_t = _mm512_set1_epi32(static_cast<int>(word_of(greatest_pair_t)));
    alignas(64) float high_[tile_size], low_[tile_size];
    Most most_;
    static constexpr int vectors = tile_size / TwoVectors::lanes;
    __mmask16 undecided_[vectors], special_[vectors], beyond_[vectors];
};

// The power of one pair of operands.
[[gnu::noinline]] static uint32_t power_of_one(const PowOptions& options, float x, float y) {
    const uint32_t base = word_of(fabs(x));
    if (base - 0x00800000 < all_normal) {
        const double t = y * log2_fast_by_table(base);
        if (t > -1000 && t < 1000) {
            const double power = exp2_fast(t);
            const auto least = word_of(static_cast<float>(power));
            if (least == word_of(static_cast<float>(power * (1 + 2 * fast_error))))
                return with_sign(row(Element::float32), least, word_of(x), parity_of(y));
        }
    }
    return pow_of_one_float(word_of(x), word_of(y), options.domain_error);
}

// Whether tiles try the phase: after some in succession for which that took longer than the fast phase in doubles, the
// next ones don't, up to 31. A heuristic, which all threads share.
class PairTrials {
public:
    bool are_due() {
        const uint32_t left = waiting_.load(std::memory_order_relaxed);
        if (left == 0) return true;
        waiting_.store(left - 1, std::memory_order_relaxed);
        return false;
    }
    void add(bool gained) {
        const uint32_t before = failures_.load(std::memory_order_relaxed);
        if (gained) {
            if (before != 0) failures_.store(0, std::memory_order_relaxed);
            return;
        }
        failures_.store(std::min(before + 1, uint32_t{5}), std::memory_order_relaxed);
        waiting_.store((uint32_t{1} << before) - 1, std::memory_order_relaxed);
    }

private:
    std::atomic<uint32_t> failures_{0}, waiting_{0};
};
inline PairTrials pair_trials;

// Computes a tile. Returns false if the phase does not take it. by_doubles computes a tile by the fast phase and the
// later ones.
template <typename F>
static bool pow_by_pairs(const PowOptions& options, const float* x, const float* y, uint32_t* out, int n,
                         const Prefetch& prefetch, F by_doubles) {
    // Up to `few` lanes are computed one by one. With more than `gain` undecided ones the phase saves no time, with more
    // than `most` all lanes by doubles take less.
    constexpr int few = 8, gain = 24, most = 40;
    if (!pair_trials.are_due()) return false;
    PairTile tile;
    PairTile::LeftOut left_out;
    prefetch.issue(0);
    if (!tile.fill_logarithms(x, y, n)) left_out = tile.leave_out(x, y, n);
    prefetch.issue(1);
    if (left_out.beyond > most) {
        pair_trials.add(false);
        return false;
    }
    tile.fill_powers(reinterpret_cast<float*>(out), n);
    prefetch.issue(2);
    const bool few_special = left_out.special <= few;
    if (left_out.beyond > 0) tile.add_beyond(n);
    if (left_out.special > 0 && few_special) tile.add_special(n);
    const int count = tile.count_undecided(n);
    prefetch.issue(3);
    pair_trials.add(count <= gain);
    if (count > most) return false;
    if (!few_special || left_out.negative)
        finish(KnownType<Element::float32>(), options, {left_out.negative, !few_special, false}, x, Exponents<float>{y},
               out, n);
    if (count <= few) {
        if (count > 0) tile.each_undecided(n, [&](int i) { out[i] = power_of_one(options, x[i], y[i]); });
        return true;
    }
    alignas(64) float x_some[listed_size], y_some[listed_size];
    alignas(64) uint32_t some[listed_size];
    tile.compress(x, x_some, n);
    tile.compress(y, y_some, n);
    by_doubles({}, options, x_some, y_some, some, count, Prefetch(x_some, y_some, some, 0, 0));
    tile.expand(some, out, n);
    return true;
}

}  // namespace halfulp::HALFULP_ISA
#endif
