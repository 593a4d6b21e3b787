#include "loop.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "fp_environment.h"
#include "kernels/kernels.h"

namespace halfulp {

// Shares are small enough that a thread comes back ten times a second even at a microsecond an element, and otherwise
// large enough that their beginnings don't count.
static constexpr ptrdiff_t slow_share = 1 << 14, quick_share = 1 << 16;
// Bytes of operands. As long as a cache holds a good part of the output, it is no gain to store past it.
static constexpr ptrdiff_t near_caches_hold = 1 << 20, far_more_than_caches_hold = 64 << 20;

static constexpr ptrdiff_t panel_rows = 16, worth_a_panel = 64;
// Elements. A call for less takes longer than to copy it together with more.
static constexpr ptrdiff_t worth_a_call = 128, worth_a_call_beyond_caches = 64;

namespace {

template <typename Word>
Word byte_swap(Word value) {
    if constexpr (sizeof(Word) == 8) return __builtin_bswap64(value);
    else if constexpr (sizeof(Word) == 4) return __builtin_bswap32(value);
    else if constexpr (sizeof(Word) == 2) return __builtin_bswap16(value);
    else return value;
}

// One operand's part of a tile: how far its neighbours along each axis lie apart in memory, and in a packed copy. Its
// axes are in the order of memory, the nearest neighbours last, so that a copy takes at once what it needs of a cache
// line.
class Box {
public:
    struct Axis {
        ptrdiff_t extent, stride, packed_stride;
    };

    // Of the axes of a tile in its own order.
    void lay_out(const ptrdiff_t* extent, const ptrdiff_t* strides, int count, ptrdiff_t item_size) {
        axes_ = 0;
        int repeats = 0;
        ptrdiff_t packed_stride = item_size;
        for (int i = count - 1; i >= 0; --i) {
            if (extent[i] != 1) add({extent[i], strides[i], packed_stride}, repeats);
            packed_stride *= extent[i];
        }
        if (axes_ == 0) axis_[axes_++] = {1, item_size, item_size};
        std::reverse(axis_, axis_ + axes_);
        merge();
        list_steps();
    }

    int axes() const { return axes_; }
    // The last one but so many.
    const Axis& axis(int from_last) const { return axis_[axes_ - 1 - from_last]; }
    bool is_packed() const { return axes_ == 1 && axis_[0].stride == axis_[0].packed_stride; }
    // Whether all of it is one element, broadcast.
    bool is_one() const { return axes_ == 1 && (axis_[0].stride == 0 || axis_[0].extent == 1); }

    // Rows along the last axis that are short are copied several at a time: the places of all their elements.
    struct Step {
        ptrdiff_t offset, packed_offset;
    };
    int stepped_axes() const { return stepped_axes_; }
    int step_count() const { return step_count_; }
    const Step* steps() const { return steps_; }

    // Calls f(address, packed address) for each part that spans so many of the last axes.
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
    // Puts an axis where it belongs: nearer neighbours before it. Along an axis of broadcasting there are none; only
    // the packed copy's nearest of these come first, `repeats` of them, as what they repeat is quickly stored.
    void add(const Axis& axis, int& repeats) {
        if (axis.stride == 0 && repeats == axes_) ++repeats;
        int place = axes_++;
        const auto is_nearer = [&](const Axis& other) {
            return axis.stride != 0 && (other.stride == 0 || std::abs(axis.stride) < std::abs(other.stride));
        };
        for (; place > repeats && is_nearer(axis_[place - 1]); --place) axis_[place] = axis_[place - 1];
        axis_[place] = axis;
    }

    void merge() {
        int merged = 0;
        for (int i = 1; i < axes_; ++i) {
            Axis& outer = axis_[merged];
            const Axis& inner = axis_[i];
            if (outer.stride == inner.stride * inner.extent &&
                outer.packed_stride == inner.packed_stride * inner.extent)
                outer = {outer.extent * inner.extent, inner.stride, inner.packed_stride};
            else axis_[++merged] = inner;
        }
        axes_ = merged + 1;
    }

    void list_steps() {
        stepped_axes_ = 0;
        step_count_ = 1;
        if (axes_ == 1 || axis(0).extent >= short_row) return;
        steps_[0] = {0, 0};
        for (; stepped_axes_ < axes_ && step_count_ * axis(stepped_axes_).extent <= most_steps; ++stepped_axes_) {
            const Axis& more = axis(stepped_axes_);
            int listed = step_count_;
            // Outer axes come later in the list.
            for (ptrdiff_t k = 1; k < more.extent; ++k)
                for (int j = 0; j < listed; ++j)
                    steps_[step_count_++] = {steps_[j].offset + k * more.stride,
                                             steps_[j].packed_offset + k * more.packed_stride};
        }
    }

    static constexpr int short_row = 16, most_steps = 64;

    int axes_;
    Axis axis_[max_tile_axes];
    int stepped_axes_, step_count_;
    Step steps_[most_steps];
};

// Sizes of items are powers of two.
inline bool is_aligned(const char* data, const View& view) {
    return (reinterpret_cast<uintptr_t>(data) & static_cast<uintptr_t>(view.item_size - 1)) == 0;
}

// The rows of a square tile are short, and of few lengths: a call of memcpy would cost more than the copy.
inline void copy_row(char* to, const char* from, size_t bytes) {
    switch (bytes) {
        case 128: std::memcpy(to, from, 128); break;
        case 64: std::memcpy(to, from, 64); break;
        case 32: std::memcpy(to, from, 32); break;
        case 16: std::memcpy(to, from, 16); break;
        default: std::memcpy(to, from, bytes);
    }
}

// No lock orders non-temporal stores.
inline void store_fence() {
#ifdef __SSE2__
    _mm_sfence();
#endif
}

// Asks for memory that will be needed soon. (That never faults.)
inline void prefetch(const char* from, ptrdiff_t bytes, bool to_write) {
    for (ptrdiff_t i = 0; i < bytes; i += cache_line) {
        if (to_write) __builtin_prefetch(from + i, 1);
        else __builtin_prefetch(from + i);
    }
}

// The same into a cache that columns don't crowd: in the nearest one, all of them may have the same few places.
inline void prefetch_far(const char* from, ptrdiff_t bytes) {
    for (ptrdiff_t i = 0; i < bytes; i += cache_line) __builtin_prefetch(from + i, 0, 2);
    if (bytes > 0) __builtin_prefetch(from + bytes - 1, 0, 2);
}

#if __has_builtin(__builtin_shufflevector)
// A square of words transposed, `side` to a vector of 16 bytes, in log2(side) rounds of interleaving.
template <typename Word>
struct Square {
    static constexpr int side = 16 / sizeof(Word);
    typedef Word Row [[gnu::vector_size(16)]];

    Row rows[side];

    template <int... i>
    void interleave(std::integer_sequence<int, i...>) {
        Row next[side];
        for (int k = 0; k < side / 2; ++k) {
            const Row &a = rows[k], &b = rows[k + side / 2];
            next[2 * k] = __builtin_shufflevector(a, b, (i / 2 + i % 2 * side)...);
            next[2 * k + 1] = __builtin_shufflevector(a, b, (i / 2 + i % 2 * side + side / 2)...);
        }
        for (int k = 0; k < side; ++k) rows[k] = next[k];
    }

    void transpose() {
        for (int round = 1; round < side; round *= 2) interleave(std::make_integer_sequence<int, side>{});
    }
};

// Gathers planes whose neighbours in memory are a row apart in the packed copy, and the other way round. Returns
// whether it did: sides that are no multiples of a square's are left to copy_box, an element at a time.
template <typename Word>
bool gather_transposed(const Box& box, char* data, char* packed_words) {
    constexpr ptrdiff_t side = Square<Word>::side, size = sizeof(Word);
    if (box.axes() < 2) return false;
    const Box::Axis &along = box.axis(0), &across = box.axis(1);
    if (along.stride != size || across.packed_stride != size) return false;
    if (along.extent % side != 0 || across.extent % side != 0) return false;
    box.for_each_part(2, data, packed_words, [&](const char* plane, char* packed) {
        for (ptrdiff_t j = 0; j < across.extent; j += side) {
            const char* from = plane + j * across.stride;
            char* to = packed + j * size;
            for (ptrdiff_t i = 0; i < along.extent; i += side) {
                Square<Word> square;
                for (ptrdiff_t k = 0; k < side; ++k)
                    std::memcpy(&square.rows[k], from + k * across.stride + i * size, 16);
                square.transpose();
                for (ptrdiff_t k = 0; k < side; ++k)
                    std::memcpy(to + (i + k) * along.packed_stride, &square.rows[k], 16);
            }
        }
    });
    return true;
}
#else
template <typename Word>
bool gather_transposed(const Box&, char*, char*) {
    return false;
}
#endif

// A word from memory to its packed place, or back; memcpy because it may be unaligned.
template <typename Word, bool gather, bool swapped>
inline void copy_word(char* data, char* packed) {
    Word word;
    std::memcpy(&word, gather ? data : packed, sizeof(Word));
    if (swapped) word = byte_swap(word);
    std::memcpy(gather ? packed : data, &word, sizeof(Word));
}

template <typename Word, bool gather, bool swapped>
void copy_words(char* data, ptrdiff_t stride, char* packed, ptrdiff_t packed_stride, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; ++i) {
        copy_word<Word, gather, swapped>(data, packed);
        data += stride;
        packed += packed_stride;
    }
}

template <typename Word>
void swap_row(char* to, const char* from, ptrdiff_t n) {
    constexpr ptrdiff_t lanes = 16 / sizeof(Word);
    typedef Word Lanes [[gnu::vector_size(16)]];
    for (; n >= lanes; n -= lanes) {
        Lanes words;
        std::memcpy(&words, from, 16);
        // Halves of halves change places, down to bytes.
        if constexpr (sizeof(Word) == 8) words = words << 32 | words >> 32;
        if constexpr (sizeof(Word) >= 4) {
            constexpr Word low_halves = static_cast<Word>(0x0000ffff0000ffff);
            words = (words & low_halves) << 16 | (words >> 16 & low_halves);
        }
        constexpr Word low_bytes = static_cast<Word>(0x00ff00ff00ff00ff);
        words = (words & low_bytes) << 8 | (words >> 8 & low_bytes);
        std::memcpy(to, &words, 16);
        from += 16;
        to += 16;
    }
    copy_words<Word, true, true>(const_cast<char*>(from), sizeof(Word), to, sizeof(Word), n);
}

// Gathers (to packed) or scatters (from packed) a box of words.
template <typename Word, bool gather, bool swapped>
void copy_box(const Box& box, char* data, char* packed_words) {
    constexpr ptrdiff_t size = sizeof(Word);
    const Box::Axis& row = box.axis(0);
    if (gather && !swapped && gather_transposed<Word>(box, data, packed_words)) return;
    if (row.stride == size && row.packed_stride == size) {
        box.for_each_part(1, data, packed_words, [&](char* part, char* packed) {
            char *to = gather ? packed : part, *from = gather ? part : packed;
            if constexpr (swapped && size > 1) swap_row<Word>(to, from, row.extent);
            else copy_row(to, from, sizeof(Word) * static_cast<size_t>(row.extent));
        });
    } else if (box.stepped_axes() > 0) {
        box.for_each_part(box.stepped_axes(), data, packed_words, [&](char* part, char* packed) {
            const Box::Step* steps = box.steps();
            for (int i = 0; i < box.step_count(); ++i)
                copy_word<Word, gather, swapped>(part + steps[i].offset, packed + steps[i].packed_offset);
        });
    } else if (gather && row.stride == 0 && row.packed_stride == size) {
        // A broadcast element, in a loop of stores alone.
        box.for_each_part(1, data, packed_words, [&](char* from, char* packed) {
            Word word;
            std::memcpy(&word, from, sizeof(Word));
            if (swapped) word = byte_swap(word);
            for (ptrdiff_t i = 0; i < row.extent; ++i) std::memcpy(packed + i * size, &word, sizeof(Word));
        });
    } else if (row.packed_stride == size) {
        box.for_each_part(1, data, packed_words, [&](char* part, char* packed) {
            copy_words<Word, gather, swapped>(part, row.stride, packed, size, row.extent);
        });
    } else {
        box.for_each_part(1, data, packed_words, [&](char* part, char* packed) {
            copy_words<Word, gather, swapped>(part, row.stride, packed, row.packed_stride, row.extent);
        });
    }
}

template <typename Word, bool gather>
void copy_box(const Box& box, bool swapped, char* data, char* packed) {
    if (swapped) copy_box<Word, gather, true>(box, data, packed);
    else copy_box<Word, gather, false>(box, data, packed);
}

template <bool gather>
void copy_box(const Box& box, const View& view, char* data, char* packed) {
    switch (view.item_size) {
        case 1: return copy_box<uint8_t, gather>(box, false, data, packed);
        case 2: return copy_box<uint16_t, gather>(box, view.swapped, data, packed);
        case 4: return copy_box<uint32_t, gather>(box, view.swapped, data, packed);
        default: return copy_box<uint64_t, gather>(box, view.swapped, data, packed);
    }
}

}  // namespace

void Loop::drop_axis(int axis) {
    for (int i = axis; i + 1 < shape_.dims; ++i) {
        shape_.extent[i] = shape_.extent[i + 1];
        for (View& view : views_) view.strides[i] = view.strides[i + 1];
    }
    --shape_.dims;
}

// The output's strides positive and falling, axes that every operand walks as one merged.
void Loop::simplify() {
    for (int i = shape_.dims - 1; i >= 0; --i)
        if (shape_.extent[i] == 1) drop_axis(i);
    for (int i = 0; i < shape_.dims; ++i) {
        if (views_[role_out].strides[i] >= 0) continue;
        for (View& view : views_) {
            view.data += view.strides[i] * (shape_.extent[i] - 1);
            view.strides[i] = -view.strides[i];
        }
    }
    for (int i = 1; i < shape_.dims; ++i) {
        for (int j = i; j > 0 && views_[role_out].strides[j - 1] < views_[role_out].strides[j]; --j) {
            std::swap(shape_.extent[j - 1], shape_.extent[j]);
            for (View& view : views_) std::swap(view.strides[j - 1], view.strides[j]);
        }
    }
    for (int i = shape_.dims - 2; i >= 0; --i) {
        bool merges = true;
        for (const View& view : views_) merges &= view.strides[i] == view.strides[i + 1] * shape_.extent[i + 1];
        if (!merges) continue;
        shape_.extent[i] *= shape_.extent[i + 1];
        for (View& view : views_) view.strides[i] = view.strides[i + 1];
        drop_axis(i + 1);
    }
}

// The axis along which a view's neighbours lie in memory, or -1.
int Loop::fastest_axis(const View& view) const {
    int fastest = -1;
    for (int i = 0; i < shape_.dims; ++i) {
        ptrdiff_t stride = std::abs(view.strides[i]);
        if (stride != 0 && (fastest < 0 || stride < std::abs(view.strides[fastest]))) fastest = i;
    }
    return fastest;
}

// Whether an operand, which could stay where it is in rows along the last axis, leaves room between those along
// another.
bool Loop::lies_in_rows_apart(int axis) const {
    const int last = shape_.dims - 1;
    for (const View& view : views_) {
        if (view.swapped || view.strides[last] != view.item_size || view.strides[axis] == 0) continue;
        if (view.strides[axis] != view.strides[axis + 1] * shape_.extent[axis + 1]) return true;
    }
    return false;
}

// The axis along which an input that the output's order would read a few bytes at a time has its neighbours, or -1.
int Loop::crossing_axis(const View& view) const {
    int nearest = shape_.dims - 1;  // of its axes that are not broadcast, the output's fastest
    ptrdiff_t repeats = 1;
    for (; nearest >= 0 && view.strides[nearest] == 0; --nearest) repeats *= shape_.extent[nearest];
    const int axis = fastest_axis(view);
    if (axis == nearest || repeats >= panel_rows) return -1;
    return std::abs(view.strides[nearest]) >= cache_line || shape_.extent[nearest] < panel_rows ? axis : -1;
}

// Whether panels of a view that is transposed along this axis are made of whole cache lines.
bool Loop::fills_panels(const View& view, int transposed_axis) const {
    const ptrdiff_t extent = shape_.extent[transposed_axis], stride = view.strides[shape_.dims - 1];
    return extent >= panel_rows || shape_.dims == 2 ||
           std::abs(stride) == std::abs(view.strides[transposed_axis]) * extent;
}

// Takes more of an axis into the tile, in parts of about one size.
void Loop::take(int axis, ptrdiff_t extent, ptrdiff_t& room) {
    const ptrdiff_t all = shape_.extent[axis], before = tile_extent_[axis], most = before * room;
    const ptrdiff_t parts = std::max({ptrdiff_t{1}, all / std::max(extent, before), (all + most - 1) / most});
    tile_extent_[axis] = (all + parts - 1) / parts;
    if (tile_extent_[axis] > panel_rows)  // whole cache lines
        tile_extent_[axis] = std::min({all, most, (tile_extent_[axis] + panel_rows - 1) / panel_rows * panel_rows});
    room = room * before / tile_extent_[axis];
}

// Takes an operand's fastest axes, until it has a few cache lines of neighbours.
void Loop::take_neighbours(const View& view, ptrdiff_t& room) {
    bool taken[max_dims] = {};
    for (ptrdiff_t run = 1; run < panel_rows && room > 1;) {
        int fastest = -1;
        for (int i = shape_.dims - 1; i >= 0; --i) {
            if (taken[i] || view.strides[i] == 0) continue;
            if (fastest < 0 || std::abs(view.strides[i]) < std::abs(view.strides[fastest])) fastest = i;
        }
        if (fastest < 0) return;
        taken[fastest] = true;
        take(fastest, (panel_rows + run - 1) / run, room);
        run *= tile_extent_[fastest];
    }
}

// Where an input runs along other axes than the output, a tile takes the neighbours of each, for whole cache lines of
// both; and a panel, a square's width of rows that are as long as a tile, besides leaves the other operands where they
// are. Panels follow each other along that input's axis, on the same pages of it.
void Loop::choose_tile() {
    const int last = shape_.dims - 1;
    for (int i = 0; i <= last; ++i) {
        tile_extent_[i] = 1;
        order_[i] = i;
    }
    const View &x = views_[role_x], &y = views_[role_y];
    const int transposed_axes[] = {crossing_axis(x), crossing_axis(y)};
    const int transposed_axis = std::max(transposed_axes[0], transposed_axes[1]);
    const bool one_is_transposed =
        transposed_axes[0] < 0 || transposed_axes[1] < 0 || transposed_axes[0] == transposed_axes[1];
    ptrdiff_t room = block_size;
    if (transposed_axis >= 0 && one_is_transposed && shape_.extent[last] >= worth_a_panel &&
        fills_panels(views_[transposed_axes[role_y] >= 0 ? role_y : role_x], transposed_axis)) {
        tile_extent_[last] = std::min<ptrdiff_t>(shape_.extent[last], tile_size);
        tile_extent_[transposed_axis] = std::min(shape_.extent[transposed_axis], panel_rows);
        is_panel_ = true;
        std::rotate(order_ + transposed_axis, order_ + transposed_axis + 1, order_ + shape_.dims);
    } else if (transposed_axis >= 0) {
        take_neighbours(views_[role_out], room);
        for (int operand : {role_x, role_y})
            if (transposed_axes[operand] >= 0) take_neighbours(views_[operand], room);
        for (int axis = last; axis >= 0 && room > 1; --axis) take(axis, shape_.extent[axis], room);
    } else {
        // A tile ends with its row where the row is long and has a y of its own, since a kernel takes one y for all;
        // and where the next row lies elsewhere in memory, since the tile would have to be copied.
        const bool one_y = y.strides[last] == 0 && shape_.extent[last] >= tile_size;
        const bool long_rows = shape_.extent[last] >= (is_beyond_caches_ ? worth_a_call_beyond_caches : worth_a_call);
        for (int axis = last; axis >= 0 && room > 1; --axis) {
            if (one_y && y.strides[axis] != 0) break;
            if (long_rows && axis < last && lies_in_rows_apart(axis)) break;
            tile_extent_[axis] = std::min(shape_.extent[axis], room);
            room /= tile_extent_[axis];
        }
    }
    for (int i = 0; i <= last; ++i) {
        if (tile_extent_[i] > 1 || (i == last && tile_axes_ == 0)) tile_axis_[tile_axes_++] = i;
        tile_elements_ *= tile_extent_[i];
        tiles_along_[i] = (shape_.extent[i] + tile_extent_[i] - 1) / tile_extent_[i];
        tile_count_ *= tiles_along_[i];
    }
}

// One thread's way through a range of tiles.
class Walker {
public:
    Walker(const Loop& loop, const TileFunction& f) : loop_(loop), f_(f) {}

    bool run(ptrdiff_t first, ptrdiff_t end) {
        FpEnvironment default_environment;
        const ptrdiff_t elements = loop_.tile_elements_;
        if (loop_.is_flat()) {
            run_flat(first * elements, std::min(end * elements, loop_.shape_.extent[0]));
        } else {
            seek(first);
            for (ptrdiff_t left = end - first; left > 0 && has_memory_; --left) run_tile();
        }
        if (loop_.streams_) store_fence();
        return has_memory_;
    }

private:
    // The common case without the boxes' bookkeeping.
    void run_flat(ptrdiff_t first, ptrdiff_t end) {
        const View *views = loop_.views_, &out = views[role_out];
        const bool one_y = views[role_y].strides[0] == 0;
        const auto constant = [&](int k, ptrdiff_t n) -> const char* {
            const ptrdiff_t stride = 0;
            tile_.boxes[k].lay_out(&n, &stride, 1, views[k].item_size);
            return gather(k, views[k].data);
        };
        const char* start[2];
        for (int k : {role_x, role_y}) start[k] = views[k].data;
        if (one_y && (views[role_y].swapped || !is_aligned(start[role_y], views[role_y])))
            start[role_y] = constant(role_y, 1);
        if (views[role_x].strides[0] == 0) start[role_x] = constant(role_x, loop_.tile_elements_);
        if (!has_memory_) return;
        const auto address = [&](int k, ptrdiff_t i) { return start[k] + i * views[k].strides[0]; };
        // Counted from where the output's first cache line begins, so that tiles, and shares, begin where a line does.
        const ptrdiff_t past_line =
            static_cast<ptrdiff_t>(reinterpret_cast<uintptr_t>(out.data) % cache_line) / out.item_size;
        const ptrdiff_t elements = loop_.tile_elements_, last = end == loop_.shape_.extent[0] ? end + past_line : end;
        for (ptrdiff_t from = std::max(first, past_line), to; from < last; from = to) {
            to = std::min((from / elements + 1) * elements, last);
            const ptrdiff_t i = from - past_line;
            f_(address(role_x, i), address(role_y, i), one_y, out.data + i * out.strides[0],
               static_cast<int>(to - from), loop_.streams_);
        }
    }

    void seek(ptrdiff_t tile) {
        for (int i = loop_.shape_.dims - 1; i >= 0; --i) {
            const int axis = loop_.order_[i];
            position_[axis] = tile % loop_.tiles_along_[axis];
            tile /= loop_.tiles_along_[axis];
            move(axis, position_[axis]);
        }
    }

    // To the next tile, or from the last one back to the first.
    void advance() {
        for (int i = loop_.shape_.dims - 1; i >= 0; --i) {
            const int axis = loop_.order_[i];
            move(axis, 1);
            if (++position_[axis] < loop_.tiles_along_[axis]) return;
            move(axis, -position_[axis]);
            position_[axis] = 0;
        }
    }

    void move(int axis, ptrdiff_t tiles) {
        for (int k = 0; k < role_count; ++k)
            offset_[k] += tiles * loop_.tile_extent_[axis] * loop_.views_[k].strides[axis];
    }

    void run_tile() {
        ptrdiff_t extent[max_tile_axes] = {};
        bool as_before = true;
        for (int i = 0; i < loop_.tile_axes_; ++i) {
            const int axis = loop_.tile_axis_[i];
            const ptrdiff_t left = loop_.shape_.extent[axis] - position_[axis] * loop_.tile_extent_[axis];
            extent[i] = std::min(loop_.tile_extent_[axis], left);
            as_before &= extent[i] == tile_.extent[i];
        }
        if (!as_before) lay_out(extent);
        char* data[role_count];
        for (int k = 0; k < role_count; ++k) data[k] = loop_.views_[k].data + offset_[k];
        advance();
        if (loop_.is_panel_) return run_panel(data);
        const void* inputs[2];
        for (int k : {role_x, role_y}) inputs[k] = is_direct(k, data[k]) ? data[k] : gather(k, data[k]);
        const bool direct = is_direct(role_out, data[role_out]);
        char* results = direct ? data[role_out] : buffer(role_out);
        if (!has_memory_) return;
        f_(inputs[role_x], inputs[role_y], tile_.one_y, results, tile_.n, direct && loop_.streams_);
        if (!direct) copy_box<false>(tile_.boxes[role_out], loop_.views_[role_out], data[role_out], results);
    }

    void lay_out(const ptrdiff_t (&extent)[max_tile_axes]) {
        std::copy_n(extent, max_tile_axes, tile_.extent);
        tile_.n = 1;
        for (int i = 0; i < loop_.tile_axes_; ++i) tile_.n *= static_cast<int>(extent[i]);
        for (int k = 0; k < role_count; ++k) {
            ptrdiff_t strides[max_tile_axes];
            for (int i = 0; i < loop_.tile_axes_; ++i) strides[i] = loop_.views_[k].strides[loop_.tile_axis_[i]];
            tile_.boxes[k].lay_out(extent, strides, loop_.tile_axes_, loop_.views_[k].item_size);
            tile_.packed[k] = !loop_.views_[k].swapped && tile_.boxes[k].is_packed();
        }
        tile_.one_y = tile_.boxes[role_y].is_one();
        if (tile_.one_y && !loop_.is_panel_) {
            const ptrdiff_t one = 1, stride = 0;
            tile_.boxes[role_y].lay_out(&one, &stride, 1, loop_.views_[role_y].item_size);
        }
        loaded_[role_x] = loaded_[role_y] = nullptr;
    }

    // Row by row, or several at a time where they follow one another. What does not lie in rows goes by way of the
    // buffers. The position is the next panel's.
    void run_panel(char* const (&data)[role_count]) {
        const int across = loop_.tile_axis_[0], along = loop_.tile_axis_[1];
        const ptrdiff_t rows = tile_.extent[0], length = tile_.extent[1];
        bool in_rows[role_count], packed = true;
        char* first[role_count];
        ptrdiff_t strides[role_count];
        for (int k = 0; k < role_count; ++k) {
            const View& view = loop_.views_[k];
            const ptrdiff_t packed_stride = length * view.item_size;
            in_rows[k] = !view.swapped && view.strides[along] == view.item_size && is_aligned(data[k], view) &&
                         view.strides[across] % view.item_size == 0;
            strides[k] = in_rows[k] ? view.strides[across] : packed_stride;
            first[k] = in_rows[k] ? data[k] : k == role_out ? buffer(k) : gather(k, data[k]);
            packed &= strides[k] == packed_stride;
        }
        if (!has_memory_) return;
        const ptrdiff_t step = packed ? std::min(rows, block_size / length) : 1;
        for (ptrdiff_t i = 0; i < rows; i += step) {
            const ptrdiff_t end = std::min(rows, i + step);
            for (int k = 0; k < role_count; ++k) {
                const View& view = loop_.views_[k];
                if (in_rows[k]) {
                    prefetch(first[k] + end * strides[k], length * view.item_size, k == role_out);
                } else if (k != role_out && view.strides[across] == view.item_size && loop_.is_beyond_caches_) {
                    // Of the next panel, as many columns as there is time for.
                    const char* next = view.data + offset_[k];
                    for (ptrdiff_t j = length * i / rows; j < length * end / rows; ++j)
                        prefetch_far(next + j * view.strides[along], rows * view.item_size);
                }
            }
            f_(first[role_x] + i * strides[role_x], first[role_y] + i * strides[role_y], tile_.one_y,
               first[role_out] + i * strides[role_out], static_cast<int>((end - i) * length), false);
        }
        if (!in_rows[role_out])
            copy_box<false>(tile_.boxes[role_out], loop_.views_[role_out], data[role_out], first[role_out]);
    }

    bool is_direct(int operand, const char* data) const {
        return tile_.packed[operand] && is_aligned(data, loop_.views_[operand]);
    }

    char* gather(int operand, char* data) {
        char* packed = buffer(operand);
        // A broadcast operand's tile is often the one before. (An input that is also the output never repeats one.)
        if (data != loaded_[operand] && packed != nullptr)
            copy_box<true>(tile_.boxes[operand], loop_.views_[operand], data, packed);
        loaded_[operand] = data;
        return packed;
    }

    // Room for an operand's part of a tile, or null. Most calls need none, and it is too much for a small stack.
    char* buffer(int operand) {
        if (buffers_[operand] == nullptr) {
            const auto bytes = static_cast<size_t>(loop_.tile_elements_ * loop_.views_[operand].item_size);
            // (Aligned memory takes longer to get, and `new` throws, if only within.)
            memory_[operand].reset(static_cast<char*>(std::malloc(bytes + cache_line - 1)));
            has_memory_ &= memory_[operand] != nullptr;
            if (!has_memory_) return nullptr;
            const auto address = reinterpret_cast<uintptr_t>(memory_[operand].get());
            buffers_[operand] = memory_[operand].get() + (-address & (cache_line - 1));
        }
        return buffers_[operand];
    }

    // What tiles of the same extents have in common.
    struct Tile {
        ptrdiff_t extent[max_tile_axes] = {};
        int n;
        Box boxes[role_count];
        bool packed[role_count];
        bool one_y;
    };

    const Loop& loop_;
    const TileFunction& f_;
    Tile tile_;
    ptrdiff_t position_[max_dims];       // of the tile, counted in tiles
    ptrdiff_t offset_[role_count] = {};  // of its first element, in bytes
    const char* loaded_[2] = {};         // what the buffers hold, of an operand's tile as they are laid out
    struct Free {
        void operator()(char* memory) const { std::free(memory); }
    };
    std::unique_ptr<char, Free> memory_[role_count];
    char* buffers_[role_count] = {};  // where its first cache lines begin
    bool has_memory_ = true;
};

Loop::Loop(const Shape& shape, const View& x, const View& y, const View& out, BoundBy bound_by)
    : elements_a_share_(bound_by == BoundBy::memory ? quick_share : slow_share) {
    // Only the axes that there are: to copy room for all 64 takes as long as the rest of a small call.
    shape_.dims = shape.dims;
    std::copy_n(shape.extent, shape.dims, shape_.extent);
    const View* views[role_count] = {&x, &y, &out};
    for (int k = 0; k < role_count; ++k) {
        views_[k].data = views[k]->data;
        views_[k].item_size = views[k]->item_size;
        views_[k].swapped = views[k]->swapped;
        std::copy_n(views[k]->strides, shape.dims, views_[k].strides);
    }
    for (int i = 0; i < shape.dims; ++i) {
        if (shape.extent[i] != 0) continue;
        tile_count_ = 0;
        return;
    }
    simplify();
    if (shape_.dims == 0) {
        shape_.dims = 1;
        shape_.extent[0] = 1;
        for (View& view : views_) view.strides[0] = view.item_size;
    }
    const ptrdiff_t size = bytes();
    is_beyond_caches_ = size >= near_caches_hold;
    // In place the output's lines have just been read.
    const bool in_place = views_[role_out].data == views_[role_x].data || views_[role_out].data == views_[role_y].data;
    streams_ = bound_by != BoundBy::arithmetic && size >= far_more_than_caches_hold && !in_place;
    choose_tile();
}

// Of all operands.
ptrdiff_t Loop::bytes() const {
    ptrdiff_t sum = 0;
    for (const View& view : views_) {
        ptrdiff_t size = view.item_size;
        for (int i = 0; i < shape_.dims; ++i)
            if (view.strides[i] != 0) size *= shape_.extent[i];
        sum += size;
    }
    return sum;
}

// Whether the operands are plain vectors, as after simplify most are: packed, aligned and in native order, or
// constants.
bool Loop::is_flat() const {
    if (shape_.dims != 1) return false;
    for (int k = 0; k < role_count; ++k) {
        const View& view = views_[k];
        if (view.strides[0] == 0 && k != role_out) continue;
        if (view.swapped || view.strides[0] != view.item_size || !is_aligned(view.data, view)) return false;
    }
    return true;
}

ptrdiff_t Loop::tiles_of_share() const { return elements_a_share_ / tile_elements_; }

ptrdiff_t Loop::share_count() const { return (tile_count_ + tiles_of_share() - 1) / tiles_of_share(); }

bool Loop::run_share(ptrdiff_t share, const TileFunction& f) const {
    ptrdiff_t first = share * tiles_of_share();
    return Walker(*this, f).run(first, std::min(first + tiles_of_share(), tile_count_));
}

}  // namespace halfulp
