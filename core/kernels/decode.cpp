#include "decode.h"

#include <concepts>
#include <cstring>

#include "../numerics/operand.h"

namespace halfulp::HALFULP_ISA {

// An integer as a double, for bases of at most 24 bits. Beyond 2^53 the power of such a base is zero or infinity, or
// |base| is 0, 1 or infinity: only the exponent's parity and sign matter. An odd exponent becomes the greatest odd
// double.
template <typename Integer>
static double exponent_of(Integer value) {
    constexpr double greatest_odd = 0x1p53 - 1;
    double nearest = static_cast<double>(value);
    bool far = nearest > greatest_odd || nearest < -greatest_odd;
    return far && (value & 1) != 0 ? (nearest < 0 ? -greatest_odd : greatest_odd) : nearest;
}

bool decode_exponents(Element type, const void* y, float* values, int n) {
    bool done = true;
    with_element(type, [&](auto element) {
        const auto* stored = as<element>(y);
        if constexpr (row(element).is_float ? element != Element::float64 : row(element).bits <= 16) {
            decode_floats<element>(stored, values, n);
        } else if constexpr (!row(element).is_float) {
            // One pass checks and converts. Integers beyond 24 bits give wrong floats here, and the caller converts all
            // of them again, to doubles.
            IntegerBits<Storage<element>> seen(24);
            for (int i = 0; i < n; ++i) {  // vector loop
                seen.add(stored[i]);
                values[i] = static_cast<float>(static_cast<int32_t>(stored[i]));
            }
            done = seen.all_within();
        } else {
            done = false;
        }
    });
    return done;
}

void decode_exponents(Element type, const void* y, double* values, int n) {
    with_element(type, [&](auto element) {
        const auto* stored = as<element>(y);
        if constexpr (!row(element).is_float && row(element).bits == 64) {
            for (int i = 0; i < n; ++i) values[i] = exponent_of(stored[i]);  // vector loop: avx512 neon
        } else {
            // vector loop: avx512 avx2 neon scalar(most)
            for (int i = 0; i < n; ++i) values[i] = decode<element>(stored[i]);
        }
    });
}

namespace {

template <std::integral Number>
bool split(const Number* stored, double* highs, double* lows, int n) {
    if (all_within(stored, 31, n)) {
        // vector loop
        for (int i = 0; i < n; ++i) highs[i] = static_cast<double>(static_cast<int32_t>(stored[i]));
        return false;
    }
    for (int i = 0; i < n; ++i) {
        const Operand exponent = Operand::of(Integer::of(stored[i]));
        highs[i] = exponent.high;
        lows[i] = exponent.low;
    }
    return true;
}

}  // namespace

bool split_exponents(Element type, const void* y, double* highs, double* lows, int n) {
    if (type == Element::int64) return split(as<Element::int64>(y), highs, lows, n);
    if (type == Element::uint64) return split(as<Element::uint64>(y), highs, lows, n);
    decode_exponents(type, y, highs, n);
    return false;
}

double exponent_as_double(Element type, const void* y) {
    double exponent = 0;
    with_element(type, [&](auto element) {
        Storage<element> stored;
        std::memcpy(&stored, y, sizeof(stored));
        if constexpr (!row(element).is_float && row(element).bits == 64) exponent = exponent_of(stored);
        else exponent = decode<element>(stored);
    });
    return exponent;
}

}  // namespace halfulp::HALFULP_ISA
