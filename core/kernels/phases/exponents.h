// The exponents of a tile.
#pragma once

#include "../../numerics/operand.h"
#include "../../numerics/pow_special.h"
#include "../kernels.h"

namespace halfulp::HALFULP_ISA {

// Exponents as floats, doubles or integers; or, with_lows, as doubles and the remainders of 64-bit integers beyond
// 2^53. (Without remainders integers are exact enough for bases of at most 24 bits: see exponent_of in decode.cpp.)
template <typename Number, bool with_lows = false>
struct Exponents {
    static constexpr bool has_lows = with_lows;
    const Number* highs;
    const double* lows = nullptr;

    double high(int i) const { return static_cast<double>(highs[i]); }
    double low(int i) const {
        if constexpr (has_lows) return lows[i];
        else return 0;
    }
    Operand operator[](int i) const { return {high(i), low(i)}; }
    Word<Number> parity(int i) const {
        if constexpr (has_lows) return parity_of(highs[i]) ^ parity_of(lows[i]);
        else return parity_of(highs[i]);
    }
    Word<Number> kinds(int i) const { return classify(highs[i]); }
    template <typename X>
    X special(int i) const {
        return special_exponent<X>(highs[i]);
    }
    Exponents from(int i) const { return {highs + i, has_lows ? lows + i : nullptr}; }
};
using PairExponents = Exponents<double, true>;

}  // namespace halfulp::HALFULP_ISA
