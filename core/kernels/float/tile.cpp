// Powers of every floating type except float64.
#include "../decode.h"
#include "pow.h"

namespace halfulp::HALFULP_ISA {

namespace {

template <Element type>
[[gnu::noinline]] void pow_of_float(const PowOptions& options, Element y_type, const void* x, const void* y, void* to,
                                    int n, const Prefetch& prefetch) {
    constexpr auto of = float_type<type>();
    constexpr bool is_short = row(type).bits < 16;
    // No type here has a wider range of exponents than float32; see fast_error on |t|.
    static_assert(row(type).precision <= 24 && row(type).least_exponent() >= -127);
    auto* out = static_cast<typename decltype(of)::Stored*>(to);
    alignas(64) float bases[tile_size];
    const float* x_values = bases;
    if (type == Element::float32 && !options.scale_bias && x != to) {
        x_values = static_cast<const float*>(x);
    } else {
        decode_floats<type>(as<type>(x), bases, n);
        if (options.scale_bias)
            // vector loop: avx512 avx2 neon
            for (int i = 0; i < n; ++i) bases[i] = scale_to_float(bases[i], options.scale, options.bias);
    }
    // Types shorter than 16 bits decode all exponents to doubles: half the code, for 5 to 30 % more time.
    const auto pow_by = [&](const auto* y_values) { pow_tile(of, options, x_values, y_values, out, n, prefetch); };
    if constexpr (!is_short) {
        const double exponent = options.constant_exponent ? exponent_as_double(y_type, y) : 0;
        if (shortcut_of(exponent) != Shortcut::none) {
            alignas(64) float exponents[tile_size];
            for (int i = 0; i < n; ++i) exponents[i] = static_cast<float>(exponent);  // vector loop
            return pow_by(exponents);
        }
    }
    if (y != to) {  // y must not alias out: the later phases read y again
        if (y_type == Element::float64) return pow_by(static_cast<const double*>(y));
        if constexpr (!is_short)
            if (y_type == Element::float32) return pow_by(static_cast<const float*>(y));
    }
    if constexpr (!is_short) {
        alignas(64) float exponents[tile_size];
        if (decode_exponents(y_type, y, exponents, n)) return pow_by(exponents);
    }
    alignas(64) double wide_exponents[tile_size];
    decode_exponents(y_type, y, wide_exponents, n);
    pow_by(wide_exponents);
}

}  // namespace

Tile float_tile(Element type) {
    Tile tile = nullptr;
    with_element(type, [&](auto element) {
        if constexpr (row(element).is_float && element != Element::float64) tile = pow_of_float<element>;
    });
    return tile;
}

}  // namespace halfulp::HALFULP_ISA
