// Prints the operations of the fast phase's logarithm by tables, for a number in each part of a binade.
#include "traced.h"

#define __AVX512F__ 1
#include "kernels/float/log2_table.h"

using namespace halfulp::HALFULP_ISA;

int main() {
    const Log2Table table;
    for (int i = 0; i < 16; ++i) {
        traced::begin("log2_by_table." + std::to_string(i));
        const traced::Float x = traced::input_float("x", 8 * (1 + (static_cast<float>(i) + 0.5f).value * 0x1p-4f));
        const traced::Double y = 1;
        traced::Double t[16];
        table.fill<false>(&x, &y, t, 1);
        traced::output("log2", t[0]);
    }
}
