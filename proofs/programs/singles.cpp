// The phase in single floats (kernels/float/single.h), for proofs/singles.py. Prints the claim, the coefficients of Q,
// 2^(j/8), and then for each base of both 16-bit types a line: x, and its logarithm as computed.
#include <cstdio>

#include "kernels/float/single.h"

using namespace halfulp::HALFULP_ISA;
using halfulp::Element;

template <Element type>
struct Opened : SinglePhase<type> {
    using Phase = SinglePhase<type>;
    using Phase::magic, Phase::rest_, Phase::shifted_;
};

template <Element type>
static void print_logarithms() {
    constexpr int step = SinglePhase<type>::step;
    static Opened<type> phase;
    float x[step], y[step];
    for (uint32_t code = 0; code < halfulp::row(type).overflow; code += step) {
        for (uint32_t i = 0; i < step; ++i) {
            x[i] = decode_float<type>(static_cast<uint16_t>(code + i));
            y[i] = 1;
        }
        phase.fill(x, y, step);
        for (int i = 0; i < step; ++i) {
            if (!(x[i] >= phase.least_base && x[i] < __builtin_inff())) continue;
            const double high = phase.shifted_[i] - phase.magic;  // exact, and so is the sum
            std::printf("%a %a\n", static_cast<double>(x[i]), high + phase.rest_[i]);
        }
    }
}

int main() {
    std::printf("%a %a\n", static_cast<double>(single_error), static_cast<double>(single_error_of_t));
    for (float c : constants::single_exp2) std::printf("%a ", static_cast<double>(c));
    std::printf("\n");
    for (float power : constants::single_powers) std::printf("%a ", static_cast<double>(power));
    std::printf("\n");
    print_logarithms<Element::float16>();
    print_logarithms<Element::bfloat16>();
}
