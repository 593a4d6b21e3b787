#include "walker.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "box.h"
#include "fp_environment.h"

namespace halfulp {

namespace {

// Non-temporal stores are not ordered by locks.
inline void store_fence() {
#ifdef __SSE2__
    _mm_sfence();
#endif
}

// Prefetches memory. An invalid address does not fault.
inline void prefetch(const char* from, ptrdiff_t bytes, bool to_write) {
    for (ptrdiff_t i = 0; i < bytes; i += cache_line) {
        if (to_write) __builtin_prefetch(from + i, 1);
        else __builtin_prefetch(from + i);
    }
}

// Prefetches a part of a column into a farther cache: in the nearest one, the columns of a matrix may compete for a few
// places.
inline void prefetch_far(const char* from, ptrdiff_t bytes) {
    for (ptrdiff_t i = 0; i < bytes; i += cache_line) __builtin_prefetch(from + i, 0, 2);
    if (bytes > 0) __builtin_prefetch(from + bytes - 1, 0, 2);
}

// Takes one thread through a range of tiles.
class Walker {
public:
    Walker(const Tiling& tiling, const Operation& operation) : tiling_(tiling), operation_(operation) {}

    bool run(ptrdiff_t first, ptrdiff_t end) {
        FpEnvironment default_environment;
        const ptrdiff_t elements = tiling_.tile_elements;
        if (tiling_.is_flat) {
            run_flat(first * elements, std::min(end * elements, tiling_.shape.extent[0]));
        } else {
            seek(first);
            for (ptrdiff_t left = end - first; left > 0 && has_memory_; --left) run_tile();
        }
        if (tiling_.streams) store_fence();
        return has_memory_;
    }

private:
    // The common case: no boxes are laid out, except for a constant.
    void run_flat(ptrdiff_t first, ptrdiff_t end) {
        const View *views = tiling_.views, &out = views[role_out];
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
        if (views[role_x].strides[0] == 0) start[role_x] = constant(role_x, tiling_.tile_elements);
        if (!has_memory_) return;
        const auto address = [&](int k, ptrdiff_t i) { return start[k] + i * views[k].strides[0]; };
        // Indices are counted from the start of the output's first cache line, so that tiles and chunks begin at a
        // cache line.
        const ptrdiff_t past_line =
            static_cast<ptrdiff_t>(reinterpret_cast<uintptr_t>(out.data) % cache_line) / out.item_size;
        const ptrdiff_t elements = tiling_.tile_elements, last = end == tiling_.shape.extent[0] ? end + past_line : end;
        for (ptrdiff_t from = std::max(first, past_line), to; from < last; from = to) {
            to = std::min((from / elements + 1) * elements, last);
            const ptrdiff_t i = from - past_line;
            operation_.run(address(role_x, i), address(role_y, i), one_y, out.data + i * out.strides[0],
                           static_cast<int>(to - from), tiling_.streams);
        }
    }

    void seek(ptrdiff_t tile) {
        for (int i = tiling_.shape.dims - 1; i >= 0; --i) {
            const int axis = tiling_.order[i];
            position_[axis] = tile % tiling_.tiles_along[axis];
            tile /= tiling_.tiles_along[axis];
            move(axis, position_[axis]);
        }
    }

    // Moves to the next tile, or from the last one to the first.
    void advance() {
        for (int i = tiling_.shape.dims - 1; i >= 0; --i) {
            const int axis = tiling_.order[i];
            move(axis, 1);
            if (++position_[axis] < tiling_.tiles_along[axis]) return;
            move(axis, -position_[axis]);
            position_[axis] = 0;
        }
    }

    void move(int axis, ptrdiff_t tiles) {
        for (int k = 0; k < role_count; ++k)
            offset_[k] += tiles * tiling_.tile_extent[axis] * tiling_.views[k].strides[axis];
    }

    void run_tile() {
        ptrdiff_t extent[max_tile_axes] = {};
        bool as_before = true;
        for (int i = 0; i < tiling_.tile_axes; ++i) {
            const int axis = tiling_.tile_axis[i];
            const ptrdiff_t left = tiling_.shape.extent[axis] - position_[axis] * tiling_.tile_extent[axis];
            extent[i] = std::min(tiling_.tile_extent[axis], left);
            as_before &= extent[i] == tile_.extent[i];
        }
        if (!as_before) lay_out(extent);
        char* data[role_count];
        for (int k = 0; k < role_count; ++k) data[k] = tiling_.views[k].data + offset_[k];
        advance();
        if (tiling_.is_panel) return run_panel(data);
        if (tiling_.is_rows) {
            const int last = tiling_.tile_axes - 1;
            operation_.run_rows(data[role_x], data[role_y], static_cast<int>(tile_.extent[last]),
                                tiling_.views[role_y].strides[tiling_.shape.dims - 2], data[role_out], tile_.n,
                                tiling_.streams);
            return;
        }
        const void* inputs[2];
        for (int k : {role_x, role_y}) inputs[k] = is_direct(k, data[k]) ? data[k] : gather(k, data[k]);
        const bool direct = is_direct(role_out, data[role_out]);
        char* results = direct ? data[role_out] : buffer(role_out);
        if (!has_memory_) return;
        operation_.run(inputs[role_x], inputs[role_y], tile_.one_y, results, tile_.n, direct && tiling_.streams);
        if (!direct) scatter(tile_.boxes[role_out], tiling_.views[role_out], data[role_out], results);
    }

    void lay_out(const ptrdiff_t (&extent)[max_tile_axes]) {
        std::copy_n(extent, max_tile_axes, tile_.extent);
        tile_.n = 1;
        for (int i = 0; i < tiling_.tile_axes; ++i) tile_.n *= static_cast<int>(extent[i]);
        for (int k = 0; k < role_count; ++k) {
            ptrdiff_t strides[max_tile_axes];
            for (int i = 0; i < tiling_.tile_axes; ++i) strides[i] = tiling_.views[k].strides[tiling_.tile_axis[i]];
            tile_.boxes[k].lay_out(extent, strides, tiling_.tile_axes, tiling_.views[k].item_size);
            tile_.packed[k] = !tiling_.views[k].swapped && tile_.boxes[k].is_packed();
        }
        tile_.one_y = tile_.boxes[role_y].is_one();
        if (tile_.one_y && !tiling_.is_panel) {
            const ptrdiff_t one = 1, stride = 0;
            tile_.boxes[role_y].lay_out(&one, &stride, 1, tiling_.views[role_y].item_size);
        }
        loaded_[role_x] = loaded_[role_y] = nullptr;
    }

    // Computes row by row, or several rows at a time if they are adjacent in every operand. Operands that are not in
    // rows are copied. The position is already that of the next panel.
    void run_panel(char* const (&data)[role_count]) {
        const int across = tiling_.tile_axis[0], along = tiling_.tile_axis[1];
        const ptrdiff_t rows = tile_.extent[0], length = tile_.extent[1];
        bool in_rows[role_count], packed = true;
        char* first[role_count];
        ptrdiff_t strides[role_count];
        for (int k = 0; k < role_count; ++k) {
            const View& view = tiling_.views[k];
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
                const View& view = tiling_.views[k];
                if (in_rows[k]) {
                    prefetch(first[k] + end * strides[k], length * view.item_size, k == role_out);
                } else if (k != role_out && view.strides[across] == view.item_size && tiling_.is_beyond_caches) {
                    // Prefetches the columns of the next panel, in step with the rows of this one.
                    const char* next = view.data + offset_[k];
                    for (ptrdiff_t j = length * i / rows; j < length * end / rows; ++j)
                        prefetch_far(next + j * view.strides[along], rows * view.item_size);
                }
            }
            operation_.run(first[role_x] + i * strides[role_x], first[role_y] + i * strides[role_y], tile_.one_y,
                           first[role_out] + i * strides[role_out], static_cast<int>((end - i) * length), false);
        }
        if (!in_rows[role_out])
            scatter(tile_.boxes[role_out], tiling_.views[role_out], data[role_out], first[role_out]);
    }

    bool is_direct(int operand, const char* data) const {
        return tile_.packed[operand] && is_aligned(data, tiling_.views[operand]);
    }

    char* gather(int operand, char* data) {
        char* packed = buffer(operand);
        // A broadcast operand's tile is often that of the previous call. (An input that is also the output never
        // repeats a tile.)
        if (data != loaded_[operand] && packed != nullptr)
            halfulp::gather(tile_.boxes[operand], tiling_.views[operand], data, packed);
        loaded_[operand] = data;
        return packed;
    }

    // Returns memory for an operand's part of a tile, or null. It is allocated on first use, because most calls need
    // none and a small stack has no room for it.
    char* buffer(int operand) {
        if (buffers_[operand] == nullptr) {
            const auto bytes = static_cast<size_t>(tiling_.tile_elements * tiling_.views[operand].item_size);
            // (Aligned allocation is slower, and `new` can throw even if it is declared to return null.)
            memory_[operand].reset(static_cast<char*>(std::malloc(bytes + cache_line - 1)));
            has_memory_ &= memory_[operand] != nullptr;
            if (!has_memory_) return nullptr;
            const auto address = reinterpret_cast<uintptr_t>(memory_[operand].get());
            buffers_[operand] = memory_[operand].get() + (-address & (cache_line - 1));
        }
        return buffers_[operand];
    }

    // The layout that tiles of the same extents share.
    struct Tile {
        ptrdiff_t extent[max_tile_axes] = {};
        int n;
        Box boxes[role_count];
        bool packed[role_count];
        bool one_y;
    };

    const Tiling& tiling_;
    const Operation& operation_;
    Tile tile_;
    ptrdiff_t position_[max_dims];       // of the next tile, counted in tiles
    ptrdiff_t offset_[role_count] = {};  // of its first element, in bytes
    const char* loaded_[2] = {};         // the address of the tile that a buffer holds, in the current layout
    struct Free {
        void operator()(char* memory) const { std::free(memory); }
    };
    std::unique_ptr<char, Free> memory_[role_count];
    char* buffers_[role_count] = {};  // the first cache line in `memory_`
    bool has_memory_ = true;
};

}  // namespace

bool run_tiles(const Tiling& tiling, ptrdiff_t first, ptrdiff_t end, const Operation& operation) {
    return Walker(tiling, operation).run(first, std::min(end, tiling.tile_count));
}

bool run_chunk(const Tiling& tiling, ptrdiff_t chunk, const Operation& operation) {
    const ptrdiff_t first = chunk * tiling.tiles_per_chunk();
    return run_tiles(tiling, first, first + tiling.tiles_per_chunk(), operation);
}

}  // namespace halfulp
