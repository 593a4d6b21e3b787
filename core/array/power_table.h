// All powers with one exponent of a floating type of 8 bits or fewer, or of 16, to be looked up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

namespace halfulp {

template <typename Code>
class PowerTable {
public:
    static constexpr int element_size = sizeof(Code);
    // From so many elements on, a look-up costs less than the powers, and all powers less than these.
    static constexpr ptrdiff_t worthwhile = sizeof(Code) == 1 ? 1 << 11 : 1 << 18;

    // In the default floating-point environment.
    void fill(const Kernels& kernels, PowOptions options, Element type, Element y_type, const char* y) {
        constexpr int codes = 1 << 8 * sizeof(Code), step = codes < block_size ? codes : block_size;
        powers_.resize(codes);
        options.constant_exponent = true;
        for (int i = 0; i < codes; ++i) powers_[i] = static_cast<Code>(i);
        for (int i = 0; i < codes; i += step)
            kernels.pow(options, type, y_type, &powers_[i], y, &powers_[i], step, false);
    }

    const Code* powers() const { return powers_.data(); }

private:
    std::vector<Code> powers_;
};

}  // namespace halfulp
