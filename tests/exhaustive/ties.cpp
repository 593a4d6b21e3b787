// Which powers x^(n/2^k) of 24-bit numbers x lie near a number of 25 significant bits: the numbers and the midpoints of
// float32, its subnormal range included, and so of every shorter type.
//
// x runs through the 2^23 significands at one exponent e. v approximates the power by k square roots and n - 1 products,
// every one rounded by at most u = 2^-53: the root errs by less than 2u (each square root halves what was there and adds
// u), and the power by less than 2nu + (n - 1)u <= 45u for n <= 15; so v is within 45 units of its last place. All v within
// NEAR = 256 units of a number of 25 bits are listed: what is not listed is more than 211 * 2^-53 > 2^-46 away, relatively.
//
// Only the first two functions have to do with core/.

#include <bit>
#include <cmath>
#include <cstdint>

#define HALFULP_ISA scalar
#include "kernels/float/pow.h"

extern "C" {

// The double-double phase's error bound for float32, of a value of at least sqrt(1/2).
double pair_phase_error() {
    using namespace halfulp;
    const double most_t = scalar::Target::of(row(Element::float32)).most_t;
    return scalar::double_double_error.at(most_t);
}

// Whether the core takes an undecided power with this exponent for a tie.
bool takes_for_ties(double y) { return halfulp::scalar::has_ties(y); }

// Lists the near powers: the significands of x, as integers of 24 bits, and the numbers of 25 bits. At most `room`; the
// count is returned.
int64_t near_powers(int k, int e, int n, int64_t room, uint32_t* significands, double* numbers) {
    constexpr int64_t block = 512;
    constexpr uint64_t spacing = 1 << 28, NEAR = 256;  // a double has 53 bits: 28 more
    const double scale = std::ldexp(1, e - 23);
    double root[block], power[block];
    int64_t listed = 0;
    for (int64_t first = 1 << 23; first < 1 << 24; first += block) {
        for (int64_t i = 0; i < block; ++i) root[i] = static_cast<double>(static_cast<int32_t>(first + i)) * scale;
        for (int step = 0; step < k; ++step)
            for (int64_t i = 0; i < block; ++i) root[i] = std::sqrt(root[i]);
        for (int64_t i = 0; i < block; ++i) power[i] = root[i];
        for (int step = 1; step < n; ++step)
            for (int64_t i = 0; i < block; ++i) power[i] *= root[i];
        // How far beyond a point NEAR before a number of 25 bits.
        const auto beyond = [&](int64_t i) { return (std::bit_cast<uint64_t>(power[i]) + NEAR) & (spacing - 1); };
        uint64_t any = 0;
        for (int64_t i = 0; i < block; ++i) any |= beyond(i) <= 2 * NEAR;
        for (int64_t i = 0; any && i < block; ++i) {
            if (beyond(i) > 2 * NEAR) continue;
            if (listed < room) {
                significands[listed] = static_cast<uint32_t>(first + i);
                numbers[listed] = std::bit_cast<double>((std::bit_cast<uint64_t>(power[i]) + NEAR) & ~(spacing - 1));
            }
            ++listed;
        }
    }
    return listed;
}
}
