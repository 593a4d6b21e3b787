// A base or an exponent of any type.
#pragma once

#include "pow_exact.h"
#include "pow_special.h"

namespace halfulp::HALFULP_ISA {

// An integer of any type of up to 64 bits.
struct Integer {
    uint64_t bits;  // of the two's complement
    bool negative;

    template <std::integral Number>
    static Integer of(Number value) {
        return {static_cast<uint64_t>(value), value < 0};
    }
    double nearest() const {
        return negative ? static_cast<double>(static_cast<int64_t>(bits)) : static_cast<double>(bits);
    }
};

// The nearest double, and the remainder, which is not zero only for 64-bit integers beyond 2^53.
struct Operand {
    double high, low;

    static Operand of(double value) { return {value, 0}; }
    static Operand of(const Integer& value) {
        const double high = value.nearest();
        const __int128 exact = value.negative ? __int128{static_cast<int64_t>(value.bits)} : __int128{value.bits};
        return {high, static_cast<double>(static_cast<int64_t>(exact - static_cast<__int128>(high)))};
    }

    bool negative() const { return high < 0; }
    uint64_t parity() const { return low == 0 ? parity_of(high) : parity_of(high) ^ parity_of(low); }
    // |high + low|, which must be finite.
    Dyadic magnitude() const {
        if (low == 0) return dyadic_of(high);
        const __int128 sum = static_cast<__int128>(high) + static_cast<__int128>(low);
        return dyadic_of_integer(static_cast<uint64_t>(sum < 0 ? -sum : sum));
    }
};

}  // namespace halfulp::HALFULP_ISA
