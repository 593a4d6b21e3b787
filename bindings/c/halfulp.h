/* halfulp: powers and PReLU of arrays and of numbers, every result correctly rounded. C11 and C++11.
 *
 * docs/c.md says what stays the same from version to version. All functions may be called from any number of threads.
 * They compute in the default floating-point environment and leave the caller's as they found it. Memory that a call
 * needs is allocated in it and freed at its end, and if there is none, the status says so. */
#ifndef HALFULP_H
#define HALFULP_H

#include <stddef.h>
#include <stdint.h>

#ifndef HALFULP_API
#ifdef _WIN32
#define HALFULP_API __declspec(dllimport)
#else
#define HALFULP_API __attribute__((visibility("default")))
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Element types. Those of 4 bits take a byte each, the bits the low ones. */
typedef int32_t halfulp_type;
enum {
    HALFULP_FLOAT64 = 0,
    HALFULP_FLOAT32 = 1,
    HALFULP_FLOAT16 = 2,
    HALFULP_BFLOAT16 = 3,
    HALFULP_FLOAT8_E3M4 = 4,
    HALFULP_FLOAT8_E4M3 = 5,
    HALFULP_FLOAT8_E4M3B11FNUZ = 6,
    HALFULP_FLOAT8_E4M3FN = 7,
    HALFULP_FLOAT8_E4M3FNUZ = 8,
    HALFULP_FLOAT8_E5M2 = 9,
    HALFULP_FLOAT8_E5M2FNUZ = 10,
    HALFULP_FLOAT8_E8M0FNU = 11,
    HALFULP_FLOAT4_E2M1FN = 12,
    HALFULP_INT8 = 13,
    HALFULP_INT16 = 14,
    HALFULP_INT32 = 15,
    HALFULP_INT64 = 16,
    HALFULP_UINT8 = 17,
    HALFULP_UINT16 = 18,
    HALFULP_UINT32 = 19,
    HALFULP_UINT64 = 20,
    HALFULP_INT4 = 21,
    HALFULP_UINT4 = 22
};

typedef int32_t halfulp_status;
enum {
    HALFULP_OK = 0,
    HALFULP_BAD_ARGUMENT = 1, /* a null pointer, or options of a later version */
    HALFULP_BAD_TYPE = 2,     /* no element type, or types that do not go together */
    HALFULP_BAD_SHAPE = 3,    /* shapes that do not go together, or too many axes or elements */
    HALFULP_OVERLAP = 4,      /* out may share memory with an operand other than element by element */
    HALFULP_NO_MEMORY = 5,
    HALFULP_STOPPED = 6,        /* by keep_going, or by the caller's parallel_for */
    HALFULP_BAD_ENVIRONMENT = 7 /* the variable HALFULP_ISA or HALFULP_NUM_THREADS: see halfulp_check_environment */
};

#define HALFULP_MOST_AXES 64

/* An array of the caller's. */
typedef struct halfulp_array {
    void* data; /* the element at the index 0 of every axis, with any alignment */
    halfulp_type type;
    int32_t axes;             /* 0 to HALFULP_MOST_AXES */
    const ptrdiff_t* shape;   /* the extents of the axes */
    const ptrdiff_t* strides; /* in bytes, of any sign; null: contiguous, the last axis fastest */
    int32_t swapped;          /* 1: not in the machine's byte order */
} halfulp_array;

/* Calls work(data, 0) .. work(data, count - 1), each once, on any threads and in any order, and returns when all have
 * returned. A result other than 0 says that it has not called all. */
typedef int (*halfulp_parallel_for)(void* context, void (*work)(void* data, size_t index), void* data, size_t count);

/* Remembers the table of powers with one exponent that a call has made for types of 8 and 16 bits, for calls with the
 * same exponent. Any number of threads may use one. */
typedef struct halfulp_memo halfulp_memo;

enum {
    HALFULP_DOMAIN_ERROR = 1, /* a negative base with an infinite or non-integral exponent gives NaN, as in DirectML */
    HALFULP_SCALE_BIAS = 2,   /* the base is x * scale + bias, rounded once */
    HALFULP_NO_OVERLAP = 4    /* the caller knows that out shares no element with an operand, except the same one */
};

/* Begin with {sizeof(halfulp_options)}: zeros are the defaults. */
typedef struct halfulp_options {
    size_t size; /* sizeof(halfulp_options) */
    uint32_t flags;
    int32_t threads; /* of the library's pool: 0 chooses, 1 is the calling thread alone */
    float scale, bias;
    halfulp_parallel_for parallel_for; /* instead of the pool */
    void* parallel_context;
    int (*keep_going)(void* context); /* called about every 30 ms on the calling thread by the pool; 0 ends the call */
    void* keep_going_context;
    halfulp_memo* memo;
} halfulp_options;

/* out = x to the power of y, element by element. x and y are broadcast as in NumPy, and out has the result's shape.
 * The types of x and y are any two, and that of out is x's. out may be the same array as an operand, but must not
 * overlap it otherwise. Null options are the defaults. */
HALFULP_API halfulp_status halfulp_pow(const halfulp_array* x, const halfulp_array* y, const halfulp_array* out,
                                       const halfulp_options* options);
/* out = x where x >= 0, and slope * x elsewhere. All have one type; out has x's shape, to which slope is broadcast. */
HALFULP_API halfulp_status halfulp_prelu(const halfulp_array* x, const halfulp_array* slope, const halfulp_array* out,
                                         const halfulp_options* options);

/* x to the power of y, of one element. They may raise the exception inexact, and no other. */
HALFULP_API float halfulp_powf(float x, float y);
HALFULP_API double halfulp_powd(double x, double y);

/* A sentence for a status, in English. */
HALFULP_API const char* halfulp_status_text(halfulp_status status);
/* The name of a type, such as "float8_e4m3fn", and the type of a name; null and -1 if there is none. */
HALFULP_API const char* halfulp_type_name(halfulp_type type);
HALFULP_API halfulp_type halfulp_type_of_name(const char* name);
/* The library's version, such as "0.1.0", and the kernels in use: "scalar", "avx2" or "avx512"; null if HALFULP_ISA
 * names others. */
HALFULP_API const char* halfulp_version(void);
HALFULP_API const char* halfulp_instruction_set(void);
/* The number of threads that a long call uses; 0 if HALFULP_NUM_THREADS is not a number of threads. */
HALFULP_API int32_t halfulp_thread_count(void);
/* Says whether the variables HALFULP_ISA and HALFULP_NUM_THREADS can be followed; if not, the message (truncated to
 * size, which may be 0) has the reason. */
HALFULP_API halfulp_status halfulp_check_environment(char* message, size_t size);
/* Null if there is no memory. */
HALFULP_API halfulp_memo* halfulp_memo_new(void);
HALFULP_API void halfulp_memo_free(halfulp_memo* memo);
/* From now on the pool is the threads of an OpenMP runtime in this process: its GOMP_parallel, omp_get_max_threads. */
HALFULP_API halfulp_status halfulp_share_openmp(void (*gomp_parallel)(void (*)(void*), void*, unsigned, unsigned),
                                                int (*omp_get_max_threads)(void));
/* How many powers even the last phase could not decide; no operands are known that would count. */
HALFULP_API uint64_t halfulp_undecided(void);

#ifdef __cplusplus
}
#endif

#endif
