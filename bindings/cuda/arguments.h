// The arguments of a kernel: the operands and their layout. Compiled for the host and for the device.
#pragma once

#include "formats/element.h"

namespace halfulp::cuda {

// The same limit as for arrays in the processor's memory (array/view.h).
inline constexpr int max_axes = 64;

// One axis of the loop over the operands. An index counts elements, or vectors of as many as a thread takes at once.
struct Axis {
    uint32_t extent;
    // n / extent is (high half of n * factor + n) >> shift for n < 2^31.
    uint32_t factor, shift;
    int64_t x_stride, y_stride, out_stride;  // in bytes; 0 if the operand is broadcast
};

// x^y, or PRelu with the slope y.
struct Arguments {
    const void* x;  // null if all elements are one number
    const void* y;
    void* out;
    uint64_t x_number, y_number;  // encodings
    uint32_t count;               // of vectors, below 2^31: the product of the extents
    uint8_t type, y_type;
    int32_t axes;         // at least 1
    Axis axis[max_axes];  // the fastest one first
};
static_assert(sizeof(Arguments) <= 4096);  // CUDA's limit

// The threads of a block, in every kernel.
inline constexpr uint32_t block_threads = 256;

// The number of adjacent elements that a thread takes; `size` is in bytes.
constexpr int vector_of(int size) { return 16 / size; }

// The number of elements of a thread that takes separate ones. They are block_threads apart, so that adjacent threads
// take adjacent elements.
inline constexpr uint32_t elements_apart = 4;

// A kernel that leaves elements undecided writes a byte for each of its threads, with a bit for each element. pow_rest
// reads this many bytes at once.
inline constexpr uint32_t undecided_at_once = 16;

// For pow_rest, which computes the elements that another kernel left undecided.
struct Undecided {
    const uint8_t* bits;              // null: all elements
    uint32_t threads;                 // of the other kernel
    uint32_t vector;                  // the number of adjacent elements of its threads; 1 if they are separate
    unsigned long long* undecidable;  // counts the powers that even the last phase does not decide
};

}  // namespace halfulp::cuda
