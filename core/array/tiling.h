// Divides a call into tiles, which the kernels take one at a time, and the tiles into chunks, which threads take.
#pragma once

#include "view.h"

namespace halfulp {

// A tile is a box of neighbouring elements. It spans at most this many axes: a tile of 2^12 elements that has at least
// two along each.
inline constexpr int max_tile_axes = 12;

// What limits the speed of a call: arithmetic (up to 1 us per element), memory for most elements, or memory for all.
enum class BoundBy { arithmetic, mostly_memory, memory };

struct Tiling {
    // The same elements as the caller's, with as few axes as possible. The output's strides are positive and falling.
    Shape shape;
    View views[role_count];
    // The operands are vectors that the kernels can read and write in place, or constants.
    bool is_flat = false;

    // Panels are tiles of panel_rows rows, for an input that is transposed. The other operands are used in place.
    bool is_panel = false;
    // Tiles are whole rows of x and the output, or parts of one row, with one element of y a row; all are used in place.
    bool is_rows = false;
    int tile_axes = 0;
    int tile_axis[max_tile_axes];     // the axes that a tile spans, the output's fastest last
    ptrdiff_t tile_extent[max_dims];  // 1 on the other axes
    ptrdiff_t tiles_along[max_dims];
    int order[max_dims];  // the axes in the order that tiles follow each other, the fastest last
    ptrdiff_t tile_elements = 1;
    ptrdiff_t tile_count = 1;

    ptrdiff_t elements_per_chunk;
    bool is_beyond_caches = false;  // prefetching pays
    bool streams = false;           // tiles that are written in place are written by streaming stores

    ptrdiff_t tiles_per_chunk() const { return elements_per_chunk / tile_elements; }
    // 0 if there are no elements.
    ptrdiff_t chunk_count() const { return (tile_count + tiles_per_chunk() - 1) / tiles_per_chunk(); }
};

// The output may be the same view as an input, but must not overlap an input otherwise.
Tiling choose_tiling(const Shape& shape, const View& x, const View& y, const View& out, BoundBy bound_by);

}  // namespace halfulp
