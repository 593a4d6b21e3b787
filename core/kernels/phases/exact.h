// The last phase (numerics/pow_exact.h), which takes one element at a time. It is compiled by itself: exact.cpp.
#pragma once

#include "../../numerics/pow_exact.h"
#include "../tiles.h"
#include "exponents.h"

namespace halfulp::HALFULP_ISA {

// The encoding of |x|^y, and floor(|x|^y), at most 2^64 - 1. A power that is not decided is counted in `undecided`.
uint64_t exact_encoding(const ElementRow& type, Dyadic x, bool y_negative, Dyadic y);
uint64_t exact_floor(Dyadic x, bool y_negative, Dyadic y);

// All phases for one element of float32.
uint32_t pow_of_one_float(uint32_t x, uint32_t y, bool domain_error);

// The last phase for the listed lanes.
template <typename X, typename Y, typename Lane>
static void resolve_exactly(const ElementRow& type, const X* x, Y y, Lane* out, const int* listed, int count) {
    for (int j = 0; j < count; ++j) {
        int i = listed[j];
        if (is_special(x[i], y.kinds(i)) || fabs(x[i]) == 1 || y.high(i) == 0) continue;
        uint64_t magnitude = exact_encoding(type, dyadic_of(x[i]), y.high(i) < 0, y[i].magnitude());
        out[i] = static_cast<Lane>(with_sign<uint64_t>(type, magnitude, bits_of(x[i]), y.parity(i)));
    }
}

}  // namespace halfulp::HALFULP_ISA
