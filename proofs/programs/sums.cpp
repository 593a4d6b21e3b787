// Prints sum_to_odd of pairs of hexadecimal numbers, and the bits of the result.
#include <cstdio>

#include "numerics/double_double.h"

using namespace halfulp::HALFULP_ISA;

int main() {
    double a, b;
    while (std::scanf("%la %la", &a, &b) == 2) {
        const double sum = sum_to_odd(a, b);
        std::printf("%a %lu\n", sum, __builtin_bit_cast(uint64_t, sum));
    }
}
