// The numbers of elements that are computed at a time.
#pragma once

#include "../formats/element.h"

namespace halfulp {

// A call of a kernel takes at most block_size elements, and computes them tile by tile.
inline constexpr int block_size = 2048, tile_size = 256;
inline constexpr int cache_line = 64;

}  // namespace halfulp
