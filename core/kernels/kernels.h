// The arithmetic of one instruction set: the table of functions that core/array/ and dispatch.cpp use. kernels.cpp
// fills it and is compiled once for each instruction set.
#pragma once

#include "../formats/element.h"
#include "../simd/tile.h"

namespace halfulp {

struct PowOptions {
    bool domain_error = false;       // a negative base with an infinite or non-integral exponent gives NaN
    bool constant_exponent = false;  // y is one element, used for all of x
    bool scale_bias = false;         // the base is x * scale + bias, rounded once
    float scale = 1, bias = 0;
};

// Operands are contiguous, aligned and in the machine's byte order. `out` may alias an operand, unless it is written by
// streaming stores (simd/streaming_store.h); other threads see those only after a fence.
struct Kernels {
    const char* name;
    void (*pow)(const PowOptions&, Element type, Element y_type, const void* x, const void* y, void* out, int n,
                bool streaming);
    // Whether large results are better written by streaming stores. y is the constant exponent, or null.
    bool (*bound_by_memory)(Element type, Element y_type, const void* y);
    // Each slope serves `shared` elements; slopes are `step` bytes apart, if shared is 1 their size.
    void (*prelu)(Element type, const void* x, const void* slopes, int shared, ptrdiff_t step, void* out, int n,
                  bool streaming);
    // Looks up the results of a type of 8 or 16 bits in a table that has an entry for each encoding.
    void (*look_up)(Element type, const void* table, const void* x, void* out, int n, bool streaming);
    uint64_t (*undecided)();  // the number of powers that the last phase could not decide; see pow_exact.h
};

namespace scalar { extern const Kernels kernels; }
namespace avx2 { extern const Kernels kernels; }
namespace avx512 { extern const Kernels kernels; }

}  // namespace halfulp
