// Compares parity_of (numerics/pow_special.h) with its definition, whether y and y/2 are integers. Exits with 1 if they
// differ.
//
//   floats     every float
//   doubles    next to both ends of each binade, and random bits
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "numerics/pow_special.h"

using namespace halfulp::HALFULP_ISA;

template <typename Real>
static void check(Real y) {
    const Real magnitude = std::fabs(y);
    uint64_t expected = even;
    if (std::trunc(magnitude) != magnitude) expected = not_integral;
    else if (std::trunc(magnitude / 2) != magnitude / 2) expected = odd;
    if (std::isfinite(y) && parity_of(y) != expected) {
        std::fprintf(stderr, "parity_of(%a) is %lu, not %lu\n", static_cast<double>(y),
                     static_cast<unsigned long>(parity_of(y)), expected);
        std::exit(1);
    }
}

int main(int, char** arguments) {
    if (arguments[1][0] == 'f') {
        uint32_t bits = 0;
        do check(__builtin_bit_cast(float, bits));
        while (++bits != 0);
        std::printf("2^32 floats\n");
        return 0;
    }
    std::mt19937_64 chance;
    long count = 0;
    for (uint64_t exponent = 0; exponent < 2047; ++exponent) {
        for (uint64_t i = 0; i < 4096; ++i, ++count) {
            const uint64_t fraction = (i < 1024   ? i
                                       : i < 2048 ? -i
                                       : i < 3072 ? chance()
                                                  : chance() << chance() % 64) &
                                      ((uint64_t{1} << 52) - 1);
            const double y = double_of(exponent << 52 | fraction);
            check(y);
            check(-y);
        }
    }
    std::printf("%ld doubles\n", 2 * count);
}
