// The kernels of one instruction set: divides blocks into tiles and fills the table that dispatch.cpp chooses from.
#include "kernels.h"

#include <cstring>

#include "../simd/look_up.h"
#include "../simd/prefetch.h"
#include "../simd/streaming_store.h"
#include "closed_form/float32.h"
#include "closed_form/halves.h"
#include "decode.h"
#include "prelu.h"
#include "tiles.h"

namespace halfulp::HALFULP_ISA {

namespace {

// Fills a block by streaming or ordinary stores. Returns whether all results are right.
bool fill_block(Fill fill, const void* x, const void* y, bool one_y, void* out, int n, int size, bool streaming) {
    return streaming ? fill_streaming(fill, x, y, one_y, out, n, size) : fill(x, y, out, n);
}

// Adapts a function of typed operands to Fill; the options are passed in the exponent's place.
template <typename Word, auto f>
bool fill_by(const void* x, const void* options, void* out, int n) {
    return f(static_cast<const Word*>(x), static_cast<Word*>(out), n, *static_cast<const PowOptions*>(options));
}

// The formula for powers with this exponent, or null. If the formula returns false, its results must not be used.
Fill formula_of(Element type, double exponent) {
    Fill formula = nullptr;
    if (type == Element::float32) {
        with_shortcut(shortcut_of(exponent), [&](auto shortcut) {
            if constexpr (shortcut != Shortcut::none) formula = fill_by<float, fill_by_shortcut<shortcut>>;
        });
    } else if (type == Element::float64) {
        with_shortcut(shortcut_of(exponent), [&](auto shortcut) {
            if constexpr (is_exact(shortcut)) formula = fill_by<double, fill_by_operation<shortcut, double>>;
        });
    } else if (type == Element::float16 || type == Element::bfloat16) {
        with_halves(exponent, [&](auto halves) {
            formula = type == Element::float16 ? fill_by<uint16_t, fill_by_halves<halves, Element::float16>>
                                               : fill_by<uint16_t, fill_by_halves<halves, Element::bfloat16>>;
        });
    }
    return formula;
}

// Measured: streaming stores are faster if a phase stores its vectors so, and otherwise if the results are at least as
// many bytes as the exponents. With a constant exponent the others are faster only for powers by a formula and for
// integers.
bool bound_by_memory(Element type, Element y_type, const void* y) {
#ifdef __AVX512F__
    if (type == Element::float64 || (type == Element::float32 && y_type != Element::float64)) return true;
#endif
    if (y == nullptr) return row(type).size >= row(y_type).size;
    if (!row(type).is_float) return true;
    return formula_of(type, exponent_as_double(y_type, y)) != nullptr;
}

[[gnu::noinline]] void pow_by_tiles(const PowOptions& options, Element type, Element y_type, const void* x,
                                    const void* y, int y_size, void* out, int n, bool streaming) {
    const Tile tile = type == Element::float64 ? float64_tile()
                      : row(type).is_float     ? float_tile(type)
                                               : int_tile(type, y_type, options.scale_bias);
    const int size = row(type).size;
    alignas(cache_line) unsigned char results[8 * tile_size];
    const auto *x_bytes = static_cast<const unsigned char*>(x), *y_bytes = static_cast<const unsigned char*>(y);
    auto* out_bytes = static_cast<unsigned char*>(out);
    for (int left = n; left > 0; left -= tile_size) {
        const int count = left < tile_size ? left : tile_size;
        unsigned char* to = streaming ? results : out_bytes;  // `results` is in the cache
        const Prefetch prefetch(x_bytes, y_bytes, to, tile_size * size, tile_size * y_size);
        if (streaming) prefetch_end(out_bytes + count * size);
        tile(options, y_type, x_bytes, y_bytes, to, count, prefetch);
        if (streaming) copy_streaming(out_bytes, results, count * size);
        x_bytes += tile_size * size;
        y_bytes += tile_size * y_size;
        out_bytes += tile_size * size;
    }
}

void pow_by_blocks_or_tiles(const PowOptions& options, Element type, Element y_type, const void* x, const void* y,
                            void* out, int n, bool streaming) {
    const int y_size = options.constant_exponent ? 0 : row(y_type).size;
    if (!pow_by_block(options, type, y_type, x, y, options.constant_exponent, out, n, streaming))
        pow_by_tiles(options, type, y_type, x, y, y_size, out, n, streaming);
}

// With copies of the constant exponent. A thread's stack may be small: they take no more of it than they need.
template <int size>
[[gnu::noinline]] void pow_by_copies(const PowOptions& options, Element type, Element y_type, const void* x,
                                     const void* y, void* out, int n, bool streaming) {
    alignas(64) unsigned char exponents[size * most_constants], exponent[size];
    std::memcpy(exponent, y, size);
    const int count = n < most_constants ? n : most_constants;
    for (int i = 0; i < count; ++i) std::memcpy(exponents + i * size, exponent, size);  // vector loop
    pow_by_blocks_or_tiles(options, type, y_type, x, exponents, out, n, streaming);
}

void pow_by_phases(const PowOptions& options, Element type, Element y_type, const void* x, const void* y, void* out,
                   int n, bool streaming) {
    const int size = row(y_type).size;
    const auto pow_of = !options.constant_exponent ? pow_by_blocks_or_tiles
                        : size == 8                ? pow_by_copies<8>
                        : size == 4                ? pow_by_copies<4>
                        : size == 2                ? pow_by_copies<2>
                                                   : pow_by_copies<1>;
    pow_of(options, type, y_type, x, y, out, n, streaming);
}

// Applies the formula if out aliases x, working on a copy of each part.
[[gnu::noinline]] void pow_in_place(Fill formula, const PowOptions& options, Element type, Element y_type,
                                    const void* y, void* out, int n) {
    alignas(64) unsigned char copy[8 * tile_size];
    const int size = row(type).size, most = static_cast<int>(sizeof(copy)) / size;
    for (int done = 0, count; done < n; done += count) {
        count = n - done < most ? n - done : most;
        unsigned char* to = static_cast<unsigned char*>(out) + done * size;
        std::memcpy(copy, to, static_cast<size_t>(count) * static_cast<size_t>(size));
        if (!formula(copy, &options, to, count)) pow_by_phases(options, type, y_type, copy, y, to, count, false);
    }
}

void pow(const PowOptions& options, Element type, Element y_type, const void* x, const void* y, void* out, int n,
         bool streaming) {
    Fill formula = nullptr;
    if (options.constant_exponent && !options.scale_bias) formula = formula_of(type, exponent_as_double(y_type, y));
    if (formula != nullptr && x == out) return pow_in_place(formula, options, type, y_type, y, out, n);
    if (formula == nullptr || !fill_block(formula, x, &options, true, out, n, row(type).size, streaming))
        pow_by_phases(options, type, y_type, x, y, out, n, streaming);
}

template <Element type>
bool fill_by_prelu(const void* x, const void* slopes, void* out, int n) {
    prelu_of<type, false>(as<type>(x), as<type>(slopes), static_cast<Storage<type>*>(out), n);
    return true;
}

template <Element type>
bool fill_by_prelu_of_rows(const void* x, const void* rows, void* out, int n) {
    prelu_of_rows<type>(as<type>(x), *static_cast<const PreluRows*>(rows), static_cast<Storage<type>*>(out), n);
    return true;
}

void prelu_block(Element type, const void* x, const void* slopes, int shared, ptrdiff_t step, void* out, int n,
                 bool streaming) {
    const PreluRows rows{x, slopes, step, shared};
    const bool one_each = shared == 1;
    const int size = row(type).size;
    Fill fill = nullptr;
    with_element(type, [&](auto e) { fill = one_each ? fill_by_prelu<e> : fill_by_prelu_of_rows<e>; });
    fill_block(fill, x, one_each ? slopes : &rows, !one_each, out, n, size, streaming);
}

template <typename Code>
bool fill_by_table(const void* x, const void* table, void* out, int n) {
    look_up(static_cast<const Code*>(table), static_cast<const Code*>(x), static_cast<Code*>(out), n);
    return true;
}

void look_up_block(Element type, const void* table, const void* x, void* out, int n, bool streaming) {
    const int size = row(type).size;
    fill_block(size == 1 ? fill_by_table<uint8_t> : fill_by_table<uint16_t>, x, table, true, out, n, size, streaming);
}

uint64_t count_undecided() { return undecided.load(std::memory_order_relaxed); }

constexpr const char* name_of_set(const char* name) { return name; }

}  // namespace

#define HALFULP_TEXT(name) #name
#define HALFULP_TEXT_OF(name) HALFULP_TEXT(name)
extern const Kernels kernels = {
    name_of_set(HALFULP_TEXT_OF(HALFULP_ISA)), pow, bound_by_memory, prelu_block, look_up_block, count_undecided};

}  // namespace halfulp::HALFULP_ISA
