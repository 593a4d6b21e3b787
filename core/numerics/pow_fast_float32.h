// x^y for one float32, the fast phase in doubles by tables in memory. Real is double, or a vector of doubles
// (core/one_vector.h). It is right in every rounding mode, and if subnormals are flushed, so that nobody needs to read the
// floating-point environment, which takes as long as a third of the power.
//
//   formula     x = m 2^e, m in [1 - 1/512, 2 - 1/256); r about 1/m, by m's leading bits; f = m r - 1;
//               256 log2 x = 256 e - 256 log2 r + f P(f);  t = y times that;  t = n + s, n an integer next to t;
//               x^y = 2^(n/256) (1 + s Q(s))
//   domain      x a positive normal float, y a finite float, n within float32_places. Other operands yield a value
//               without meaning
//   constants   tools/make_constants.py, which prints each polynomial's error
//   guarantee   x^y is within float32_error of the value, relative to it. It is rounded by integers, and used only if no
//               boundary between floats is that near; otherwise the next phase, pow_dd.h, runs
//   error       relative to x^y: 2^-38.97. Each operation's bound is beside it, with u = 2^-52, the error of an
//               operation that rounds in any direction. proofs/fast_float32.py proves the sum for each rounding mode
#pragma once

#include "constants_float32.h"
#include "pow_fast.h"

namespace halfulp::HALFULP_ISA {

static constexpr double float32_error = 0x1p-37;

static constexpr uint32_t least_of_float32_parts = 0x3f800000 - (1 << 15);  // 1 - 1/512, where part 0 begins

HALFULP_INLINE uint32_t float32_log_index(uint32_t x) { return (x - least_of_float32_parts) >> 16 & 127; }

// The start of a logarithm: f, and 256 e - 256 log2 r.
template <typename Real>
struct Float32Logarithm {
    Real f, whole;
};

// `e` is 256 times x's, and `log2` -256 log2 r.
template <typename Real>
HALFULP_INLINE Float32Logarithm<Real> begin_float32_log(Real m, Real e, Real r, Real log2) {
    // f is exact, fused or not: m is a multiple of 2^-24, r of 2^-12, and m r < 2. The sum rounds by u.
    return {multiply_add(m, r, Real(-1.0)), e + log2};
}

// From the bits of a float.
HALFULP_INLINE Float32Logarithm<double> begin_float32_log(uint32_t x, const constants::Float32LogEntry& entry) {
    const uint32_t binade = (x - least_of_float32_parts) & 0xff800000;
    const double m = __builtin_bit_cast(float, x - binade);
    const double e = static_cast<double>(static_cast<int32_t>(binade) >> (23 - 8));
    return begin_float32_log<double>(m, e, entry.r, entry.log2);
}

// 256 log2 x.
template <typename Real>
HALFULP_INLINE Real float32_log2(const Float32Logarithm<Real>& x) {
    // P has degree 4 on |f| <= 0.00394 and an error of 2^-46.54 (constants.h). f P rounds by 4 u, if nothing is fused.
    // Where |whole| is not zero, it is at most twice 256 |log2 x|, and f P at most as great as that: 2^-45.97 in all.
    const auto& c = constants::float32_log2;
    const Real square = x.f * x.f, high = multiply_add(Real(c[3]), x.f, Real(c[2]));
    const Real low = multiply_add(Real(c[1]), x.f, Real(c[0]));
    return multiply_add(x.f, multiply_add(multiply_add(Real(c[4]), square, high), square, low), x.whole);
}

// n, in the lower bits. It may be the integer below t or above.
template <typename Real>
HALFULP_INLINE Real float32_place(Real t) {
    return t + Real(round_magic);
}

// Whether 2^(n/256) is a normal float for all s, |s| <= 1: from 2^-125 to 2^127. Not for infinity and NaN.
HALFULP_INLINE bool is_float32_place(double place) {
    constexpr uint64_t least = 125 * 256, count = 252 * 256;
    return bits_of(place) - (bits_of(round_magic) - least) < count;
}

// 2^(n/256), within 2^-53.
HALFULP_INLINE double float32_whole_power(double place) {
    const uint64_t bits = bits_of(place);
    return double_of(constants::float32_powers[bits & 255] + (bits << 44));
}

// whole (1 + s Q(s)).
template <typename Real>
HALFULP_INLINE Real float32_power(Real t, Real place, Real whole) {
    // s is exact or, if |t| < 1, rounded by 2^-53. Q has degree 2 on |s| <= 1, and 1 + s Q an error of 2^-40.69
    // (constants.h). Their product is below 2^-8, and loses 2^-58; the sum rounds by u.
    const Real s = t - (place - Real(round_magic));
    const auto& c = constants::float32_exp2;
    return multiply_add(whole * s, multiply_add(multiply_add(Real(c[2]), s, Real(c[1])), s, Real(c[0])), whole);
}

// Rounds a power to nearest by integers. Returns whether no boundary between floats is within float32_error.
HALFULP_INLINE bool round_float32_power(double power, uint32_t& rounded) {
    constexpr uint64_t half = uint64_t{1} << 28, width = static_cast<uint64_t>(float32_error * 0x1p53);
    const uint64_t bits = bits_of(power);
    rounded = static_cast<uint32_t>((bits + half) >> 29) - ((1023u - 127u) << 23);
    return ((bits - half + width) & (2 * half - 1)) > 2 * width;
}

}  // namespace halfulp::HALFULP_ISA
