// Finds all i in [0, length) for which a cubic c0 + c1 i + c2 i^2 + c3 i^3 modulo 1 is near 1/2 (Lefevre's idea).
//
// Coefficients are 128-bit fixed-point fractions. Over `step` consecutive i the cubic is linear within `slack`. A
// Euclidean recursion finds the i at which a line modulo 1 enters an interval, in a few hundred nanoseconds for a step
// of tens of thousands. Each i found is checked with the cubic.

#include <cstdint>

namespace {

using Fraction = unsigned __int128;

// The least i >= 0 with low <= slope * i mod modulus <= high, for 0 < low <= high < modulus; -1 if it does not exist.
int64_t first_hit(uint64_t slope, uint64_t modulus, uint64_t low, uint64_t high) {
    if (low == 0) return 0;
    if (slope == 0) return -1;
    if (slope > modulus / 2) {
        const uint64_t new_low = modulus - high, new_high = modulus - low;
        return first_hit(modulus - slope, modulus, new_low, new_high);
    }
    const uint64_t direct = (low + slope - 1) / slope;
    if (direct * slope <= high) return static_cast<int64_t>(direct);
    // No multiple of the slope is in the interval: solve for the number of turns around the modulus instead.
    const uint64_t rest_low = (slope - high % slope) % slope, rest_high = (slope - low % slope) % slope;
    const int64_t turns = first_hit(modulus % slope, slope, rest_low, rest_high);
    if (turns < 0) return -1;
    const Fraction position = static_cast<Fraction>(turns) * modulus + low;
    return static_cast<int64_t>((position + slope - 1) / slope);
}

double distance_from_half(Fraction value) {
    constexpr Fraction HALF = static_cast<Fraction>(1) << 127;
    const Fraction distance = value > HALF ? value - HALF : HALF - value;
    return static_cast<double>(static_cast<uint64_t>(distance >> 64)) * 0x1p-64;
}

}  // namespace

// coefficients: c0 .. c3, each as its upper and lower 64 bits. Returns the number of i written to `found`, at most
// `room`.
extern "C" int lattice(const uint64_t* coefficients, int64_t length, int64_t step, double slack, double near,
                       int64_t* found, int room) {
    Fraction c[4];
    for (int k = 0; k < 4; ++k) c[k] = static_cast<Fraction>(coefficients[2 * k]) << 64 | coefficients[2 * k + 1];
    constexpr uint64_t MODULUS = uint64_t{1} << 63;
    const auto width = static_cast<uint64_t>((slack + near) * static_cast<double>(MODULUS));
    int count = 0;
    for (int64_t start = 0; start < length; start += step) {
        const auto s = static_cast<Fraction>(start);
        auto value = static_cast<uint64_t>((c[0] + s * (c[1] + s * (c[2] + s * c[3]))) >> 65);
        const auto slope = static_cast<uint64_t>((c[1] + s * (2 * c[2] + 3 * s * c[3])) >> 65);
        for (int64_t i = start; i < start + step;) {
            const uint64_t low = (MODULUS / 2 - width - value) & (MODULUS - 1);
            const uint64_t high = (low + 2 * width) & (MODULUS - 1);
            const int64_t ahead = low <= high ? first_hit(slope, MODULUS, low, high) : 0;
            if (ahead < 0 || i + ahead >= start + step) break;
            i += ahead;
            const auto at = static_cast<Fraction>(i);
            const Fraction exact = c[0] + at * (c[1] + at * (c[2] + at * c[3]));
            if (distance_from_half(exact) < near && count < room) found[count++] = i;
            value = (value + static_cast<uint64_t>(ahead + 1) * slope) & (MODULUS - 1);
            i += 1;
        }
    }
    return count;
}
