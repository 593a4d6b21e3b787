// Scans x^y for one float32 base x and consecutive float32 exponents for results near a midpoint.
//
// y has 24 bits; log2 x is split into 24 bits and a rest, so that y * (24 bits) is exact in double, and so is
// taking off its integral part. What remains, u in [0, 1), has an absolute error below 2^-52, and 2^u, by 14 terms
// of its Taylor series, a relative one of a few 2^-53: about 2^-26 units of the float32 result's last place. Pairs
// nearer to a midpoint than COARSE are looked at again in 64-bit significands (powl).

#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

constexpr double COARSE = 0x1p-24;
constexpr int LENGTH = 1024;

float from_bits(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// 2^u for u in [0, 1): sqrt 2 * e^z, |z| <= ln 2 / 2.
inline double exp2_fraction(double u) {
    const double z = (u - 0.5) * 0x1.62e42fefa39efp-1;
    double result = 1;
    for (int k = 14; k > 0; --k) result = 1 + z * (1.0 / k) * result;
    return 0x1.6a09e667f3bcdp+0 * result;
}

int last_place(long double power) {
    int exponent;
    std::frexp(power, &exponent);
    return exponent - 24 > -149 ? exponent - 24 : -149;
}

}  // namespace

// Appends the exponents of y_first .. y_first + blocks * 1024 for which x^y lies within `near` units of a midpoint;
// returns how many there are in `found`, which holds `room`.
extern "C" int scan(uint32_t x_bits, uint32_t y_first, int blocks, double near, uint32_t* found, int room) {
    const float x = from_bits(x_bits);
    const long double log = std::log2(static_cast<long double>(x));
    const double upper = static_cast<double>(static_cast<float>(log));
    const double lower = static_cast<double>(log - upper);
    int count = 0;
    double distance[LENGTH];
    for (int block = 0; block < blocks; ++block) {
        const uint32_t first = y_first + static_cast<uint32_t>(block * LENGTH);
        const double whole = std::floor(static_cast<double>(from_bits(first)) * upper);
        if (!(whole > -150 && whole < 128)) continue;
        const int places = whole < -126 ? static_cast<int>(whole) + 149 : 23;
        const double scale = std::ldexp(1.0, places);
        for (int i = 0; i < LENGTH; ++i) {
            const double y = from_bits(first + static_cast<uint32_t>(i));
            const double power = exp2_fraction((y * upper - whole) + y * lower) * scale;
            distance[i] = std::fabs(power - std::floor(power) - 0.5);
        }
        for (int i = 0; i < LENGTH; ++i) {
            if (distance[i] > COARSE) continue;
            const float y = from_bits(first + static_cast<uint32_t>(i));
            const long double power = std::pow(static_cast<long double>(x), static_cast<long double>(y));
            const long double scaled = std::ldexp(power, -last_place(power));
            const long double exact_distance = std::fabs(scaled - std::floor(scaled) - 0.5L);
            if (exact_distance < near && exact_distance > 0 && count < room)
                found[count++] = first + static_cast<uint32_t>(i);
        }
    }
    return count;
}
