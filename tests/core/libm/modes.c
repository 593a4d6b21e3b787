/* Reads whether the numbers are doubles, their count, bases and exponents, and writes their powers in each rounding mode.
 * Then it compares the powers of vectors, of the processor's instruction sets, with them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fenv.h>
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};

#define POWERS(Real, power, x, y, z, n)                     \
    for (int m = 0; m < 4; m++) {                           \
        for (long i = 0; i < n; i++) {                      \
            Real(*volatile call)(Real, Real) = power;       \
            fesetround(modes[m]);                           \
            ((Real*)z)[i] = call(((Real*)x)[i], ((Real*)y)[i]); \
            fesetround(FE_TONEAREST);                       \
        }                                                   \
        fwrite(z, sizeof(Real), n, stdout);                 \
    }

static void begin(int mode, int raised) {
    feclearexcept(FE_ALL_EXCEPT), fesetround(mode);
    _mm_setcsr(_mm_getcsr() | raised);  /* feraiseexcept does it for the x87 only */
    errno = 0;
}
static int end(void) {
    const int state = fetestexcept(FE_ALL_EXCEPT) | errno << 8;
    fesetround(FE_TONEAREST);
    return state;
}

/* Each pair of operands in each lane, beside others: results, exceptions and errno are those of one call after another. */
#define VECTORS(name, set, Vector, Real, power)                                                           \
    __attribute__((target(set))) static void check_##name(const Real* x, const Real* y, long n) {         \
        Vector (*call)(Vector, Vector) = (Vector(*)(Vector, Vector))dlsym(RTLD_DEFAULT, #name);            \
        if (!call) fputs(#name " is missing\n", stderr), exit(1);                                         \
        enum { lanes = sizeof(Vector) / sizeof(Real) };                                                   \
        for (int m = 0; m < 8; m++)                                                                       \
            for (long i = 0; i < n; i += m < 2 ? 1 : 7) {                                                 \
                Real a[lanes], b[lanes], ones[lanes];                                                     \
                Vector bases, exponents, powers;                                                          \
                for (long k = 0; k < lanes; k++) a[k] = x[(i + 37 * k) % n], b[k] = y[(i + 37 * k) % n];  \
                memcpy(&bases, a, sizeof a), memcpy(&exponents, b, sizeof b);                             \
                begin(modes[m / 2], m % 2 * FE_INEXACT);                                                  \
                for (int k = 0; k < lanes; k++) ones[k] = power(a[k], b[k]);                              \
                const int state = end();                                                                  \
                begin(modes[m / 2], m % 2 * FE_INEXACT);                                                  \
                powers = call(bases, exponents);                                                          \
                if (end() != state || memcmp(&powers, ones, sizeof ones) != 0)                            \
                    fprintf(stderr, #name " differs: mode %d, from pair %ld on\n", m, i), exit(1);        \
            }                                                                                             \
    }
VECTORS(_ZGVbN2vv_pow, "sse2", __m128d, double, pow)
VECTORS(_ZGVcN4vv_pow, "avx", __m256d, double, pow)
VECTORS(_ZGVdN4vv_pow, "avx2", __m256d, double, pow)
VECTORS(_ZGVeN8vv_pow, "avx512f", __m512d, double, pow)
VECTORS(Sleef_powd2_u10, "sse2", __m128d, double, pow)
VECTORS(Sleef_powd4_u10, "avx", __m256d, double, pow)
VECTORS(Sleef_powd8_u10, "avx512f", __m512d, double, pow)
VECTORS(__svml_pow8, "avx512f", __m512d, double, pow)
VECTORS(__svml_pow8_ha, "avx512f", __m512d, double, pow)
VECTORS(_ZGVbN4vv_powf, "sse2", __m128, float, powf)
VECTORS(_ZGVcN8vv_powf, "avx", __m256, float, powf)
VECTORS(_ZGVdN8vv_powf, "avx2", __m256, float, powf)
VECTORS(_ZGVeN16vv_powf, "avx512f", __m512, float, powf)
VECTORS(Sleef_powf4_u10, "sse2", __m128, float, powf)
VECTORS(Sleef_powf8_u10, "avx", __m256, float, powf)
VECTORS(Sleef_powf16_u10, "avx512f", __m512, float, powf)
VECTORS(__svml_powf16, "avx512f", __m512, float, powf)

int main(void) {
    int64_t is_double, n;
    if (fread(&is_double, 8, 1, stdin) != 1 || fread(&n, 8, 1, stdin) != 1) return 1;
    const size_t size = is_double ? 8 : 4;
    void *x = malloc(size * n), *y = malloc(size * n), *z = malloc(size * n);
    if (fread(x, size, n, stdin) != (size_t)n || fread(y, size, n, stdin) != (size_t)n) return 1;
    const int has_avx2 = __builtin_cpu_supports("avx2"), has_avx512 = __builtin_cpu_supports("avx512f");
    if (is_double) {
        POWERS(double, pow, x, y, z, n)
        check__ZGVbN2vv_pow(x, y, n), check_Sleef_powd2_u10(x, y, n);
        if (has_avx2) check__ZGVcN4vv_pow(x, y, n), check__ZGVdN4vv_pow(x, y, n), check_Sleef_powd4_u10(x, y, n);
        if (has_avx512) {
            check__ZGVeN8vv_pow(x, y, n), check_Sleef_powd8_u10(x, y, n);
            check___svml_pow8(x, y, n), check___svml_pow8_ha(x, y, n);
        }
    } else {
        POWERS(float, powf, x, y, z, n)
        check__ZGVbN4vv_powf(x, y, n), check_Sleef_powf4_u10(x, y, n);
        if (has_avx2) check__ZGVcN8vv_powf(x, y, n), check__ZGVdN8vv_powf(x, y, n), check_Sleef_powf8_u10(x, y, n);
        if (has_avx512) check__ZGVeN16vv_powf(x, y, n), check_Sleef_powf16_u10(x, y, n), check___svml_powf16(x, y, n);
    }
    return 0;
}
