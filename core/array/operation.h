// The operation that a call applies to each tile: one kernel with its options, or a table of all powers.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/kernels.h"
#include "tiling.h"

namespace halfulp {

enum class Kernel { pow, prelu };

// All powers with one exponent, for each base of 8 or 16 bits, in the order of the bases' encodings.
struct PowerTable {
    Element type, y_type;
    uint64_t y;  // the exponent's bytes
    PowOptions options;
    std::vector<char> powers;
};

// Holds the last table for a caller that computes again and again with one exponent. Any number of threads may use it.
class KeptTable {
public:
    std::shared_ptr<const PowerTable> get();
    void set(std::shared_ptr<const PowerTable> table);

private:
    std::mutex mutex_;
    std::shared_ptr<const PowerTable> table_;
};

class Operation {
public:
    // `elements` is the number of results. `one_y` is the element that is the exponent of all, in native byte order and
    // with any alignment, or null.
    Operation(Kernel kernel, Element type, Element y_type, const void* one_y, ptrdiff_t elements,
              const PowOptions& options = {}, KeptTable* kept = nullptr);

    BoundBy bound_by() const { return bound_by_; }

    // Takes n elements of x, and n elements of y or one, contiguous and in native order. `streaming` results are
    // written by streaming stores. Needs the default floating-point environment.
    void run(const void* x, const void* y, bool one_y, void* out, int n, bool streaming) const {
        if (table_ != nullptr) {
            kernels_.look_up(type_, table_->powers.data(), x, out, n, streaming);
        } else if (kernel_ == Kernel::prelu) {
            kernels_.prelu(type_, x, y, one_y ? n : 1, one_y ? 0 : row(type_).size, out, n, streaming);
        } else {
            PowOptions options = options_;
            options.constant_exponent = one_y;
            kernels_.pow(options, type_, y_type_, x, y, out, n, streaming);
        }
    }

    // Takes n elements of x in rows of `length`, each with one element of y; those are `step` bytes apart.
    void run_rows(const void* x, const void* y, int length, ptrdiff_t step, void* out, int n, bool streaming) const {
        if (kernel_ == Kernel::prelu) return kernels_.prelu(type_, x, y, length, step, out, n, streaming);
        const ptrdiff_t row_bytes = ptrdiff_t{length} * row(type_).size;
        auto *row_x = static_cast<const char*>(x), *row_y = static_cast<const char*>(y);
        auto* row_out = static_cast<char*>(out);
        for (; n > 0; n -= length, row_x += row_bytes, row_y += step, row_out += row_bytes)
            run(row_x, row_y, true, row_out, length, streaming);
    }

private:
    std::shared_ptr<const PowerTable> make_table(const void* one_y) const;
    bool is_of_this(const PowerTable& table, const void* one_y) const;

    const Kernels& kernels_;
    Kernel kernel_;
    Element type_, y_type_;
    PowOptions options_;
    BoundBy bound_by_ = BoundBy::arithmetic;
    std::shared_ptr<const PowerTable> table_;  // null if powers are computed
};

}  // namespace halfulp
