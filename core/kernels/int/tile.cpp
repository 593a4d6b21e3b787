// Powers of the integer types.
#include "../decode.h"
#include "pow.h"

namespace halfulp::HALFULP_ISA {

namespace {

// Signed exponents of any type as int64. (Kept separate so that it is instantiated once per type, not once per pair.)
[[gnu::noinline]] void widen_exponents(Element type, const void* y, int64_t* exponents, int n) {
    with_element(type, [&](auto element) {
        if constexpr (!row(element).is_float && row(element).is_signed)
            for (int i = 0; i < n; ++i) exponents[i] = widen<element>(as<element>(y)[i]);
    });
}

// Replaces the powers whose exponents are negative.
template <Element type, typename Word>
[[gnu::noinline]] void put_reciprocals(const void* x, Element y_type, const void* y, Word* powers, int n) {
    alignas(64) int64_t exponents[tile_size];
    widen_exponents(y_type, y, exponents, n);
    for (int i = 0; i < n; ++i) {
        const auto base = static_cast<int64_t>(widen<type>(as<type>(x)[i]));
        auto reciprocal =
            static_cast<Word>(reciprocal_power(IntegerRange::of(row(type)), base, (exponents[i] & 1) != 0));
        powers[i] = exponents[i] < 0 ? reciprocal : powers[i];
    }
}

// Reduces each exponent to an equivalent one of few bits, for powers modulo 2^bits. Negative exponents become 0.
// Returns whether there were any.
template <int bits, typename Word, Element y_type>
[[gnu::noinline]] bool reduce_exponents(const void* y, Word* exponents, int n) {
    using Unsigned = std::conditional_t<sizeof(Storage<y_type>) == 8, uint64_t, uint32_t>;
    constexpr int top_bit = 8 * sizeof(Unsigned) - 1;
    Unsigned signs = 0;
    for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2 neon scalar(most)
        auto exponent = static_cast<Unsigned>(widen<y_type>(as<y_type>(y)[i]));
        const Unsigned not_negative = row(y_type).is_signed && exponent >> top_bit != 0 ? 0 : exponent;
        exponents[i] = reduced_exponent<bits, Word>(not_negative);
        signs |= exponent;
    }
    return row(y_type).is_signed && signs >> top_bit != 0;
}

// Powers of 32- and 64-bit integers with exponents of 32 or 64 bits, if pow_wrap_below_16 applies. Returns whether it
// did.
template <typename Word>
bool pow_of_words(const void* x, Element y_type, const void* y, void* out, int n) {
    if (x == out || y == out) return false;
    const auto pow_by = [&](auto* exponents) {
        return pow_wrap_below_16(static_cast<const Word*>(x), exponents, static_cast<Word*>(out), n);
    };
    if (row(y_type).size == 8) return pow_by(static_cast<const uint64_t*>(y));
    return row(y_type).size == 4 && pow_by(static_cast<const uint32_t*>(y));
}

// Powers of integers with integer exponents.
template <Element type>
void pow_of_integers(const PowOptions&, Element y_type, const void* x, const void* y, void* results, int n,
                     const Prefetch& prefetch) {
    using Word = std::conditional_t<sizeof(Storage<type>) == 8, uint64_t, uint32_t>;
    if constexpr (sizeof(Storage<type>) == sizeof(Word))
        if (pow_of_words<Word>(x, y_type, y, results, n)) return;
    auto* out = static_cast<Storage<type>*>(results);
    alignas(64) Word bases[tile_size], exponents[tile_size], powers[tile_size];
    // Only for 64-bit integers: powers of shorter ones are quick enough for the hardware prefetcher.
    const auto ask = [&](int part) {
        if constexpr (row(type).size == 8) prefetch.issue(part);
    };
    ask(0);
    for (int i = 0; i < n; ++i) bases[i] = static_cast<Word>(widen<type>(as<type>(x)[i]));  // vector loop
    ask(1);
    bool any_negative = false;
    with_element(y_type, [&](auto element) {
        if constexpr (!row(element).is_float)
            any_negative = reduce_exponents<row(type).bits, Word, element>(y, exponents, n);
    });
    ask(2);
    pow_wrap(bases, exponents, powers, n);
    ask(3);
    if (any_negative) put_reciprocals<type>(x, y_type, y, powers, n);
    for (int i = 0; i < n; ++i) out[i] = narrow<type>(powers[i]);  // vector loop
}

// The nearest doubles of a tile of integers, and their magnitudes.
template <Element type>
[[gnu::noinline]] void widen_tile(const void* x, double* nearest, uint64_t* magnitudes, int n) {
    for (int i = 0; i < n; ++i) nearest[i] = static_cast<double>(widen<type>(as<type>(x)[i]));
    for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2 neon(most) scalar(most)
        const auto value = widen<type>(as<type>(x)[i]);
        const auto bits = static_cast<uint64_t>(static_cast<int64_t>(value));
        magnitudes[i] = value < 0 ? -bits : bits;
    }
}

template <Element type>
[[gnu::noinline]] void narrow_tile(const uint64_t* words, void* results, int n) {
    auto* out = static_cast<Storage<type>*>(results);
    for (int i = 0; i < n; ++i) out[i] = narrow<type>(words[i]);  // vector loop
}

// Powers of integers with exponents of a floating type, or of scaled integers with exponents of any type.
template <Element type>
void pow_of_int(const PowOptions& options, Element y_type, const void* x, const void* y, void* out, int n,
                const Prefetch&) {
    alignas(64) double bases[tile_size], exponents[tile_size];
    alignas(64) uint64_t base_magnitudes[tile_size], exponent_magnitudes[tile_size], results[tile_size];
    widen_tile<type>(x, bases, base_magnitudes, n);
    if (row(y_type).is_float) decode_exponents(y_type, y, exponents, n);
    with_element(y_type, [&](auto element) {
        if constexpr (!row(element).is_float) widen_tile<element>(y, exponents, exponent_magnitudes, n);
    });
    if (options.scale_bias)
        for (int i = 0; i < n; ++i) bases[i] = __builtin_fma(bases[i], options.scale, options.bias);
    const Operands of_x = {bases, options.scale_bias ? nullptr : base_magnitudes};
    const Operands of_y = {exponents, row(y_type).is_float ? nullptr : exponent_magnitudes};
    pow_trunc_tile(IntegerRange::of(row(type)), of_x, of_y, options.domain_error, results, n);
    narrow_tile<type>(results, out, n);
}

}  // namespace

Tile int_tile(Element type, Element y_type, bool scaled) {
    const bool integers = !row(y_type).is_float && !scaled;
    Tile tile = nullptr;
    with_element(type, [&](auto element) {
        if constexpr (!row(element).is_float) tile = integers ? pow_of_integers<element> : pow_of_int<element>;
    });
    return tile;
}

}  // namespace halfulp::HALFULP_ISA
