// y log2(x) and 2^t of a tile by quotients (numerics/pow_dd.h). It is cut where its loops are: the fewer operations a
// round has, and the fewer wait for each other, the more rounds a processor has under way.
#pragma once

#ifndef __AVX512F__
#include "../numerics/pow_dd.h"
#include "kernels.h"
#include "pow_signs.h"

namespace halfulp::HALFULP_ISA {

// y * log2(x) of a tile, as pairs.
struct DoubleDoubleLogarithms {
    alignas(64) double high[tile_size];
    alignas(64) double low[tile_size];

    // Between its loops it calls `between`.
    template <bool may_be_subnormal, typename Y, typename Between>
    void fill(const double* x, Y y, int n, Between between) {
        alignas(64) double s[tile_size], s_low[tile_size], e[tile_size];
        for (int i = 0; i < n; ++i) {  // vector loop: avx2 neon scalar
            DoubleDoubleQuotient quotient = quotient_dd<may_be_subnormal>(fabs(x[i]));
            s[i] = quotient.s.high;
            s_low[i] = quotient.s.low;
            e[i] = quotient.e;
        }
        between();
        for (int i = 0; i < n; ++i) {  // vector loop: avx2 neon scalar
            DoubleDouble t = log2_dd({{s[i], s_low[i]}, e[i]}, y.high(i), y.low(i));
            high[i] = t.high;
            low[i] = t.low;
        }
    }

    // finish(i, power) for each 2^t.
    template <typename F, typename Between>
    [[gnu::always_inline]] void raise(int n, F finish, Between between) const {
        alignas(64) double start_high[tile_size], start_low[tile_size];
        for (int i = 0; i < n; ++i) {  // vector loop: avx2 neon scalar
            DoubleDouble start = exp2_dd_start(high[i]);
            start_high[i] = start.high;
            start_low[i] = start.low;
        }
        between();
        // vector loop: avx2 neon
        for (int i = 0; i < n; ++i) finish(i, exp2_dd({high[i], low[i]}, {start_high[i], start_low[i]}));
    }
};

}  // namespace halfulp::HALFULP_ISA
#endif
