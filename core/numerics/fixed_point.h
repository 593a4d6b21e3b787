// Fixed-point numbers of several 64-bit limbs, for the last phase.
#pragma once

#include <bit>
#include <cstdint>

#include "../formats/element.h"

namespace halfulp::HALFULP_ISA {

// A non-negative fixed-point number: limb[L-1] is the integer part, the others are the fraction, least significant
// first. Operations round down: each result is below the exact value by less than one unit in the last place,
// 2^-fraction_bits.
template <int L>
struct Fixed {
    static constexpr int fraction_bits = 64 * (L - 1);
    uint64_t limb[L];

    static constexpr Fixed of(uint64_t units) {
        Fixed f{};
        f.limb[L - 1] = units;
        return f;
    }

    // The leading limbs of a longer constant.
    static constexpr Fixed leading(const uint64_t* limbs, int count) {
        Fixed f{};
        for (int i = 0; i < L; ++i) f.limb[i] = limbs[count - L + i];
        return f;
    }

    HALFULP_CALLED bool is_zero() const {
        uint64_t any = 0;
        for (uint64_t part : limb) any |= part;
        return any == 0;
    }

    HALFULP_CALLED Fixed operator+(const Fixed& other) const {
        Fixed sum;
        unsigned __int128 carry = 0;
        for (int i = 0; i < L; ++i) {
            carry += static_cast<unsigned __int128>(limb[i]) + other.limb[i];
            sum.limb[i] = static_cast<uint64_t>(carry);
            carry >>= 64;
        }
        return sum;
    }

    // Needs *this >= other.
    HALFULP_CALLED Fixed operator-(const Fixed& other) const {
        Fixed difference;
        uint64_t borrow = 0;
        for (int i = 0; i < L; ++i) {
            unsigned __int128 d = static_cast<unsigned __int128>(limb[i]) - other.limb[i] - borrow;
            difference.limb[i] = static_cast<uint64_t>(d);
            borrow = static_cast<uint64_t>(d >> 64) & 1;
        }
        return difference;
    }

    // The product must be below 2^64.
    HALFULP_CALLED Fixed operator*(const Fixed& other) const {
        uint64_t product[2 * L] = {};
        HALFULP_ROLLED
        for (int i = 0; i < L; ++i) {
            if (limb[i] == 0) continue;  // common: the leading limbs of a series' terms become zero
            uint64_t carry = 0;
            for (int j = 0; j < L; ++j) {
                unsigned __int128 p = static_cast<unsigned __int128>(limb[i]) * other.limb[j] + product[i + j] + carry;
                product[i + j] = static_cast<uint64_t>(p);
                carry = static_cast<uint64_t>(p >> 64);
            }
            product[i + L] = carry;
        }
        Fixed result;
        for (int i = 0; i < L; ++i) result.limb[i] = product[L - 1 + i];
        return result;
    }

    HALFULP_CALLED constexpr Fixed operator/(uint64_t divisor) const {
        Fixed quotient{};
        uint64_t remainder = 0;
        HALFULP_ROLLED
        for (int i = L - 1; i >= 0; --i) {
            if (remainder == 0 && limb[i] == 0) {
                quotient.limb[i] = 0;
                continue;
            }
            unsigned __int128 dividend = static_cast<unsigned __int128>(remainder) << 64 | limb[i];
            quotient.limb[i] = static_cast<uint64_t>(dividend / divisor);
            remainder = static_cast<uint64_t>(dividend % divisor);
        }
        return quotient;
    }

    HALFULP_CALLED Fixed operator>>(int shift) const {
        Fixed result{};
        int whole = shift / 64, part = shift % 64;
        for (int i = 0; i + whole < L; ++i) {
            uint64_t low = limb[i + whole] >> part;
            uint64_t high = part != 0 && i + whole + 1 < L ? limb[i + whole + 1] << (64 - part) : 0;
            result.limb[i] = low | high;
        }
        return result;
    }

    HALFULP_CALLED Fixed operator<<(int shift) const {
        Fixed result{};
        int whole = shift / 64, part = shift % 64;
        for (int i = L - 1; i - whole >= 0; --i) {
            uint64_t high = limb[i - whole] << part;
            uint64_t low = part != 0 && i - whole - 1 >= 0 ? limb[i - whole - 1] >> (64 - part) : 0;
            result.limb[i] = high | low;
        }
        return result;
    }

    // Position of the highest bit that is set, as a power of two: 0 for a value in [1, 2). Needs a value > 0.
    HALFULP_CALLED int exponent() const {
        for (int i = L - 1; i >= 0; --i)
            if (limb[i] != 0) return 64 * (i - (L - 1)) + 63 - std::countl_zero(limb[i]);
        return -fraction_bits - 1;
    }
};

}  // namespace halfulp::HALFULP_ISA
