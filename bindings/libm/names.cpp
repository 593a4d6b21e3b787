// The names by which programs call a C library's powers, and compilers, NumPy and PyTorch powers of vectors. No symbol is
// an ifunc: a preloaded library is relocated last, and ld.so would run its resolver before it is ready.
//
// Compiled once for each width of vectors: Clang passes a vector in a register only if the whole file is compiled for it.
#include <immintrin.h>

namespace halfulp_m {

// A vector's power, one part after the other: its lanes, or its halves.
template <class Part, class Vector>
[[gnu::always_inline]] inline Vector by_parts(Part (*power)(Part, Part), Vector x, Vector y) {
    union {
        Vector whole;
        Part part[sizeof(Vector) / sizeof(Part)];
    } a = {x}, b = {y};
    for (unsigned i = 0; i < sizeof(Vector) / sizeof(Part); ++i) a.part[i] = power(a.part[i], b.part[i]);
    return a.whole;
}

}  // namespace halfulp_m

extern "C" {

#if !defined(__AVX__)
double halfulp_m_pow_baseline(double, double);
double halfulp_m_pow_fused(double, double);
float halfulp_m_powf_baseline(float, float);
float halfulp_m_powf_fused(float, float);

bool halfulp_m_is_fused;  // the baseline's results are the same

[[gnu::constructor(101)]] static void choose() {
    __builtin_cpu_init();
    halfulp_m_is_fused = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

#define HALFULP_POWER(name, Real, power)                                                                  \
    [[gnu::visibility("default")]] Real name(Real x, Real y) {                                            \
        return halfulp_m_is_fused ? halfulp_m_##power##_fused(x, y) : halfulp_m_##power##_baseline(x, y); \
    }
HALFULP_POWER(pow, double, pow)
HALFULP_POWER(powf, float, powf)
// Of TS 18661-3.
HALFULP_POWER(powf64, double, pow)
HALFULP_POWER(powf32x, double, pow)
HALFULP_POWER(powf32, float, powf)
// Of programs that were compiled with -ffast-math for a glibc before 2.31.
HALFULP_POWER(__pow_finite, double, pow)
HALFULP_POWER(__powf_finite, float, powf)
#else
extern bool halfulp_m_is_fused;
[[gnu::visibility("default")]] double pow(double, double);
[[gnu::visibility("default")]] float powf(float, float);
#endif

// Lane by lane where the processor has no AVX2.
#define HALFULP_LANES(name, Vector, power, powers)                                   \
    [[gnu::visibility("default")]] Vector name(Vector x, Vector y) {                 \
        return halfulp_m_is_fused ? powers(x, y) : halfulp_m::by_parts(power, x, y); \
    }
// _ZGV: libmvec's, by GCC, clang and gfortran. Sleef: by PyTorch's kernels and the code that its Inductor writes. svml: by
// NumPy's kernels for AVX-512.
#if !defined(__AVX__)
__m128d halfulp_m_pow2_fused(__m128d, __m128d);
__m128 halfulp_m_powf4_fused(__m128, __m128);
HALFULP_LANES(_ZGVbN2vv_pow, __m128d, pow, halfulp_m_pow2_fused)
HALFULP_LANES(_ZGVbN4vv_powf, __m128, powf, halfulp_m_powf4_fused)
HALFULP_LANES(Sleef_powd2_u10, __m128d, pow, halfulp_m_pow2_fused)
HALFULP_LANES(Sleef_powf4_u10, __m128, powf, halfulp_m_powf4_fused)
#else
__m256d halfulp_m_pow4_fused(__m256d, __m256d);
__m256 halfulp_m_powf8_fused(__m256, __m256);
#if !defined(__AVX512F__)
HALFULP_LANES(_ZGVcN4vv_pow, __m256d, pow, halfulp_m_pow4_fused)
HALFULP_LANES(_ZGVcN8vv_powf, __m256, powf, halfulp_m_powf8_fused)
HALFULP_LANES(_ZGVdN4vv_pow, __m256d, pow, halfulp_m_pow4_fused)
HALFULP_LANES(_ZGVdN8vv_powf, __m256, powf, halfulp_m_powf8_fused)
HALFULP_LANES(Sleef_powd4_u10, __m256d, pow, halfulp_m_pow4_fused)
HALFULP_LANES(Sleef_powf8_u10, __m256, powf, halfulp_m_powf8_fused)
#else
static __m512d pow8(__m512d x, __m512d y) { return halfulp_m::by_parts(halfulp_m_pow4_fused, x, y); }
static __m512 powf16(__m512 x, __m512 y) { return halfulp_m::by_parts(halfulp_m_powf8_fused, x, y); }
HALFULP_LANES(_ZGVeN8vv_pow, __m512d, pow, pow8)
HALFULP_LANES(_ZGVeN16vv_powf, __m512, powf, powf16)
HALFULP_LANES(Sleef_powd8_u10, __m512d, pow, pow8)
HALFULP_LANES(Sleef_powf16_u10, __m512, powf, powf16)
HALFULP_LANES(__svml_pow8, __m512d, pow, pow8)
HALFULP_LANES(__svml_pow8_ha, __m512d, pow, pow8)
HALFULP_LANES(__svml_powf16, __m512, powf, powf16)
#endif
#endif

}  // extern "C"
