// The fast phase, formulas and exact products of a tile whose results are float32 or shorter. Each lane has a flag that
// is set if it is still undecided. Several short loops are faster than a long one, because a processor's out-of-order
// window holds several iterations of a short loop.
#pragma once

#include <initializer_list>

#include "../../numerics/pow_closed_form.h"
#include "../../numerics/pow_fast.h"
#include "../../simd/compress.h"
#include "../../simd/float16.h"
#include "../../simd/prefetch.h"
#include "../phases/signs.h"
#include "log2_table.h"

namespace halfulp::HALFULP_ISA {

// Rounds a power, already rounded to float32, again to a shorter type. Double rounding is harmless unless the float32
// value is a tie of the shorter type: any rounding boundary between x^y and its float32 rounding would itself be a
// float32, and nearer to x^y. (simd/float16.h rounds to float16.)
HALFULP_INLINE RoundedFloat round_again(KnownType<Element::bfloat16>, float power) { return round_to_bfloat16(power); }
HALFULP_INLINE RoundedFloat round_again(const ElementRow& type, float power) {
    Rounded rounded = round_magnitude(type, power);
    uint64_t encoding = rounded.encoding > type.largest ? type.overflow : rounded.encoding;
    return {static_cast<uint32_t>(encoding), rounded.residual == 0.5 ? uint32_t{0} : 1};
}

// The types that have code of their own. Those of 8 bits and fewer share it, and their rows are known at run time.
enum class FloatKind { float32, float16, bfloat16, shorter };

template <FloatKind kind>
struct FloatType;
template <>
struct FloatType<FloatKind::float32> : KnownType<Element::float32> {
    using Stored = uint32_t;
};
template <>
struct FloatType<FloatKind::float16> : KnownType<Element::float16> {
    using Stored = uint16_t;
};
template <>
struct FloatType<FloatKind::bfloat16> : KnownType<Element::bfloat16> {
    using Stored = uint16_t;
};
template <>
struct FloatType<FloatKind::shorter> : ElementRow {
    using Stored = uint8_t;
};

template <Element type>
constexpr auto float_type() {
    if constexpr (type == Element::float32) return FloatType<FloatKind::float32>{};
    else if constexpr (type == Element::float16) return FloatType<FloatKind::float16>{};
    else if constexpr (type == Element::bfloat16) return FloatType<FloatKind::bfloat16>{};
    else return FloatType<FloatKind::shorter>{row(type)};
}

// The powers of a tile so far: magnitudes in lanes, and flags that are not zero if the lane is undecided.
template <FloatKind kind>
struct FloatPowers {
    uint32_t* lanes;
    alignas(64) uint32_t flags[tile_size];
    uint32_t any_flag = 0;
    uint32_t below_normal = 0;  // float16: the top bit is set if a power is below the normal range
    // If the error is not zero, each exact power is in [powers[i], powers[i] (1 + 2 error)].
    alignas(64) double powers[tile_size];
    double error = 0;

    // Rounds the powers to float32.
    void fill(int n) {
        uint32_t any = 0, below = 0;
        const double up = 1 + 2 * error;
        for (int i = 0; i < n; ++i) {  // vector loop
            lanes[i] = word_of(static_cast<float>(powers[i]));
            if (kind == FloatKind::float32) any |= is_undecided(powers[i], up);
            if (kind == FloatKind::float16) below |= from_normal(lanes[i]);
        }
        below_normal = below;
        any_flag = any;
        if (any)
            for (int i = 0; i < n; ++i) flags[i] = is_undecided(powers[i], up);  // vector loop
    }

    template <Shortcut shortcut>
    void fill_by(const float* x, OperandFlags& operand_flags, int n, const Prefetch& prefetch) {
        operand_flags = scan(x, n);
        if constexpr (is_exact(shortcut)) {
            uint32_t below = 0;
            for (int i = 0; i < n; ++i) {  // vector loop
                lanes[i] = word_of(exact_power_of<shortcut>(fabs(x[i])));
                if (kind == FloatKind::float16) below |= from_normal(lanes[i]);
            }
            below_normal = below;
        } else {
            error = shortcut_error;
            for (int part : {0, 1}) prefetch.issue(part);
            for (int i = 0; i < n; ++i) powers[i] = power_of<shortcut>(fabs(x[i]));  // vector loop
            for (int part : {2, 3}) prefetch.issue(part);
            fill(n);
        }
    }

    template <typename Y>
    [[gnu::noinline]] void fill_by_fast_phase(const float* x, const Y* y, bool one_y, OperandFlags& operand_flags,
                                              int n, const Prefetch& prefetch) {
        alignas(64) double t[tile_size];
        error = fast_error;
        prefetch.issue(0);
        operand_flags = fill_logarithms(x, y, one_y, t, n);
        if (operand_flags.special) {       // then the lanes of special bases are 2^0, which is decided
            for (int i = 0; i < n; ++i) {  // vector loop
                const double base = fabs(x[i]);
                t[i] = base > 0 && base < __builtin_inf() ? t[i] : 0;
            }
        }
        prefetch.issue(1);
        // The powers of most tiles are normal floats. The same loop detects if some are not.
        uint64_t beyond = 0;
        for (int i = 0; i < n; ++i) {  // vector loop
            beyond |= beyond_normal(t[i]);
            powers[i] = exp2_fast(t[i]);
        }
        prefetch.issue(2);
        if (beyond >> 8 == 0) {
            fill_normal(t, n);
        } else {
            operand_flags.special |= any_not_finite(y, n);
            for (int i = 0; i < n; ++i) powers[i] = exp2_fast(clamp(t[i], 1000));  // vector loop
            fill(n);
        }
        prefetch.issue(3);
    }

private:
    // Like fill, if all powers 2^t of the fast phase are normal floats: the double's lower bits tell how far the next
    // boundary is, and in few tiles one is nearer than the maximum error.
    void fill_normal(const double* t, int n) {
        constexpr uint64_t boundary = uint64_t{1} << 28, lower_bits = 2 * boundary - 1;
        constexpr uint64_t width = static_cast<uint64_t>(2 * fast_error * 0x1p53);
        uint64_t borrows = 0;
        uint32_t any = 0, below = 0;
        for (int i = 0; i < n; ++i) {  // vector loop
            lanes[i] = word_of(static_cast<float>(powers[i]));
            if (kind == FloatKind::float32) borrows |= ((boundary - bits_of(powers[i])) & lower_bits) - (width + 1);
            if (kind == FloatKind::float16) below |= from_normal(lanes[i]);
        }
        if (borrows >> 63 != 0) {
            for (int i = 0; i < n; ++i) {  // vector loop
                double nearer = multiply_add(fabs(t[i]), fast_error_of_t, fast_error_of_exp2);
                double least = powers[i] * (1 + (fast_error - nearer));
                lanes[i] = word_of(static_cast<float>(least));
                flags[i] = is_undecided(least, 1 + 2 * nearer);
                any |= flags[i];
            }
        }
        below_normal = below;
        any_flag = any;
    }

    // Not zero if [power, power * up] contains a boundary between floats.
    static uint32_t is_undecided(double power, double up) {
        return word_of(static_cast<float>(power)) ^ word_of(static_cast<float>(power * up));
    }

    // t = y * log2(x). Returns the kinds of bases.
    template <typename Y>
    static OperandFlags fill_logarithms(const float* x, const Y* y, [[maybe_unused]] bool one_y, double* t, int n) {
#ifdef __AVX512F__
        if (one_y ? Log2Table().fill<true>(x, y, t, n) : Log2Table().fill<false>(x, y, t, n)) return {};
        const OperandFlags operand_flags = scan_closely(x, n);
        if (operand_flags.subnormal) fill_logarithms_by<double>(x, y, t, n);
#else
        const OperandFlags operand_flags = scan(x, n);
        if (operand_flags.subnormal) fill_logarithms_by<double>(x, y, t, n);
        else fill_logarithms_by<float>(x, y, t, n);
#endif
        return operand_flags;
    }

    // Uses quotients (quotient_fast). The bases must be normal numbers of Real.
    template <typename Real, typename Y>
    static void fill_logarithms_by(const float* x, const Y* y, double* t, int n) {
        alignas(64) double s[tile_size];
        alignas(64) float e[tile_size];
        for (int i = 0; i < n; ++i) {  // vector loop
            Quotient quotient = quotient_fast(static_cast<Real>(fabs(x[i])));
            s[i] = quotient.s;
            e[i] = quotient.e;
        }
        for (int i = 0; i < n; ++i) t[i] = y[i] * log2_fast({s[i], e[i]});  // vector loop
    }

    // The top bit is set for a float below the normal range of float16.
    static uint32_t from_normal(uint32_t float_bits) { return float_bits - word_of(0x1p-14f); }
};

// The powers, rounded to the type. bfloat16 and shorter types share the phases.
static constexpr FloatKind kind_of_powers(FloatKind kind) {
    return kind == FloatKind::bfloat16 ? FloatKind::shorter : kind;
}

template <FloatKind kind>
struct FloatLanes : FloatPowers<kind_of_powers(kind)> {
    using Powers = FloatPowers<kind_of_powers(kind)>;
    using Powers::any_flag, Powers::below_normal, Powers::error, Powers::flags, Powers::lanes, Powers::powers;
    using Type = FloatType<kind>;

    Type type;

    FloatLanes(const Type& its_type, uint32_t* its_lanes) : type(its_type) { lanes = its_lanes; }

    // Rounds from float32 to the type. From here on a lane is undecided if its float lies on a boundary between two
    // elements of the type. float16 results are written to `out` at once, and to the lanes only if these are still
    // needed, for signs or undecided lanes. Returns whether the lanes are needed.
    bool round(typename Type::Stored* out, bool signs_follow, int n) {
        if constexpr (kind != FloatKind::float16) {
            const Type to = type;  // a copy, which no store to lanes changes
            uint32_t borrows = 0;
            for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2 neon
                RoundedFloat rounded = round_again(to, __builtin_bit_cast(float, lanes[i]));
                lanes[i] = rounded.encoding;
                flags[i] = (rounded.from_tie - 1) >> 31;
                borrows |= rounded.from_tie - 1;
            }
            any_flag = borrows >> 31;
        } else {
            const bool normal = below_normal >> 31 == 0;
            any_flag =
                normal ? round_to_halves<true>(lanes, out, flags, n) : round_to_halves<false>(lanes, out, flags, n);
            if (any_flag == 0 && !signs_follow) return false;
            for (int i = 0; i < n; ++i) lanes[i] = out[i];  // vector loop
        }
        return true;
    }

    // Resolves as many of the `count` listed lanes as it can, and returns how many are left in the list. (The lambdas
    // are inline, since compilers do not vectorise a loop with a call.)
    template <typename Y>
    int resolve(const float* x, const Y* y, bool of_type, int n, int* listed, int count) {
        const Type to = type;  // a copy, which no store to lanes changes
        const auto encoding_of = [to](double power) __attribute__((always_inline)) {
            if constexpr (kind == FloatKind::float32) return word_of(static_cast<float>(power));
            else return round_short(to, power);
        };
        // Squares and cubes that are themselves floats, since the base has few enough bits and the power is above the
        // subnormal floats. They were rounded only once.
        if constexpr (kind != FloatKind::float32) {
            const ElementRow& known = to;
            const uint32_t subnormal = known.least_exponent() <= -126 ? uint32_t{1} << known.fraction_bits() : 0;
            const bool takes_cubes = 3 * known.precision <= 24;
            const auto from_float = [this, y, subnormal, takes_cubes](int i) __attribute__((always_inline)) {
                const double exponent = static_cast<double>(y[i]);
                uint32_t is_float = exponent == 2 ? 1 : 0;
                if (takes_cubes) is_float |= exponent == 3 ? 1 : 0;
                is_float &= lanes[i] > subnormal ? 1 : 0;
                return Resolved{lanes[i], is_float ^ 1};
            };
            if (of_type) count = resolve_by(from_float, n, listed, count);
        }
        // Types shorter than float32: if a float is a tie between two elements, the double tells which side the power
        // is on, unless the interval around the double contains the tie too.
        if (kind != FloatKind::float32 && error != 0) {
            const double up = 1 + 2 * error;
            const auto from_double = [this, up, encoding_of](int i) __attribute__((always_inline)) {
                const uint32_t encoding = encoding_of(powers[i]);
                return Resolved{encoding, encoding ^ encoding_of(powers[i] * up)};
            };
            count = resolve_by(from_double, n, listed, count);
        }
        // Powers of a power of two: exact ones, and ties at half the least subnormal number.
        const auto from_power_of_two = [x, y, encoding_of](int i) __attribute__((always_inline)) {
            const ExactPower power = power_of_power_of_two(fabs(x[i]), static_cast<double>(y[i]));
            return Resolved{encoding_of(power.value), power.inexact == 0 ? uint32_t{0} : 1};
        };
        if (has_power_of_two(x, n, listed, count)) count = resolve_by(from_power_of_two, n, listed, count);
        // Powers with small integral exponents that doubles represent exactly. Most of them are ties.
        alignas(64) double whole[tile_size];
        const double* exponents = whole;
        const auto from_product = [x, exponents, encoding_of](int i) __attribute__((always_inline)) {
            const ExactPower power = power_by_products(fabs(x[i]), exponents[i]);
            return Resolved{encoding_of(power.value), power.inexact == 0 ? uint32_t{0} : 1};
        };
        return find_products(y, n, listed, count, whole) ? resolve_by(from_product, n, listed, count) : count;
    }

private:
    // `undecided` is not zero if the encoding may be wrong.
    struct Resolved {
        uint32_t encoding, undecided;
    };

    // Up to one lane in 32 is resolved by itself. If there are more, all lanes are computed in vectors.
    static bool are_few(int count, int n) { return count <= n / 32; }

    template <typename F>
    int resolve_by(F f, int n, int* listed, int count) {
        if (are_few(count, n)) {
            int left = 0;
            for (int j = 0; j < count; ++j) {
                const Resolved resolved = f(listed[j]);
                if (resolved.undecided == 0) lanes[listed[j]] = resolved.encoding;
                else listed[left++] = listed[j];
            }
            return left;
        }
        for (int i = 0; i < n; ++i) {  // vector loop: avx512(most) avx2(most) neon(most)
            const Resolved resolved = f(i);
            const uint32_t taken = resolved.undecided == 0 ? flags[i] : 0;
            lanes[i] = taken != 0 ? resolved.encoding : lanes[i];
            flags[i] ^= taken;
        }
        return compress_indices(flags, n, listed);
    }

    // Whether any flagged lane's base is a power of two.
    bool has_power_of_two(const float* x, int n, const int* listed, int count) const {
        const auto flag_of = [&](int i) { return mantissa_of(fabs(x[i])) == 0 ? flags[i] : 0; };
        uint32_t any = 0;
        if (are_few(count, n)) {
            for (int j = 0; j < count; ++j) any |= flag_of(listed[j]);
        } else {
            for (int i = 0; i < n; ++i) any |= flag_of(i);  // vector loop: avx512 avx2 neon(most)
        }
        return any != 0;
    }

    // Lists in `whole` the exponents that power_by_products takes. Returns whether a flagged lane has one.
    template <typename Y>
    bool find_products(const Y* y, int n, const int* listed, int count, double* whole) const {
        if (are_few(count, n)) {
            for (int j = 0; j < count; ++j) whole[listed[j]] = product_exponent(y[listed[j]]);
            return count > 0;
        }
        uint32_t any = 0;
        for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2
            whole[i] = product_exponent(y[i]);
            any |= whole[i] > 0 ? flags[i] : 0;
        }
        return any != 0;
    }
};

}  // namespace halfulp::HALFULP_ISA
