// Calls another library's power of vectors, or of numbers, for an array: vectors.py gives its address, and compiles this
// file for the processor's instruction set.
#include <string.h>

#define LOOP(name, real, type, lanes)                                                                  \
    void name(type (*power)(type, type), const real* x, const real* y, real* z, long n) {              \
        long i = 0;                                                                                    \
        type a, b;                                                                                     \
        for (; i + lanes <= n; i += lanes) {                                                           \
            memcpy(&a, x + i, sizeof a);                                                               \
            memcpy(&b, y + i, sizeof b);                                                               \
            a = power(a, b);                                                                           \
            memcpy(z + i, &a, sizeof a);                                                               \
        }                                                                                              \
        if (i == n) return;                                                                            \
        real last[2][lanes];                                                                           \
        for (int k = 0; k < lanes; ++k) last[0][k] = last[1][k] = 1;                                   \
        memcpy(last[0], x + i, (n - i) * sizeof *x);                                                   \
        memcpy(last[1], y + i, (n - i) * sizeof *y);                                                   \
        memcpy(&a, last[0], sizeof a);                                                                 \
        memcpy(&b, last[1], sizeof b);                                                                 \
        a = power(a, b);                                                                               \
        memcpy(z + i, &a, (n - i) * sizeof *z);                                                        \
    }

#ifdef __AVX512F__
#define BYTES 64
#else
#define BYTES 32
#endif
typedef double doubles __attribute__((vector_size(BYTES)));
typedef float floats __attribute__((vector_size(BYTES)));

LOOP(float64_vectors, double, doubles, BYTES / 8)
LOOP(float32_vectors, float, floats, BYTES / 4)
LOOP(float64_numbers, double, double, 1)
LOOP(float32_numbers, float, float, 1)

#define CHAIN(name, real)                                                                       \
    void name(real (*power)(real, real), const real* x, const real* y, real* z, long n) {       \
        real last = 0;                                                                          \
        for (long i = 0; i < n; ++i) z[i] = last = power(x[i] + 0 * last, y[i]);                \
    }
CHAIN(float64_chain, double)
CHAIN(float32_chain, float)
