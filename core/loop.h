// The only loop: walks operands of any strides, broadcasting and byte order in tiles that the kernels take,
// without a temporary of an operand's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace halfulp {

// As many as NumPy has.
inline constexpr int max_dims = 64;

struct View {
    char* data = nullptr;
    int item_size = 0;
    bool swapped = false;               // not in the machine's byte order
    ptrdiff_t strides[max_dims] = {};   // in bytes, 0 where broadcast
};

struct Shape {
    int dims = 0;
    ptrdiff_t extent[max_dims] = {};
};

// Called for each tile: n elements of x and y, contiguous and in native order, to out.
using TileFunction = std::function<void(const void* x, const void* y, void* out, int n)>;

struct LoopOptions {
    double nanoseconds_per_element;   // about: decides whether more than one thread pays
    std::function<bool()> interrupted;  // asked now and then by the calling thread; true ends the loop early
};

// out[i] = f(x[i], y[i]) for every index of the shape. `out` may be the very same view as an input, but may not
// overlap one otherwise. Runs in the default floating-point environment and restores the caller's.
// Returns false where it was interrupted.
bool run_loop(const Shape& shape, const View& x, const View& y, const View& out, const TileFunction& f,
              const LoopOptions& options);

}  // namespace halfulp
