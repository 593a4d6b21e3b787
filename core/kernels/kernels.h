// The arithmetic of one instruction set: what kernels.cpp, compiled once for each, offers to the loop.
#pragma once

#include "../formats/element.h"
#include "../simd/tile.h"

namespace halfulp {

struct PowOptions {
    bool domain_error = false;       // a base below zero with an exponent that is infinite or not integral: NaN
    bool constant_exponent = false;  // y is one element, for all of x
    bool scale_bias = false;         // the base is x * scale + bias, rounded once
    float scale = 1, bias = 0;
};

// Operands are contiguous, aligned and in the machine's byte order; `out` may be an operand, unless it is written by
// streaming stores (simd/streaming_store.h), which other threads see after a fence only.
struct Kernels {
    const char* name;
    void (*pow)(const PowOptions&, Element type, Element y_type, const void* x, const void* y, void* out, int n,
                bool streaming);
    // Whether large results are better written by streaming stores. y is the exponent, if there is one for all, or
    // null.
    bool (*bound_by_memory)(Element type, Element y_type, const void* y);
    void (*prelu)(Element type, const void* x, const void* slope, bool one_slope, void* out, int n, bool streaming);
    // Results of a type of 8 or 16 bits from a table of all.
    void (*look_up)(Element type, const void* table, const void* x, void* out, int n, bool streaming);
    uint64_t (*undecided)();  // how many powers the last phase could not decide; see pow_exact.h
};

namespace scalar { extern const Kernels kernels; }
namespace avx2 { extern const Kernels kernels; }
namespace avx512 { extern const Kernels kernels; }

}  // namespace halfulp
