// Whether e - fl(e + s sum) is exact (numerics/pow_dd.h, log2_sum) for e = 1 and -1 and the 2^20 significands next to
// either end of [sqrt(1/2), sqrt 2), where it may lack a bit: prints how many there are, and the last of each end.
#include <cstdio>
#include <initializer_list>

#include "numerics/pow_dd.h"

using namespace halfulp::HALFULP_ISA;

int main() {
    constexpr int count = 1 << 20;
    double m = 1;
    for (const double end : {0x1.6a09e667f3bcdp-1, 0x1.6a09e667f3bcdp+0}) {
        for (int i = 0; i < count; ++i) {
            m = end > 1 ? double_of(bits_of(end) - 1 - static_cast<uint64_t>(i))
                        : double_of(bits_of(end) + static_cast<uint64_t>(i));
            const DoubleDoubleQuotient quotient = quotient_dd<false>(m);
            if (quotient.e != 0) return std::fprintf(stderr, "%a is not in [sqrt(1/2), sqrt 2)\n", m), 1;
            const DoubleDouble series = log2_series(squared(quotient.s));
            for (const double e : {1.0, -1.0}) {
                const double sum = multiply_add(quotient.s.high, series.high, e);
                if (two_sum(e, -sum).low != 0) return std::fprintf(stderr, "e - sum is not exact at m = %a\n", m), 1;
            }
        }
        std::printf("%a\n", m);
    }
}
