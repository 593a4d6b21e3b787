// The element types as data: the rows of elements.def, and the names for them.
#pragma once

#include <cfloat>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// The error bounds assume that each operation rounds once, to the type and in the order that are written.
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "halfulp is not to be compiled with -ffast-math or a part of it"
#endif
static_assert(FLT_EVAL_METHOD == 0, "halfulp needs float and double arithmetic without excess precision");
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF  // GCC accepts only the option -ffp-contract=off, and has no macro that shows it
#endif

// For the functions that hot loops call: compilers do not vectorise a loop with a call.
#ifndef HALFULP_INLINE
#define HALFULP_INLINE [[gnu::always_inline]] static inline
#endif
// For the functions of rare cases. By default the compiler decides whether to inline them.
#ifndef HALFULP_CALLED
#define HALFULP_CALLED
#define HALFULP_ROLLED  // for loops that must not be unrolled
#endif

namespace halfulp {

enum class Element : int {
#define HALFULP_FLOAT(name, ...) name,
#define HALFULP_INT(name, ...) name,
#include "elements.def"
#undef HALFULP_FLOAT
#undef HALFULP_INT
    count
};

inline constexpr int element_count = static_cast<int>(Element::count);

struct ElementRow {
    const char* name;
    int size;  // bytes in memory
    bool is_float;
    bool is_signed;
    int bits;       // of the encoding; integer arithmetic wraps to them
    int precision;  // floats, from here on: see elements.def
    int bias;
    uint64_t largest, overflow, nan;

    // float8_e8m0fnu has powers of two and a NaN, but neither zero, sign nor subnormals.
    constexpr bool has_zero() const { return precision > 1; }
    constexpr uint64_t sign() const { return has_zero() ? uint64_t{1} << (bits - 1) : 0; }
    // The fnuz types encode their only NaN as others do -0.
    constexpr bool has_minus_zero() const { return has_zero() && (bits == 4 || nan != sign()); }
    constexpr bool has_infinity() const { return overflow != nan && overflow != largest; }
    constexpr int fraction_bits() const { return precision - 1; }
    constexpr int least_exponent() const { return has_zero() ? 1 - bias : -bias; }
    constexpr int greatest_exponent() const { return static_cast<int>(largest >> fraction_bits()) - bias; }
};

inline constexpr ElementRow element_rows[] = {
#define HALFULP_FLOAT(name, storage, bits, precision, bias, largest, overflow, nan) \
    {#name, sizeof(storage), true, true, bits, precision, bias, largest, overflow, nan},
#define HALFULP_INT(name, storage, bits) \
    {#name, sizeof(storage), false, std::is_signed_v<storage>, bits, 0, 0, 0, 0, 0},
#include "elements.def"
#undef HALFULP_FLOAT
#undef HALFULP_INT
};

constexpr const ElementRow& row(Element element) { return element_rows[static_cast<int>(element)]; }

// Storage<Element::float16> is uint16_t.
template <Element> struct StorageOf;
#define HALFULP_FLOAT(name, storage, ...)         \
    template <> struct StorageOf<Element::name> { \
        using type = storage;                     \
    };
#define HALFULP_INT(name, storage, ...)           \
    template <> struct StorageOf<Element::name> { \
        using type = storage;                     \
    };
#include "elements.def"
#undef HALFULP_FLOAT
#undef HALFULP_INT
template <Element element> using Storage = typename StorageOf<element>::type;

// A type that is known when a function is compiled, where the same function may also be compiled once for several types
// and then takes an ElementRow.
template <Element element>
struct KnownType {
    constexpr operator const ElementRow&() const { return row(element); }
};

}  // namespace halfulp
