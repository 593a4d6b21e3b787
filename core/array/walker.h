// The loop over tiles: reads operands of any strides, broadcasting and byte order without a temporary of an operand's
// size.
#pragma once

#include "operation.h"
#include "tiling.h"

namespace halfulp {

// Computes out[i] = operation(x[i], y[i]) for the elements of some tiles, up to the last one. Tiles may run in any
// order and on any threads. Runs in the default floating-point environment and restores the caller's. Returns false if a tile has to
// be copied and there is no memory for that. (It does not throw: for its first exception a thread needs memory too.)
bool run_tiles(const Tiling& tiling, ptrdiff_t first, ptrdiff_t end, const Operation& operation);
bool run_chunk(const Tiling& tiling, ptrdiff_t chunk, const Operation& operation);

}  // namespace halfulp
