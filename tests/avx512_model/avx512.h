// The AVX-512 intrinsics that core/ uses, as plain C++: the kernels for AVX-512 then run on any processor with AVX2.
//
//   use         g++ -march=x86-64-v3 -Wno-psabi -include tests/avx512_model/avx512.h -DHALFULP_ISA=avx512 ...
//               (-Wno-psabi: vectors of 512 bits are passed to functions in another way than on AVX-512)
//   how         the kernels call intrinsics from the namespace of their instruction set, where these functions hide the
//               compiler's of the same names. An intrinsic that is not here is an error: the compiler's needs AVX-512
//   semantics   Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, under the instruction's name;
//               which that is the Intel Intrinsics Guide says. Where an immediate operand has values that the kernels
//               don't use, the model traps at them
//   guarantee   the processor's bits in every lane, which tests/house/test_avx512_model.py compares where there is one.
//               Two results may differ: which of several NaN operands an operation returns, as compilers swap them;
//               and _mm512_rsqrt14_ps, which is defined by its greatest error only
#pragma once

// The compiler's own first, with what it takes for granted: it must not believe yet that the target is AVX-512.
#include <immintrin.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <type_traits>

// What the kernels ask for.
#define __AVX512F__ 1
#define __AVX512BW__ 1
#define __AVX512CD__ 1
#define __AVX512DQ__ 1
#define __AVX512VL__ 1

// Compilers have macros for some: those with an immediate operand, Clang always, GCC where it does not optimize.
#undef _mm256_cmpneq_epi16_mask
#undef _mm512_cmp_pd_mask
#undef _mm512_cmp_ps_mask
#undef _mm512_cmpeq_epi32_mask
#undef _mm512_cmpge_epu32_mask
#undef _mm512_cmpge_epu64_mask
#undef _mm512_cvtps_ph
#undef _mm512_fpclass_ps_mask
#undef _mm512_getexp_pd
#undef _mm512_getexp_ps
#undef _mm512_getmant_ps
#undef _mm512_inserti64x4
#undef _mm512_mask_cmp_ps_mask
#undef _mm512_mask_cmpge_epu32_mask
#undef _mm512_range_ps
#undef _mm512_setr_epi32
#undef _mm512_slli_epi32
#undef _mm512_slli_epi64
#undef _mm512_srli_epi32
#undef _mm512_srli_epi64
#undef _mm512_ternarylogic_epi64

namespace halfulp::HALFULP_ISA {

// The shapes that operations have.
namespace model {

template <typename Lane, typename Vector>
using Lanes = std::array<Lane, sizeof(Vector) / sizeof(Lane)>;

template <typename Lane, typename Vector>
inline Lanes<Lane, Vector> lanes_of(Vector vector) {
    return __builtin_bit_cast(Lanes<Lane, Vector>, vector);
}

// f(i) as the i-th lane. What f returns is the type of a lane.
template <typename Vector, typename F>
inline Vector each(F f) {
    Lanes<decltype(f(0)), Vector> result;
    for (int i = 0; i < static_cast<int>(result.size()); ++i) result[i] = f(i);
    return __builtin_bit_cast(Vector, result);
}

// f of each lane of some vectors, or of lanes that stand at the same place. Lane is the type of theirs.
template <typename Result, typename Lane, typename F, typename... Vectors>
inline Result map(F f, Vectors... vectors) {
    const auto map_lanes = [&](const auto&... lanes) { return each<Result>([&](int i) { return f(lanes[i]...); }); };
    return map_lanes(lanes_of<Lane>(vectors)...);
}

// The mask of the lanes for which f is true.
template <typename Lane, typename F, typename Vector, typename... Vectors>
inline auto mask(F f, Vector vector, Vectors... vectors) {
    constexpr int count = sizeof(Vector) / sizeof(Lane);
    unsigned bits = 0;
    const auto add_lanes = [&](const auto&... lanes) {
        for (int i = 0; i < count; ++i) bits |= static_cast<unsigned>(f(lanes[i]...)) << i;
    };
    add_lanes(lanes_of<Lane>(vector), lanes_of<Lane>(vectors)...);
    return static_cast<std::conditional_t<count == 8, __mmask8, __mmask16>>(bits);
}

inline bool has(unsigned mask, int i) { return (mask >> i & 1) != 0; }

// The lanes of `others` where the mask has a bit, of `vector` elsewhere.
template <typename Lane, typename Vector>
inline Vector blend(unsigned mask, Vector vector, Vector others) {
    const auto lanes = lanes_of<Lane>(vector), other_lanes = lanes_of<Lane>(others);
    return each<Vector>([&](int i) { return has(mask, i) ? other_lanes[i] : lanes[i]; });
}

// The lanes where the mask has a bit, side by side from the first on; zeros behind them.
template <typename Lane, typename Vector>
inline Vector compress(unsigned mask, Vector vector) {
    const auto lanes = lanes_of<Lane>(vector);
    Lanes<Lane, Vector> result{};
    int count = 0;
    for (int i = 0; i < static_cast<int>(lanes.size()); ++i)
        if (has(mask, i)) result[count++] = lanes[i];
    return __builtin_bit_cast(Vector, result);
}

template <typename Vector>
inline Vector load(const void* from) {
    Vector vector;
    std::memcpy(&vector, from, sizeof(vector));
    return vector;
}

template <typename Vector>
inline void store(void* to, Vector vector) {
    std::memcpy(to, &vector, sizeof(vector));
}

// Traps unless the condition holds: an address is aligned, which the processor demands too, or an immediate operand is one
// that is modelled.
inline void require(bool condition) {
    if (!condition) __builtin_trap();
}

inline bool is_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % sizeof(__m512i) == 0; }

}  // namespace model

// In memory. load, store and stream without u need aligned addresses.

inline __m512d _mm512_load_pd(const void* from) {
    model::require(model::is_aligned(from));
    return model::load<__m512d>(from);
}
inline __m512d _mm512_loadu_pd(const void* from) { return model::load<__m512d>(from); }
inline __m512 _mm512_loadu_ps(const void* from) { return model::load<__m512>(from); }
inline __m512i _mm512_loadu_si512(const void* from) { return model::load<__m512i>(from); }

// It reads no memory of other lanes.
inline __m512d _mm512_mask_loadu_pd(__m512d others, __mmask8 mask, const double* from) {
    const auto lanes = model::lanes_of<double>(others);
    return model::each<__m512d>([&](int i) { return model::has(mask, i) ? from[i] : lanes[i]; });
}

inline __m512 _mm512_maskz_loadu_ps(__mmask16 mask, const void* from) {
    return model::each<__m512>([&](int i) {
        float lane = 0;
        if (model::has(mask, i)) std::memcpy(&lane, static_cast<const char*>(from) + sizeof(float) * i, sizeof(lane));
        return lane;
    });
}

inline void _mm512_store_pd(void* to, __m512d a) {
    model::require(model::is_aligned(to));
    model::store(to, a);
}
inline void _mm512_storeu_pd(void* to, __m512d a) { model::store(to, a); }
inline void _mm512_storeu_ps(void* to, __m512 a) { model::store(to, a); }
inline void _mm512_storeu_si512(void* to, __m512i a) { model::store(to, a); }
inline void _mm512_stream_si512(void* to, __m512i a) {
    model::require(model::is_aligned(to));
    model::store(to, a);
}
// Constants, and one type's bits as another's.

inline __m512d _mm512_set1_pd(double value) {
    return model::each<__m512d>([&](int) { return value; });
}
inline __m512 _mm512_set1_ps(float value) {
    return model::each<__m512>([&](int) { return value; });
}
inline __m512i _mm512_set1_epi64(long long value) {
    return model::each<__m512i>([&](int) { return value; });
}
inline __m512i _mm512_set1_epi32(int value) {
    return model::each<__m512i>([&](int) { return value; });
}
inline __m512i _mm512_maskz_set1_epi32(__mmask16 mask, int value) {
    return model::each<__m512i>([&](int i) { return model::has(mask, i) ? value : 0; });
}
template <typename... Ints>
inline __m512i _mm512_setr_epi32(Ints... values) {
    return __builtin_bit_cast(__m512i, (std::array<int, 16>{values...}));
}
inline __m512 _mm512_setzero_ps() { return __m512{}; }
inline __m512i _mm512_setzero_si512() { return __m512i{}; }

inline __m512i _mm512_castpd_si512(__m512d a) { return __builtin_bit_cast(__m512i, a); }
inline __m512i _mm512_castps_si512(__m512 a) { return __builtin_bit_cast(__m512i, a); }
inline __m512d _mm512_castsi512_pd(__m512i a) { return __builtin_bit_cast(__m512d, a); }
inline __m512 _mm512_castsi512_ps(__m512i a) { return __builtin_bit_cast(__m512, a); }

// Floating-point arithmetic, rounded once to the nearest number: the target has fused operations.

inline __m512d _mm512_add_pd(__m512d a, __m512d b) { return a + b; }
inline __m512d _mm512_sub_pd(__m512d a, __m512d b) { return a - b; }
inline __m512 _mm512_sub_ps(__m512 a, __m512 b) { return a - b; }
inline __m512d _mm512_mul_pd(__m512d a, __m512d b) { return a * b; }
inline __m512d _mm512_mask_sub_pd(__m512d others, __mmask8 mask, __m512d a, __m512d b) {
    return model::blend<double>(mask, others, a - b);
}
inline __m512d _mm512_mask_mul_pd(__m512d others, __mmask8 mask, __m512d a, __m512d b) {
    return model::blend<double>(mask, others, a * b);
}

inline __m512d _mm512_fmadd_pd(__m512d a, __m512d b, __m512d c) {
    return model::map<__m512d, double>([](double x, double y, double z) { return __builtin_fma(x, y, z); }, a, b, c);
}
inline __m512d _mm512_fmsub_pd(__m512d a, __m512d b, __m512d c) { return _mm512_fmadd_pd(a, b, -c); }
inline __m512d _mm512_fnmadd_pd(__m512d a, __m512d b, __m512d c) { return _mm512_fmadd_pd(-a, b, c); }
inline __m512 _mm512_fmadd_ps(__m512 a, __m512 b, __m512 c) {
    return model::map<__m512, float>([](float x, float y, float z) { return __builtin_fmaf(x, y, z); }, a, b, c);
}
inline __m512 _mm512_fnmadd_ps(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(-a, b, c); }

inline __m512 _mm512_sqrt_ps(__m512 a) {
    return model::map<__m512, float>([](float x) { return __builtin_sqrtf(x); }, a);
}

inline __m512d _mm512_abs_pd(__m512d a) {
    return model::map<__m512d, double>([](double x) { return __builtin_fabs(x); }, a);
}
inline __m512 _mm512_abs_ps(__m512 a) {
    return model::map<__m512, float>([](float x) { return __builtin_fabsf(x); }, a);
}

// The exponent as a floating-point number, of subnormal numbers too: what C calls logb.
inline __m512d _mm512_getexp_pd(__m512d a) {
    return model::map<__m512d, double>([](double x) { return __builtin_logb(x); }, a);
}
inline __m512 _mm512_getexp_ps(__m512 a) {
    return model::map<__m512, float>([](float x) { return __builtin_logbf(x); }, a);
}

namespace model {

inline __m512 significands(__m512 a) {
    const auto significand = [](float x) {
        x = __builtin_fabsf(x);
        if (x != x) return x + x;  // quiet
        if (x == 0 || x == std::numeric_limits<float>::infinity()) return 1.0f;
        return x / __builtin_ldexpf(1, static_cast<int>(__builtin_logbf(x)));
    };
    return map<__m512, float>(significand, a);
}

}  // namespace model

// The significand in [1, 2), without the sign. (A macro, since the enumerations' namespace has the compiler's.)
#define _mm512_getmant_ps(a, interval, sign) \
    (model::require((interval) == _MM_MANT_NORM_1_2 && (sign) == _MM_MANT_SIGN_zero), model::significands(a))

// The greater magnitude, as a magnitude; that of the number, if the other is a quiet NaN; NaN, if one is a signalling
// NaN.
inline __m512 _mm512_range_ps(__m512 a, __m512 b, int operation) {
    model::require(operation == 0x0b);
    const auto greater = [](float x, float y) {
        const auto signals = [](float z) { return z != z && (__builtin_bit_cast(uint32_t, z) >> 22 & 1) == 0; };
        if (signals(x)) return x + x;
        if (signals(y)) return y + y;
        x = __builtin_fabsf(x), y = __builtin_fabsf(y);
        if (x != x) return y;
        return x < y ? y : x;
    };
    return model::map<__m512, float>(greater, a, b);
}

// x times two to the integer not above y, rounded once.
inline __m512 _mm512_scalef_ps(__m512 a, __m512 b) {
    const auto scaled = [](float x, float y) {
        constexpr double most = 400;  // twice the range of float
        const auto infinity = std::numeric_limits<float>::infinity();
        const bool signals = x != x && (__builtin_bit_cast(uint32_t, x) >> 22 & 1) == 0;
        if (x != x) return y == infinity && !signals ? infinity : y == -infinity && !signals ? 0.0f : x + x;
        if (y != y) return y + y;
        if (y == infinity) return x == 0 ? __builtin_nanf("") : __builtin_copysignf(infinity, x);
        if (y == -infinity) return x == infinity || x == -infinity ? __builtin_nanf("") : __builtin_copysignf(0.0f, x);
        double exponent = __builtin_floor(static_cast<double>(y));
        exponent = exponent < -most ? -most : exponent > most ? most : exponent;
        return static_cast<float>(__builtin_ldexp(static_cast<double>(x), static_cast<int>(exponent)));
    };
    return model::map<__m512, float>(scaled, a, b);
}

namespace model {

// About x^(-1/2). Any number that is off by less than 2^-14 of itself is right, but x = 4^n has the exact power. This one
// is wrong by as much as may be for half of all x, so that bounds which count on less are seen; upwards or downwards, as
// a hash of x has it.
inline float reciprocal_root(float x) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    if (x != x) return x + x;  // quiet
    if (x == 0) return __builtin_copysignf(infinity, x);
    if (x < 0) return __builtin_bit_cast(float, 0xffc00000);
    if (x == infinity) return 0;
    const double root = __builtin_sqrt(static_cast<double>(x));
    if ((__builtin_bit_cast(uint64_t, root) & ((uint64_t{1} << 52) - 1)) == 0) return static_cast<float>(1 / root);
    // The rounding to float adds 2^-24.
    constexpr double greatest_error = 0x1p-14 - 0x1.8p-24;
    const uint32_t hash = __builtin_bit_cast(uint32_t, x) * 0x9e3779b1;
    double error = (hash * 0x1p-30 - 2) * greatest_error;  // twice the range
    error = error > greatest_error ? greatest_error : error < -greatest_error ? -greatest_error : error;
    return static_cast<float>((1 + error) / root);
}

}  // namespace model

inline __m512 _mm512_rsqrt14_ps(__m512 a) { return model::map<__m512, float>(model::reciprocal_root, a); }

// Conversions, rounded to the nearest number, ties to even. A shorter integer has the lower bits.

inline __m512d _mm512_cvtps_pd(__m256 a) {
    return model::map<__m512d, float>([](float x) { return static_cast<double>(x); }, a);
}
inline __m256 _mm512_cvtpd_ps(__m512d a) {
    return model::map<__m256, double>([](double x) { return static_cast<float>(x); }, a);
}
inline __m512d _mm512_cvtepi64_pd(__m512i a) {
    return model::map<__m512d, int64_t>([](int64_t x) { return static_cast<double>(x); }, a);
}
inline __m512 _mm512_cvtepi32_ps(__m512i a) {
    return model::map<__m512, int32_t>([](int32_t x) { return static_cast<float>(x); }, a);
}
inline __m512 _mm512_cvtph_ps(__m256i a) {
    return model::map<__m512, uint16_t>([](uint16_t x) { return _cvtsh_ss(x); }, a);
}
inline __m256i _mm512_cvtps_ph(__m512 a, int rounding) {
    model::require(rounding == _MM_FROUND_TO_NEAREST_INT);
    return model::map<__m256i, float>([](float x) { return uint16_t{_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT)}; }, a);
}
inline __m512i _mm512_cvtepu16_epi32(__m256i a) {
    return model::map<__m512i, uint16_t>([](uint16_t x) { return uint32_t{x}; }, a);
}
inline __m256i _mm512_cvtepi32_epi16(__m512i a) {
    return model::map<__m256i, uint32_t>([](uint32_t x) { return static_cast<uint16_t>(x); }, a);
}

inline __m512i _mm512_zextsi256_si512(__m256i a) {
    __m512i result{};
    std::memcpy(&result, &a, sizeof(a));
    return result;
}
inline __m512i _mm512_inserti64x4(__m512i a, __m256i b, int half) {
    model::require(half == 1);
    std::memcpy(reinterpret_cast<char*>(&a) + sizeof(b), &b, sizeof(b));
    return a;
}

// Integers, modulo 2^n; shifts by more than all bits are not modelled.

inline __m512i _mm512_add_epi32(__m512i a, __m512i b) { return model::map<__m512i, uint32_t>(std::plus(), a, b); }
inline __m512i _mm512_add_epi64(__m512i a, __m512i b) { return model::map<__m512i, uint64_t>(std::plus(), a, b); }
inline __m512i _mm512_sub_epi32(__m512i a, __m512i b) { return model::map<__m512i, uint32_t>(std::minus(), a, b); }
inline __m512i _mm512_sub_epi64(__m512i a, __m512i b) { return model::map<__m512i, uint64_t>(std::minus(), a, b); }
inline __m512i _mm512_max_epu32(__m512i a, __m512i b) {
    return model::map<__m512i, uint32_t>([](uint32_t x, uint32_t y) { return x > y ? x : y; }, a, b);
}
inline __m512i _mm512_max_epu64(__m512i a, __m512i b) {
    return model::map<__m512i, uint64_t>([](uint64_t x, uint64_t y) { return x > y ? x : y; }, a, b);
}
inline __m512i _mm512_slli_epi32(__m512i a, unsigned bits) {
    model::require(bits < 32);
    return model::map<__m512i, uint32_t>([&](uint32_t x) { return x << bits; }, a);
}
inline __m512i _mm512_srli_epi32(__m512i a, unsigned bits) {
    model::require(bits < 32);
    return model::map<__m512i, uint32_t>([&](uint32_t x) { return x >> bits; }, a);
}
inline __m512i _mm512_slli_epi64(__m512i a, unsigned bits) {
    model::require(bits < 64);
    return model::map<__m512i, uint64_t>([&](uint64_t x) { return x << bits; }, a);
}
inline __m512i _mm512_xor_si512(__m512i a, __m512i b) { return a ^ b; }
inline __m512i _mm512_srli_epi64(__m512i a, unsigned bits) {
    model::require(bits < 64);
    return model::map<__m512i, uint64_t>([&](uint64_t x) { return x >> bits; }, a);
}

inline __m512i _mm512_and_si512(__m512i a, __m512i b) { return a & b; }
inline __m512i _mm512_or_si512(__m512i a, __m512i b) { return a | b; }
inline __m512i _mm512_and_epi64(__m512i a, __m512i b) { return a & b; }

// A bit of the result is the bit of `table` that the operands' bits have the number of, those of a first.
inline __m512i _mm512_ternarylogic_epi64(__m512i a, __m512i b, __m512i c, int table) {
    __m512i result{};
    for (int number = 0; number < 8; ++number)
        if (model::has(static_cast<unsigned>(table), number))
            result |= (number & 4 ? a : ~a) & (number & 2 ? b : ~b) & (number & 1 ? c : ~c);
    return result;
}

inline unsigned _mm512_reduce_max_epu32(__m512i a) {
    uint32_t greatest = 0;
    for (uint32_t lane : model::lanes_of<uint32_t>(a)) greatest = lane > greatest ? lane : greatest;
    return greatest;
}
inline int _mm512_reduce_or_epi32(__m512i a) {
    int any = 0;
    for (int lane : model::lanes_of<int>(a)) any |= lane;
    return any;
}

// Comparisons, which make masks.

namespace model {

template <typename Real>
inline bool compare(Real x, Real y, int predicate) {
    switch (predicate) {
        case _CMP_EQ_OQ: return x == y;
        case _CMP_LT_OQ: return x < y;
        case _CMP_UNORD_Q: return x != x || y != y;
        case _CMP_NEQ_UQ: return !(x == y);
        case _CMP_NLT_UQ: return !(x < y);
        case _CMP_NLE_UQ: return !(x <= y);
    }
    __builtin_trap();
}

}  // namespace model

inline __mmask8 _mm512_cmp_pd_mask(__m512d a, __m512d b, int predicate) {
    return model::mask<double>([&](double x, double y) { return model::compare(x, y, predicate); }, a, b);
}
inline __mmask16 _mm512_cmp_ps_mask(__m512 a, __m512 b, int predicate) {
    return model::mask<float>([&](float x, float y) { return model::compare(x, y, predicate); }, a, b);
}
inline __mmask16 _mm512_mask_cmp_ps_mask(__mmask16 mask, __m512 a, __m512 b, int predicate) {
    return mask & _mm512_cmp_ps_mask(a, b, predicate);
}

inline __mmask16 _mm512_cmpeq_epi32_mask(__m512i a, __m512i b) { return model::mask<uint32_t>(std::equal_to(), a, b); }
inline __mmask16 _mm256_cmpneq_epi16_mask(__m256i a, __m256i b) {
    return model::mask<uint16_t>(std::not_equal_to(), a, b);
}
inline __mmask16 _mm512_cmpge_epu32_mask(__m512i a, __m512i b) {
    return model::mask<uint32_t>(std::greater_equal(), a, b);
}
inline __mmask16 _mm512_mask_cmpge_epu32_mask(__mmask16 mask, __m512i a, __m512i b) {
    return mask & _mm512_cmpge_epu32_mask(a, b);
}
inline __mmask8 _mm512_cmpge_epu64_mask(__m512i a, __m512i b) {
    return model::mask<uint64_t>(std::greater_equal(), a, b);
}

inline __mmask8 _mm512_test_epi64_mask(__m512i a, __m512i b) {
    return model::mask<uint64_t>([](uint64_t x, uint64_t y) { return (x & y) != 0; }, a, b);
}
inline __mmask8 _mm512_mask_test_epi64_mask(__mmask8 mask, __m512i a, __m512i b) {
    return mask & _mm512_test_epi64_mask(a, b);
}
inline __mmask16 _mm512_mask_test_epi32_mask(__mmask16 mask, __m512i a, __m512i b) {
    return mask & model::mask<uint32_t>([](uint32_t x, uint32_t y) { return (x & y) != 0; }, a, b);
}

// Whether a number is of one of the classes that are added in `classes`.
inline __mmask16 _mm512_fpclass_ps_mask(__m512 a, int classes) {
    constexpr int zero = 0x02, minus_zero = 0x04, infinity = 0x08;
    model::require((classes & ~(zero | minus_zero | infinity)) == 0);
    const auto is_of = [&](uint32_t bits) {
        return ((classes & zero) != 0 && bits == 0) || ((classes & minus_zero) != 0 && bits == 0x80000000) ||
               ((classes & infinity) != 0 && bits == 0x7f800000);
    };
    return model::mask<uint32_t>(is_of, a);
}

// Lanes chosen by masks and indices.

inline __m512d _mm512_mask_blend_pd(__mmask8 mask, __m512d a, __m512d b) { return model::blend<double>(mask, a, b); }
inline __m512 _mm512_mask_mov_ps(__m512 others, __mmask16 mask, __m512 a) {
    return model::blend<float>(mask, others, a);
}

inline __m512i _mm512_maskz_compress_epi32(__mmask16 mask, __m512i a) { return model::compress<uint32_t>(mask, a); }
inline __m256i _mm256_maskz_compress_epi32(__mmask8 mask, __m256i a) { return model::compress<uint32_t>(mask, a); }

// The lower three bits of an index number a lane, the next one says of which vector.
inline __m512d _mm512_permutex2var_pd(__m512d a, __m512i indices, __m512d b) {
    const auto a_lanes = model::lanes_of<double>(a), b_lanes = model::lanes_of<double>(b);
    const auto look_up = [&](uint64_t index) { return (index & 8) != 0 ? b_lanes[index & 7] : a_lanes[index & 7]; };
    return model::map<__m512d, uint64_t>(look_up, indices);
}

// The lower four bits of an index number a lane, the next one, if there are two vectors, says of which.
inline __m512 _mm512_permutex2var_ps(__m512 a, __m512i indices, __m512 b) {
    const auto a_lanes = model::lanes_of<float>(a), b_lanes = model::lanes_of<float>(b);
    const auto look_up = [&](uint32_t index) { return (index & 16) != 0 ? b_lanes[index & 15] : a_lanes[index & 15]; };
    return model::map<__m512, uint32_t>(look_up, indices);
}
inline __m512 _mm512_permutexvar_ps(__m512i indices, __m512 a) { return _mm512_permutex2var_ps(a, indices, a); }

}  // namespace halfulp::HALFULP_ISA
