// Decoding a tile's operands: from their storage to the numbers that kernels compute with.
#pragma once

#include "../numerics/double_double.h"
#include "../simd/float16.h"
#include "kernels.h"

namespace halfulp::HALFULP_ISA {

// Calls f with the element type as a constant.
template <typename F>
static void with_element(Element element, F f) {
    switch (element) {
#define HALFULP_FLOAT(name, ...) \
    case Element::name: return f(std::integral_constant<Element, Element::name>{});
#define HALFULP_INT(name, ...) \
    case Element::name: return f(std::integral_constant<Element, Element::name>{});
#include "../formats/elements.def"
#undef HALFULP_FLOAT
#undef HALFULP_INT
        case Element::count: break;
    }
}

template <Element type>
static const Storage<type>* as(const void* data) {
    return static_cast<const Storage<type>*>(data);
}

// Checks whether integers are at least -2^bits and below 2^bits, for bits < 32. Most exponents are.
template <typename Integer>
class IntegerBits {
public:
    explicit IntegerBits(int bits) : offset_(sign * (Unsigned{1} << bits)), bits_(bits + sign) {}
    void add(Integer value) { any_bit_ |= static_cast<Unsigned>(value) + offset_; }
    bool all_within() const { return any_bit_ >> bits_ == 0; }

private:
    using Unsigned = std::make_unsigned_t<Integer>;
    static constexpr int sign = std::is_signed_v<Integer> ? 1 : 0;

    Unsigned any_bit_ = 0;
    const Unsigned offset_;
    const int bits_;
};

template <typename Integer>
bool all_within(const Integer* values, int bits, int n) {
    IntegerBits<Integer> seen(bits);
    for (int i = 0; i < n; ++i) seen.add(values[i]);  // vector loop
    return seen.all_within();
}

template <Element type>
static void decode_floats(const Storage<type>* stored, float* values, int n) {
    if constexpr (type == Element::float16) return decode_half(stored, values, n);
    // vector loop: avx512 avx2 neon scalar(most)
    for (int i = 0; i < n; ++i) values[i] = decode_float<type>(stored[i]);
}

// x * scale + bias, rounded once to float: the product is exact in a double, and the sum is rounded to odd, so that
// the second rounding, to float, gives the right result.
HALFULP_INLINE float scale_to_float(double x, float scale, float bias) {
    return static_cast<float>(sum_to_odd(x * scale, bias));
}

// Exponents as floats, with which powers are faster. Returns false if some value is not a float; then values are wrong,
// and the function for doubles must be used.
bool decode_exponents(Element type, const void* y, float* values, int n);
void decode_exponents(Element type, const void* y, double* values, int n);

// Exponents as the nearest doubles, and the remainders, which only 64-bit integers have. Returns whether any remainder
// may be non-zero.
bool split_exponents(Element type, const void* y, double* highs, double* lows, int n);

// A single exponent.
double exponent_as_double(Element type, const void* y);

}  // namespace halfulp::HALFULP_ISA
