// pow and powf as C23 and its Annex F have them: the bits of halfulp, with errno, exceptions, NaNs and rounding modes of a C
// library. Compiled for two instruction sets; names.cpp chooses.
//
//   result      rounded once in the caller's rounding mode. A payload of a NaN stays; a signalling one raises invalid
//   exceptions  invalid, division by zero and overflow as in Annex F; underflow for a result that is subnormal or zero and
//               inexact; inexact for a result that is. Traps are the caller's, and fire for nothing else
//   errno       EDOM where the exception is invalid; ERANGE at a pole, for overflow, and where the result became zero
#include <immintrin.h>

#include <cerrno>
#include <limits>

#include "numerics/pow.h"
#include "one_vector.h"

namespace halfulp::HALFULP_ISA {

namespace {

// As in the control and status register.
enum Exception : unsigned { invalid = 1, pole = 4, overflow = 8, underflow = 16, inexact = 32 };
enum Mode : unsigned { nearest, downward, upward, to_zero };
constexpr unsigned usual = 0x1f80, control = 0xffc0;
constexpr int mode_shift = 13, mask_shift = 7;

template <typename Real>
inline constexpr Element element_of = sizeof(Real) == 4 ? Element::float32 : Element::float64;
template <typename Real>
inline constexpr Word<Real> infinity = static_cast<Word<Real>>(row(element_of<Real>).overflow);
template <typename Real>
inline constexpr Real least_normal = std::numeric_limits<Real>::min();

template <typename Real>
Real real_of(Word<Real> bits) {
    return __builtin_bit_cast(Real, bits);
}

// Rounds a magnitude to the encoding below it or above. Two past infinity, if the magnitude is beyond all numbers.
template <typename Real>
uint64_t round_directed(const Magnitude& m, bool away) {
    constexpr int kept = std::numeric_limits<Real>::digits, least = std::numeric_limits<Real>::min_exponent - 1;
    if (m.exponent >= std::numeric_limits<Real>::max_exponent) return infinity<Real> + 2;
    const int below = m.exponent < least ? least - m.exponent : 0, cut = 64 - kept + below;
    uint64_t bits = cut < 64 ? m.significand >> cut : 0;
    const bool has_rest = m.inexact || cut >= 64 || m.significand << (64 - cut) != 0;
    if (below == 0) bits += static_cast<uint64_t>(m.exponent - least) << (kept - 1);
    return bits + (away && has_rest ? 1 : 0);
}

template <typename Real>
struct Power {
    Real value;
    bool is_beyond = false;  // all numbers, where it is rounded to the greatest
};

template <typename Real>
[[gnu::noinline]] Power<Real> power_of(Real x, Real y, unsigned mode) {
    constexpr Element type = element_of<Real>;
    const bool is_invalid = x < 0 && parity_of(y) == not_integral;
    if (mode == nearest || y == 0 || is_special(x, classify(y)) || is_invalid)
        return {real_of<Real>(pow<type, type>(word_of(x), word_of(y), false))};
    const bool minus = x < 0 && parity_of(y) == odd, away = mode == (minus ? downward : upward);
    const auto round = [=](const Magnitude& m) { return round_directed<Real>(m, away); };
    const uint64_t rounded = decided_power<4>(dyadic_of(x), y < 0, dyadic_of(y), round).result;
    const bool is_beyond = rounded > infinity<Real>;
    const uint64_t limited = is_beyond ? infinity<Real> - (away ? 0 : 1) : rounded;
    const Real magnitude = real_of<Real>(static_cast<Word<Real>>(limited));
    return {minus ? -magnitude : magnitude, is_beyond};
}

bool is_infinite(double x) { return fabs(x) == __builtin_inf(); }

// The exceptions of a power of numbers that are not NaN. To know whether it is exact takes long, if `raised` has not
// inexact already.
template <typename Real>
unsigned exceptions_of(Real x, Real y, const Power<Real>& power, unsigned raised) {
    if (y == 0 || x == 1 || is_infinite(x) || is_infinite(y)) return 0;
    if (x == 0) return y < 0 ? unsigned{pole} : 0;
    if (power.value != power.value) return invalid;
    if (is_infinite(power.value) || power.is_beyond) return overflow | inexact;
    const bool is_small = fabs(power.value) < least_normal<Real>;
    if (!is_small && (raised & inexact) != 0) return inexact;
    Magnitude exact;
    if (exact_power(dyadic_of(x), y < 0, dyadic_of(y), exact) &&
        round_directed<Real>(exact, false) == round_directed<Real>(exact, true))
        return 0;
    return is_small ? inexact | underflow : inexact;
}

template <typename Real>
bool is_signalling(Real x) {
    return x != x && (word_of(x) >> (std::numeric_limits<Real>::digits - 2) & 1) == 0;
}

// Raises by an operation what the caller lets trap.
template <typename Real>
void trap(unsigned exceptions) {
    using Limits = std::numeric_limits<Real>;
    volatile Real a = exceptions & invalid    ? 0
                      : exceptions & pole     ? 1
                      : exceptions & overflow ? Limits::max()
                                              : Limits::min();
    volatile Real result = (exceptions & (invalid | pole)) != 0 ? a / Real(0) : a * a;
    (void)result;
}

// `before` is the register as the caller has it.
template <typename Real>
[[gnu::noinline]] Real settled(Real x, Real y, unsigned before) {
    if (x != x || y != y) {
        const bool is_one = y == 0 || x == 1;
        return is_one && !is_signalling(x) && !is_signalling(y) ? 1 : x + y;
    }
    if ((before & control) != usual) _mm_setcsr(usual);
    const Power<Real> power = power_of(x, y, before >> mode_shift & 3);
    const unsigned exceptions = exceptions_of(x, y, power, before);
    if (_mm_getcsr() != (before | exceptions)) _mm_setcsr(before | exceptions);
    if ((exceptions & ~inexact) != 0) [[unlikely]] {
        if ((exceptions & invalid) != 0) errno = EDOM;
        else if ((exceptions & underflow) == 0 || power.value == 0) errno = ERANGE;
        if ((~before >> mask_shift & exceptions) != 0) trap<Real>(exceptions);
    }
    return power.value;
}

// What quick_power raises has been raised already, as after a program's first operations.
template <typename Real>
Real power_by_library(Real x, Real y) {
    const unsigned before = _mm_getcsr();
    Real power;
    if ((before & (control | inexact)) == (usual | inexact) && quick_power(x, y, power)) [[likely]]
        return power;
    return settled(x, y, before);
}

#ifdef HALFULP_DOUBLE_ROWS
HALFULP_INLINE unsigned quick(__m256d x, __m256d y, __m256d& power) {
    Doubles powers = 0;
    const unsigned undecided = quick_powers(Doubles(x), Doubles(y), powers);
    power = powers.values;
    return undecided;
}
HALFULP_INLINE unsigned quick(__m128d x, __m128d y, __m128d& power) {
    __m256d powers;
    const unsigned undecided = quick(_mm256_set_m128d(x, x), _mm256_set_m128d(y, y), powers);
    power = _mm256_castpd256_pd128(powers);
    return undecided & 3;
}
HALFULP_INLINE unsigned quick(__m256 x, __m256 y, __m256& power) { return quick_powers<false>(x, y, power); }
HALFULP_INLINE unsigned quick(__m128 x, __m128 y, __m128& power) {
    __m256 powers;
    const unsigned undecided = quick_powers<true>(_mm256_set_m128(x, x), _mm256_set_m128(y, y), powers);
    power = _mm256_castps256_ps128(powers);
    return undecided & 15;
}

// Computes some lanes one by one.
template <typename Real, typename Vector>
[[gnu::noinline]] Vector settled_lanes(Vector x, Vector y, Vector power, unsigned lanes) {
    constexpr unsigned count = sizeof(Vector) / sizeof(Real);
    Real bases[count], exponents[count], powers[count];
    __builtin_memcpy(bases, &x, sizeof(x));
    __builtin_memcpy(exponents, &y, sizeof(y));
    __builtin_memcpy(powers, &power, sizeof(power));
    for (unsigned i = 0; i < count; ++i)
        if ((lanes >> i & 1) != 0) powers[i] = power_by_library(bases[i], exponents[i]);
    __builtin_memcpy(&power, powers, sizeof(power));
    return power;
}

template <typename Real, typename Vector>
HALFULP_INLINE Vector powers_by_library(Vector x, Vector y) {
    unsigned undecided = ~0u;
    Vector power = x;
    if ((_mm_getcsr() & (control | inexact)) == (usual | inexact)) [[likely]]
        undecided = quick(x, y, power);
    if (undecided == 0) [[likely]]
        return power;
    return settled_lanes<Real>(x, y, power, undecided);
}
#endif

}  // namespace

}  // namespace halfulp::HALFULP_ISA

#define HALFULP_NAME_(a, b) a##b
#define HALFULP_NAME(a, b) HALFULP_NAME_(a, b)
extern "C" double HALFULP_NAME(halfulp_m_pow_, HALFULP_ISA)(double x, double y) {
    return halfulp::HALFULP_ISA::power_by_library(x, y);
}
extern "C" float HALFULP_NAME(halfulp_m_powf_, HALFULP_ISA)(float x, float y) {
    return halfulp::HALFULP_ISA::power_by_library(x, y);
}
#ifdef HALFULP_DOUBLE_ROWS
#define HALFULP_POWERS(name, Vector, Real)                                                 \
    extern "C" Vector HALFULP_NAME(halfulp_m_##name##_, HALFULP_ISA)(Vector x, Vector y) { \
        return halfulp::HALFULP_ISA::powers_by_library<Real>(x, y);                        \
    }
HALFULP_POWERS(pow2, __m128d, double)
HALFULP_POWERS(pow4, __m256d, double)
HALFULP_POWERS(powf4, __m128, float)
HALFULP_POWERS(powf8, __m256, float)
#endif
