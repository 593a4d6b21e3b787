// Built-in functions of host compilers that core/ uses and NVRTC has under other names. Included first.
#pragma once

#define HALFULP_INLINE static __forceinline__
#define HALFULP_CALLED __noinline__
#define HALFULP_ROLLED _Pragma("unroll 1")

#define __builtin_fma(a, b, c) __fma_rn(a, b, c)
#define __builtin_fmaf(a, b, c) __fmaf_rn(a, b, c)
#define __builtin_sqrt(a) __dsqrt_rn(a)
#define __builtin_sqrtf(a) __fsqrt_rn(a)
#define __builtin_inf() __builtin_bit_cast(double, 0x7ff0000000000000ull)
#define __builtin_inff() __builtin_bit_cast(float, 0x7f800000u)
#define __builtin_nan(text) __builtin_bit_cast(double, 0x7ff8000000000000ull)

// The device's own conversions of float16, single instructions. They convert NaN to NaN, with any payload.
HALFULP_INLINE float float_of_half(unsigned short half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}
HALFULP_INLINE unsigned short half_of_float(float value) {
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}

constexpr double __builtin_fabs(double a) {
    return __builtin_bit_cast(double, __builtin_bit_cast(unsigned long long, a) & 0x7fffffffffffffffull);
}
constexpr float __builtin_fabsf(float a) {
    return __builtin_bit_cast(float, __builtin_bit_cast(unsigned, a) & 0x7fffffffu);
}
