// What the translated instructions of PTX are made of (ptx_to_cpp.py). Registers hold bits; a NaN that an operation
// makes is the one that NVIDIA's devices make; CF after a subtraction is the carry of adding the complement, as the
// compiler's own division of 128-bit integers takes it.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "device.h"

template <typename To, typename From>
inline To bits_as(From value) {
    if constexpr (sizeof(To) == sizeof(From)) return std::bit_cast<To>(value);
    else return static_cast<To>(value);
}

// A result into a register, which may be wider.
template <typename Register, typename T>
inline void put(Register& to, T value) {
    if constexpr (std::is_same_v<T, _Float16>)
        put(to, value != value ? uint16_t{0x7fff} : std::bit_cast<uint16_t>(value));
    else if constexpr (std::is_same_v<T, float>) put(to, value != value ? 0x7fffffffu : std::bit_cast<uint32_t>(value));
    else if constexpr (std::is_same_v<T, double>)
        put(to, value != value ? 0x7fffffffffffffffull : std::bit_cast<uint64_t>(value));
    else to = static_cast<Register>(value);
}

template <typename T>
inline T load(uint64_t address) {
    T value;
    std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
    return value;
}

template <typename T>
inline void store(uint64_t address, T value) {
    std::memcpy(reinterpret_cast<void*>(address), &value, sizeof value);
}

template <typename T>
inline T add_carry(T a, T b, bool carry_in, bool& carry) {
    const unsigned __int128 sum = static_cast<unsigned __int128>(a) + b + carry_in;
    carry = sum >> (8 * sizeof(T)) != 0;
    return static_cast<T>(sum);
}

template <typename T>
inline T sub_carry(T a, T b, bool carry_in, bool& carry) {
    return add_carry(a, static_cast<T>(~b), carry_in, carry);
}

template <typename T>
inline T mul_hi(T a, T b) {
    using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return static_cast<T>((static_cast<Wide>(a) * b) >> (8 * sizeof(T)));
}

template <typename T>
inline T mul_lo(T a, T b) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

template <typename T>
inline T shift_left(T a, uint32_t by) {
    return by >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << by);
}

// A signed type's shifts bring in its sign.
template <typename T>
inline T shift_right(T a, uint32_t by) {
    constexpr uint32_t bits = 8 * sizeof(T);
    if (by >= bits) return static_cast<T>(a < 0 ? -1 : 0);
    return static_cast<T>(a >> by);
}

// Of high and low as one number of 64 bits.
inline uint32_t funnel_left(uint32_t low, uint32_t high, uint32_t by) {
    return static_cast<uint32_t>((uint64_t{high} << 32 | low) << by >> 32);
}
inline uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t by) {
    return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> by);
}
inline uint32_t clamped(uint32_t by) { return by < 32 ? by : 32; }

template <typename T>
inline T insert_bits(T a, T into, uint32_t position, uint32_t length) {
    position &= 255;
    length &= 255;
    T mask = length >= 8 * sizeof(T) ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
    mask = shift_left(mask, position);
    return static_cast<T>((into & ~mask) | (shift_left(a, position) & mask));
}

inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
    const uint64_t bytes = uint64_t{b} << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
        const uint32_t choice = selector >> 4 * i & 15;
        uint32_t byte = static_cast<uint32_t>(bytes >> 8 * (choice & 7)) & 255;
        if (choice & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * i;
    }
    return result;
}

// Of floats: of a NaN and a number, the number; and -0 is less than 0.
template <typename T>
inline T least(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
        if (a != a) return b;
        if (b != b) return a;
        if (a == b) return std::signbit(a) ? a : b;
    }
    return a < b ? a : b;
}
template <typename T>
inline T greatest(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
        if (a != a) return b;
        if (b != b) return a;
        if (a == b) return std::signbit(a) ? b : a;
    }
    return a < b ? b : a;
}

// Toward zero, and saturated; of a NaN 0, and of 64 bits the least number.
template <typename To, typename From>
inline To to_integer(From value) {
    constexpr To lowest = std::numeric_limits<To>::min(), highest = std::numeric_limits<To>::max();
    if (value != value) return sizeof(To) == 8 ? static_cast<To>(uint64_t{1} << 63) : To{0};
    if (value >= std::ldexp(From{1}, std::numeric_limits<To>::digits)) return highest;
    if (value <= static_cast<From>(lowest)) return lowest;
    return static_cast<To>(value);
}
