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

// Copies of a constant exponent: as many elements as any phase takes at a time.
inline constexpr int most_constants = 2 * tile_size;

// Powers of a block by a first phase that runs on all of it before the others: float16, bfloat16, float32 and float64, with
// AVX2 or AVX-512. `one_y`: y is most_constants equal exponents. Returns whether it takes these types and options.
bool pow_by_block(const PowOptions& options, Element type, Element y_type, const void* x, const void* y, bool one_y,
                  void* out, int n, bool streaming);

// The number of powers that even the last phase did not decide (numerics/pow_exact.h). No input is known that
// increments it.
extern std::atomic<uint64_t> undecided;

}  // namespace halfulp::HALFULP_ISA
