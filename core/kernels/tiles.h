// The tiles of powers, a file for each family of types: float_tiles.cpp, float64_tiles.cpp, int_tiles.cpp. Each is compiled
// once for each instruction set, with HALFULP_ISA naming it. All is static or in the namespace of the instruction set, so
// that the linker cannot mix code of different sets.
#pragma once

#include <atomic>

#include "../simd/prefetch.h"
#include "kernels.h"

namespace halfulp::HALFULP_ISA {

// out = x^y of at most tile_size elements.
using Tile = void (*)(const PowOptions& options, Element y_type, const void* x, const void* y, void* out, int n,
                      const Prefetch& prefetch);

Tile float_tile(Element type);  // of every floating type but float64
Tile float64_tile();
Tile int_tile(Element type, Element y_type, bool scaled);

// Powers that not even the last phase decided (numerics/pow_exact.h); nothing is known that would count here.
inline std::atomic<uint64_t> undecided{0};

}  // namespace halfulp::HALFULP_ISA
