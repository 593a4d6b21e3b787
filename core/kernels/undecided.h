// The powers of a block that its first phase leaves undecided.
#pragma once

#include <bit>
#include <cstring>

#include "decode.h"
#include "float64/logarithms.h"
#include "phases/exponents.h"
#include "tiles.h"

#ifndef __AVX512F__
#include "../one_vector.h"
#endif

namespace halfulp::HALFULP_ISA {

// Lanes are settled in whole vectors, with copies of the last lane behind it, so that no loop has a variable end; at
// most `settled` lanes at a time, since a thread's stack may be small.
static constexpr int settled_vector = 16, settled = 64, most_listed = block_size / 4;

// Appends copies of the last lane. Returns how many there are then.
static int fill_vector(uint16_t* listed, int count) {
    const int whole = (count + settled_vector - 1) / settled_vector * settled_vector;
    for (int j = count; j < whole; ++j) listed[j] = listed[count - 1];
    return whole;
}

// Lists the lanes of n whose bits are set. First finds the words with such bits: few have any, so that a branch for each
// word would be mispredicted; and so would a branch for each of their bits.
static int list_lanes(const uint64_t* undecided, int n, uint16_t* listed) {
    const int words = (n + 63) / 64;
    uint16_t some[run_size / 64];
    int found = 0, count = 0;
    for (int k = 0; k < words; ++k) {
        some[found] = static_cast<uint16_t>(k);
        found += undecided[k] != 0;
    }
#ifdef __AVX512F__
    constexpr int at_once = 1;
#else
    constexpr int at_once = 3;
#endif
    for (int j = 0; j < found; ++j) {
        for (uint64_t bits = undecided[some[j]]; bits != 0;) {
            const int set = at_once == 1 ? 1 : std::popcount(bits);
            for (int k = 0; k < at_once; ++k, bits &= bits - 1)
                listed[count + k] = static_cast<uint16_t>(64 * some[j] + std::countr_zero(bits));
            count += set < at_once ? set : at_once;
        }
    }
    return count;
}

// Copies the listed elements of `from`, or its only one.
template <typename Stored>
[[gnu::noinline]] static void gather(const void* from, bool one, const uint16_t* listed, int count, void* to) {
    for (int i = 0; i < count; i += settled_vector)
        for (int j = i; j < i + settled_vector; ++j)
            std::memcpy(static_cast<Stored*>(to) + j, static_cast<const Stored*>(from) + (one ? 0 : listed[j]),
                        sizeof(Stored));
}

static void gather(int size, const void* from, bool one, const uint16_t* listed, int count, void* to) {
    switch (size) {
        case 1: return gather<uint8_t>(from, one, listed, count, to);
        case 2: return gather<uint16_t>(from, one, listed, count, to);
        case 4: return gather<uint32_t>(from, one, listed, count, to);
        default: return gather<uint64_t>(from, one, listed, count, to);
    }
}

template <typename Stored>
static void scatter(const Stored* powers, const uint16_t* listed, int count, Stored* out) {
    for (int i = 0; i < count; i += settled_vector)
        for (int j = i; j < i + settled_vector; ++j) out[listed[j]] = powers[j];
}

#ifdef __AVX512F__
// Powers of float32 by the first phase of float64, whose error is a hundredth of a unit of a double. Lists in `left` the
// numbers of those that it does not decide, and returns how many they are. n is a multiple of settled_vector.
[[gnu::noinline]] static int raise_doubles(const double* x, const double* y, float* powers, int n, uint16_t* left) {
    const HalfLogarithms logarithms(x, Exponents<double>{y}, n);
    int count = 0;
    logarithms.raise(n, [&](int i, const Pair<TwoDoubles>& power, const __m512i(&places)[2]) {
        for (int k = 0; k < 2; ++k) {
            const int from = i + k * HalfLogarithms::lanes;
            const Doubles error = Doubles(_mm512_load_pd(logarithms.error + from)) + Doubles(sixteenths_error_of_ends);
            const Doubles low = power.low.values[k], high = power.high.values[k];
            const __m512i binade = _mm512_slli_epi64(_mm512_srli_epi64(places[k], 4), 52);
            const auto rounded = [&](Doubles end) {
                return _mm512_cvtpd_ps(_mm512_castsi512_pd(_mm512_add_epi64(bits_of(end), binade)));
            };
            const __m256 least = rounded(high + (low - error)), greatest = rounded(high + (low + error));
            const __m512d base = _mm512_load_pd(x + from), t = _mm512_load_pd(logarithms.high + from);
            const __mmask8 taken = HalfLogarithms::inside(base, t);
            const int differ = _mm256_movemask_ps(_mm256_cmp_ps(least, greatest, _CMP_NEQ_UQ));
            _mm256_store_ps(powers + from, least);
            unsigned undecided = static_cast<unsigned>(differ) | (~taken & 0xffU);
            for (; undecided != 0; undecided &= undecided - 1)
                left[count++] = static_cast<uint16_t>(from + std::countr_zero(undecided));
        }
    });
    return count;
}

// Decides a few listed lanes of float32: for many, the fast phase takes less time. Keeps the others in the list, and
// returns how many they are. `count` is a multiple of settled_vector.
static constexpr int few_lanes = 2 * settled_vector;
[[gnu::noinline]] static int decide_few(const PowOptions& options, Element y_type, const uint32_t* x, const void* y,
                                        bool one_y, uint32_t* out, uint16_t* listed, int count) {
    alignas(64) float floats[few_lanes];
    alignas(64) double bases[few_lanes], exponents[few_lanes];
    alignas(64) unsigned char stored[8 * few_lanes];
    uint16_t left[few_lanes];
    gather<uint32_t>(x, false, listed, count, floats);
    for (int j = 0; j < count; ++j)
        bases[j] = options.scale_bias ? scale_to_float(floats[j], options.scale, options.bias) : floats[j];
    gather(row(y_type).size, y, one_y, listed, count, stored);
    decode_exponents(y_type, stored, exponents, count);
    const int count_left = raise_doubles(bases, exponents, floats, count, left);
    scatter(floats, listed, count, reinterpret_cast<float*>(out));
    for (int j = 0; j < count_left; ++j) listed[j] = listed[left[j]];
    return count_left;
}
#endif

#ifdef HALFULP_DOUBLE_ROWS
// The power of two floats by the fast phase of one double. Returns whether that decides it: not for powers beyond the
// normal floats, nor for doubles half-way between two floats.
static bool raise_double(float x, float y, float& rounded) {
    double power;
    if (!quick_power(static_cast<double>(x), static_cast<double>(y), power)) return false;
    constexpr uint64_t half = uint64_t{1} << 28;
    rounded = static_cast<float>(power);
    return power >= 0x1p-126 && power <= 0x1.fffffep127 && (bits_of(power) & (2 * half - 1)) != half;
}

// Decides listed lanes of float32, one by one. Keeps the others in the list, and returns how many they are.
[[gnu::noinline]] static int decide_one_by_one(const float* x, const float* y, bool one_y, float* out, uint16_t* listed,
                                               int count) {
    int left = 0;
    for (int i = 0; i < count; ++i) {
        const uint16_t lane = listed[i];
        if (!raise_double(x[lane], y[one_y ? 0 : lane], out[lane])) listed[left++] = lane;
    }
    return left;
}

// The same in vectors, by a shorter phase in doubles, which leaves more lanes. Behind the list are copies of its last lane.
[[gnu::noinline]] static int decide_by_vectors(const float* x, const float* y, bool one_y, float* out, uint16_t* listed,
                                               int count) {
    constexpr int lanes = 8;
    alignas(32) float powers[lanes];
    int left = 0;
    for (int i = 0; i < count; i += lanes) {
        const __m256i places = _mm256_cvtepu16_epi32(load_vector<__m128i>(listed + i));
        const __m256 exponents = one_y ? _mm256_set1_ps(*y) : _mm256_i32gather_ps(y, places, sizeof(float));
        __m256 rounded;
        unsigned undecided = quick_powers<false>(_mm256_i32gather_ps(x, places, sizeof(float)), exponents, rounded);
        _mm256_store_ps(powers, rounded);
        for (int k = 0; k < lanes; ++k) out[listed[i + k]] = powers[k];
        if (i + lanes > count) undecided &= (1U << (count - i)) - 1;
        for (; undecided != 0; undecided &= undecided - 1) listed[left++] = listed[i + std::countr_zero(undecided)];
    }
    return left;
}
#endif

// Computes listed lanes by the tile's phases. `count` is a multiple of settled_vector.
template <typename Stored>
[[gnu::noinline]] static void settle_listed(const PowOptions& options, Tile tile, Element y_type, const Stored* x,
                                            const void* y, bool one_y, Stored* out, const uint16_t* listed, int count) {
    alignas(64) Stored bases[settled], powers[settled];
    alignas(64) unsigned char exponents[8 * settled];
    for (int done = 0; done < count; done += settled) {
        const int some = count - done < settled ? count - done : settled;
        gather<Stored>(x, false, listed + done, some, bases);
        gather(row(y_type).size, y, one_y, listed + done, some, exponents);
        tile(options, y_type, bases, exponents, powers, some, Prefetch(bases, exponents, powers, 0, 0));
        scatter(powers, listed + done, some, out);
    }
}

// Computes the lanes of n whose bits are set, at most most_listed.
template <Element type>
[[gnu::noinline]] static void settle(const PowOptions& options, Tile tile, Element y_type, const Storage<type>* x,
                                     const void* y, bool one_y, Storage<type>* out, const uint64_t* undecided, int n) {
    uint16_t listed[most_listed + settled_vector];
#ifdef HALFULP_DOUBLE_ROWS
    if constexpr (type == Element::float32) {
        if (y_type == type && !options.scale_bias) {
            const auto *bases = reinterpret_cast<const float*>(x), *exponents = static_cast<const float*>(y);
            auto* const powers = reinterpret_cast<float*>(out);
            int count = list_lanes(undecided, n, listed);
            // A few lanes take less time than a vector, whose look-ups the others wait for.
            if (count > 8) {
                fill_vector(listed, count);
                count = decide_by_vectors(bases, exponents, one_y, powers, listed, count);
            }
            count = decide_one_by_one(bases, exponents, one_y, powers, listed, count);
            if (count == 0) return;
            return settle_listed(options, tile, y_type, x, y, one_y, out, listed, fill_vector(listed, count));
        }
    }
#endif
    int count = list_lanes(undecided, n, listed);
    if (count == 0) return;
    count = fill_vector(listed, count);
#ifdef __AVX512F__
    if constexpr (type == Element::float32) {
        if (count <= few_lanes) {
            count = decide_few(options, y_type, x, y, one_y, out, listed, count);
            if (count == 0) return;
            count = fill_vector(listed, count);
        }
    }
#endif
    settle_listed(options, tile, y_type, x, y, one_y, out, listed, count);
}

}  // namespace halfulp::HALFULP_ISA
