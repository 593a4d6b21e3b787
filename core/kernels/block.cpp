// Powers of blocks of 16 to 64 bits: a first phase for all elements, and the other phases for those that it leaves
// undecided in the whole block.
#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "../numerics/pow_closed_form.h"
#include "../simd/compress.h"
#include "../simd/streaming_store.h"
#include "float/pair_rows.h"
#include "float/pairs.h"
#include "float/single.h"
#include "undecided.h"

namespace halfulp::HALFULP_ISA {

#ifdef HALFULP_FLOAT_VECTORS

namespace {

// A thread's stack may be small: results are apart from the output in shorter blocks only.
template <typename Stored>
constexpr int block_apart = 2048 / sizeof(Stored);

// The number of elements that the first phase takes at a time.
template <Element type>
constexpr int part_size = tile_size;
template <>
constexpr int part_size<Element::float32> = PairTile::size;

// Runs the phase on n elements that do not fill its vectors. Ones to the power of 0 fill the rest.
template <Element type, typename Y>
[[gnu::noinline]] void run_part(const PowOptions& options, const uint16_t* x, const Y* y, uint16_t* out,
                                uint64_t* undecided, int n) {
    constexpr int step = SinglePhase<type>::step;
    constexpr auto one = static_cast<uint16_t>(row(type).bias << row(type).fraction_bits());
    alignas(64) uint16_t bases[tile_size], powers[tile_size];
    alignas(64) Y exponents[tile_size];
    const int whole = (n + step - 1) / step * step;
    for (int i = 0; i < whole; ++i) {
        bases[i] = i < n ? x[i] : one;
        exponents[i] = i < n ? y[i] : Y{};
    }
    run_singles<type>(options, bases, exponents, powers, undecided, whole);
    std::memcpy(out, powers, sizeof(*out) * static_cast<size_t>(n));
}

template <Element type, typename Y>
void run(const PowOptions& options, const uint16_t* x, const Y* y, uint16_t* out, uint64_t* undecided, int n, bool) {
    if (n % SinglePhase<type>::step == 0) run_singles<type>(options, x, y, out, undecided, n);
    else run_part<type>(options, x, y, out, undecided, n);
}

template <Element type>
[[gnu::noinline]] void run(const PowOptions& options, const uint32_t* x, const float* y, uint32_t* out,
                           uint64_t* undecided, int n, bool streaming) {
    const auto* bases = reinterpret_cast<const float*>(x);
    alignas(64) float scaled[PairTile::size];
    if (options.scale_bias) {
        // vector loop: avx512 avx2
        for (int i = 0; i < n; ++i) scaled[i] = scale_to_float(bases[i], options.scale, options.bias);
        bases = scaled;
    }
    run_pairs(options, bases, y, out, undecided, n, streaming);
}

template <Element type>
[[gnu::noinline]] void run(const PowOptions& options, const uint64_t* x, const double* y, uint64_t* out,
                           uint64_t* undecided, int n, bool streaming) {
    const auto* bases = reinterpret_cast<const double*>(x);
    const FastLogarithms logarithms(bases, Exponents<double>{y}, n);
    uint64_t outside[tile_size / 64];
    const bool negative = logarithms.mark_outside(bases, outside, n);
    if (too_many(count_lanes(outside, n), n)) return all_undecided(undecided, n);
    if (streaming && !negative && bytes_past_line(out) == 0) logarithms.round_lanes<true>(out, undecided, n);
    else logarithms.round_lanes<false>(out, undecided, n);
    for (int k = 0; k < (n + 63) / 64; ++k) undecided[k] |= outside[k];
    finish(KnownType<Element::float64>(), options, {negative, false, false}, bases, Exponents<double>{y}, out, n);
}

// The first phase for at most part_size elements. Sets a bit of `undecided` for each lane that it leaves to others.
template <Element type>
[[gnu::noinline]] void run_phase(const PowOptions& options, Element y_type, const Storage<type>* x, const void* y,
                                 Storage<type>* out, uint64_t* undecided, int n, bool streaming) {
    const auto run_with = [&](const auto* exponents) {
        run<type>(options, x, exponents, out, undecided, n, streaming);
    };
    if constexpr (type == Element::float64) {
        if (y_type == type) return run_with(static_cast<const double*>(y));
        alignas(64) double exponents[part_size<type>], lows[part_size<type>];
        if (!split_exponents(y_type, y, exponents, lows, n)) return run_with(exponents);
    } else {
        if (y_type == Element::float32) return run_with(static_cast<const float*>(y));
        if constexpr (type != Element::float32)
            if (y_type == type) return run_with(as<type>(y));
        alignas(64) float exponents[part_size<type>];
        if (decode_exponents(y_type, y, exponents, n)) return run_with(exponents);
    }
    all_undecided(undecided, n);  // integers that are no numbers of the exponents' type
}

// Computes n powers. `streams`: by the phase's own streaming stores. `undecided` has room for a bit for each.
template <Element type>
[[gnu::noinline]] void pow_of_block(const PowOptions& options, Element y_type, const Storage<type>* bases,
                                    const void* y, bool one_y, Storage<type>* to, uint64_t* undecided, int n,
                                    bool streams) {
    constexpr int part = part_size<type>, size = sizeof(Storage<type>);
    const int y_size = one_y ? 0 : row(y_type).size;
    const bool prefetches = y_type == type || (size == 2 && y_type == Element::float32);
    const Tile tile = type == Element::float64 ? float64_tile() : float_tile(type);
    const auto y_from = [&](int i) { return static_cast<const unsigned char*>(y) + i * y_size; };
    bool decides = true;
    int left = 0;
    for (int i = 0; i < n; i += part) {
        const int some = n - i < part ? n - i : part;
        uint64_t* of_part = undecided + i / 64;
        decides |= i % block_size == 0;
        if (decides) {
            run_phase<type>(options, y_type, bases + i, y_from(i), to + i, of_part, some, streams);
            if (!prefetches) {
                const void* next_out = streams ? static_cast<const void*>(bases + i) : to + i;
                const Prefetch prefetch(bases + i, y_from(i), next_out, part * size, part * y_size);
                for (int k : {0, 1, 2, 3}) prefetch.issue(k);
            }
            if (some % 64 != 0) of_part[some / 64] &= (uint64_t{1} << some % 64) - 1;
            const auto count = count_lanes(of_part, some);
            decides = !too_many(count, some);
            if (decides) {
                left += static_cast<int>(count);
                continue;
            }
        }
        std::memset(of_part, 0, part / 8);
        for (int k = i; k < i + some; k += tile_size) {
            const Prefetch prefetch(bases + k, y_from(k), to + k, tile_size * size, tile_size * y_size);
            tile(options, y_type, bases + k, y_from(k), to + k, std::min(i + some - k, tile_size), prefetch);
        }
    }
    const int settled = left <= most_listed ? n : block_size;
    for (int i = 0; i < n; i += settled)
        settle<type>(options, tile, y_type, bases + i, one_y ? y : y_from(i), one_y, to + i, undecided + i / 64,
                     std::min(n - i, settled));
}

// The same for at most run_size powers, or for block_apart whose results are first written elsewhere.
template <Element type>
[[gnu::noinline]] void pow_of_run(const PowOptions& options, Element y_type, const Storage<type>* bases, const void* y,
                                  bool one_y, Storage<type>* out, int n, bool streaming) {
    uint64_t undecided[run_size / 64];
    pow_of_block<type>(options, y_type, bases, y, one_y, out, undecided, n, streaming);
}

template <Element type>
[[gnu::noinline]] void pow_apart(const PowOptions& options, Element y_type, const Storage<type>* bases, const void* y,
                                 bool one_y, Storage<type>* out, int n, bool streaming) {
    constexpr int most = block_apart<Storage<type>>;
    alignas(64) Storage<type> results[most];
    uint64_t undecided[most / 64];
    pow_of_block<type>(options, y_type, bases, y, one_y, results, undecided, n, false);
    const int bytes = static_cast<int>(sizeof(*out)) * n;
    if (!streaming) std::memcpy(out, results, static_cast<size_t>(bytes));
    else copy_streaming(reinterpret_cast<unsigned char*>(out), reinterpret_cast<unsigned char*>(results), bytes);
}

// Whether an exponent of float32 at the start of a block is so great that many lanes will be undecided. A line stored past
// the caches would be read again for them.
bool leaves_many(Element type, Element y_type, const void* y, int n) {
    if (type != Element::float32 || y_type != Element::float32) return false;
    const auto* exponents = static_cast<const float*>(y);
    float most = 0;
    for (int i = 0; i < n && i < 16; ++i) most = fabs(exponents[i]) > most ? fabs(exponents[i]) : most;
    return most > 64;
}

}  // namespace

bool pow_by_block(const PowOptions& options, Element type, Element y_type, const void* x, const void* y, bool one_y,
                  void* out, int n, bool streaming) {
    // Vectors of 16-bit results are shorter than a cache line, which streaming stores should fill at once.
    const bool in_place = x == out || y == out;
    const bool apart = in_place || (streaming && (row(type).size == 2 || leaves_many(type, y_type, y, n)));
    const int y_size = one_y ? 0 : row(y_type).size;
    const auto pow_of = [&](auto element) {
        const int most = apart ? block_apart<Storage<element>> : run_size;
        const auto pow_of_part = apart ? pow_apart<element> : pow_of_run<element>;
        for (int done = 0; done < n; done += most)
            pow_of_part(options, y_type, as<element>(x) + done, static_cast<const unsigned char*>(y) + done * y_size,
                        one_y, static_cast<Storage<element>*>(out) + done, n - done < most ? n - done : most,
                        streaming);
        return true;
    };
    const bool has_formula = one_y && shortcut_of(exponent_as_double(y_type, y)) != Shortcut::none;
    if (type == Element::float64 && !has_formula && !options.scale_bias)
        return pow_of(std::integral_constant<Element, Element::float64>());
    if (type == Element::float32 && !has_formula && y_type != Element::float64)
        return pow_of(std::integral_constant<Element, Element::float32>());
    if (options.scale_bias || y_type == Element::float64) return false;
    if (type == Element::float16) return pow_of(std::integral_constant<Element, Element::float16>());
    if (type == Element::bfloat16) return pow_of(std::integral_constant<Element, Element::bfloat16>());
    return false;
}

#else

bool pow_by_block(const PowOptions&, Element, Element, const void*, const void*, bool, void*, int, bool) {
    return false;
}

#endif

}  // namespace halfulp::HALFULP_ISA
