// Names that core/ needs and Clang lacks for CUDA's devices without CUDA's headers. Included first.
#pragma once

#define HALFULP_INLINE static inline __attribute__((always_inline))
#define HALFULP_CALLED __attribute__((noinline))
#define HALFULP_ROLLED _Pragma("clang loop unroll(disable)")

constexpr int __clzll(long long value) {
    return value == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(value));
}
// The functions of float16 call them, which are not instantiated.
unsigned short half_of_float(float value);
float float_of_half(unsigned short half);
