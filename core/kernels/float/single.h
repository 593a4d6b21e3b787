// The first phase of float16 and bfloat16: single floats decide 99.5 % of these powers, in as many lanes as float32 has.
//
//   formula     x = m 2^e, m in [15/16, 15/8); r about 1/m, by m's three leading bits; f = m r - 1;
//               log2 x = e - log2 r + f P(f);  t = y log2 x = k/8 + s, |s| <= 1/16;  2^t = 2^(k/8) Q(s)
//   domain      x from 2^-125 on, finite, of 11 bits at most; y any finite float
//   error       single_error + |t| single_error_of_t, relative to x^y; proofs/singles.py proves it. With u = 2^-24:
//                 f is exact if r = 1, otherwise rounded by u/16; P errs by 0.31u, and is rounded by 0.8u; the logarithm
//                 by u: 1.65u of log2 x at most, computed for each base
//                 s is rounded once, by u/32, from y log2 x - k/8 by a fused operation
//                 Q errs by 0.64u and is rounded by 1.1u; 2^(k/8) by 0.54u, and by u with the factor of the interval's
//                 lower end; the product by u
//   rounding    float16: both ends of the interval are converted, which is right for subnormal results, zero and infinity
//               too. bfloat16: the float's lower 16 bits are compared with a tie's
//   specials    a few lanes of a tile that are outside of the domain count as undecided. If they are more, with AVX2:
//               run_with_specials: the phase takes |x|, and 1 for special bases and exponents; signs.h does the rest.
//               AVX-512: such a tile, and the rest of its block, are left to the other phases
//   undecided   lanes have a bit in a mask; pow_by_block (kernels/block.cpp) settles them by the other phases
#pragma once

#include "../../simd/compress.h"
#include "../../simd/floats.h"
#include "../../simd/prefetch.h"

#ifdef HALFULP_FLOAT_VECTORS
#include "../../numerics/constants.h"
#include "../decode.h"
#include "../phases/exponents.h"
#include "../phases/signs.h"

namespace halfulp::HALFULP_ISA {

static constexpr float single_error = 0x1.1cp-22f, single_error_of_t = 0x1.2ap-24f;

// Whether a tile with this number of undecided lanes is better left to the other phases.
HALFULP_INLINE bool too_many(uint32_t undecided, int n) { return undecided > static_cast<uint32_t>(n) / 4; }

HALFULP_INLINE void all_undecided(uint64_t* undecided, int n) {
    std::memset(undecided, 0xff, static_cast<size_t>(n + 63) / 64 * 8);
}

// The phase for a tile. Its arithmetic is the same in each lane of every instruction set.
template <Element type>
class SinglePhase {
public:
    // Several vectors at a time, so that the operations of one run while those of others wait.
    static constexpr int vectors = float_lanes == 16 ? 4 : 2, step = vectors * float_lanes;
    static constexpr float least_base = 0x1p-125f;

    // y log2 x. X and Y are float, or uint16_t for elements of the type; n is a multiple of `step`. Returns whether all
    // operands are in the domain.
    template <typename X, typename Y>
    [[gnu::noinline]] bool fill(const X* x, const Y* y, int n) {
        const FloatTable reciprocals(constants::single_reciprocals), logarithms(constants::single_logarithms);
        Words most_base{}, most_t{};
        for (int i = 0; i < n; i += step) {
            Words base[vectors], scale[vectors], part[vectors];
            Floats f[vectors], whole[vectors], sum[vectors], exponent[vectors];
            prefetch_lines_ahead(x + i, step * sizeof(X));
            prefetch_lines_ahead(y + i, step * sizeof(Y));
            for (int v = 0; v < vectors; ++v) {
                base[v] = bits_of(load_floats<type>(x + i + v * float_lanes));
                part[v] = base[v] - first_part;
                most_base = greatest(most_base, part[v]);
                scale[v] = part[v] & exponent_bits;
                part[v] >>= 20;
                f[v] = multiply_add(floats_of(base[v] - scale[v]), reciprocals[part[v]], floats_of(-1));
                whole[v] = multiply_add(to_floats(scale[v]), floats_of(0x1p-23f), logarithms[part[v]]);
            }
            horner(constants::single_log2, f, sum);
            for (int v = 0; v < vectors; ++v) exponent[v] = load_floats<type>(y + i + v * float_lanes);
            for (int v = 0; v < vectors; ++v) sum[v] = multiply_add(sum[v], f[v], whole[v]);
            for (int v = 0; v < vectors; ++v) {
                const Floats shifted = multiply_add(exponent[v], sum[v], floats_of(magic)), whole_t = shifted - magic;
                most_t = greatest(most_t, bits_of(whole_t) & 0x7fffffff);
                const Floats rest = multiply_add(exponent[v], sum[v], -whole_t);
                std::memcpy(shifted_ + i + v * float_lanes, &shifted, sizeof(shifted));
                std::memcpy(rest_ + i + v * float_lanes, &rest, sizeof(rest));
            }
        }
        most_t_ = __builtin_bit_cast(float, greatest_lane(most_t));
        return greatest_lane(most_base) < end_of_parts && most_t_ < __builtin_inff();
    }

    // Sets the bits of the lanes that are outside of the domain, and takes 2^0 there. Returns false as soon as these are
    // more than `few`.
    template <typename X>
    [[gnu::noinline]] bool leave_out(const X* x, uint64_t* outside, int n, int few) {
        std::memset(outside, 0, tile_size / 8);
        Words most_t{};
        for (int i = 0; i < n; i += float_lanes) {
            const Floats shifted = load_vector<Floats>(shifted_ + i);
            const Words part = bits_of(load_floats<type>(x + i)) - first_part;
            const Words whole_t = bits_of(shifted - magic) & 0x7fffffff;
            const auto left_out = (Words)(part >= end_of_parts) | (Words)(whole_t >= word_of(__builtin_inff()));
            const Words place = (bits_of(shifted) & ~left_out) | (word_of(magic) & left_out);
            const Words rest = bits_of(load_vector<Floats>(rest_ + i)) & ~left_out;
            most_t = greatest(most_t, whole_t & ~left_out);
            std::memcpy(shifted_ + i, &place, sizeof(place));
            std::memcpy(rest_ + i, &rest, sizeof(rest));
            const auto mask = static_cast<FloatMask>(~not_above(left_out >> 1, Words{}));
            std::memcpy(reinterpret_cast<unsigned char*>(outside) + i / 8, &mask, sizeof(mask));
            few -= std::popcount(mask);
            if (few < 0) return false;
        }
        most_t_ = __builtin_bit_cast(float, greatest_lane(most_t));
        return true;
    }

    // 2^t, rounded. Sets the bits of undecided lanes.
    void round(uint16_t* out, uint64_t* undecided, int n) {
        if (most_t_ <= most_normal_t) return round<false>(out, undecided, n);
        for (int i = 0; i < n; ++i) {  // vector loop: avx512 avx2
            shifted_[i] = shifted_[i] < magic + most_t ? shifted_[i] : magic + most_t;
            shifted_[i] = shifted_[i] > magic - most_t ? shifted_[i] : magic - most_t;
            rest_[i] = rest_[i] < 0x1p-4f ? rest_[i] : 0x1p-4f;
            rest_[i] = rest_[i] > -0x1p-4f ? rest_[i] : -0x1p-4f;
        }
        most_t_ = most_t;
        round<type == Element::bfloat16>(out, undecided, n);
    }

protected:                                     // the proof reads these
    static constexpr float magic = 0x1.8p20f;  // t + magic is a multiple of 1/8
    // Beyond most_t all powers are zero or infinite; up to most_normal_t they are normal floats.
    static constexpr float most_t = type == Element::float16 ? 26 : 160, most_normal_t = 125;
    // Half a part below 2^-125.
    static constexpr uint32_t exponent_bits = 0xff800000, first_part = word_of(least_base) - (uint32_t{1} << 19),
                              end_of_parts = word_of(__builtin_inff()) - first_part;

    template <int count>
    [[gnu::always_inline]] static void horner(const float (&c)[count], const Floats (&x)[vectors],
                                              Floats (&sum)[vectors]) {
        for (int v = 0; v < vectors; ++v) sum[v] = floats_of(c[count - 1]);
        for (int j = count - 2; j >= 0; --j)
            for (int v = 0; v < vectors; ++v) sum[v] = multiply_add(sum[v], x[v], floats_of(c[j]));
    }

    // The bits of a float times 2^k, truncated if that is subnormal. k is the number of eighths in `place` over 8.
    [[gnu::always_inline]] static Words scaled(Words bits, Words place) {
        const Integers k = __builtin_bit_cast(Integers, place - word_of(magic)) >> 3;
        const Words added = __builtin_bit_cast(Words, k << 23);
        const Integers exponent = __builtin_bit_cast(Integers, bits >> 23) + k, below = 1 - exponent;
        const Words shift = __builtin_bit_cast(Words, (below & (below < 31)) | (31 & (below >= 31)));
        const Words subnormal = ((bits & 0x007fffff) | 0x00800000) >> shift;
        const Words is_subnormal = __builtin_bit_cast(Words, exponent <= 0);
        const Words is_infinite = __builtin_bit_cast(Words, exponent >= 255);
        const Words normal = ((bits + added) & ~is_infinite) | (word_of(__builtin_inff()) & is_infinite);
        return (subnormal & is_subnormal) | (normal & ~is_subnormal);
    }

    // `beyond`: powers may be no normal floats.
    template <bool beyond>
    [[gnu::noinline]] void round(uint16_t* out, uint64_t* undecided, int n) const {
        const float t = (most_t_ < most_t ? most_t_ : most_t) + 0x1p-3f;
        const float error = single_error + t * single_error_of_t;
        // 2^(j/8), and for float16 the factor of the interval's lower end; less j in the place where k is added.
        alignas(64) float entries[8];
        for (uint32_t j = 0; j < 8; ++j) {
            const float power = constants::single_powers[j] * (type == Element::float16 ? 1 - error : 1);
            entries[j] = __builtin_bit_cast(float, word_of(power) - (j << 20));
        }
        const FloatTable powers(entries);
        const Floats width = floats_of(2 * error + 0x1p-23f);
        const auto reach = static_cast<uint32_t>(error * 0x1p24f) + 2;  // in units of the float's last place
        for (int i = 0; i < n; i += step) {
            Words place[vectors];
            Floats rest[vectors], power[vectors];
            for (int v = 0; v < vectors; ++v) {
                place[v] = load_vector<Words>(shifted_ + i + v * float_lanes);
                rest[v] = load_vector<Floats>(rest_ + i + v * float_lanes);
            }
            horner(constants::single_exp2, rest, power);
            for (int v = 0; v < vectors; ++v) {
                const Words j = place[v] & 7, scale = beyond ? j : place[v];
                power[v] = power[v] * floats_of(bits_of(powers[place[v]]) + (scale << 20));
            }
            for (int v = 0; v < vectors; ++v) {
                uint16_t* to = out + i + v * float_lanes;
                FloatMask mask;
                if constexpr (type == Element::float16) {
                    mask = store_as_float16(to, power[v], multiply_add(power[v], width, power[v]));
                } else {
                    Words bits = bits_of(power[v]);
                    if constexpr (beyond) bits = scaled(bits, place[v]);
                    store_upper_halves(to, bits + 0x8000);
                    mask = not_above((bits + (reach - 0x8000)) & 0xffff, words_of(2 * reach));
                }
                std::memcpy(reinterpret_cast<unsigned char*>(undecided) + (i + v * float_lanes) / 8, &mask,
                            sizeof(mask));
            }
        }
    }

    alignas(64) float shifted_[tile_size], rest_[tile_size];  // t = k/8 + s: magic + k/8, and s
    float most_t_;
};

// Sets the bits of further lanes: those whose flag is not zero.
static void list_too(const uint32_t* flags, uint64_t* undecided, int n) {
    for (int i = 0; i < n; i += float_lanes) {
        FloatMask mask;
        unsigned char* bits = reinterpret_cast<unsigned char*>(undecided) + i / 8;
        std::memcpy(&mask, bits, sizeof(mask));
        mask |= static_cast<FloatMask>(~not_above(load_vector<Words>(flags + i) >> 1, Words{}));
        std::memcpy(bits, &mask, sizeof(mask));
    }
}

// Floats, or a type's elements as floats, which `room` is for.
template <Element type>
static const float* as_floats(const float* values, float*, int) {
    return values;
}
template <Element type>
static const float* as_floats(const uint16_t* stored, float* room, int n) {
    decode_floats<type>(stored, room, n);
    return room;
}

// Computes a tile with negative or special operands.
template <Element type, typename Y>
[[gnu::noinline]] static void run_with_specials(const PowOptions& options, const uint16_t* x, const Y* y, uint16_t* out,
                                                uint64_t* undecided, int n) {
    using Phase = SinglePhase<type>;
    constexpr float infinite = __builtin_inff();
    alignas(64) float x_room[tile_size], y_room[tile_size], x_taken[tile_size], y_taken[tile_size];
    alignas(64) uint32_t lanes[tile_size], left_out[tile_size];
    const float *bases = as_floats<type>(x, x_room, n), *exponents = as_floats<type>(y, y_room, n);
    uint32_t any_bit = 0, special = 0, subnormals = 0;
    for (int i = 0; i < n; ++i) {  // vector loop: avx2
        const float base = fabs(bases[i]), exponent = fabs(exponents[i]);
        const uint32_t is_number = all_bits_if<uint32_t>(base > 0) & all_bits_if<uint32_t>(base < infinite);
        const uint32_t is_normal = all_bits_if<uint32_t>(base >= Phase::least_base), one = word_of(1.0f);
        const uint32_t is_finite = all_bits_if<uint32_t>(exponent < infinite);
        any_bit |= word_of(bases[i]);
        special |= ~(is_number & is_finite);
        left_out[i] = is_number & ~is_normal;
        subnormals += left_out[i] & 1;
        const uint32_t taken = is_number & is_normal;
        x_taken[i] = __builtin_bit_cast(float, (word_of(base) & taken) | (one & ~taken));
        y_taken[i] = __builtin_bit_cast(float, (word_of(exponents[i]) & is_finite) | (one & ~is_finite));
    }
    if (too_many(subnormals, n)) return all_undecided(undecided, n);
    Phase phase;
    phase.fill(x_taken, y_taken, n);
    phase.round(out, undecided, n);
    for (int i = 0; i < n; ++i) lanes[i] = out[i];  // vector loop: avx2
    const OperandFlags operand_flags = {any_bit >> 31 != 0, special != 0, false};
    finish(KnownType<type>(), options, operand_flags, bases, Exponents<float>{exponents}, lanes, n);
    for (int i = 0; i < n; ++i) out[i] = static_cast<uint16_t>(lanes[i]);  // vector loop: avx2
    if (subnormals != 0) list_too(left_out, undecided, n);
}

// The powers of a tile. Y is float, or uint16_t for elements of the type.
template <Element type, typename Y>
static void run_singles(const PowOptions& options, const uint16_t* x, const Y* y, uint16_t* out, uint64_t* undecided,
                        int n) {
    constexpr int few = tile_size / 16;
    SinglePhase<type> phase;
    if (phase.fill(x, y, n)) return phase.round(out, undecided, n);
    uint64_t outside[tile_size / 64];
    if (phase.leave_out(x, outside, n, few)) {
        phase.round(out, undecided, n);
        for (int k = 0; k < (n + 63) / 64; ++k) undecided[k] |= outside[k];
    } else if constexpr (float_lanes == 16) {
        all_undecided(undecided, n);  // the other phases took a third of the time there
    } else {
        run_with_specials<type>(options, x, y, out, undecided, n);
    }
}

}  // namespace halfulp::HALFULP_ISA
#endif
