// PReLU (numerics/prelu.h) of many elements: in vectors for floats of at least 16 bits, in loops for the other types.
#pragma once

#include <cstring>

#include "../numerics/prelu.h"
#include "../simd/float16.h"
#include "../simd/load_vector.h"

namespace halfulp::HALFULP_ISA {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX2__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

template <typename Word>
struct VectorOf {
    typedef Word type [[gnu::vector_size(vector_bytes)]];
};
template <typename Word> using Vector = typename VectorOf<Word>::type;

// The slopes of a vector of elements, and the results for the bases at an address. `plain` slopes are neither zero nor
// NaN, so that no product of a negative base is NaN.
template <Element type>
struct PreluLanes {
    using Real = std::conditional_t<type == Element::float32, float, double>;
    using Word = std::make_signed_t<Storage<type>>;
    Vector<Real> slopes;

    HALFULP_INLINE PreluLanes all(Storage<type> slope) {
        return {__builtin_bit_cast(Real, slope) - Vector<Real>{}};  // a sum with zeros would lose the sign of -0
    }
    HALFULP_INLINE PreluLanes each(const Storage<type>* from) { return {load_vector<Vector<Real>>(from)}; }

    // It chooses among integers, as compilers would make x * (x < 0 ? slope : 1) of floats, which changes a signalling NaN.
    template <bool plain>
    [[gnu::always_inline]] Vector<Word> results(const Storage<type>* from) const {
        const auto x = load_vector<Vector<Real>>(from);
        const Vector<Real> product = x * slopes;
        auto bits = (Vector<Word>)product;
        if (!plain) bits = product == product ? bits : Vector<Word>{} + static_cast<Word>(row(type).nan);
        return x < 0 ? bits : (Vector<Word>)x;
    }
};

// Chooses the products of negative bases, with a canonical NaN, and the other bases.
template <Element type, bool plain>
HALFULP_INLINE Vector<int16_t> choose_16_bits(Vector<int16_t> x, Vector<int16_t> products) {
    constexpr int16_t infinity = row(type).overflow, nan = row(type).nan, magnitude = INT16_MAX;
    constexpr int16_t minus_infinity = static_cast<int16_t>(infinity - magnitude - 1);
    constexpr uint16_t one = 1;
    if (!plain) products = (products & magnitude) > infinity ? Vector<int16_t>{} + nan : products;
    // As an integer, -0 is the least: 1 below it is the greatest.
    return (Vector<int16_t>)((Vector<uint16_t>)x - one) < minus_infinity ? products : x;
}

// The product of two bfloat16 that are the upper halves of floats, rounded, in the upper half of the result. The exact
// product has 16 bits and is a float, unless it is below 2^-134: then the float next to it rounds to zero too, as it
// should. The lower half of a NaN is zero, so that nothing is carried.
HALFULP_INLINE Vector<uint32_t> products_in_upper_halves(Vector<uint32_t> x, Vector<float> slopes) {
    const auto bits = (Vector<uint32_t>)((Vector<float>)x * slopes);
    return bits + 0x7fff + (bits >> 16 & 1);
}

// Two elements are in the halves of a 32-bit lane.
template <>
struct PreluLanes<Element::bfloat16> {
    static constexpr uint32_t upper = 0xffff0000;
    Vector<float> lower_slopes, upper_slopes;

    HALFULP_INLINE PreluLanes of(Vector<uint32_t> pairs) {
        return {(Vector<float>)(pairs << 16), (Vector<float>)(pairs & upper)};
    }
    HALFULP_INLINE PreluLanes all(uint16_t slope) { return of(Vector<uint32_t>{} + slope * uint32_t{0x10001}); }
    HALFULP_INLINE PreluLanes each(const uint16_t* from) { return of(load_vector<Vector<uint32_t>>(from)); }

    template <bool plain>
    [[gnu::always_inline]] Vector<int16_t> results(const uint16_t* from) const {
        const auto x = load_vector<Vector<uint32_t>>(from);
        const Vector<uint32_t> products = (products_in_upper_halves(x & upper, upper_slopes) & upper) |
                                          products_in_upper_halves(x << 16, lower_slopes) >> 16;
        return choose_16_bits<Element::bfloat16, plain>((Vector<int16_t>)x, (Vector<int16_t>)products);
    }
};

#ifdef __F16C__
// The product of two float16 is exactly a float. (simd/float16.h says why this uses intrinsics.)
template <>
struct PreluLanes<Element::float16> {
    Vector<float> first_slopes, last_slopes;

    HALFULP_INLINE Vector<float> decode(const uint16_t* from) {
#ifdef __AVX512F__
        return _mm512_cvtph_ps(load_vector<__m256i>(from));
#else
        return _mm256_cvtph_ps(load_vector<__m128i>(from));
#endif
    }
    HALFULP_INLINE Vector<int16_t> round(Vector<float> first, Vector<float> last) {
        constexpr int to_nearest = _MM_FROUND_TO_NEAREST_INT;
#ifdef __AVX512F__
        const auto a = _mm512_cvtps_ph(first, to_nearest), b = _mm512_cvtps_ph(last, to_nearest);
        return (Vector<int16_t>)_mm512_inserti64x4(_mm512_zextsi256_si512(a), b, 1);
#else
        const auto a = _mm256_cvtps_ph(first, to_nearest), b = _mm256_cvtps_ph(last, to_nearest);
        return (Vector<int16_t>)_mm256_set_m128i(b, a);
#endif
    }
    HALFULP_INLINE PreluLanes each(const uint16_t* from) { return {decode(from), decode(from + vector_bytes / 4)}; }
    HALFULP_INLINE PreluLanes all(uint16_t slope) {
        const Vector<uint16_t> slopes = Vector<uint16_t>{} + slope;
        return each(reinterpret_cast<const uint16_t*>(&slopes));
    }

    template <bool plain>
    [[gnu::always_inline]] Vector<int16_t> results(const uint16_t* from) const {
        const PreluLanes x = each(from);
        const auto products = round(x.first_slopes * first_slopes, x.last_slopes * last_slopes);
        return choose_16_bits<Element::float16, plain>(load_vector<Vector<int16_t>>(from), products);
    }
};
#endif

template <Element type> inline constexpr bool has_prelu_lanes = row(type).is_float && row(type).size >= 2;
#ifndef __F16C__
template <> inline constexpr bool has_prelu_lanes<Element::float16> = false;
#endif

// The last vector may overlap the one before. It is computed first, because `out` may be an operand.
template <Element type, bool one_slope, bool plain>
HALFULP_INLINE void prelu_vectors(const Storage<type>* x, const Storage<type>* slope, Storage<type>* out, int n) {
    using Lanes = PreluLanes<type>;
    constexpr int lanes = vector_bytes / row(type).size;
    const Lanes all = Lanes::all(*slope);
    const auto results = [&](int i) {
        return (one_slope ? all : Lanes::each(slope + i)).template results<plain>(x + i);
    };
    const auto last = results(n - lanes);
    for (int i = 0; i < n - lanes; i += lanes) {
        const auto some = results(i);
        std::memcpy(out + i, &some, sizeof(some));
    }
    std::memcpy(out + n - lanes, &last, sizeof(last));
}

template <Element type, bool one_slope>
static void prelu_loop(const Storage<type>* __restrict x, const Storage<type>* __restrict slope,
                       Storage<type>* __restrict out, int n) {
    if constexpr (one_slope && row(type).is_float && row(type).size < 4) {  // compilers do not hoist its decoding
        alignas(64) Storage<type> slopes[tile_size];
        for (int i = 0; i < n; ++i) slopes[i] = *slope;
        return prelu_loop<type, false>(x, slopes, out, n);
    }
    // vector loop: avx512 avx2 neon(most)
    for (int i = 0; i < n; ++i) out[i] = prelu<type>(x[i], slope[one_slope ? 0 : i]);
}

// `out` may be an operand.
template <Element type, bool one_slope>
HALFULP_INLINE void prelu_of(const Storage<type>* x, const Storage<type>* slope, Storage<type>* out, int n) {
    if constexpr (has_prelu_lanes<type>) {
        if (n >= vector_bytes / row(type).size) {
            const bool plain = one_slope && (*slope & (row(type).sign() - 1)) - 1 < row(type).overflow;
            if (plain) prelu_vectors<type, one_slope, one_slope>(x, slope, out, n);
            else prelu_vectors<type, one_slope, false>(x, slope, out, n);
            return;
        }
    }
    for (int i = 0; i < n; i += tile_size) {
        const int count = n - i < tile_size ? n - i : tile_size;
        const Storage<type>* slopes = one_slope ? slope : slope + i;
        if (x != out && slope != out) {
            prelu_loop<type, one_slope>(x + i, slopes, out + i, count);
        } else {
            alignas(64) Storage<type> results[tile_size];
            prelu_loop<type, one_slope>(x + i, slopes, results, count);
            std::memcpy(out + i, results, sizeof(*results) * static_cast<size_t>(count));
        }
    }
}

// The base of all results, and the slopes, of which each serves `shared` elements. They are `step` bytes apart.
struct PreluRows {
    const void *x, *slopes;
    ptrdiff_t step;
    int shared;
};

// Takes parts of rows, for a Fill (simd/streaming_store.h): n elements from an address within rows.x on.
template <Element type>
static void prelu_of_rows(const Storage<type>* x, const PreluRows& rows, Storage<type>* out, int n) {
    const auto first = static_cast<int>(x - static_cast<const Storage<type>*>(rows.x));
    auto* slope = static_cast<const char*>(rows.slopes) + first / rows.shared * rows.step;
    for (int count = rows.shared - first % rows.shared; n > 0; count = rows.shared) {
        count = count < n ? count : n;
        prelu_of<type, true>(x, reinterpret_cast<const Storage<type>*>(slope), out, count);
        x += count;
        out += count;
        n -= count;
        slope += rows.step;
    }
}

}  // namespace halfulp::HALFULP_ISA
