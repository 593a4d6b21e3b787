// The power of one float and of one double, the ordinary case first: a fast phase between one test in front and one at
// the end. Everything else is for the caller, which has a function that is not inlined.
#pragma once

#include "fp_environment.h"
#include "numerics/pow_fast_float32.h"
#include "numerics/pow_fast_float64.h"
#include "numerics/pow_special.h"

namespace halfulp {

// By all phases, in any floating-point environment.
float settled_power(float x, float y);
double settled_power(double x, double y);

namespace HALFULP_ISA {

// Whether the bits are those of a positive normal number.
HALFULP_INLINE bool is_positive_normal(uint32_t x) { return x - 0x00800000 < 0x7f800000 - 0x00800000; }
// By a double's upper half, which is shorter code.
HALFULP_INLINE uint32_t upper_half(double x) { return static_cast<uint32_t>(bits_of(x) >> 32); }
HALFULP_INLINE bool is_positive_normal(double x) { return upper_half(x) - 0x00100000 < 0x7ff00000 - 0x00100000; }

// Each function returns whether it has computed x^y, rounded to nearest. It raises no exception but inexact: numbers so
// great or so small that an operation overflows or underflows are left undecided.

// In every rounding mode, and if subnormals are flushed.
HALFULP_INLINE bool quick_power(float x, float y, float& power) {
    const uint32_t x_bits = word_of(x), magnitude = word_of(y) & 0x7fffffff;
    const bool x_is_normal = is_positive_normal(x_bits), y_is_normal = is_positive_normal(magnitude);
    if (!(x_is_normal & y_is_normal)) [[unlikely]]
        return false;
    const auto& entry = constants::float32_log_entries[float32_log_index(x_bits)];
    const double t = static_cast<double>(y) * float32_log2(begin_float32_log(x_bits, entry));
    const double place = float32_place(t);
    if (!is_float32_place(place)) [[unlikely]]
        return false;
    uint32_t rounded;
    if (!round_float32_power(float32_power(t, place, float32_whole_power(place)), rounded)) [[unlikely]]
        return false;
    power = __builtin_bit_cast(float, rounded);
    return true;
}

// The lower parts of products, and the square of s, are normal numbers from the least |y| on. With a greater |t|, the
// part that the product of the power and s loses may be subnormal, which raises underflow.
static constexpr double least_quick_y = 0x1p-400, greatest_quick_y = 0x1.fffffffffffffp899, greatest_quick_t = 600;
static_assert(greatest_quick_t <= greatest_float64_t);

// In the default floating-point environment.
HALFULP_INLINE bool quick_power(double x, double y, double& power) {
    const uint32_t least_y = upper_half(least_quick_y), y_count = upper_half(greatest_quick_y) - least_y + 1;
    const bool x_is_normal = is_positive_normal(x), y_is_near = (upper_half(y) & 0x7fffffff) - least_y < y_count;
    if (!(x_is_normal & y_is_near)) [[unlikely]]
        return false;
    const DoubleDouble t = fast_float64_t(x, y);
    if (!(fabs(t.high) <= greatest_quick_t)) [[unlikely]]
        return false;
    if (!(fabs(t.low) <= greatest_float64_low)) [[unlikely]]
        return false;
    const Float64Ends<double> ends = fast_float64(t).ends;
    power = ends.least;
    return !(ends.least < ends.greatest);
}

HALFULP_INLINE double power_of_doubles(double x, double y) {
    double power;
    if (FpEnvironment::is_default() && quick_power(x, y, power)) [[likely]]
        return power;
    return settled_power(x, y);
}

}  // namespace HALFULP_ISA

}  // namespace halfulp
