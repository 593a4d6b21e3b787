// Powers of float64.
#include <cstring>

#include "../decode.h"
#include "pow.h"

namespace halfulp::HALFULP_ISA {

namespace {

void pow_of_float64(const PowOptions& options, Element y_type, const void* x, const void* y, void* out, int n,
                    const Prefetch& prefetch) {
    alignas(64) double bases[tile_size], highs[tile_size], lows[tile_size];
    const double* x_values = static_cast<const double*>(x);
    if (x == out) {  // copied, since the later phases read x again
        std::memcpy(bases, x, sizeof(double) * static_cast<size_t>(n));
        x_values = bases;
    }
    const auto pow_by = [&](auto exponents) {
        pow_tile(options, x_values, exponents, static_cast<uint64_t*>(out), n, prefetch);
    };
    if (y_type == Element::float64 && y != out) return pow_by(Exponents<double>{static_cast<const double*>(y)});
    if (split_exponents(y_type, y, highs, lows, n)) pow_by(PairExponents{highs, lows});
    else pow_by(Exponents<double>{highs});
}

}  // namespace

Tile float64_tile() { return pow_of_float64; }

}  // namespace halfulp::HALFULP_ISA
