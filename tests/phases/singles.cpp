// Prints a digest of the phase in single floats (kernels/float/single.h) for many operands: its results, and which
// lanes are undecided. It must be the same for AVX2 and AVX-512.
#include <cstdio>

#include "kernels/float/single.h"
#include "tools/splitmix.h"

using namespace halfulp;
using namespace halfulp::HALFULP_ISA;

// Tiles of any encodings, which are rarely in the domain, of positive numbers, and of numbers whose powers are mostly finite.
template <Element type>
static uint64_t digest() {
    constexpr uint32_t one = static_cast<uint32_t>(row(type).bias) << row(type).fraction_bits();
    constexpr uint32_t binade = uint32_t{1} << row(type).fraction_bits();
    uint64_t state = 1, sum = 0xcbf29ce484222325;
    const auto add = [&](const auto& words) {
        for (auto word : words) sum = (sum ^ word) * 0x100000001b3;
    };
    for (int tile = 0; tile < 4096; ++tile) {
        alignas(64) uint16_t x[tile_size], y[tile_size], out[tile_size];
        uint64_t undecided[tile_size / 64];
        for (int i = 0; i < tile_size; ++i) {
            const uint64_t random = next(state), other = random >> 32;
            const uint64_t base = tile % 4 == 0   ? random
                                  : tile % 4 == 1 ? random % row(type).overflow
                                                  : one - 4 * binade + random % (8 * binade);
            const uint64_t exponent = tile % 4 == 0 ? other : one - 5 * binade + other % (11 * binade);
            x[i] = static_cast<uint16_t>(base);
            y[i] = static_cast<uint16_t>(exponent | (random >> 16 & 0x8000));
        }
        SinglePhase<type> phase;
        const bool is_in_domain = phase.fill(x, y, tile_size);
        sum += is_in_domain;
        if (!is_in_domain) continue;  // other code, which is not the same
        phase.round(out, undecided, tile_size);
        add(out);
        add(undecided);
    }
    return sum;
}

int main() {
    std::printf("%016llx %016llx\n", static_cast<unsigned long long>(digest<Element::float16>()),
                static_cast<unsigned long long>(digest<Element::bfloat16>()));
}
