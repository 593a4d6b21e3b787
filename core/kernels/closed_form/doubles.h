// x^-2, x^(-1/2) and x^(3/2) of float32 by doubles (see power_of): if multiplications are not fused, and for bases
// beyond the range of the pairs.
#pragma once

#include "../../simd/tile.h"
#include "operations.h"
#include "pairs.h"

namespace halfulp::HALFULP_ISA {

// A tile. Returns whether all bases are finite and not zero (and positive, unless the formula takes any sign) and all
// powers are decided.
template <Shortcut shortcut>
static bool fill_by_doubles(const float* __restrict x, float* __restrict powers, int n) {
    alignas(64) double doubles[tile_size];
    uint32_t carries = 0, undecided = 0;
    for (int i = 0; i < n; ++i) doubles[i] = power_of<shortcut>(x[i]);  // vector loop: scalar
    for (int i = 0; i < n; ++i) {                                       // vector loop: scalar
        const uint32_t magnitude = magnitude_of<shortcut>(word_of(x[i]));
        carries |= (magnitude + 0x00800000) | (magnitude - 1);
        powers[i] = static_cast<float>(doubles[i]);
        undecided |= word_of(powers[i]) ^ word_of(static_cast<float>(doubles[i] * (1 + 2 * shortcut_error)));
    }
    return carries >> 31 == 0 && undecided == 0;
}

}  // namespace halfulp::HALFULP_ISA
