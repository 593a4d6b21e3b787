// Powers of blocks of float32, float16 and bfloat16: by a phase in floats, and what it leaves undecided by the other
// phases.
#include "pairs.h"
#include "single.h"

#include <bit>
#include <cstring>
#include <initializer_list>

#include "../../simd/streaming_store.h"
#include "../decode.h"
#include "../tiles.h"

namespace halfulp::HALFULP_ISA {

#ifdef HALFULP_FLOAT_VECTORS

namespace {

// A thread's stack may be small: results are apart from the output in blocks of `block_apart` only, and `settled` lanes
// are settled at a time.
constexpr int block_apart = block_size / 4, settled = 128;

using Mask = unsigned char[tile_size / 8];

// A tile of n elements, with others behind it until its vectors are full.
template <Element type, typename Y>
[[gnu::noinline]] void run_part(const PowOptions& options, const uint16_t* x, const Y* y, uint16_t* out,
                                Mask& undecided, int n) {
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
void run(const PowOptions& options, const uint16_t* x, const Y* y, uint16_t* out, Mask& undecided, int n,
         const Prefetch& prefetch) {
    if (n % SinglePhase<type>::step == 0) run_singles<type>(options, x, y, out, undecided, n);
    else run_part<type>(options, x, y, out, undecided, n);
    for (int part : {0, 1, 2, 3}) prefetch.issue(part);
}

#ifdef __AVX512F__
template <Element type>
[[gnu::noinline]] void run(const PowOptions& options, const uint32_t* x, const float* y, uint32_t* out, Mask& undecided,
                           int n, const Prefetch& prefetch) {
    const auto* bases = reinterpret_cast<const float*>(x);
    alignas(64) float scaled[tile_size];
    if (options.scale_bias) {
        // vector loop: avx512
        for (int i = 0; i < n; ++i) scaled[i] = scale_to_float(bases[i], options.scale, options.bias);
        bases = scaled;
    }
    run_pairs(options, bases, y, out, undecided, n, prefetch);
}
#endif

template <Element type>
[[gnu::noinline]] void run_tile(const PowOptions& options, Element y_type, const Storage<type>* x, const void* y,
                                Storage<type>* out, Mask& undecided, int n, const Prefetch& prefetch) {
    const auto run_with = [&](const auto* exponents) { run<type>(options, x, exponents, out, undecided, n, prefetch); };
    if (y_type == Element::float32) return run_with(static_cast<const float*>(y));
    if constexpr (type != Element::float32)
        if (y_type == type) return run_with(as<type>(y));
    alignas(64) float exponents[tile_size];
    if (decode_exponents(y_type, y, exponents, n)) return run_with(exponents);
    all_undecided(undecided);  // integers that are not floats
}

// Appends the numbers of the lanes whose bits are set, from `first` on. Returns how many there are in all.
int list(const Mask& undecided, int first, int n, uint16_t* listed, int count) {
    for (int i = 0; i < n; i += 64) {
        uint64_t bits;
        std::memcpy(&bits, undecided + i / 8, sizeof(bits));
        if (n - i < 64) bits &= (uint64_t{1} << (n - i)) - 1;
        for (; bits != 0; bits &= bits - 1) listed[count++] = static_cast<uint16_t>(first + i + std::countr_zero(bits));
    }
    return count;
}

template <typename Stored>
void gather(const void* from, bool one, const uint16_t* listed, int count, void* to) {
    for (int j = 0; j < count; ++j)
        std::memcpy(static_cast<Stored*>(to) + j, static_cast<const Stored*>(from) + (one ? 0 : listed[j]),
                    sizeof(Stored));
}

void gather(int size, const void* from, bool one, const uint16_t* listed, int count, void* to) {
    switch (size) {
        case 1: return gather<uint8_t>(from, one, listed, count, to);
        case 2: return gather<uint16_t>(from, one, listed, count, to);
        case 4: return gather<uint32_t>(from, one, listed, count, to);
        default: return gather<uint64_t>(from, one, listed, count, to);
    }
}

// The other phases, for the listed lanes.
template <typename Stored>
[[gnu::noinline]] void settle(const PowOptions& options, Tile tile, Element y_type, const Stored* x, const void* y,
                              bool one_y, Stored* out, const uint16_t* listed, int count) {
    alignas(64) Stored bases[settled], powers[settled];
    alignas(64) unsigned char exponents[8 * settled];
    for (int done = 0; done < count; done += settled) {
        const int some = count - done < settled ? count - done : settled;
        gather<Stored>(x, false, listed + done, some, bases);
        gather(row(y_type).size, y, one_y, listed + done, some, exponents);
        tile(options, y_type, bases, exponents, powers, some, Prefetch(bases, exponents, powers, 0, 0));
        for (int j = 0; j < some; ++j) out[listed[done + j]] = powers[j];
    }
}

// `apart`: the results are first written elsewhere; then n is at most block_apart.
template <Element type>
[[gnu::noinline]] void pow_of_block(const PowOptions& options, Element y_type, const Storage<type>* bases,
                                    const void* y, bool one_y, Storage<type>* out, int n, bool streaming, bool apart) {
    using Stored = Storage<type>;
    const int y_size = one_y ? 0 : row(y_type).size;
    alignas(64) Stored results[block_apart];
    uint16_t listed[2 * tile_size];
    Stored* to = apart ? results : out;
    const Tile tile = float_tile(type);
    constexpr int size = sizeof(Stored);
    int count = 0;
    bool decides = true;
    for (int i = 0; i < n; i += tile_size) {
        const int some = n - i < tile_size ? n - i : tile_size;
        const void* exponents = static_cast<const unsigned char*>(y) + i * y_size;
        const Prefetch prefetch(bases + i, exponents, to + i, tile_size * size, tile_size * y_size);
        if (decides) {
            Mask undecided;
            run_tile<type>(options, y_type, bases + i, exponents, to + i, undecided, some, prefetch);
            const int before = count;
            count = list(undecided, i, some, listed, count);
            decides = !too_many(static_cast<uint32_t>(count - before), some);
            if (decides) {
                if (count > tile_size) {
                    settle(options, tile, y_type, bases, y, one_y, to, listed, count);
                    count = 0;
                }
                continue;
            }
            count = before;
        }
        tile(options, y_type, bases + i, exponents, to + i, some, prefetch);
    }
    if (count > 0) settle(options, tile, y_type, bases, y, one_y, to, listed, count);
    if (streaming)
        copy_streaming(reinterpret_cast<unsigned char*>(out), reinterpret_cast<unsigned char*>(results), size * n);
    else if (apart) std::memcpy(out, results, sizeof(Stored) * static_cast<size_t>(n));
}

}  // namespace

bool pow_by_floats(const PowOptions& options, Element type, Element y_type, const void* x, const void* y, bool one_y,
                   void* out, int n, bool streaming) {
    const bool apart = streaming || x == out || y == out;
    const int most = apart ? block_apart : block_size, y_size = one_y ? 0 : row(y_type).size;
    const auto pow_of = [&](auto element) {
        for (int done = 0; done < n; done += most)
            pow_of_block<element>(
                options, y_type, as<element>(x) + done, static_cast<const unsigned char*>(y) + done * y_size, one_y,
                static_cast<Storage<element>*>(out) + done, n - done < most ? n - done : most, streaming, apart);
        return true;
    };
    if (y_type == Element::float64) return false;
#ifdef __AVX512F__
    const bool has_formula = one_y && shortcut_of(exponent_as_double(y_type, y)) != Shortcut::none;
    if (type == Element::float32 && !has_formula) return pow_of(std::integral_constant<Element, Element::float32>());
#endif
    if (options.scale_bias) return false;
    if (type == Element::float16) return pow_of(std::integral_constant<Element, Element::float16>());
    if (type == Element::bfloat16) return pow_of(std::integral_constant<Element, Element::bfloat16>());
    return false;
}

#else

bool pow_by_floats(const PowOptions&, Element, Element, const void*, const void*, bool, void*, int, bool) {
    return false;
}

#endif

}  // namespace halfulp::HALFULP_ISA
