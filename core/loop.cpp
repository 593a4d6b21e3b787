#include "loop.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "fp_environment.h"
#include "kernels/kernels.h"

namespace halfulp {

// Shares are small enough that a thread comes back ten times a second even at a microsecond an element, and otherwise large
// enough that their beginnings don't count.
static constexpr ptrdiff_t slow_share = 1 << 14, quick_share = 1 << 16;
// Bytes of operands. As long as a cache holds a good part of the output, it is no gain to store past it.
static constexpr ptrdiff_t near_caches_hold = 1 << 20, far_more_than_caches_hold = 64 << 20;

static constexpr ptrdiff_t panel_rows = 16, worth_a_panel = 64;
// Elements. A call for less takes longer than to copy it together with more.
static constexpr ptrdiff_t worth_a_call = 128, worth_a_call_far = 64;

namespace {

template <typename Word>
Word byte_swap(Word value) {
    if constexpr (sizeof(Word) == 8) return __builtin_bswap64(value);
    else if constexpr (sizeof(Word) == 4) return __builtin_bswap32(value);
    else if constexpr (sizeof(Word) == 2) return __builtin_bswap16(value);
    else return value;
}

// The box at hand, in one operand.
struct Box {
    int axes;
    ptrdiff_t extent[max_tile_axes];
    ptrdiff_t stride[max_tile_axes];

    // Whether the elements lie one after the other.
    bool is_packed(int item_size) const {
        ptrdiff_t expected = item_size;
        for (int i = axes - 1; i >= 0; --i) {
            if (extent[i] != 1 && stride[i] != expected) return false;
            expected *= extent[i];
        }
        return true;
    }

    // Whether all of it is one element, broadcast.
    bool is_one() const {
        for (int i = 0; i < axes; ++i)
            if (extent[i] != 1 && stride[i] != 0) return false;
        return true;
    }

    // Calls f(address of the row's first element) for each row along the last axis, in order.
    template <typename F>
    void for_each_row(char* data, F f) const {
        ptrdiff_t index[max_tile_axes] = {};
        for (;;) {
            f(data);
            int axis = axes - 2;
            for (; axis >= 0; --axis) {
                data += stride[axis];
                if (++index[axis] < extent[axis]) break;
                data -= stride[axis] * extent[axis];
                index[axis] = 0;
            }
            if (axis < 0) return;
        }
    }
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

// No lock orders stores past the caches.
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

// Gathers a box of two axes whose neighbours in memory lie along the first one. Returns whether it did: sides that are
// no multiples of a square's are left to copy_box, an element at a time.
template <typename Word>
bool gather_transposed(const Box& box, const char* data, void* packed_words) {
    constexpr ptrdiff_t side = Square<Word>::side, size = sizeof(Word);
    if (box.axes != 2 || box.stride[0] != size) return false;
    const ptrdiff_t columns = box.extent[0], rows = box.extent[1], stride = box.stride[1];
    if (columns % side != 0 || rows % side != 0) return false;
    char* packed = static_cast<char*>(packed_words);
    for (ptrdiff_t j = 0; j < rows; j += side) {
        const char* from = data + j * stride;
        char* to = packed + j * size;
        for (ptrdiff_t i = 0; i < columns; i += side) {
            Square<Word> square;
            for (ptrdiff_t k = 0; k < side; ++k) std::memcpy(&square.rows[k], from + k * stride + i * size, 16);
            square.transpose();
            for (ptrdiff_t k = 0; k < side; ++k) std::memcpy(to + (i + k) * rows * size, &square.rows[k], 16);
        }
    }
    return true;
}
#else
template <typename Word>
bool gather_transposed(const Box&, const char*, void*) {
    return false;
}
#endif

// From a row to packed words, or back; memcpy because they may be unaligned.
template <typename Word, bool gather, bool swapped>
void copy_words(char* row, ptrdiff_t stride, char* packed, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; ++i) {
        Word word;
        std::memcpy(&word, gather ? row : packed, sizeof(Word));
        if (swapped) word = byte_swap(word);
        std::memcpy(gather ? packed : row, &word, sizeof(Word));
        row += stride;
        packed += sizeof(Word);
    }
}

// Gathers (to packed) or scatters (from packed) a box of words.
template <typename Word, bool gather>
void copy_box(const Box& box, char* data, bool swapped, void* packed_words) {
    if (gather && !swapped && gather_transposed<Word>(box, data, packed_words)) return;
    char* packed = static_cast<char*>(packed_words);
    ptrdiff_t n = box.extent[box.axes - 1], stride = box.stride[box.axes - 1];
    box.for_each_row(data, [&](char* row) {
        if (stride == static_cast<ptrdiff_t>(sizeof(Word)) && !swapped) {
            copy_row(gather ? packed : row, gather ? row : packed, sizeof(Word) * static_cast<size_t>(n));
        } else if (gather && stride == 0) {  // a broadcast element, in a loop of stores alone
            Word word;
            std::memcpy(&word, row, sizeof(Word));
            if (swapped) word = byte_swap(word);
            for (ptrdiff_t i = 0; i < n; ++i) std::memcpy(packed + i * sizeof(Word), &word, sizeof(Word));
        } else if (swapped) {
            copy_words<Word, gather, true>(row, stride, packed, n);
        } else {
            copy_words<Word, gather, false>(row, stride, packed, n);
        }
        packed += sizeof(Word) * static_cast<size_t>(n);
    });
}

template <bool gather>
void copy_box(const Box& box, const View& view, char* data, void* packed) {
    switch (view.item_size) {
        case 1: return copy_box<uint8_t, gather>(box, data, false, packed);
        case 2: return copy_box<uint16_t, gather>(box, data, view.swapped, packed);
        case 4: return copy_box<uint32_t, gather>(box, data, view.swapped, packed);
        default: return copy_box<uint64_t, gather>(box, data, view.swapped, packed);
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

// Whether an operand, which could stay where it is in rows along the last axis, leaves room between those along another.
bool Loop::lies_in_rows_apart(int axis) const {
    const int last = shape_.dims - 1;
    for (const View& view : views_) {
        if (view.swapped || view.strides[last] != view.item_size || view.strides[axis] == 0) continue;
        if (view.strides[axis] != view.strides[axis + 1] * shape_.extent[axis + 1]) return true;
    }
    return false;
}

// Where an input runs along another axis than the output, a square tile uses whole cache lines of both; and a panel, a
// square's width of rows that are as long as a tile, besides leaves the other operands where they are. Panels follow each
// other along that input's axis, on the same pages of it.
void Loop::choose_tile() {
    int last = shape_.dims - 1;
    for (int i = 0; i <= last; ++i) {
        tile_extent_[i] = 1;
        order_[i] = i;
    }
    int crossing = -1;
    for (int operand : {role_x, role_y}) {
        const View& view = views_[operand];
        int axis = fastest_axis(view);
        if (axis >= 0 && axis != last && std::abs(view.strides[last]) >= 64) crossing = axis;
    }
    ptrdiff_t room = block_size;
    int axes[max_tile_axes], count = 0;
    const auto take = [&](int axis, ptrdiff_t extent) {
        tile_extent_[axis] = std::min({shape_.extent[axis], extent, room});
        room /= tile_extent_[axis];
        axes[count++] = axis;
    };
    if (crossing >= 0 && shape_.extent[last] >= worth_a_panel) {
        room = panel_rows * tile_size;
        take(last, tile_size);
        take(crossing, panel_rows);
        is_panel_ = true;
        std::rotate(order_ + crossing, order_ + crossing + 1, order_ + shape_.dims);
    } else if (crossing >= 0) {
        take(last, panel_rows);
        take(crossing, tile_size / tile_extent_[last]);
    } else {
        // Of long rows that have one y each, a tile takes no more than one; nor of rows apart, which it would copy.
        const View& y = views_[role_y];
        const bool one_y = y.strides[last] == 0 && shape_.extent[last] >= tile_size;
        const bool long_rows = shape_.extent[last] >= (is_far_ ? worth_a_call_far : worth_a_call);
        for (int axis = last; axis >= 0 && count < max_tile_axes && room > 1; --axis) {
            if (one_y && y.strides[axis] != 0) break;
            if (long_rows && axis < last && lies_in_rows_apart(axis)) break;
            take(axis, room);
        }
    }
    tile_axes_ = count;
    for (int i = 0; i < count; ++i) tile_axis_[i] = axes[count - 1 - i];
    for (int i = 0; i <= last; ++i) {
        tile_elements_ *= tile_extent_[i];
        tiles_along_[i] = (shape_.extent[i] + tile_extent_[i] - 1) / tile_extent_[i];
        tile_count_ *= tiles_along_[i];
    }
}

// One thread's way through a range of tiles.
class Walker {
public:
    Walker(const Loop& loop, const TileFunction& f) : loop_(loop), f_(f) {}

    void run(ptrdiff_t first, ptrdiff_t end) {
        FpEnvironment default_environment;
        const ptrdiff_t elements = loop_.tile_elements_;
        if (loop_.is_flat()) {
            run_flat(first * elements, std::min(end * elements, loop_.shape_.extent[0]));
        } else {
            seek(first);
            for (ptrdiff_t left = end - first; left > 0; --left) run_tile();
        }
        if (loop_.stores_past_caches_) store_fence();
    }

private:
    // The common case without the boxes' bookkeeping.
    void run_flat(ptrdiff_t first, ptrdiff_t end) {
        const View *views = loop_.views_, &out = views[role_out];
        const bool one_y = views[role_y].strides[0] == 0;
        if (one_y) copy_box<true>(Box{1, {1}, {0}}, views[role_y], views[role_y].data, buffer_[role_y]);
        if (views[role_x].strides[0] == 0)
            copy_box<true>(Box{1, {loop_.tile_elements_}, {0}}, views[role_x], views[role_x].data, buffer_[role_x]);
        const auto address = [&](int k, ptrdiff_t i) -> const void* {
            return views[k].strides[0] == 0 ? buffer_[k] : views[k].data + i * views[k].strides[0];
        };
        // Counted from where the output's first cache line begins, so that tiles, and shares, begin where a line does.
        const ptrdiff_t past_line =
            static_cast<ptrdiff_t>(reinterpret_cast<uintptr_t>(out.data) % cache_line) / out.item_size;
        const ptrdiff_t elements = loop_.tile_elements_, last = end == loop_.shape_.extent[0] ? end + past_line : end;
        for (ptrdiff_t from = std::max(first, past_line), to; from < last; from = to) {
            to = std::min((from / elements + 1) * elements, last);
            const ptrdiff_t i = from - past_line;
            f_(address(role_x, i), address(role_y, i), one_y, out.data + i * out.strides[0],
               static_cast<int>(to - from), loop_.stores_past_caches_);
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
        if (is_direct(role_out, data[role_out])) {
            f_(inputs[role_x], inputs[role_y], tile_.one_y, data[role_out], tile_.n, loop_.stores_past_caches_);
        } else {
            f_(inputs[role_x], inputs[role_y], tile_.one_y, buffer_[role_out], tile_.n, false);
            copy_box<false>(tile_.boxes[role_out], loop_.views_[role_out], data[role_out], buffer_[role_out]);
        }
    }

    void lay_out(const ptrdiff_t (&extent)[max_tile_axes]) {
        std::copy_n(extent, max_tile_axes, tile_.extent);
        tile_.n = 1;
        for (Box& box : tile_.boxes) box.axes = loop_.tile_axes_;
        for (int i = 0; i < loop_.tile_axes_; ++i) {
            tile_.n *= static_cast<int>(extent[i]);
            for (int k = 0; k < role_count; ++k) {
                tile_.boxes[k].extent[i] = extent[i];
                tile_.boxes[k].stride[i] = loop_.views_[k].strides[loop_.tile_axis_[i]];
            }
        }
        tile_.one_y = tile_.boxes[role_y].is_one();
        if (tile_.one_y && !loop_.is_panel_) tile_.boxes[role_y] = {1, {1}, {0}};
        for (int k = 0; k < role_count; ++k) {
            const View& view = loop_.views_[k];
            tile_.packed[k] = !view.swapped && tile_.boxes[k].is_packed(view.item_size);
        }
        loaded_[role_x] = loaded_[role_y] = nullptr;
    }

    // Row by row, or several at a time where they follow one another. What does not lie in rows goes by way of the
    // buffers. The position is the next panel's.
    void run_panel(char* const (&data)[role_count]) {
        const auto& boxes = tile_.boxes;
        const ptrdiff_t rows = boxes[role_out].extent[0], length = boxes[role_out].extent[1];
        bool in_rows[role_count], packed = true;
        char* first[role_count];
        ptrdiff_t strides[role_count];
        for (int k = 0; k < role_count; ++k) {
            const ptrdiff_t packed_stride = length * loop_.views_[k].item_size;
            in_rows[k] = has_direct_rows(boxes[k], loop_.views_[k], data[k]);
            strides[k] = in_rows[k] ? boxes[k].stride[0] : packed_stride;
            first[k] = in_rows[k] ? data[k] : buffer_[k];
            packed &= strides[k] == packed_stride;
            if (!in_rows[k] && k != role_out) gather(k, data[k]);
        }
        const ptrdiff_t step = packed ? std::min(rows, block_size / length) : 1;
        for (ptrdiff_t i = 0; i < rows; i += step) {
            const ptrdiff_t end = std::min(rows, i + step);
            for (int k = 0; k < role_count; ++k) {
                if (in_rows[k]) {
                    prefetch(first[k] + end * strides[k], length * loop_.views_[k].item_size, k == role_out);
                } else if (k != role_out && boxes[k].stride[0] == loop_.views_[k].item_size && loop_.is_far_) {
                    // Of the next panel, as many columns as there is time for.
                    const char* next = loop_.views_[k].data + offset_[k];
                    for (ptrdiff_t j = length * i / rows; j < length * end / rows; ++j)
                        prefetch_far(next + j * boxes[k].stride[1], rows * boxes[k].stride[0]);
                }
            }
            f_(first[role_x] + i * strides[role_x], first[role_y] + i * strides[role_y], tile_.one_y,
               first[role_out] + i * strides[role_out], static_cast<int>((end - i) * length), false);
        }
        if (!in_rows[role_out])
            copy_box<false>(boxes[role_out], loop_.views_[role_out], data[role_out], first[role_out]);
    }

    static bool has_direct_rows(const Box& box, const View& view, const char* data) {
        return !view.swapped && box.stride[1] == view.item_size && is_aligned(data, view) &&
               box.stride[0] % view.item_size == 0;
    }

    bool is_direct(int operand, const char* data) const {
        return tile_.packed[operand] && is_aligned(data, loop_.views_[operand]);
    }

    const char* gather(int operand, char* data) {
        // A broadcast operand's tile is often the one before. (An input that is also the output never repeats one.)
        if (data != loaded_[operand])
            copy_box<true>(tile_.boxes[operand], loop_.views_[operand], data, buffer_[operand]);
        loaded_[operand] = data;
        return buffer_[operand];
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
    alignas(64) char buffer_[role_count][8 * panel_rows * tile_size];
};

Loop::Loop(const Shape& shape, const View& x, const View& y, const View& out, Pace pace)
    : elements_a_share_(pace == Pace::memory ? quick_share : slow_share) {
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
    is_far_ = size >= near_caches_hold;
    // In place the output's lines have just been read.
    const bool in_place = views_[role_out].data == views_[role_x].data || views_[role_out].data == views_[role_y].data;
    stores_past_caches_ = pace != Pace::arithmetic && size >= far_more_than_caches_hold && !in_place;
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

void Loop::run_share(ptrdiff_t share, const TileFunction& f) const {
    ptrdiff_t first = share * tiles_of_share();
    Walker(*this, f).run(first, std::min(first + tiles_of_share(), tile_count_));
}

}  // namespace halfulp
