// The arguments of a kernel: the operands and their layout. For the host's compiler and the device's.
#pragma once

#include "formats/element.h"

namespace halfulp::cuda {

// The same limit as for arrays in the processor's memory (array/view.h).
inline constexpr int max_axes = 64;

// One of the axes that all operands are walked along. What one index counts is an element, or the vector that a thread
// takes at once.
struct Axis {
    uint32_t extent;
    // n / extent is (high half of n * factor + n) >> shift for n < 2^31.
    uint32_t factor, shift;
    int64_t x_stride, y_stride, out_stride;  // in bytes; 0 where an operand is broadcast
};

// x^y, or PRelu with the slope y.
struct Arguments {
    const void* x;  // null where all elements are one number
    const void* y;
    void* out;
    uint64_t x_number, y_number;  // encodings
    uint32_t count;               // of vectors, below 2^31: the product of the extents
    uint8_t type, y_type;
    int32_t axes;         // at least 1
    Axis axis[max_axes];  // the fastest one first
};
static_assert(sizeof(Arguments) <= 4096);  // what a kernel may be given

// The threads of a block, in every kernel.
inline constexpr uint32_t block_threads = 256;

// How many elements in a row a thread takes, of a type of so many bytes.
constexpr int vector_of(int size) { return 16 / size; }

// The elements of a thread that takes single ones: so many, a block's threads apart, so that neighbours take neighbours.
inline constexpr uint32_t elements_apart = 4;

// A kernel that leaves elements undecided has a byte for each of its threads, with a bit for each of a thread's elements.
// Another kernel takes so many bytes at once.
inline constexpr uint32_t undecided_at_once = 16;

// For the kernel that decides what others leave.
struct Undecided {
    const uint8_t* bits;              // null: all elements
    uint32_t threads;                 // of the other kernel
    uint32_t vector;                  // how many elements in a row such a thread took; 1 where they are apart
    unsigned long long* undecidable;  // counts what even the last phase does not decide
};

}  // namespace halfulp::cuda
