// Tests the roundings to an element wherever a monotone function can be wrong: for each type of at most 16 bits at the
// doubles next to each boundary, and at both ends of each binade of doubles. Also tests the fast phase's roundings of
// floats. Exits with 1 at the first error, which it prints.
//
//   types     round_once, encode and encode_exact against boundaries computed here from a type's row
//   again     a fast power just below a boundary rounds to a float that is a tie, and no other float is a tie
//   normal    fill_normal, for all lower bits of a power
//   floats    the roundings from a float to 16 bits, for every float
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#define private public
#include "kernels/float/lanes.h"
#undef private
#include "numerics/pow_exact.h"

using namespace halfulp;
using namespace halfulp::HALFULP_ISA;

[[noreturn]] static void fail(const char* what, const char* type, double value, uint64_t got, uint64_t expected) {
    std::fprintf(stderr, "%s of %a to %s is %#lx, not %#lx\n", what, value, type, got, expected);
    std::exit(1);
}

// The magnitude of an encoding, also of the first one beyond the greatest, by IEEE 754's formula.
static double value_of(const ElementRow& type, uint64_t encoding) {
    const int fraction_bits = type.fraction_bits();
    if (!type.has_zero()) return std::ldexp(1, static_cast<int>(encoding) - type.bias);
    const double fraction =
        std::ldexp(static_cast<double>(encoding & ((uint64_t{1} << fraction_bits) - 1)), -fraction_bits);
    const int exponent = static_cast<int>(encoding >> fraction_bits);
    return exponent == 0 ? std::ldexp(fraction, 1 - type.bias) : std::ldexp(1 + fraction, exponent - type.bias);
}

// boundaries[i] is between encodings i and i + 1.
static std::vector<double> boundaries_of(const ElementRow& type) {
    std::vector<double> found;
    for (uint64_t i = 0; i <= type.largest; ++i) found.push_back((value_of(type, i) + value_of(type, i + 1)) / 2);
    return found;
}

// Rounds to nearest, ties to even; beyond the greatest, the type's result of an overflow.
static uint64_t expected_encoding(const ElementRow& type, const std::vector<double>& boundaries, double value) {
    const auto above = std::lower_bound(boundaries.begin(), boundaries.end(), value);
    uint64_t encoding = static_cast<uint64_t>(above - boundaries.begin());
    // The significands of float8_e8m0fnu have one bit, 1, which is odd: ties round up.
    const uint64_t odd = type.has_zero() ? encoding & 1 : 1;
    if (above != boundaries.end() && *above == value && odd != 0) ++encoding;
    return encoding > type.largest ? type.overflow : encoding;
}

static Magnitude magnitude_of(double value, bool inexact) {
    int exponent;
    const double fraction = std::frexp(value, &exponent);
    return {static_cast<uint64_t>(std::ldexp(fraction, 53)) << 11, exponent - 1, inexact};
}

template <Element element>
static void check_type() {
    constexpr ElementRow type = row(element);
    const std::vector<double> boundaries = boundaries_of(type);
    std::vector<double> places;
    for (double boundary : boundaries)
        for (double place : {std::nextafter(boundary, 0.0), boundary, std::nextafter(boundary, HUGE_VAL)})
            places.push_back(place);
    for (int exponent = -1074; exponent <= 1023; ++exponent) {
        places.push_back(std::ldexp(1, exponent));
        places.push_back(std::nextafter(std::ldexp(1, exponent), 0.0));
    }
    places.push_back(HUGE_VAL);
    for (double place : places) {
        if (place == 0) continue;
        const uint64_t expected = expected_encoding(type, boundaries, place);
        const uint64_t rounded = round_once(type, place), encoded = encode<element>(place);
        if (rounded != expected) fail("round_once", type.name, place, rounded, expected);
        if (encoded != expected) fail("encode", type.name, place, encoded, expected);
        if (place == HUGE_VAL) continue;
        for (const bool inexact : {false, true}) {
            const Magnitude m = magnitude_of(place, inexact);
            const uint64_t exact = encode_exact(type, false, m.significand, m.exponent, inexact);
            // The number is slightly greater than the double, and below the next one.
            const double same = inexact ? std::nextafter(place, HUGE_VAL) : place;
            const bool on_boundary = inexact && std::binary_search(boundaries.begin(), boundaries.end(), same);
            const uint64_t of_same =
                expected_encoding(type, boundaries, on_boundary ? std::nextafter(same, 0.0) : same);
            if (!(on_boundary && of_same != exact) && exact != of_same)
                fail("encode_exact", type.name, place, exact, of_same);
        }
    }
    std::printf("%s: %zu boundaries\n", type.name, boundaries.size());
}

// A float that is not a tie is on its power's side of every boundary, since a power just below a boundary rounds to it.
template <Element element>
static void check_again() {
    constexpr ElementRow type = row(element);
    const std::vector<double> boundaries = boundaries_of(type);
    for (double boundary : boundaries) {
        const double least = boundary / (1 + 2.1 * fast_error);
        if (static_cast<double>(static_cast<float>(least)) != boundary)
            fail("a float", type.name, least, word_of(static_cast<float>(least)),
                 word_of(static_cast<float>(boundary)));
        const float tie = static_cast<float>(boundary);
        for (const float value : {std::nextafter(tie, 0.0f), tie, std::nextafter(tie, HUGE_VALF)}) {
            if (value == 0) continue;
            const uint64_t expected = expected_encoding(type, boundaries, value);
            const bool is_tie = value == tie;
            const auto look = [&](const char* what, const RoundedFloat& rounded) {
                if (rounded.encoding != expected) fail(what, type.name, value, rounded.encoding, expected);
                if ((rounded.from_tie == 0) != is_tie) fail(what, type.name, value, rounded.from_tie, !is_tie);
            };
            if constexpr (element == Element::float16) {
                look("round_to_float16", round_to_float16(value));
                if (value >= 0x1p-14f) look("round_to_normal_float16", round_to_normal_float16(value));
            } else {
                look("round_again", round_again(float_type<element>(), value));
            }
        }
    }
    std::printf("%s: %zu boundaries\n", type.name, boundaries.size());
}

// A lane that is not flagged is the float nearest to every number in the power's interval. The lower 29 bits of a power
// determine how near a boundary is, and the next bit which float is even; higher bits do not matter.
static void check_normal() {
    // At a binade's upper end, where an interval has the most units.
    constexpr uint64_t count = uint64_t{1} << 30, from = (uint64_t{1024} << 52) - count;
    alignas(64) double t[tile_size] = {};
    alignas(64) uint32_t lanes[tile_size];
    static FloatLanes<FloatKind::float32> power({}, lanes);
    uint64_t undecided = 0;
    for (uint64_t i = 0; i < count; ++i) {
        const double value = double_of(from + i);
        power.powers[0] = value;
        power.fill_normal(t, 1);
        if (power.any_flag != 0) {
            ++undecided;
            continue;
        }
        // With t = 0 the interval is the narrower one. A lane that does not use it was decided by the wider one.
        const double nearer = fast_error_of_exp2, least = value * (1 + (fast_error - nearer));
        const uint32_t of_least = word_of(static_cast<float>(least));
        const bool narrow = lanes[0] == of_least && of_least == word_of(static_cast<float>(least * (1 + 2 * nearer)));
        const double greatest = double_of(from + i + static_cast<uint64_t>(std::ceil(2 * fast_error * 0x1p53)));
        const uint32_t of_value = word_of(static_cast<float>(value));
        const bool wide = lanes[0] == of_value && of_value == word_of(static_cast<float>(greatest));
        if (!narrow && !wide) fail("fill_normal", "float32", value, lanes[0], word_of(static_cast<float>(greatest)));
    }
    std::printf("%lu of %lu undecided\n", undecided, count);
}

// Every float: the encoding grows by one at each boundary.
template <Element element, typename Round>
static void check_floats(const char* what, float least, Round round) {
    constexpr ElementRow type = row(element);
    const std::vector<double> boundaries = boundaries_of(type);
    const uint32_t infinity = word_of(__builtin_inff());
    size_t next =
        static_cast<size_t>(std::lower_bound(boundaries.begin(), boundaries.end(), least) - boundaries.begin());
    alignas(64) uint32_t floats[tile_size], encodings[tile_size], flags[tile_size];
    for (uint32_t from = word_of(least); from < infinity; from += tile_size) {
        for (uint32_t i = 0; i < tile_size; ++i) floats[i] = std::min(from + i, infinity);
        round(floats, encodings, flags);
        for (uint32_t i = 0; i < tile_size; ++i) {
            const float value = __builtin_bit_cast(float, floats[i]);
            while (next < boundaries.size() && boundaries[next] < value) ++next;
            const bool is_tie = next < boundaries.size() && boundaries[next] == value;
            uint64_t expected = next + (is_tie && (next & 1) != 0 ? 1 : 0);
            expected = expected > type.largest ? type.overflow : expected;
            if (encodings[i] != expected) fail(what, type.name, value, encodings[i], expected);
            // Beyond the greatest element a flag costs only time.
            if ((flags[i] != 0) != is_tie && (is_tie || next < boundaries.size()))
                fail(what, type.name, value, flags[i], is_tie);
        }
    }
    std::printf("%s: every float from %a\n", what, static_cast<double>(least));
}

template <typename Round>
static auto one_by_one(Round round) {
    return [=](const uint32_t* floats, uint32_t* encodings, uint32_t* flags) {
        for (int i = 0; i < tile_size; ++i) {
            const RoundedFloat rounded = round(__builtin_bit_cast(float, floats[i]));
            encodings[i] = rounded.encoding;
            flags[i] = rounded.from_tie == 0 ? 1 : 0;
        }
    };
}

template <bool normal>
static void halves(const uint32_t* floats, uint32_t* encodings, uint32_t* flags) {
    alignas(64) uint16_t stored[tile_size];
    round_to_halves<normal>(floats, stored, flags, tile_size);
    for (int i = 0; i < tile_size; ++i) encodings[i] = stored[i];
}

template <typename F>
static void for_each_short_type(F f) {
#define HALFULP_FLOAT(name, ...) \
    if constexpr (row(Element::name).bits <= 16) f(std::integral_constant<Element, Element::name>{});
#define HALFULP_INT(name, ...)
#include "formats/elements.def"
#undef HALFULP_FLOAT
#undef HALFULP_INT
}

int main(int, char** arguments) {
    const std::string what = arguments[1];
    if (what == "types") for_each_short_type([](auto type) { check_type<type()>(); });
    if (what == "again") for_each_short_type([](auto type) { check_again<type()>(); });
    if (what == "normal") check_normal();
    if (what != "floats") return 0;
    check_floats<Element::bfloat16>("round_to_bfloat16", 0x1p-149f, one_by_one(round_to_bfloat16));
    check_floats<Element::float16>("round_to_float16", 0x1p-149f, one_by_one(round_to_float16));
    check_floats<Element::float16>("round_to_normal_float16", 0x1p-14f, one_by_one(round_to_normal_float16));
    check_floats<Element::float16>("round_to_halves", 0x1p-149f, halves<false>);
    check_floats<Element::float16>("round_to_halves, normal", 0x1p-14f, halves<true>);
}
