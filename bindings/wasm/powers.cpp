// Powers for WebAssembly: of one number, and of arrays of float16, float32 and float64. The module imports nothing, starts
// no threads and allocates nothing: the caller puts the arrays into its memory, from __heap_base on.
#define HALFULP_ISA wasm
#include "kernels/decode.h"
#include "kernels/float/pow.h"
#include "kernels/float64/pow.h"
#include "one_element.h"

namespace halfulp::wasm {

// Declared by phases/exact.h. Elsewhere exact.cpp defines it, and counts.
uint64_t exact_encoding(const ElementRow& type, Dyadic x, bool y_negative, Dyadic y) {
    return pow_exact(type, x, y_negative, y).result;
}

namespace {

template <Element type, typename Real>
void powers_of_tile(const Storage<type>* x, const Storage<type>* y, Storage<type>* out, int n) {
    const Prefetch none(x, y, out, 0, 0);
    alignas(64) Real bases[tile_size], exponents[tile_size];
    if constexpr (type == Element::float64) {
        __builtin_memcpy(bases, x, sizeof(Real) * static_cast<size_t>(n));
        __builtin_memcpy(exponents, y, sizeof(Real) * static_cast<size_t>(n));
        pow_tile(PowOptions{}, bases, Exponents<double>{exponents}, out, n, none);
    } else {
        decode_floats<type>(x, bases, n);
        decode_floats<type>(y, exponents, n);
        pow_tile(float_type<type>(), PowOptions{}, bases, static_cast<const float*>(exponents), out, n, none);
    }
}

// `z` may be x or y, and arrays need no alignment.
template <Element type, typename Real = float>
void powers_of_array(const Storage<type>* x, const Storage<type>* y, Storage<type>* z, int n) {
    alignas(64) Storage<type> out[tile_size];
    for (int i = 0; i < n; i += tile_size) {
        const int some = n - i < tile_size ? n - i : tile_size;
        powers_of_tile<type, Real>(x + i, y + i, out, some);
        __builtin_memcpy(z + i, out, sizeof(Storage<type>) * static_cast<size_t>(some));
    }
}

// A power that the fast phase leaves undecided is a tile of one element: it is rare, and the file is smaller.
template <Element type, typename Real>
Real power_of_one(Real x, Real y) {
    Real power;
    if (quick_power(x, y, power)) [[likely]]
        return power;
    const Storage<type> base = word_of(x), exponent = word_of(y);
    Storage<type> encoding;
    powers_of_array<type, Real>(&base, &exponent, &encoding, 1);
    return __builtin_bit_cast(Real, encoding);
}

}  // namespace

}  // namespace halfulp::wasm

using namespace halfulp;
using namespace halfulp::wasm;

#define HALFULP_EXPORT(name) extern "C" [[clang::export_name(#name)]]
HALFULP_EXPORT(pow) double one_double(double x, double y) { return power_of_one<Element::float64>(x, y); }
HALFULP_EXPORT(powf) float one_float(float x, float y) { return power_of_one<Element::float32>(x, y); }
HALFULP_EXPORT(pow_float64) void float64s(const uint64_t* x, const uint64_t* y, uint64_t* z, int n) {
    powers_of_array<Element::float64, double>(x, y, z, n);
}
HALFULP_EXPORT(pow_float32) void float32s(const uint32_t* x, const uint32_t* y, uint32_t* z, int n) {
    powers_of_array<Element::float32>(x, y, z, n);
}
HALFULP_EXPORT(pow_float16) void float16s(const uint16_t* x, const uint16_t* y, uint16_t* z, int n) {
    powers_of_array<Element::float16>(x, y, z, n);
}
