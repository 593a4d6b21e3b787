// Prefetches the operands of later tiles, in parts while a tile is computed: if all prefetches were issued at once,
// they would delay each other and the tile's own loads.
#pragma once

#include <cstdint>

#include "tile.h"

namespace halfulp::HALFULP_ISA {

class Prefetch {
public:
    // The current tile, its bytes, and y's bytes (0 if y is one element).
    Prefetch(const void* x, const void* y, const void* out, int size, int y_size)
        : x_(reinterpret_cast<uintptr_t>(x) + distance),
          y_(reinterpret_cast<uintptr_t>(y) + distance),
          out_(reinterpret_cast<uintptr_t>(out) + distance),
          bytes_(size / parts),
          y_bytes_(y_size / parts) {}

    // Call this for each part, 0 to 3. (A prefetch never faults.)
    void issue(int part) const {
        const int from = part * bytes_, y_from = part * y_bytes_;
        for (int i = from; i < from + bytes_; i += cache_line) {
            __builtin_prefetch(at(x_ + static_cast<uintptr_t>(i)));
            __builtin_prefetch(at(out_ + static_cast<uintptr_t>(i)), 1);
        }
        for (int i = y_from; i < y_from + y_bytes_; i += cache_line)
            __builtin_prefetch(at(y_ + static_cast<uintptr_t>(i)));
    }

private:
    static constexpr int parts = 4, distance = 2048;

    static const void* at(uintptr_t address) { return reinterpret_cast<const void*>(address); }

    uintptr_t x_, y_, out_;  // integers, since a pointer must not point beyond its allocation
    int bytes_, y_bytes_;
};

// Prefetches the cache lines `distance` bytes behind these bytes of an operand. A loop that calls this for all bytes spreads
// the requests evenly: beyond the caches, powers of float32 then take a tenth less time than with parts.
HALFULP_INLINE void prefetch_lines_ahead(const void* from, int bytes) {
    constexpr uintptr_t distance = 4096;
    for (int i = 0; i < bytes; i += cache_line)
        __builtin_prefetch(
            reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(from) + distance + static_cast<uintptr_t>(i)));
}

}  // namespace halfulp::HALFULP_ISA
