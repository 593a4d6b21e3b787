// Powers of float64.
#include <cstring>

#include "../decode.h"
#include "pow.h"

namespace halfulp::HALFULP_ISA {

namespace {

// Splits a 64-bit integer into its nearest double and the remainder. Returns whether any remainder may be non-zero.
template <std::integral Number>
bool split_exponents(const Number* stored, double* high, double* low, int n) {
    if (all_within(stored, 31, n)) {
        // vector loop
        for (int i = 0; i < n; ++i) high[i] = static_cast<double>(static_cast<int32_t>(stored[i]));
        return false;
    }
    for (int i = 0; i < n; ++i) {
        const Operand exponent = Operand::of(Integer::of(stored[i]));
        high[i] = exponent.high;
        low[i] = exponent.low;
    }
    return true;
}

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
    bool has_lows = false;
    if (y_type == Element::int64) has_lows = split_exponents(as<Element::int64>(y), highs, lows, n);
    else if (y_type == Element::uint64) has_lows = split_exponents(as<Element::uint64>(y), highs, lows, n);
    else decode_exponents(y_type, y, highs, n);
    if (has_lows) pow_by(PairExponents{highs, lows});
    else pow_by(Exponents<double>{highs});
}

}  // namespace

Tile float64_tile() { return pow_of_float64; }

}  // namespace halfulp::HALFULP_ISA
