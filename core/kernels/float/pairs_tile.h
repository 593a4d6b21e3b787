// The phase of pairs.h for a tile of float32, in vectors of AVX-512 and tables in registers, and what it leaves.
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "../../numerics/pow.h"
#include "../../simd/prefetch.h"
#include "../phases/signs.h"
#include "pairs.h"

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
class FloatTable {
public:
    explicit FloatTable(const float (&values)[2 * TwoVectors::lanes]) : parts_(values) {}
    // Looks up entries by the low bits of the indices.
    __m512 operator[](__m512i index) const { return _mm512_permutex2var_ps(parts_.first, index, parts_.second); }

private:
    const TwoVectors parts_;
};

// The powers of a tile.
class PairTile {
public:
    // Lanes of which more than this many are left take longer one by one than all of the tile together.
    static constexpr int most_left = 40;

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

    // Leaves out the lanes that the phase is not for: it computes 2^0 there. Returns how many there are.
    int leave_out(const float* x, const float* y, int n) {
        Most most;
        int count = 0;
        for (int i = 0; i < n; i += TwoVectors::lanes) {
            const auto in_use = static_cast<__mmask16>(n - i < TwoVectors::lanes ? (1 << (n - i)) - 1 : 0xffff);
            const __m512i bits = _mm512_castps_si512(_mm512_abs_ps(_mm512_maskz_loadu_ps(in_use, x + i)));
            const __m512i t = _mm512_castps_si512(_mm512_abs_ps(_mm512_loadu_ps(high_ + i)));
            const __mmask16 outside =
                _mm512_mask_cmpge_epu32_mask(in_use, _mm512_sub_epi32(bits, _mm512_set1_epi32(0x00800000)), _mm512_set1_epi32(all_normal)) |
                _mm512_mask_cmpge_epu32_mask(in_use, t, greatest_t);
            const __mmask16 taken = in_use & ~outside;
            const __m512 high = _mm512_maskz_loadu_ps(taken, high_ + i);
            _mm512_storeu_ps(high_ + i, high);
            _mm512_storeu_ps(low_ + i, _mm512_maskz_loadu_ps(taken, low_ + i));
            most.add(high, _mm512_maskz_loadu_ps(taken, y + i));
            left_out_[i / TwoVectors::lanes] = outside;
            count += std::popcount(static_cast<unsigned>(outside));
        }
        most_ = most;
        return count;
    }

    // Lists the undecided lanes and those left out, and returns how many there are.
    int list(int* listed, int n, bool with_left_out) const {
        int count = 0;
        for (int i = 0; i < n; i += 64) {
            uint64_t bits = 0;
            for (int k = 0; k < 4; ++k) {
                const int vector = i / TwoVectors::lanes + k;
                uint64_t some = undecided_[vector];
                if (with_left_out) some |= left_out_[vector];
                bits |= i + TwoVectors::lanes * k < n ? some << TwoVectors::lanes * k : 0;
            }
            if (n - i < 64) bits &= (uint64_t{1} << (n - i)) - 1;
            for (; bits != 0; bits &= bits - 1) listed[count++] = i + std::countr_zero(bits);
        }
        return count;
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

    struct HalfLogTables {
        const FloatTable halves{constants::float_pair_halves}, highs{constants::float_pair_highs},
            lows{constants::float_pair_lows};
    };

    [[gnu::always_inline]] void fill_logarithms(const HalfLogTables& tables, const float* from, const float* y_from,
                                                int to, Most& most) {
        const TwoVectors x(from), y(y_from);
        const TwoVectors m = x.each([](__m512 v) { return _mm512_getmant_ps(v, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero); });
        const TwoVectors e = x.each([](__m512 v) { return _mm512_getexp_ps(v); });
        const __m512i bits[] = {_mm512_castps_si512(x.first), _mm512_castps_si512(x.second)};
        const __m512i parts[] = {_mm512_srli_epi32(bits[0], 18), _mm512_srli_epi32(bits[1], 18)};
        const auto of = [&](const FloatTable& table) { return TwoVectors(table[parts[0]], table[parts[1]]); };
        const HalfLogEntry<TwoVectors> entry{of(tables.halves), of(tables.highs), of(tables.lows)};
        const PairOfFloats<TwoVectors> t = times(y, half_log(m, e, entry));
        t.high.store(high_ + to);
        t.low.store(low_ + to);
        most.add_x(bits[0]);
        most.add_x(bits[1]);
        most.add(t.high.first, y.first);
        most.add(t.high.second, y.second);
    }

    [[gnu::always_inline]] void fill_powers(__m512 powers, __m512 corrections, TwoVectors error, int from, float* to) {
        const PairOfFloats<TwoVectors> t{TwoVectors(high_ + from), TwoVectors(low_ + from)};
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
            undecided_[from / TwoVectors::lanes + k] =
                _mm512_cmpneq_epi32_mask(bits, _mm512_castps_si512(greatest));
        };
        store(ends.least.first, ends.greatest.first, place.first, 0);
        store(ends.least.second, ends.greatest.second, place.second, 1);
    }

    static TwoVectors both(__m512 v) { return {v, v}; }

    const __m512i greatest_t = _mm512_set1_epi32(static_cast<int>(word_of(greatest_pair_t)));
    alignas(64) float high_[tile_size], low_[tile_size];
    Most most_;
    __mmask16 undecided_[tile_size / TwoVectors::lanes], left_out_[tile_size / TwoVectors::lanes];
};

// Powers of one pair of operands.
[[gnu::noinline]] static uint32_t power_of_one(const PowOptions& options, float x, float y) {
    if (above_least_normal(x) < all_normal) {
        const double t = y * log2_fast_by_table(word_of(x));
        if (t > -1000 && t < 1000) {
            const double power = exp2_fast(t);
            const auto least = static_cast<float>(power), greatest = static_cast<float>(power * (1 + 2 * fast_error));
            if (word_of(least) == word_of(greatest)) return word_of(least);
        }
    }
    return pow<Element::float32, Element::float32>(word_of(x), word_of(y), options.domain_error);
}

// How many tiles in succession were none for the phase, and how many of the next ones don't try it: a heuristic that all
// threads share.
struct PairTrials {
    std::atomic<uint32_t> failures{0}, waiting{0};

    bool are_due() {
        const uint32_t left = waiting.load(std::memory_order_relaxed);
        if (left == 0) return true;
        waiting.store(left - 1, std::memory_order_relaxed);
        return false;
    }
    void failed() {
        const uint32_t before = failures.load(std::memory_order_relaxed);
        failures.store(std::min(before + 1, uint32_t{5}), std::memory_order_relaxed);
        waiting.store((uint32_t{1} << before) - 1, std::memory_order_relaxed);
    }
    void succeeded() {
        if (failures.load(std::memory_order_relaxed) != 0) failures.store(0, std::memory_order_relaxed);
    }
};
inline PairTrials pair_trials;

// Computes a tile. Returns false if it is none for this phase; then nothing is written. The tile must have room for whole
// vectors. by_doubles computes a tile by the fast phase and the later ones.
template <typename F>
static bool pow_by_pairs(const PowOptions& options, const float* x, const float* y, uint32_t* out, int n,
                         const Prefetch& prefetch, F by_doubles) {
    if (!pair_trials.are_due()) return false;
    PairTile tile;
    OperandFlags operand_flags{};
    bool any_left_out = false;
    prefetch.issue(0);
    if (!tile.fill_logarithms(x, y, n)) {
        operand_flags = scan_closely(x, n);
        const int left_out = tile.leave_out(x, y, n);
        any_left_out = left_out > 0;
        if (left_out > PairTile::most_left) {
            pair_trials.failed();
            return false;
        }
    }
    prefetch.issue(1);
    tile.fill_powers(reinterpret_cast<float*>(out), n);
    prefetch.issue(2);
    int listed[tile_size];
    const int count = tile.list(listed, n, any_left_out);
    prefetch.issue(3);
    if (count > PairTile::most_left) {
        pair_trials.failed();
        return false;
    }
    pair_trials.succeeded();
    operand_flags.special = false;
    finish<Element::float32>(options, operand_flags, x, Exponents<float>{y}, out, n);
    if (count <= 8) {
        for (int j = 0; j < count; ++j) out[listed[j]] = power_of_one(options, x[listed[j]], y[listed[j]]);
    } else {
        alignas(64) float x_some[PairTile::most_left], y_some[PairTile::most_left];
        alignas(64) uint32_t some[PairTile::most_left];
        for (int j = 0; j < count; ++j) {
            x_some[j] = x[listed[j]];
            y_some[j] = y[listed[j]];
        }
        by_doubles(options, x_some, y_some, some, count, Prefetch(x_some, y_some, some, 0, 0));
        for (int j = 0; j < count; ++j) out[listed[j]] = some[j];
    }
    return true;
}

}  // namespace halfulp::HALFULP_ISA
#endif
