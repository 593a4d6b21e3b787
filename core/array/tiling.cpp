#include "tiling.h"

#include <algorithm>
#include <cstdlib>

#include "simd/tile.h"

namespace halfulp {

namespace {

// Chunk sizes: small enough to check for interrupts 10 times a second at 1 us per element; large enough that start-up
// cost is negligible.
constexpr ptrdiff_t slow_chunk = 1 << 14, quick_chunk = 1 << 16;
// Bytes of all operands. Streaming stores pay only when the output is much larger than the cache.
constexpr ptrdiff_t near_caches_hold = 1 << 20, far_more_than_caches_hold = 64 << 20;

constexpr ptrdiff_t panel_rows = 16, worth_a_panel = 64;
// In elements. For shorter rows, packing several rows and calling the kernel once is faster.
constexpr ptrdiff_t worth_a_call = 128, worth_a_call_beyond_caches = 64;

// In bytes. In shorter rows, vectors would be filled only in part. Rows of a few vectors are faster with copies of their
// y, if one copy serves all tiles or if the type needs only a few operations.
constexpr ptrdiff_t worth_a_vector = 64, worth_more_than_a_copy = 128;

void drop_axis(Tiling& tiling, int axis) {
    Shape& shape = tiling.shape;
    for (int i = axis; i + 1 < shape.dims; ++i) {
        shape.extent[i] = shape.extent[i + 1];
        for (View& view : tiling.views) view.strides[i] = view.strides[i + 1];
    }
    --shape.dims;
}

// Makes the output's strides positive and falling, and merges axes that every operand steps along as along one.
void simplify(Tiling& tiling) {
    Shape& shape = tiling.shape;
    auto& views = tiling.views;
    for (int i = shape.dims - 1; i >= 0; --i)
        if (shape.extent[i] == 1) drop_axis(tiling, i);
    for (int i = 0; i < shape.dims; ++i) {
        if (views[role_out].strides[i] >= 0) continue;
        for (View& view : views) {
            view.data += view.strides[i] * (shape.extent[i] - 1);
            view.strides[i] = -view.strides[i];
        }
    }
    for (int i = 1; i < shape.dims; ++i) {
        for (int j = i; j > 0 && views[role_out].strides[j - 1] < views[role_out].strides[j]; --j) {
            std::swap(shape.extent[j - 1], shape.extent[j]);
            for (View& view : views) std::swap(view.strides[j - 1], view.strides[j]);
        }
    }
    for (int i = shape.dims - 2; i >= 0; --i) {
        bool merges = true;
        for (const View& view : views) merges &= view.strides[i] == view.strides[i + 1] * shape.extent[i + 1];
        if (!merges) continue;
        shape.extent[i] *= shape.extent[i + 1];
        for (View& view : views) view.strides[i] = view.strides[i + 1];
        drop_axis(tiling, i + 1);
    }
    if (shape.dims == 0) {
        shape.dims = 1;
        shape.extent[0] = 1;
        for (View& view : views) view.strides[0] = view.item_size;
    }
}

// The memory that all operands cover.
ptrdiff_t bytes(const Tiling& tiling) {
    ptrdiff_t sum = 0;
    for (const View& view : tiling.views) {
        ptrdiff_t size = view.item_size;
        for (int i = 0; i < tiling.shape.dims; ++i)
            if (view.strides[i] != 0) size *= tiling.shape.extent[i];
        sum += size;
    }
    return sum;
}

// True for most calls, once simplified.
bool is_flat(const Tiling& tiling) {
    if (tiling.shape.dims != 1) return false;
    for (int k = 0; k < role_count; ++k) {
        const View& view = tiling.views[k];
        if (view.strides[0] == 0 && k != role_out) continue;
        if (view.swapped || view.strides[0] != view.item_size || !is_aligned(view.data, view)) return false;
    }
    return true;
}

// Whether adjacent rows of x and the output have one y each, and all can be used in place.
bool is_in_rows(const Tiling& tiling, BoundBy bound_by) {
    const Shape& shape = tiling.shape;
    const int last = shape.dims - 1;
    if (shape.dims < 2 || tiling.views[role_y].strides[last] != 0) return false;
    for (const View& view : tiling.views) {
        bool in_place = !view.swapped && is_aligned(view.data, view);
        for (int i = 0; i <= last; ++i) in_place &= view.strides[i] % view.item_size == 0;
        if (&view != &tiling.views[role_y])
            in_place &=
                view.strides[last] == view.item_size && view.strides[last - 1] == view.item_size * shape.extent[last];
        if (!in_place) return false;
    }
    const ptrdiff_t length = shape.extent[last];
    if (bound_by != BoundBy::memory) return length >= tile_size;
    const bool one_copy = shape.dims > 2 && length * shape.extent[last - 1] <= block_size;
    const int size = tiling.views[role_x].item_size;
    return length * size >= (one_copy || size >= 4 ? worth_more_than_a_copy : worth_a_vector);
}

// The axis along which a view's elements are closest in memory, or -1.
int fastest_axis(const Shape& shape, const View& view) {
    int fastest = -1;
    for (int i = 0; i < shape.dims; ++i) {
        ptrdiff_t stride = std::abs(view.strides[i]);
        if (stride != 0 && (fastest < 0 || stride < std::abs(view.strides[fastest]))) fastest = i;
    }
    return fastest;
}

// Whether rows of an operand that could be used in place are not adjacent in memory along this axis.
bool has_rows_apart(const Tiling& tiling, int axis) {
    const int last = tiling.shape.dims - 1;
    for (const View& view : tiling.views) {
        if (view.swapped || view.strides[last] != view.item_size || view.strides[axis] == 0) continue;
        if (view.strides[axis] != view.strides[axis + 1] * tiling.shape.extent[axis + 1]) return true;
    }
    return false;
}

// If the output's order would read an input a few bytes at a time, the axis along which that input's elements are
// adjacent. Otherwise -1.
int crossing_axis(const Shape& shape, const View& view) {
    int nearest = shape.dims - 1;  // the output's fastest axis of those that this input is not broadcast along
    ptrdiff_t repeats = 1;
    for (; nearest >= 0 && view.strides[nearest] == 0; --nearest) repeats *= shape.extent[nearest];
    const int axis = fastest_axis(shape, view);
    if (axis == nearest || repeats >= panel_rows) return -1;
    return std::abs(view.strides[nearest]) >= cache_line || shape.extent[nearest] < panel_rows ? axis : -1;
}

// Whether panels of a view that is transposed along this axis consist of whole cache lines.
bool fills_panels(const Shape& shape, const View& view, int transposed_axis) {
    const ptrdiff_t extent = shape.extent[transposed_axis], stride = view.strides[shape.dims - 1];
    return extent >= panel_rows || shape.dims == 2 ||
           std::abs(stride) == std::abs(view.strides[transposed_axis]) * extent;
}

// Extends the tile along an axis by up to a factor of `room`, so that the axis is divided into parts of about equal
// size, and updates `room`.
void take(Tiling& tiling, int axis, ptrdiff_t extent, ptrdiff_t& room) {
    ptrdiff_t& taken = tiling.tile_extent[axis];
    const ptrdiff_t all = tiling.shape.extent[axis], before = taken, most = before * room;
    const ptrdiff_t parts = std::max({ptrdiff_t{1}, all / std::max(extent, before), (all + most - 1) / most});
    taken = (all + parts - 1) / parts;
    if (taken > panel_rows)  // whole cache lines
        taken = std::min({all, most, (taken + panel_rows - 1) / panel_rows * panel_rows});
    room = room * before / taken;
}

// Extends the tile along an operand's fastest axes until it holds a few cache lines of adjacent elements.
void take_neighbours(Tiling& tiling, const View& view, ptrdiff_t& room) {
    bool taken[max_dims] = {};
    for (ptrdiff_t run = 1; run < panel_rows && room > 1;) {
        int fastest = -1;
        for (int i = tiling.shape.dims - 1; i >= 0; --i) {
            if (taken[i] || view.strides[i] == 0) continue;
            if (fastest < 0 || std::abs(view.strides[i]) < std::abs(view.strides[fastest])) fastest = i;
        }
        if (fastest < 0) return;
        taken[fastest] = true;
        take(tiling, fastest, (panel_rows + run - 1) / run, room);
        run *= tiling.tile_extent[fastest];
    }
}

// If an input runs along other axes than the output, a tile takes adjacent elements of both, for whole cache lines of
// both. A panel is `panel_rows` rows of one tile's length. The operands that are not transposed are then used in place.
// Panels follow each other along the axis where the transposed input is adjacent, so that they read the same pages of
// it.
void choose_tile(Tiling& tiling) {
    const Shape& shape = tiling.shape;
    const auto& views = tiling.views;
    const int last = shape.dims - 1;
    for (int i = 0; i <= last; ++i) {
        tiling.tile_extent[i] = 1;
        tiling.order[i] = i;
    }
    const View &x = views[role_x], &y = views[role_y];
    const int transposed_axes[] = {crossing_axis(shape, x), crossing_axis(shape, y)};
    const int transposed_axis = std::max(transposed_axes[0], transposed_axes[1]);
    const bool one_is_transposed =
        transposed_axes[0] < 0 || transposed_axes[1] < 0 || transposed_axes[0] == transposed_axes[1];
    ptrdiff_t room = tiling.is_flat ? run_size : block_size;
    if (tiling.is_rows) {
        tiling.tile_extent[last] = std::min<ptrdiff_t>(shape.extent[last], run_size);
        tiling.tile_extent[last - 1] = std::min(shape.extent[last - 1], run_size / tiling.tile_extent[last]);
    } else if (transposed_axis >= 0 && one_is_transposed && shape.extent[last] >= worth_a_panel &&
               fills_panels(shape, views[transposed_axes[role_y] >= 0 ? role_y : role_x], transposed_axis)) {
        tiling.tile_extent[last] = std::min<ptrdiff_t>(shape.extent[last], tile_size);
        tiling.tile_extent[transposed_axis] = std::min(shape.extent[transposed_axis], panel_rows);
        tiling.is_panel = true;
        std::rotate(tiling.order + transposed_axis, tiling.order + transposed_axis + 1, tiling.order + shape.dims);
    } else if (transposed_axis >= 0) {
        take_neighbours(tiling, views[role_out], room);
        for (int operand : {role_x, role_y})
            if (transposed_axes[operand] >= 0) take_neighbours(tiling, views[operand], room);
        for (int axis = last; axis >= 0 && room > 1; --axis) take(tiling, axis, shape.extent[axis], room);
    } else {
        // A tile ends with its row in two cases. The row is long and has one y, which differs from the next row's: a
        // kernel takes one y for a whole tile. Or the row is long and not adjacent to the next row: a tile of several
        // rows would have to be copied.
        const bool one_y = y.strides[last] == 0 && shape.extent[last] >= tile_size;
        const bool long_rows =
            shape.extent[last] >= (tiling.is_beyond_caches ? worth_a_call_beyond_caches : worth_a_call);
        for (int axis = last; axis >= 0 && room > 1; --axis) {
            if (one_y && y.strides[axis] != 0) break;
            if (long_rows && axis < last && has_rows_apart(tiling, axis)) break;
            tiling.tile_extent[axis] = std::min(shape.extent[axis], room);
            room /= tiling.tile_extent[axis];
        }
    }
    for (int i = 0; i <= last; ++i) {
        const ptrdiff_t extent = tiling.tile_extent[i];
        if (extent > 1 || (i == last && tiling.tile_axes == 0)) tiling.tile_axis[tiling.tile_axes++] = i;
        tiling.tile_elements *= extent;
        tiling.tiles_along[i] = (shape.extent[i] + extent - 1) / extent;
        tiling.tile_count *= tiling.tiles_along[i];
    }
}

}  // namespace

Tiling choose_tiling(const Shape& shape, const View& x, const View& y, const View& out, BoundBy bound_by) {
    Tiling tiling;
    tiling.elements_per_chunk = bound_by == BoundBy::memory ? quick_chunk : slow_chunk;
    // Copies only the axes that are in use: to copy all 64 takes as long as the rest of a small call.
    tiling.shape.dims = shape.dims;
    std::copy_n(shape.extent, shape.dims, tiling.shape.extent);
    const View* from[role_count] = {&x, &y, &out};
    for (int k = 0; k < role_count; ++k) {
        View& view = tiling.views[k];
        view.data = from[k]->data;
        view.item_size = from[k]->item_size;
        view.swapped = from[k]->swapped;
        std::copy_n(from[k]->strides, shape.dims, view.strides);
    }
    if (std::find(shape.extent, shape.extent + shape.dims, 0) != shape.extent + shape.dims) {
        tiling.tile_count = 0;
        return tiling;
    }
    simplify(tiling);
    const ptrdiff_t size = bytes(tiling);
    tiling.is_beyond_caches = size >= near_caches_hold;
    // In place, the output's cache lines have just been read, so that streaming stores save nothing.
    const char* result = tiling.views[role_out].data;
    const bool in_place = result == tiling.views[role_x].data || result == tiling.views[role_y].data;
    tiling.streams = bound_by != BoundBy::arithmetic && size >= far_more_than_caches_hold && !in_place;
    tiling.is_flat = is_flat(tiling);
    tiling.is_rows = is_in_rows(tiling, bound_by);
    choose_tile(tiling);
    return tiling;
}

}  // namespace halfulp
