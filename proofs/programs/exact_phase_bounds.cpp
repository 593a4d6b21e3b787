// Error bounds of the last phase's functions (numerics/pow_exact.h). The functions are compiled with fixed-point
// numbers that carry, beside their limbs, bounds of their value and error. Loops run on the bounds, so that one run
// represents all operands with the same shift.
//
//   use        without argument: prints `bits N`, and `logarithm L ERROR` for each number of limbs, each shift a, and e
//              zero or not. With the argument ERROR: prints `power L ERROR`, the error of 2^f if f has this error. In
//              units in the last place
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <type_traits>

#define Fixed PlainFixed
#include "numerics/fixed_point.h"
#undef Fixed

namespace halfulp::HALFULP_ISA {

// Bounds are doubles. After each step they are increased by more than the rounding error.
static constexpr double up = 1 + 0x1p-40;

template <int L>
struct Fixed {
    static constexpr int fraction_bits = 64 * (L - 1);
    static constexpr double unit() {
        double value = 1;
        for (int i = 0; i < fraction_bits; ++i) value /= 2;
        return value;
    }

    // A number made from limbs is a quotient: below this, and rounded down.
    static inline double greatest_quotient = 2;
    static constexpr double bound_of_limbs() { return std::is_constant_evaluated() ? 2 : greatest_quotient; }
    // The error of the last number made.
    static inline double last_error = 0;

    uint64_t limb[L];
    double greatest = bound_of_limbs(), error = 1;  // error is in units in the last place

    static constexpr Fixed bounded(double greatest, double error) {
        Fixed f{};
        f.greatest = greatest * up;
        f.error = error * up;
        if (!std::is_constant_evaluated()) last_error = f.error;
        return f;
    }
    static constexpr Fixed of(uint64_t units) {
        Fixed f = bounded(static_cast<double>(units), 0);
        f.limb[L - 1] = units;
        return f;
    }
    static constexpr Fixed leading(const uint64_t* limbs, int count) {
        Fixed f = bounded(static_cast<double>(limbs[count - 1]) + 1, 1);
        for (int i = 0; i < L; ++i) f.limb[i] = limbs[count - L + i];
        return f;
    }
    bool is_zero() const { return greatest < unit(); }

    Fixed operator+(const Fixed& other) const { return bounded(greatest + other.greatest, error + other.error); }
    Fixed operator-(const Fixed& other) const { return bounded(greatest, error + other.error); }
    Fixed operator*(const Fixed& other) const {
        const double both = error * other.greatest + other.error * greatest + error * other.error * unit();
        return bounded(greatest * other.greatest, both + 1);
    }
    constexpr Fixed operator/(uint64_t divisor) const {
        const double d = static_cast<double>(divisor);
        return bounded(greatest / d, error / d + 1);
    }
    Fixed operator>>(int shift) const { return bounded(std::ldexp(greatest, -shift), std::ldexp(error, -shift) + 1); }
    Fixed operator<<(int shift) const { return bounded(std::ldexp(greatest, shift), std::ldexp(error, shift)); }
    int exponent() const { return 0; }
};

}  // namespace halfulp::HALFULP_ISA

#include "numerics/pow_exact.h"

using namespace halfulp::HALFULP_ISA;

// s = q 2^-a: for bases next to 1 on both sides, and the same times 2^8. (Errors decrease with a: 63 and 64 are left
// out.)
template <int L>
static void logarithms() {
    constexpr int nearest = 63;  // represents 65
    for (int a = 3; a <= nearest; ++a) {
        // (m - 1)/(m + 1) is at most 0.171573, for m from 0.70710678 to twice that.
        Fixed<L>::greatest_quotient = a == 3 ? 8 * 0.171573 : 2;
        for (const bool below : {false, true}) {
            // (m - 1)/(m + 1) is between 2^-a and 2^(1 - a).
            const uint64_t part = a == nearest ? 0 : uint64_t{3} << (below && a == 3 ? 61 - a : 62 - a);
            const Dyadic near = {~uint64_t{0}, -64}, other = {(uint64_t{1} << 62) + (below ? -part : part), -62};
            for (const int e : {0, 8}) {
                const Dyadic m = a == nearest ? near : other;
                wide_exponent<L>({m.significand, m.exponent + e}, false, {1, 0});
                std::printf("logarithm %d %a\n", L, Fixed<L>::last_error);
            }
        }
    }
}

template <int L>
static void powers(double error_of_f) {
    wide_exp2<L>(Fixed<L>::bounded(1, error_of_f));
    std::printf("power %d %a\n", L, Fixed<L>::last_error);
}

// Calls f(L) for each number of limbs of the phases.
template <typename F>
static void for_each_size(F f) {
    f(std::integral_constant<int, 3>{});
    f(std::integral_constant<int, 4>{});
    f(std::integral_constant<int, 6>{});
    f(std::integral_constant<int, 9>{});
    f(std::integral_constant<int, 17>{});
}

int main(int count, char** arguments) {
    if (count > 1) {
        const double error_of_f = std::atof(arguments[1]);
        for_each_size([&](auto L) { powers<L>(error_of_f); });
        return 0;
    }
    std::printf("bits %d\n", error_bits);
    for_each_size([](auto L) { logarithms<L>(); });
}
