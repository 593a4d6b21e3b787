// Checks that the integer operations split x into m 2^e, with m in its range and, for tables, in its part: for every
// normal float, and for doubles at both ends of each piece, between which the operations only copy x's fraction. Exits
// with 1 at the first error, which it prints.
//
//   fast     split of floats and of doubles, with m from sqrt(1/2) to sqrt 2
//   float64  split and float64_log_index of normal doubles: m in [1 + (2 i - 1)/256 + 2^-15, 1 + (2 i + 1)/256 + 2^-15)
//            or, for i = 0 and below 1, from 1 - 1/512 + 2^-16
//   sixteenths  sixteenths_point of normal doubles: m in [1 + (32 i - 11)/512, 1 + (32 i + 21)/512) or, for i = 0 and
//            below 1, from 1 - 11/1024
//   one      begin_float32_log of normal floats: m in [1 + (2 i - 1)/256, 1 + (2 i + 1)/256) or, for i = 0 and below 1,
//            from 1 - 1/512; for every float from 1/2 to 2, and at the ends of the parts of each binade
//   tables   table_point, also of subnormal doubles: f is m r - 1, m in [1 + (2 i - 1)/64, 1 + (2 i + 1)/64) or, for i
//            = 0 and below 1, from 1 - 1/128
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "numerics/pow_fast_float32.h"
#include "numerics/pow_fast_float64.h"
#include "numerics/pow_fast_sixteenths.h"

using namespace halfulp::HALFULP_ISA;

[[noreturn]] static void fail(double x) {
    std::fprintf(stderr, "%a is split wrongly\n", x);
    std::exit(1);
}

template <typename Real>
static void check_split(Real x, double least) {
    const Split<Real> parts = split(x, root_half<Real>);
    const int e = static_cast<int>(parts.e), half = e / 2;
    const double product = static_cast<double>(parts.m) * power_of_two(half) * power_of_two(e - half);
    if (product != static_cast<double>(x) || !(parts.m >= least && parts.m < 2 * least)) fail(static_cast<double>(x));
}

static void check_table(double x) {
    const TablePoint point = table_point<true>(x);
    const auto index = &point.entry - constants::dd_log_entries;
    const double m = std::ldexp(x, -static_cast<int>(point.e)), place = static_cast<double>(index);
    const double least = index == 0 && m < 1 ? 1 - 1.0 / 128 : 1 + (2 * place - 1) / 64;
    if (index < 0 || index > 31 || !(m >= least && m < 1 + (2 * place + 1) / 64) ||
        std::ldexp(m, static_cast<int>(point.e)) != x || point.f != __builtin_fma(m, point.entry.r, -1.0))
        fail(x);
}

static void check_float64(double x) {
    const Split<double> parts = split(x, least_of_float64_parts);
    const uint64_t place = float64_log_index(x);
    const double index = static_cast<double>(place), m = parts.m, shift = 0x1p-15;
    const double least = place == 0 && m < 1 ? 1 - 1.0 / 512 + shift / 2 : 1 + (2 * index - 1) / 256 + shift;
    const bool is_in_part = m >= least && m < 1 + (2 * index + 1) / 256 + shift;
    if (place > 127 || !is_in_part || std::ldexp(m, static_cast<int>(parts.e)) != x) fail(x);
}

static void check_sixteenths(double x) {
    const SixteenthsPoint point = sixteenths_point(x);
    const double index = static_cast<double>(point.part), m = point.m, e = point.scale * 0x1p-52;
    const double least = point.part == 0 && m < 1 ? 1 - 11.0 / 1024 : 1 + (32 * index - 11) / 512;
    if (point.part > 15 || !(m >= least && m < 1 + (32 * index + 21) / 512) || std::ldexp(m, static_cast<int>(e)) != x)
        fail(x);
}

static void check_one(uint32_t bits) {
    const double x = __builtin_bit_cast(float, bits);
    int e = static_cast<int>(bits >> 23) - 127;
    double m = std::ldexp(x, -e);
    if (m >= 2 - 1.0 / 256) m /= 2, ++e;
    const uint32_t index = m < 1 ? 0 : static_cast<uint32_t>((m - 1) * 128 + 0.5);
    const auto& entry = constants::float32_log_entries[index];
    const Float32Logarithm begun = begin_float32_log(bits, entry);
    if (float32_log_index(bits) != index || begun.f != m * entry.r - 1 || begun.whole != e * 256 + entry.log2) fail(x);
}

// Calls f(x) for the doubles next to the ends of the parts of each binade, also of those that begin 2^-15 later, and next
// to sqrt 2 times its start.
template <typename F>
static long for_each_end(int least_exponent, F f) {
    constexpr int parts = 1024;
    long count = 0;
    for (int e = least_exponent; e <= 1023; ++e) {
        for (int i = 0; i <= 2 * parts + 1; ++i) {
            const double end = 1 + static_cast<double>(i / 2) / parts + (i % 2) * 0x1p-15;
            const double m = i > 2 * parts ? 0x1.6a09e667f3bcdp+0 : end;
            const double x = std::ldexp(m, e);
            for (const double near : {std::nextafter(x, 0.0), x, std::nextafter(x, HUGE_VAL)}) {
                if (near < 0x1p-1022 ? least_exponent >= -1022 || near == 0 : std::isinf(near)) continue;
                f(near);
                ++count;
            }
        }
    }
    return count;
}

int main(int, char** arguments) {
    if (arguments[1][0] == 't') {
        std::printf("%ld doubles\n", for_each_end(-1074, check_table));
        return 0;
    }
    if (arguments[1][0] == 'o') {
        for (uint32_t bits = 0x3f000000; bits <= 0x40000000; ++bits) check_one(bits);
        for (uint32_t bits = 0x00800000; bits < 0x7f800000; bits += bits % 0x4000 == 1 ? 0x3ffe : 1) check_one(bits);
        std::printf("every float from 1/2 to 2, and ends of parts\n");
        return 0;
    }
    if (arguments[1][0] == 's') {
        std::printf("%ld doubles\n", for_each_end(-1022, check_sixteenths));
        return 0;
    }
    if (arguments[1][0] == 'f' && arguments[1][1] == 'l') {
        std::printf("%ld doubles\n", for_each_end(-1022, check_float64));
        return 0;
    }
    for (uint32_t bits = 0x00800000; bits < 0x7f800000; ++bits)
        check_split(__builtin_bit_cast(float, bits), 0x1.6a09e6p-1);
    const long count = for_each_end(-1022, [](double x) { check_split(x, 0x1.6a09e667f3bcdp-1); });
    std::printf("every float, %ld doubles\n", count);
}
