// Compiled once for each instruction set, with HALFULP_ISA naming it: decodes tiles, runs the kernels, and
// makes the table that dispatch.cpp chooses from. Everything here is static or in the namespace of the
// instruction set, so that the linker cannot mix code of different sets.
#include "kernels.h"

#include <cstring>

#include "../simd/float16.h"
#include "../simd/look_up.h"
#include "../simd/prefetch.h"
#include "../simd/streaming_store.h"
#include "pow_halves.h"
#include "pow_int_tile.h"
#include "pow_shortcut.h"
#include "pow_tile.h"
#include "prelu.h"

namespace halfulp::HALFULP_ISA {

namespace {

// Calls f with the element type as a constant.
template <typename F>
void with_element(Element element, F f) {
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
const Storage<type>* as(const void* data) {
    return static_cast<const Storage<type>*>(data);
}

// Whether all integers are at least -2^bits and below 2^bits, bits < 32, as most exponents are.
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

// An integer as a double for a base of at most 24 bits. Beyond 2^53 any exponent sends such a base to zero or
// infinity or is one of its fixed points, so that only the parity and the sign count: an odd one becomes the
// greatest odd double.
template <typename Integer>
double exponent_of(Integer value) {
    constexpr double greatest_odd = 0x1p53 - 1;
    double nearest = static_cast<double>(value);
    bool far = nearest > greatest_odd || nearest < -greatest_odd;
    return far && (value & 1) != 0 ? (nearest < 0 ? -greatest_odd : greatest_odd) : nearest;
}

template <Element type>
void decode_floats(const Storage<type>* stored, float* values, int n) {
    if constexpr (type == Element::float16) return decode_half(stored, values, n);
    // vector loop: avx512 avx2 neon scalar(most)
    for (int i = 0; i < n; ++i) values[i] = decode_float<type>(stored[i]);
}

// Exponents as floats, which are faster. Returns whether they all are: other values come as doubles only.
bool decode_exponents(Element type, const void* y, float* values, int n) {
    bool done = true;
    with_element(type, [&](auto element) {
        const auto* stored = as<element>(y);
        if constexpr (row(element).is_float ? element != Element::float64 : row(element).bits <= 16) {
            decode_floats<element>(stored, values, n);
        } else if constexpr (!row(element).is_float) {
            // Scanned and converted in one pass. Integers beyond 24 bits give wrong floats here; they are converted
            // again.
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

// A 64-bit integer as its nearest double and what is left of it. Returns whether anything is.
template <typename Integer>
bool split_exponents(const Integer* stored, double* high, double* low, int n) {
    if (all_within(stored, 31, n)) {
        // vector loop
        for (int i = 0; i < n; ++i) high[i] = static_cast<double>(static_cast<int32_t>(stored[i]));
        return false;
    }
    for (int i = 0; i < n; ++i) {
        high[i] = static_cast<double>(stored[i]);
        low[i] = static_cast<double>(
            static_cast<int64_t>(static_cast<__int128>(stored[i]) - static_cast<__int128>(high[i])));
    }
    return true;
}

// x * scale + bias with one rounding, to float: the product is exact in a double, and the sum's rounding to
// double is to odd, which leaves the rounding to float right.
float scale_to_float(double x, float scale, float bias) { return static_cast<float>(sum_to_odd(x * scale, bias)); }

void pow_of_float64(const PowOptions& options, Element y_type, const void* x, const void* y, uint64_t* out, int n,
                    const Prefetch& prefetch) {
    alignas(64) double bases[tile_size], highs[tile_size], lows[tile_size];
    const double* x_values = static_cast<const double*>(x);
    if (x == out) {  // which the later phases read again
        std::memcpy(bases, x, sizeof(double) * static_cast<size_t>(n));
        x_values = bases;
    }
    const auto pow_by = [&](auto exponents) { pow_tile(options, x_values, exponents, out, n, prefetch); };
    if (y_type == Element::float64 && y != out) return pow_by(Exponents<double>{static_cast<const double*>(y)});
    bool has_lows = false;
    if (y_type == Element::int64) has_lows = split_exponents(as<Element::int64>(y), highs, lows, n);
    else if (y_type == Element::uint64) has_lows = split_exponents(as<Element::uint64>(y), highs, lows, n);
    else decode_exponents(y_type, y, highs, n);
    if (has_lows) pow_by(PairExponents{highs, lows});
    else pow_by(Exponents<double>{highs});
}

template <Element type>
[[gnu::noinline]] void pow_of_float(const PowOptions& options, Element y_type, const void* x, const void* y,
                                    Storage<type>* out, int n, const Prefetch& prefetch) {
    alignas(64) float bases[tile_size];
    const float* x_values = bases;
    if (type == Element::float32 && !options.scale_bias && x != out) {
        x_values = static_cast<const float*>(x);
    } else {
        decode_floats<type>(as<type>(x), bases, n);
        if (options.scale_bias)
            // vector loop: avx512 avx2 neon
            for (int i = 0; i < n; ++i) bases[i] = scale_to_float(bases[i], options.scale, options.bias);
    }
    // Shorter types take all exponents as doubles: half their code, for 5 to 30 % more time.
    constexpr bool takes_other_numbers = row(type).bits >= 16;
    const auto pow_by = [&](const auto* y_values) { pow_tile<type>(options, x_values, y_values, out, n, prefetch); };
    if (y != out) {  // which the later phases read again
        if (y_type == Element::float64) return pow_by(static_cast<const double*>(y));
        if constexpr (takes_other_numbers) {
            if (y_type == Element::float32) return pow_by(static_cast<const float*>(y));
#ifdef __AVX512DQ__  // which makes doubles of integers where the logarithms are multiplied
            if (y_type == Element::int32) return pow_by(as<Element::int32>(y));
            if (y_type == Element::int64) return pow_by(as<Element::int64>(y));
            if (y_type == Element::uint64) return pow_by(as<Element::uint64>(y));
#endif
        }
    }
    if constexpr (takes_other_numbers) {
        alignas(64) float exponents[tile_size];
        if (decode_exponents(y_type, y, exponents, n)) return pow_by(exponents);
    }
    alignas(64) double wide_exponents[tile_size];
    decode_exponents(y_type, y, wide_exponents, n);
    pow_by(wide_exponents);
}

double exponent_as_double(Element y_type, const void* y) {
    double exponent = 0;
    with_element(y_type, [&](auto element) {
        Storage<element> stored;
        std::memcpy(&stored, y, sizeof(stored));
        if constexpr (!row(element).is_float && row(element).bits == 64) exponent = exponent_of(stored);
        else exponent = decode<element>(stored);
    });
    return exponent;
}

// Fills a block, by streaming stores or ordinary ones. Returns whether all is right.
bool fill_block(Fill fill, const void* x, const void* y, bool one_y, void* out, int n, int size, bool streaming) {
    return streaming ? fill_streaming(fill, x, y, one_y, out, n, size) : fill(x, y, out, n);
}

// A function of typed operands as one of a block, which takes the options in the exponent's place.
template <typename Word, auto f>
bool fill_by(const void* x, const void* options, void* out, int n) {
    return f(static_cast<const Word*>(x), static_cast<Word*>(out), n, *static_cast<const PowOptions*>(options));
}

// What computes powers with one exponent by a formula, or null. If it returns false, what it stored is not to be used.
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

// Whether streaming stores are better for the results. Measured: where they are at least as many bytes as the
// exponents; of those with one exponent only what the formulas compute.
bool bound_by_memory(Element type, Element y_type, const void* y) {
    if (y == nullptr) return row(type).size >= row(y_type).size;
    if (!row(type).is_float) return true;
    return formula_of(type, exponent_as_double(y_type, y)) != nullptr;
}

// Integers with integers as exponents.
template <Element type, Element y_type>
void pow_of_integers(const void* x, const void* y, Storage<type>* out, int n, const Prefetch& prefetch) {
    using Word = std::conditional_t<sizeof(Storage<type>) == 8, uint64_t, uint32_t>;
    using Unsigned = std::conditional_t<sizeof(Storage<y_type>) == 8, uint64_t, uint32_t>;
    const auto base = [x](int i) { return widen<type>(as<type>(x)[i]); };
    const auto exponent = [y](int i) { return widen<y_type>(as<y_type>(y)[i]); };
    if constexpr (sizeof(Storage<type>) == sizeof(Word) && sizeof(Storage<y_type>) == sizeof(Unsigned)) {
        auto* to = reinterpret_cast<Word*>(out);
        const bool apart = x != out && y != out;
        if (apart && pow_wrap_below_16(static_cast<const Word*>(x), static_cast<const Unsigned*>(y), to, n)) return;
    }
    alignas(64) Word bases[tile_size], exponents[tile_size], powers[tile_size];
    Unsigned signs = 0;
    // Of 64-bit integers only: powers of shorter ones are quick enough for the processor to look ahead by itself.
    const auto ask = [&](int part) {
        if constexpr (row(type).size == 8) prefetch.issue(part);
    };
    ask(0);
    for (int i = 0; i < n; ++i) bases[i] = static_cast<Word>(base(i));  // vector loop
    ask(1);
    for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2 neon scalar(most)
        auto bits = static_cast<Unsigned>(exponent(i));
        const Unsigned not_negative = row(y_type).is_signed && bits >> (8 * sizeof(bits) - 1) != 0 ? 0 : bits;
        exponents[i] = reduced_exponent<row(type).bits, Word>(not_negative);
        signs |= bits;
    }
    ask(2);
    pow_wrap(bases, exponents, powers, n);
    ask(3);
    if (row(y_type).is_signed && signs >> (8 * sizeof(signs) - 1) != 0) {
        for (int i = 0; i < n; ++i) {
            auto reciprocal = static_cast<Word>(
                reciprocal_power(IntegerRange::of(row(type)), static_cast<int64_t>(base(i)), (exponent(i) & 1) != 0));
            powers[i] = exponent(i) < 0 ? reciprocal : powers[i];
        }
    }
    for (int i = 0; i < n; ++i) out[i] = narrow<type>(powers[i]);  // vector loop
}

// A tile of integers: the nearest doubles, and the magnitudes. (What depends on one type only is not made again for
// each pair of them.)
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
[[gnu::noinline]] void decode_tile(const void* x, double* values, int n) {
    for (int i = 0; i < n; ++i) values[i] = decode<type>(as<type>(x)[i]);
}

template <Element type>
[[gnu::noinline]] void narrow_tile(const uint64_t* words, Storage<type>* out, int n) {
    for (int i = 0; i < n; ++i) out[i] = narrow<type>(words[i]);  // vector loop
}

template <Element type, Element y_type>
void pow_of_int(const PowOptions& options, const void* x, const void* y, Storage<type>* out, int n,
                const Prefetch& prefetch) {
    constexpr bool integers = !row(y_type).is_float;
    if constexpr (integers)
        if (!options.scale_bias) return pow_of_integers<type, y_type>(x, y, out, n, prefetch);
    alignas(64) double bases[tile_size], exponents[tile_size];
    alignas(64) uint64_t base_magnitudes[tile_size], exponent_magnitudes[integers ? tile_size : 1], results[tile_size];
    widen_tile<type>(x, bases, base_magnitudes, n);
    if constexpr (integers) widen_tile<y_type>(y, exponents, exponent_magnitudes, n);
    else decode_tile<y_type>(y, exponents, n);
    if (options.scale_bias)
        for (int i = 0; i < n; ++i) bases[i] = __builtin_fma(bases[i], options.scale, options.bias);
    const Operands of_x = {bases, options.scale_bias ? nullptr : base_magnitudes};
    const Operands of_y = {exponents, integers ? exponent_magnitudes : nullptr};
    pow_trunc_tile(IntegerRange::of(row(type)), of_x, of_y, options.domain_error, results, n);
    narrow_tile<type>(results, out, n);
}

// A tile of powers.
using Tile = void (*)(const PowOptions& options, Element y_type, const void* x, const void* y, void* out, int n,
                      const Prefetch& prefetch);

template <Element type>
void pow_tile_of_float(const PowOptions& options, Element y_type, const void* x, const void* y, void* out, int n,
                       const Prefetch& prefetch) {
    auto* results = static_cast<Storage<type>*>(out);
    if constexpr (type == Element::float64) pow_of_float64(options, y_type, x, y, results, n, prefetch);
    else pow_of_float<type>(options, y_type, x, y, results, n, prefetch);
}

template <Element type, Element y_type>
void pow_tile_of_int(const PowOptions& options, Element, const void* x, const void* y, void* out, int n,
                     const Prefetch& prefetch) {
    pow_of_int<type, y_type>(options, x, y, static_cast<Storage<type>*>(out), n, prefetch);
}

Tile tile_of(Element type, Element y_type) {
    Tile tile = nullptr;
    with_element(type, [&](auto element) {
        if constexpr (row(element).is_float) tile = pow_tile_of_float<element>;
        else with_element(y_type, [&](auto y_element) { tile = pow_tile_of_int<element, y_element>; });
    });
    return tile;
}

[[gnu::noinline]] void pow_by_tiles(const PowOptions& options, Element type, Element y_type, const void* x,
                                    const void* y, void* out, int n, bool streaming) {
    alignas(64) unsigned char exponents[8 * tile_size];
    int y_size = row(y_type).size;
    if (options.constant_exponent) {
        with_element(y_type, [&](auto element) {
            constexpr int size = row(element).size;
            unsigned char exponent[size];
            std::memcpy(exponent, y, size);
            const int count = n < tile_size ? n : tile_size;
            for (int i = 0; i < count; ++i) std::memcpy(exponents + i * size, exponent, size);  // vector loop
        });
        y = exponents;
        y_size = 0;
    }
    const Tile tile = tile_of(type, y_type);
    const int size = row(type).size;
    alignas(cache_line) unsigned char results[8 * tile_size];
    const auto *x_bytes = static_cast<const unsigned char*>(x), *y_bytes = static_cast<const unsigned char*>(y);
    auto* out_bytes = static_cast<unsigned char*>(out);
    for (int left = n; left > 0; left -= tile_size) {
        const int count = left < tile_size ? left : tile_size;
        unsigned char* to = streaming ? results : out_bytes;  // (memory behind `results` is near)
        const Prefetch prefetch(x_bytes, y_bytes, to, tile_size * size, tile_size * y_size);
        if (streaming) prefetch_end(out_bytes + count * size);
        tile(options, y_type, x_bytes, y_bytes, to, count, prefetch);
        if (streaming) copy_streaming(out_bytes, results, count * size);
        x_bytes += tile_size * size;
        y_bytes += tile_size * y_size;
        out_bytes += tile_size * size;
    }
}

// By a formula, in place: of copies of parts.
[[gnu::noinline]] void pow_in_place(Fill formula, const PowOptions& options, Element type, Element y_type,
                                    const void* y, void* out, int n) {
    alignas(64) unsigned char copy[8 * tile_size];
    const int size = row(type).size, most = static_cast<int>(sizeof(copy)) / size;
    for (int done = 0, count; done < n; done += count) {
        count = n - done < most ? n - done : most;
        unsigned char* to = static_cast<unsigned char*>(out) + done * size;
        std::memcpy(copy, to, static_cast<size_t>(count) * static_cast<size_t>(size));
        if (!formula(copy, &options, to, count)) pow_by_tiles(options, type, y_type, copy, y, to, count, false);
    }
}

void pow(const PowOptions& options, Element type, Element y_type, const void* x, const void* y, void* out, int n,
         bool streaming) {
    Fill formula = nullptr;
    if (options.constant_exponent && !options.scale_bias) formula = formula_of(type, exponent_as_double(y_type, y));
    if (formula != nullptr && x == out) return pow_in_place(formula, options, type, y_type, y, out, n);
    if (formula == nullptr || !fill_block(formula, x, &options, true, out, n, row(type).size, streaming))
        pow_by_tiles(options, type, y_type, x, y, out, n, streaming);
}

template <Element type, bool one_slope>
void prelu_of(const Storage<type>* __restrict x, const Storage<type>* __restrict slope, Storage<type>* __restrict out,
              int n) {
    if constexpr (type == Element::float16) return prelu_half<one_slope>(x, slope, out, n);
    if constexpr (type == Element::bfloat16) return prelu_bfloat16<one_slope>(x, slope, out, n);
    if constexpr (one_slope && row(type).is_float && row(type).size < 4) {  // compilers don't move its decoding out
        alignas(64) Storage<type> slopes[block_size];
        for (int i = 0; i < n; ++i) slopes[i] = *slope;
        return prelu_of<type, false>(x, slopes, out, n);
    }
    // vector loop: avx512 avx2 neon(most)
    for (int i = 0; i < n; ++i) out[i] = prelu<type>(x[i], slope[one_slope ? 0 : i]);
}

template <Element type, bool one_slope>
bool fill_by_prelu(const void* x, const void* slope, void* out, int n) {
    prelu_of<type, one_slope>(as<type>(x), as<type>(slope), static_cast<Storage<type>*>(out), n);
    return true;
}

void prelu_block(Element type, const void* x, const void* slope, bool one_slope, void* out, int n, bool streaming) {
    Fill fill = nullptr;
    with_element(type, [&](auto e) { fill = one_slope ? fill_by_prelu<e, true> : fill_by_prelu<e, false>; });
    const int size = row(type).size;
    if (x != out && slope != out) {
        fill_block(fill, x, slope, one_slope, out, n, size, streaming);
        return;
    }
    // Where `out` is an operand, the loop takes copies of parts: it knows its pointers apart.
    alignas(64) unsigned char copy[8 * tile_size];
    const auto part_of = [&](const void* operand, int done) -> const void* {
        if (operand == out) return copy;
        return static_cast<const unsigned char*>(operand) + done;
    };
    const int most = static_cast<int>(sizeof(copy)), bytes = n * size;
    for (int done = 0, count; done < bytes; done += count) {
        count = bytes - done < most ? bytes - done : most;
        unsigned char* to = static_cast<unsigned char*>(out) + done;
        std::memcpy(copy, to, static_cast<size_t>(count));
        fill(part_of(x, done), part_of(slope, one_slope ? 0 : done), to, count / size);
    }
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
