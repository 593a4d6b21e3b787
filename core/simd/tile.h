// The numbers of elements that are computed at a time.
#pragma once

#include "../formats/element.h"

namespace halfulp {

// A call of a kernel takes at most run_size elements, or block_size of operands that are copied for it, and computes them
// tile by tile. What the first phase of a run leaves undecided is computed together: for few lanes a vector is not full, and
// their lines of the output may have to be read again.
inline constexpr int run_size = 8192, block_size = 2048, tile_size = 256;
inline constexpr int cache_line = 64;

}  // namespace halfulp
