// Powers of one tile. Each family of types has a file: float/tile.cpp, float64/tile.cpp, int/tile.cpp. Each file is
// compiled once for each instruction set, which HALFULP_ISA names. Everything is static or in the instruction set's
// namespace, so that the linker cannot mix code of different sets.
#pragma once

#include <atomic>

#include "../simd/prefetch.h"
#include "kernels.h"

namespace halfulp::HALFULP_ISA {

// out = x^y for at most tile_size elements.
using Tile = void (*)(const PowOptions& options, Element y_type, const void* x, const void* y, void* out, int n,
                      const Prefetch& prefetch);

Tile float_tile(Element type);  // every floating type except float64
Tile float64_tile();
Tile int_tile(Element type, Element y_type, bool scaled);

// Powers of a block by a phase in floats first: float16 and bfloat16, and float32 with AVX-512. `one_y`: y is a tile of
// equal exponents. Returns whether it takes these types and options.
bool pow_by_floats(const PowOptions& options, Element type, Element y_type, const void* x, const void* y, bool one_y,
                   void* out, int n, bool streaming);

// The number of powers that even the last phase did not decide (numerics/pow_exact.h). No input is known that
// increments it.
extern std::atomic<uint64_t> undecided;

}  // namespace halfulp::HALFULP_ISA
