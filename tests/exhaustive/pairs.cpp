// pairs SEED TILES: computes tiles of random powers of float32 by the phase in pairs of floats (kernels/float/pairs.h), and
// by the other phases, and compares the bits. Prints how many powers the phase decided and how many differ.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "fp_environment.h"
#include "kernels/float/pairs.h"
#include "kernels/float/pow.h"
#include "tools/splitmix.h"

using namespace halfulp;
using namespace halfulp::HALFULP_ISA;

static double between(double least, double greatest, uint64_t& state) {
    return least + (greatest - least) * static_cast<double>(next(state) >> 11) * 0x1p-53;
}

// Operands of one kind: ordinary, wide, next to 1, growth, great |t|, gamma, and any bits.
static void operands(int kind, float& x, float& y, uint64_t& state) {
    double base = between(0.01, 10, state), exponent = between(-4, 4, state);
    if (kind == 1) base = std::exp2(between(-125, 127, state)), exponent = between(-1, 1, state);
    if (kind == 2) base = 1 + between(-1, 1, state) * std::exp2(between(-24, -4, state)), exponent *= 16;
    if (kind == 3) base = between(1, 1.1, state), exponent = between(1, 500, state);
    if (kind == 4) exponent = between(-124, 124, state) / std::log2(base);
    if (kind == 5) base = between(0, 1, state), exponent = 2.2;
    x = static_cast<float>(base);
    y = static_cast<float>(exponent);
    if (kind < 6) return;
    x = __builtin_bit_cast(float, static_cast<uint32_t>(next(state)));
    y = __builtin_bit_cast(float, static_cast<uint32_t>(next(state)));
}

int main(int, char** arguments) {
    FpEnvironment default_environment;
    constexpr int n = tile_size;
    uint64_t state = std::strtoull(arguments[1], nullptr, 10) << 32;
    const long tiles = std::atol(arguments[2]);
    alignas(64) static float x[n], y[n];
    alignas(64) static uint32_t with[n], without[n];
    long decided_count = 0, differing = 0;
    for (long tile = 0; tile < tiles; ++tile) {
        for (int i = 0; i < n; ++i) operands(static_cast<int>(tile % 7), x[i], y[i], state);
        const Prefetch nothing(x, y, with, 0, 0);
        uint64_t undecided[PairTile::size / 64];
        run_pairs({}, x, y, with, undecided, n, false);
        pow_tile(FloatType<FloatKind::float32>{}, {}, x, y, without, n, nothing);
        for (int i = 0; i < n; ++i) {
            const bool decided = (undecided[i / 64] >> (i % 64) & 1) == 0;
            decided_count += decided;
            if (!decided || with[i] == without[i]) continue;
            if (differing++ == 0) std::printf("%a ** %a\n", static_cast<double>(x[i]), static_cast<double>(y[i]));
        }
    }
    std::printf("%ld %ld\n", decided_count, differing);
}
