// Checks round_float32_power: at each number of units of the last place near a boundary between floats, and at some
// farther ones, it decides exactly where the distance is more than float32_error 2^53 units, and then as a conversion to
// float rounds. It looks at a double's lower bits only. Exits with 1 at the first error, which it prints.
#include <cstdio>
#include <initializer_list>

#include "numerics/pow_fast_float32.h"

using namespace halfulp::HALFULP_ISA;

int main() {
    constexpr uint64_t boundary = uint64_t{1} << 28, width = static_cast<uint64_t>(float32_error * 0x1p53);
    for (const uint64_t base :
         {bits_of(1), bits_of(0x1.fffffe0000000p0), bits_of(0x1.2345660000000p0), bits_of(0x1p-125)}) {
        for (uint64_t lower = 0; lower < 2 * boundary;) {
            const double power = double_of(base + lower);
            const uint64_t distance = lower > boundary ? lower - boundary : boundary - lower;
            uint32_t rounded;
            const bool is_decided = round_float32_power(power, rounded);
            if (is_decided == distance > width &&
                (!is_decided || rounded == __builtin_bit_cast(uint32_t, static_cast<float>(power))))
                lower += distance < 4 * width ? 1 : 1021;
            else return std::fprintf(stderr, "%a is rounded wrongly\n", power), 1;
        }
    }
    std::printf("%g units of the last place are not decided\n", static_cast<double>(width));
}
