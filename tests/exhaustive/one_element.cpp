// halfulp_powf and halfulp_powd against the phases of numerics/pow.h, bit for bit, in floating-point environments of every
// kind, and that they leave the environment as it was and raise no exception but inexact in the ordinary case.
//
//   one_element MILLIONS [FILE...]   so many random operands of each of eight kinds, and the hard cases of the files
#include <cfenv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>

#include "halfulp.h"

#define HALFULP_ISA scalar
#include "fp_environment.h"
#include "numerics/pow.h"

using namespace halfulp;

static uint64_t state = 88172645463325252u;
static uint64_t random_bits() {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static double fraction() { return static_cast<double>(random_bits() >> 11) * 0x1p-53; }

template <typename Real>
inline constexpr Element element_of = sizeof(Real) == 4 ? Element::float32 : Element::float64;
template <typename Real>
using Bits = Storage<element_of<Real>>;

template <typename Real>
[[gnu::noinline]] static Real by_phases(Real x, Real y) {
    constexpr Element type = element_of<Real>;
    return __builtin_bit_cast(
        Real, scalar::pow<type, type>(__builtin_bit_cast(Bits<Real>, x), __builtin_bit_cast(Bits<Real>, y), false));
}
static float power(float x, float y) { return halfulp_powf(x, y); }
static double power(double x, double y) { return halfulp_powd(x, y); }

template <typename Real>
static bool same(Real a, Real b) {
    return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
}

// The default environment first. On x86-64 also traps, and subnormals that are flushed.
static const unsigned environments[] = {0x1f80, 0x3f80, 0x5f80, 0x7f80, 0x9fc0, 0xffc0, 0x1fc0, 0x9f80, 0x1000};
static constexpr int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};

template <typename F>
static void in_environment(int i, F f) {
#ifdef __SSE2__
    _mm_setcsr(environments[i]);
    f();
    const unsigned after = _mm_getcsr();
    _mm_setcsr(0x1f80);
    if ((after & 0xffc0) != (environments[i] & 0xffc0)) std::puts("the environment has changed"), std::exit(1);
#else
    if (i > 3) return;
    std::fesetround(modes[i]);
    f();
    if (std::fegetround() != modes[i]) std::puts("the rounding mode has changed"), std::exit(1);
    std::fesetround(FE_TONEAREST);
#endif
}

template <typename Real>
static void check(Real x, Real y, int i) {
    const Real expected = by_phases(x, y);
    Real got = expected;
    in_environment(i, [&] { got = power(x, y); });
    if (same(got, expected)) return;
    std::printf("%a ^ %a is %a, not %a, in environment %d\n", static_cast<double>(x), static_cast<double>(y),
                static_cast<double>(expected), static_cast<double>(got), i);
    std::exit(1);
}

template <typename Real>
static Real of_bits() {
    return __builtin_bit_cast(Real, static_cast<Bits<Real>>(random_bits()));
}

template <typename Real>
static void operands(int kind, Real& x, Real& y) {
    constexpr bool is_float = sizeof(Real) == 4;
    constexpr double most = is_float ? 128 : 1024;
    constexpr Bits<Real> least = Bits<Real>{1} << (is_float ? 23 : 52);
    static const double special[] = {0,      -0.0,   1,   -1,     INFINITY, -INFINITY, NAN,  2,     -2,        .5,       -.5,
                                     3,      -3,     1.5, 2.5,    1e-45,    -1e-45,    0x1p-126, 0x1p-1022, 5e-324, 0x1p-400,
                                     1e30,   3.4e38, 1e300, 1.7e308, 0x1.fffffep-1, 0x1.000002p0, 0x1.0000000000001p0,
                                     16777216., 9007199254740993., 1 / 3., 150, -150, 1074, -1074.5};
    constexpr int specials = sizeof special / sizeof *special;
    const double size = std::fmax(1e-9, std::fabs(std::log2(static_cast<double>(x = of_bits<Real>()))));
    const double sign = 2 * fraction() - 1;
    switch (kind) {
    case 0: x = static_cast<Real>(.01 + 9.99 * fraction()), y = static_cast<Real>(4 * sign); break;
    case 1: x = std::fabs(x), y = static_cast<Real>(sign * 1.05 * most / size); break;
    case 2:
        x = static_cast<Real>(1 + (fraction() - .5) * std::exp2(-50 * fraction()));
        y = static_cast<Real>(sign * most / std::fmax(1e-16, std::fabs(std::log2(static_cast<double>(x)))));
        break;
    case 3: x = static_cast<Real>(1 + .1 * fraction()), y = static_cast<Real>(1 + 499 * fraction()); break;
    case 4: y = of_bits<Real>(); break;
    case 5: x = static_cast<Real>(special[random_bits() % specials]), y = static_cast<Real>(special[random_bits() % specials]); break;
    case 6:
        x = static_cast<Real>(static_cast<double>(random_bits() % 8000) / static_cast<double>(1 << (random_bits() & 7)));
        if (random_bits() & 1) x = -x;
        y = static_cast<Real>((static_cast<double>(random_bits() % 65) - 32) / static_cast<double>(1 << random_bits() % 3));
        break;
    default:  // subnormal powers, and bases
        if (random_bits() & 1) x = __builtin_bit_cast(Real, static_cast<Bits<Real>>(random_bits() % least));
        y = static_cast<Real>((most - 4 + .25 * most * fraction()) / -std::log2(static_cast<double>(std::fabs(x))));
    }
}

template <typename Real>
static void run(long count) {
    for (int kind = 0; kind < 8; ++kind) {
        for (long i = 0; i < count; ++i) {
            Real x, y;
            operands(kind, x, y);
            check(x, y, i % 2 ? static_cast<int>(random_bits() % 9) : 0);
        }
    }
}

// The ordinary case raises inexact only.
template <typename Real>
static void check_flags(long count) {
    for (long i = 0; i < count; ++i) {
        Real x, y;
        operands(static_cast<int>(i % 4), x, y);
        std::feclearexcept(FE_ALL_EXCEPT);
        const Real z = power(x, y);
        const int raised = std::fetestexcept(FE_ALL_EXCEPT & ~FE_INEXACT);
        if (raised != 0) std::printf("%a ^ %a = %a raises %x\n", double(x), double(y), double(z), raised), std::exit(1);
    }
}

int main(int argc, char** argv) {
    const long count = static_cast<long>(std::atof(argv[1]) * 1e6);
    run<float>(count);
    run<double>(count);
    check_flags<float>(count);
    check_flags<double>(count);
    long hard = 0;
    for (int i = 2; i < argc; ++i) {
        std::FILE* file = std::fopen(argv[i], "r");
        char line[500], type[40];
        unsigned long long x, y;
        while (std::fgets(line, sizeof line, file)) {
            if (std::sscanf(line, "0x%llx %39s 0x%llx", &x, type, &y) != 3) continue;
            const bool is_float = std::string(argv[i]).find("float32.txt") != std::string::npos;
            if (std::strcmp(type, is_float ? "float32" : "float64") != 0) continue;
            for (int environment = 0; environment < 9; ++environment, ++hard) {
                if (is_float)
                    check(__builtin_bit_cast(float, static_cast<uint32_t>(x)),
                          __builtin_bit_cast(float, static_cast<uint32_t>(y)), environment);
                else check(__builtin_bit_cast(double, static_cast<uint64_t>(x)), __builtin_bit_cast(double, static_cast<uint64_t>(y)), environment);
            }
        }
        std::fclose(file);
    }
    std::printf("%ld random operands of each type, %ld hard cases\n", 8 * count, hard);
}
