// Copies one operand's part of a tile to a packed buffer, or back.
#pragma once

#include "tiling.h"

namespace halfulp {

// Where the elements of one operand's part of a tile are: how far adjacent elements along each axis are apart in
// memory, and in the packed copy. The axes are in the order of memory, the smallest stride last, so that a copy uses
// a cache line completely before it reads the next one.
class Box {
public:
    struct Axis {
        ptrdiff_t extent, stride, packed_stride;
    };

    // Takes the axes of a tile, in the tile's order.
    void lay_out(const ptrdiff_t* extent, const ptrdiff_t* strides, int count, ptrdiff_t item_size);

    int axes() const { return axes_; }
    const Axis& axis(int from_last) const { return axis_[axes_ - 1 - from_last]; }
    bool is_packed() const { return axes_ == 1 && axis_[0].stride == axis_[0].packed_stride; }
    // Whether the box is one element, broadcast.
    bool is_one() const { return axes_ == 1 && (axis_[0].stride == 0 || axis_[0].extent == 1); }

    // Short rows are copied several at a time: these are the offsets of the elements of rows along the last
    // `stepped_axes` axes.
    struct Step {
        ptrdiff_t offset, packed_offset;
    };
    int stepped_axes() const { return stepped_axes_; }
    int step_count() const { return step_count_; }
    const Step* steps() const { return steps_; }

    // Calls f(address, packed address) for each part that spans the last `spanned` axes.
    template <typename F>
    void for_each_part(int spanned, char* data, char* packed, F f) const {
        const int outer = axes_ - spanned;
        ptrdiff_t index[max_tile_axes] = {};
        for (;;) {
            f(data, packed);
            int i = outer - 1;
            for (; i >= 0; --i) {
                data += axis_[i].stride;
                packed += axis_[i].packed_stride;
                if (++index[i] < axis_[i].extent) break;
                data -= axis_[i].stride * axis_[i].extent;
                packed -= axis_[i].packed_stride * axis_[i].extent;
                index[i] = 0;
            }
            if (i < 0) return;
        }
    }

private:
    void add(const Axis& axis, int& repeats);
    void merge();
    void list_steps();

    static constexpr int short_row = 16, most_steps = 64;

    int axes_;
    Axis axis_[max_tile_axes];
    int stepped_axes_, step_count_;
    Step steps_[most_steps];
};

// Copies the box's elements from the view to `packed`, in native byte order and aligned.
void gather(const Box& box, const View& view, char* data, char* packed);
// Copies them back, in the view's byte order.
void scatter(const Box& box, const View& view, char* data, char* packed);

}  // namespace halfulp
