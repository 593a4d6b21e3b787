// Arrays of any strides in memory: the operands and the result of a call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfulp {

// NumPy's limit.
inline constexpr int max_dims = 64;

struct View {
    char* data = nullptr;
    int item_size = 0;
    bool swapped = false;         // not in the machine's byte order
    ptrdiff_t strides[max_dims];  // in bytes, 0 where broadcast; valid for the axes of the shape
};

struct Shape {
    int dims = 0;
    ptrdiff_t extent[max_dims];
};

enum Role { role_x, role_y, role_out, role_count };

// Item sizes are powers of two.
inline bool is_aligned(const char* data, const View& view) {
    return (reinterpret_cast<uintptr_t>(data) & static_cast<uintptr_t>(view.item_size - 1)) == 0;
}

}  // namespace halfulp
