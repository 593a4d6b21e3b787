// The only loop: walks operands of any strides, broadcasting and byte order in tiles that the kernels take,
// without a temporary of an operand's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace halfulp {

// As many as NumPy has.
inline constexpr int max_dims = 64;
// A tile is a box of neighbouring elements. It spans at most this many axes: of 2^12 elements, at least two along each.
inline constexpr int max_tile_axes = 12;

struct View {
    char* data = nullptr;
    int item_size = 0;
    bool swapped = false;         // not in the machine's byte order
    ptrdiff_t strides[max_dims];  // in bytes, 0 where broadcast; those of the shape's axes count
};

struct Shape {
    int dims = 0;
    ptrdiff_t extent[max_dims];
};

enum Role { role_x, role_y, role_out, role_count };

// Called for each tile: n elements of x and y, or one of y for all, contiguous and in native order, to out, or
// by streaming stores to it.
using TileFunction = std::function<void(const void* x, const void* y, bool one_y, void* out, int n, bool streaming)>;

// What f spends an element's time on: arithmetic, up to a microsecond; memory, for most elements; memory, for all.
enum class BoundBy { arithmetic, mostly_memory, memory };

// out[i] = f(x[i], y[i]) for every index of a shape, cut into shares that may run in any order on any threads.
// `out` may be the very same view as an input, but may not overlap one otherwise.
class Loop {
public:
    Loop(const Shape& shape, const View& x, const View& y, const View& out, BoundBy bound_by);

    // 0 where there are no elements.
    ptrdiff_t share_count() const;

    // Runs in the default floating-point environment and restores the caller's. Returns false where a tile has to be
    // copied and there is no memory for that. (It does not throw: for its first exception a thread needs memory too.)
    bool run_share(ptrdiff_t share, const TileFunction& f) const;

private:
    friend class Walker;

    void simplify();
    bool is_flat() const;
    ptrdiff_t bytes() const;
    void drop_axis(int axis);
    int fastest_axis(const View& view) const;
    bool lies_in_rows_apart(int axis) const;
    int crossing_axis(const View& view) const;
    bool fills_panels(const View& view, int transposed_axis) const;
    void take(int axis, ptrdiff_t extent, ptrdiff_t& room);
    void take_neighbours(const View& view, ptrdiff_t& room);
    void choose_tile();
    ptrdiff_t tiles_of_share() const;

    Shape shape_;
    View views_[role_count];
    bool is_panel_ = false;
    int tile_axes_ = 0;
    int tile_axis_[max_tile_axes];     // which axes the box spans, the output's fastest last
    ptrdiff_t tile_extent_[max_dims];  // 1 on the other axes
    ptrdiff_t tiles_along_[max_dims];
    int order_[max_dims];  // of the axes, that along which tiles follow each other last
    ptrdiff_t tile_elements_ = 1;
    ptrdiff_t elements_a_share_;
    ptrdiff_t tile_count_ = 1;
    bool is_beyond_caches_ = false;  // whether memory is worth asking for early
    bool streams_ = false;           // where the output's tiles are packed
};

}  // namespace halfulp
