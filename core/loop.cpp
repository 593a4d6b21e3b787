#include "loop.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "fp_environment.h"
#include "kernels/kernels.h"
#include "threads.h"

namespace halfulp {

namespace {

enum { X, Y, OUT, OPERANDS };

// A box of neighbouring elements, at most tile_size, is a tile. Its last axis is the output's fastest.
constexpr int max_tile_axes = 4;

struct Walk {
    Shape shape;
    View views[OPERANDS];
    int tile_axes = 0;
    int tile_axis[max_tile_axes];          // which axes the box spans, the last one fastest
    ptrdiff_t tile_extent[max_dims];       // 1 on the other axes
    ptrdiff_t tiles_along[max_dims];
    ptrdiff_t tile_count = 1;
};

void drop_axis(Walk& walk, int axis) {
    for (int i = axis; i + 1 < walk.shape.dims; ++i) {
        walk.shape.extent[i] = walk.shape.extent[i + 1];
        for (View& view : walk.views) view.strides[i] = view.strides[i + 1];
    }
    --walk.shape.dims;
}

// The output's strides positive and falling, axes that every operand walks as one merged.
void simplify(Walk& walk) {
    Shape& shape = walk.shape;
    for (int i = shape.dims - 1; i >= 0; --i)
        if (shape.extent[i] == 1) drop_axis(walk, i);
    for (int i = 0; i < shape.dims; ++i) {
        if (walk.views[OUT].strides[i] >= 0) continue;
        for (View& view : walk.views) {
            view.data += view.strides[i] * (shape.extent[i] - 1);
            view.strides[i] = -view.strides[i];
        }
    }
    for (int i = 1; i < shape.dims; ++i) {
        for (int j = i; j > 0 && walk.views[OUT].strides[j - 1] < walk.views[OUT].strides[j]; --j) {
            std::swap(shape.extent[j - 1], shape.extent[j]);
            for (View& view : walk.views) std::swap(view.strides[j - 1], view.strides[j]);
        }
    }
    for (int i = shape.dims - 2; i >= 0; --i) {
        bool merges = true;
        for (const View& view : walk.views) merges &= view.strides[i] == view.strides[i + 1] * shape.extent[i + 1];
        if (!merges) continue;
        shape.extent[i] *= shape.extent[i + 1];
        for (View& view : walk.views) view.strides[i] = view.strides[i + 1];
        drop_axis(walk, i + 1);
    }
}

// The axis along which a view's neighbours lie in memory, or -1.
int fastest_axis(const Walk& walk, const View& view) {
    int fastest = -1;
    for (int i = 0; i < walk.shape.dims; ++i) {
        ptrdiff_t stride = std::abs(view.strides[i]);
        if (stride != 0 && (fastest < 0 || stride < std::abs(view.strides[fastest]))) fastest = i;
    }
    return fastest;
}

// Where an input runs along another axis than the output, a square tile uses whole cache lines of both.
void choose_tile(Walk& walk) {
    int last = walk.shape.dims - 1;
    for (int i = 0; i <= last; ++i) walk.tile_extent[i] = 1;
    int crossing = -1;
    for (int operand : {X, Y}) {
        const View& view = walk.views[operand];
        int axis = fastest_axis(walk, view);
        if (axis >= 0 && axis != last && std::abs(view.strides[last]) >= 64) crossing = axis;
    }
    ptrdiff_t room = tile_size;
    int axes[max_tile_axes], count = 0;
    const auto take = [&](int axis, ptrdiff_t extent) {
        walk.tile_extent[axis] = std::min({walk.shape.extent[axis], extent, room});
        room /= walk.tile_extent[axis];
        axes[count++] = axis;
    };
    if (crossing >= 0) {
        take(last, 16);
        take(crossing, room);
    } else {
        for (int axis = last; axis >= 0 && count < max_tile_axes && room > 1; --axis) take(axis, room);
    }
    walk.tile_axes = count;
    for (int i = 0; i < count; ++i) walk.tile_axis[i] = axes[count - 1 - i];
    for (int i = 0; i <= last; ++i) {
        walk.tiles_along[i] = (walk.shape.extent[i] + walk.tile_extent[i] - 1) / walk.tile_extent[i];
        walk.tile_count *= walk.tiles_along[i];
    }
}

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

// Gathers (to packed) or scatters (from packed) a box of words; memcpy because they may be unaligned.
template <typename Word, bool gather>
void copy_box(const Box& box, char* data, bool swapped, void* packed_words) {
    char* packed = static_cast<char*>(packed_words);
    ptrdiff_t n = box.extent[box.axes - 1], stride = box.stride[box.axes - 1];
    box.for_each_row(data, [&](char* row) {
        if (stride == static_cast<ptrdiff_t>(sizeof(Word)) && !swapped) {
            std::memcpy(gather ? packed : row, gather ? row : packed, sizeof(Word) * static_cast<size_t>(n));
        } else {
            for (ptrdiff_t i = 0; i < n; ++i) {
                Word word;
                std::memcpy(&word, gather ? row + i * stride : packed + i * sizeof(Word), sizeof(Word));
                if (swapped) word = byte_swap(word);
                std::memcpy(gather ? packed + i * sizeof(Word) : row + i * stride, &word, sizeof(Word));
            }
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

// One thread's way through a range of tiles.
class Walker {
public:
    Walker(const Walk& walk, const TileFunction& f) : walk_(walk), f_(f) {}

    void run(ptrdiff_t first, ptrdiff_t end) {
        FpEnvironment default_environment;
        for (ptrdiff_t tile = first; tile < end; ++tile) run_tile(tile);
    }

private:
    void run_tile(ptrdiff_t tile) {
        ptrdiff_t offset[OPERANDS] = {}, extent[max_dims];
        int n = 1;
        for (int i = walk_.shape.dims - 1; i >= 0; --i) {
            ptrdiff_t start = tile % walk_.tiles_along[i] * walk_.tile_extent[i];
            tile /= walk_.tiles_along[i];
            extent[i] = std::min(walk_.tile_extent[i], walk_.shape.extent[i] - start);
            n *= static_cast<int>(extent[i]);
            for (int k = 0; k < OPERANDS; ++k) offset[k] += start * walk_.views[k].strides[i];
        }
        const void* inputs[2];
        for (int k : {X, Y}) inputs[k] = load(k, box_of(k, extent), walk_.views[k].data + offset[k], n);
        const View& out = walk_.views[OUT];
        char* target = out.data + offset[OUT];
        Box box = box_of(OUT, extent);
        if (is_direct(box, out, target)) {
            f_(inputs[X], inputs[Y], target, n);
        } else {
            f_(inputs[X], inputs[Y], buffer_[OUT], n);
            copy_box<false>(box, out, target, buffer_[OUT]);
        }
    }

    Box box_of(int operand, const ptrdiff_t* extent) const {
        Box box{walk_.tile_axes, {}, {}};
        for (int i = 0; i < box.axes; ++i) {
            box.extent[i] = extent[walk_.tile_axis[i]];
            box.stride[i] = walk_.views[operand].strides[walk_.tile_axis[i]];
        }
        return box;
    }

    static bool is_direct(const Box& box, const View& view, const char* data) {
        return !view.swapped && reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(view.item_size) == 0 &&
               box.is_packed(view.item_size);
    }

    const void* load(int operand, const Box& box, char* data, int n) {
        const View& view = walk_.views[operand];
        if (is_direct(box, view, data)) return data;
        // A broadcast operand's tile is often the one before. (An input that is also the output never repeats one.)
        if (data != loaded_[operand] || n != loaded_count_[operand]) copy_box<true>(box, view, data, buffer_[operand]);
        loaded_[operand] = data;
        loaded_count_[operand] = n;
        return buffer_[operand];
    }

    const Walk& walk_;
    const TileFunction& f_;
    const char* loaded_[2] = {};
    int loaded_count_[2] = {};
    alignas(64) char buffer_[OPERANDS][8 * tile_size];
};

}  // namespace

bool run_loop(const Shape& shape, const View& x, const View& y, const View& out, const TileFunction& f,
              const LoopOptions& options) {
    Walk walk{shape, {x, y, out}, 0, {}, {}, {}, 1};
    double elements = 1;
    for (int i = 0; i < shape.dims; ++i) elements *= static_cast<double>(shape.extent[i]);
    if (elements == 0) return true;
    simplify(walk);
    if (walk.shape.dims == 0) {
        walk.shape.dims = 1;
        walk.shape.extent[0] = 1;
        for (View& view : walk.views) view.strides[0] = view.item_size;
    }
    choose_tile(walk);

    constexpr double worthwhile = 60000;  // nanoseconds; waking a thread takes several thousand
    const int threads = elements * options.nanoseconds_per_element < worthwhile ? 1 : thread_count();
    // Shares small enough that the calling thread asks for interrupts ten times a second even at a microsecond each.
    constexpr ptrdiff_t tiles_a_share = 64;
    if (threads == 1 && walk.tile_count <= tiles_a_share) {
        Walker(walk, f).run(0, walk.tile_count);
        return true;
    }
    auto last_asked = std::chrono::steady_clock::now();
    const auto keep_going = [&] {
        auto now = std::chrono::steady_clock::now();
        if (now - last_asked < std::chrono::milliseconds(30)) return true;
        last_asked = now;
        return !options.interrupted();
    };
    return parallel_for((walk.tile_count + tiles_a_share - 1) / tiles_a_share, threads, keep_going, [&](ptrdiff_t share) {
        ptrdiff_t first = share * tiles_a_share;
        Walker(walk, f).run(first, std::min(first + tiles_a_share, walk.tile_count));
    });
}

}  // namespace halfulp
