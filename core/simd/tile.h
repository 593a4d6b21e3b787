// How many elements are taken at a time.
#pragma once

#include "../formats/element.h"

namespace halfulp {

// The most elements that a kernel takes at a time, and how many of them it has in hand.
inline constexpr int block_size = 2048, tile_size = 256;
inline constexpr int cache_line = 64;

}  // namespace halfulp
