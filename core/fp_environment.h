// Sets the default floating-point environment (round to nearest, subnormals kept, no traps) within a scope.
#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif
#include <cstdint>

namespace halfulp {

class FpEnvironment {
public:
    FpEnvironment(const FpEnvironment&) = delete;
    FpEnvironment& operator=(const FpEnvironment&) = delete;

    // Whether the calling thread has the default environment, whatever exceptions it has raised. It may say no where to
    // know is as slow as to set it.
#if defined(__SSE2__)
    static bool is_default() { return (_mm_getcsr() & 0xffc0) == 0x1f80; }
    FpEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
    ~FpEnvironment() { _mm_setcsr(saved_); }

private:
    unsigned saved_;
#elif defined(__aarch64__)
    static bool is_default() {
        uint64_t control;
        asm volatile("mrs %0, fpcr" : "=r"(control));
        return control == 0;
    }
    FpEnvironment() {
        asm volatile("mrs %0, fpcr" : "=r"(saved_));
        asm volatile("msr fpcr, %0" : : "r"(uint64_t{0}) : "memory");
    }
    ~FpEnvironment() { asm volatile("msr fpcr, %0" : : "r"(saved_) : "memory"); }

private:
    uint64_t saved_;
#else
    static bool is_default() { return false; }
    FpEnvironment() {
        std::fegetenv(&saved_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~FpEnvironment() { std::fesetenv(&saved_); }

private:
    std::fenv_t saved_;
#endif
};

}  // namespace halfulp
