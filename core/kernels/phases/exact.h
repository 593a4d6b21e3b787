// The last phase (numerics/pow_exact.h), which takes one element at a time.
#pragma once

#include "../../numerics/pow_exact.h"
#include "../tiles.h"
#include "exponents.h"

namespace halfulp::HALFULP_ISA {

// The power; counts it in `undecided` if it is not decided.
static inline uint64_t counted(const Decision<uint64_t>& power) {
    if (!power.decided) undecided.fetch_add(1, std::memory_order_relaxed);
    return power.result;
}

// The last phase for the listed lanes.
template <Element type, typename X, typename Y>
static void resolve_exactly(const X* x, Y y, Storage<type>* out, const int* listed, int count) {
    for (int j = 0; j < count; ++j) {
        int i = listed[j];
        if (is_special(x[i], y.kinds(i)) || fabs(x[i]) == 1 || y.high(i) == 0) continue;
        uint64_t magnitude = counted(pow_exact(row(type), dyadic_of(x[i]), y.high(i) < 0, y[i].magnitude()));
        out[i] = static_cast<Storage<type>>(with_sign<type, uint64_t>(magnitude, bits_of(x[i]), y.parity(i)));
    }
}

}  // namespace halfulp::HALFULP_ISA
