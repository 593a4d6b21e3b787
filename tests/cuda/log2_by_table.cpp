// Whether the logarithm by tables of one element, which the device's kernels take, is that of AVX-512's lanes, whose error is
// proved: for every significand of floats, or for 256 of so many as an argument says, in some binades. Prints how many were
// compared, or the first that differs.
#include <cstdio>
#include <cstdlib>

#include "kernels/float/log2_table.h"
#include "numerics/pow_fast.h"

using namespace halfulp;
using namespace halfulp::HALFULP_ISA;

int main(int, char** arguments) {
    const Log2Table table;
    constexpr int step = 256;
    const uint32_t distance = static_cast<uint32_t>(std::atoi(arguments[1]));
    unsigned long compared = 0;
    for (const uint32_t exponent : {1u, 64u, 126u, 127u, 128u, 254u}) {
        for (uint32_t first = 0; first < 1u << 23; first += distance) {
            float x[step];
            double t[step];
            const double y[step] = {1};
            for (uint32_t i = 0; i < step; ++i) x[i] = __builtin_bit_cast(float, exponent << 23 | (first + i));
            table.fill<true>(x, y, t, step);
            for (uint32_t i = 0; i < step; ++i, ++compared) {
                const double one = log2_fast_by_table(exponent << 23 | (first + i));
                if (one == t[i]) continue;
                std::printf("%a: %a and %a\n", static_cast<double>(x[i]), one, t[i]);
                return 1;
            }
        }
    }
    std::printf("%lu\n", compared);
}
