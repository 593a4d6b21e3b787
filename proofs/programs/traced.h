// Numbers that record their operations. The core's functions, compiled with these instead of float and double, print
// their operations, from which the proofs are generated.
//
//   use       #include this first, then the core's headers. `double` means traced::Double from here on
//   records   a line for each operation, except on constants only: `n7 = fma n2 0x1.8p+1 n3`. Constants are folded,
//             rounded as a compiler rounds them
//   integers  a number made from an integer's bits is a new one, `n8 = from_bits`. A number whose bits are read prints
//             `bits n7`. The proofs state the integer operations in between as lemmas
//   values    each number also has an ordinary value, which determines branches and look-ups
#pragma once

#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

namespace traced {

inline int count = 0;
static constexpr int constant = -1;

// Real is float or double.
template <typename Real>
struct Number {
    Real value = 0;
    int node = constant;

    constexpr Number() = default;
    constexpr Number(Real number, int its_node) : value(number), node(its_node) {}
    // Constants, and constant integers.
    constexpr Number(double literal) : value(static_cast<Real>(literal)) {}
    constexpr Number(float literal) : value(static_cast<Real>(literal)) {}
    constexpr Number(int literal) : value(static_cast<Real>(literal)) {}
    // An integer that the program computed.
    template <std::integral Integer>
    explicit Number(Integer number) : value(static_cast<Real>(number)), node(count++) {
        std::printf("n%d = from_integer\n", node);
    }
    // Converts to the other type, rounded or exactly.
    template <typename Other>
    constexpr Number(const Number<Other>& other);

    template <std::integral Integer>
    constexpr explicit operator Integer() const {
        return static_cast<Integer>(value);
    }
};
using Double = Number<double>;
using Float = Number<float>;

inline std::string name(int node, double value) {
    char text[40];
    if (node == constant) std::snprintf(text, sizeof text, "%a", value);
    else std::snprintf(text, sizeof text, "n%d", node);
    return text;
}

template <typename Real>
constexpr Number<Real> record(const char* operation, Real value, std::initializer_list<Number<Real>> operands) {
    bool all_constant = true;
    for (const auto& operand : operands) all_constant &= operand.node == constant;
    if (all_constant) return {value, constant};
    std::printf("n%d = %s%s", count, operation, sizeof(Real) == 4 ? "_float" : "");
    for (const auto& operand : operands) std::printf(" %s", name(operand.node, operand.value).c_str());
    std::printf("\n");
    return {value, count++};
}

template <typename Real>
template <typename Other>
constexpr Number<Real>::Number(const Number<Other>& other) : value(static_cast<Real>(other.value)), node(other.node) {
    if (other.node == constant || sizeof(Real) > sizeof(Other)) return;
    std::printf("n%d = to_float n%d\n", count, other.node);
    node = count++;
}

// The common type of two operands: double, if one is a double.
template <typename A, typename B>
using Common =
    std::conditional_t<std::is_same_v<A, Double> || std::is_same_v<B, Double>, Double,
                       std::conditional_t<std::is_same_v<A, Float> || std::is_same_v<B, Float>, Float, void>>;
template <typename A, typename B>
concept HasNumber =
    std::is_same_v<A, Double> || std::is_same_v<A, Float> || std::is_same_v<B, Double> || std::is_same_v<B, Float>;

#define TRACED_OPERATION(sign, operation)                                          \
    template <typename A, typename B>                                              \
        requires HasNumber<A, B>                                                   \
    constexpr Common<A, B> operator sign(const A& a, const B& b) {                 \
        const Common<A, B> x(a), y(b);                                             \
        return record(operation, decltype(x.value)(x.value sign y.value), {x, y}); \
    }
#define TRACED_COMPARISON(sign)                                  \
    template <typename A, typename B>                            \
        requires HasNumber<A, B>                                 \
    constexpr bool operator sign(const A& a, const B& b) {       \
        return Common<A, B>(a).value sign Common<A, B>(b).value; \
    }
TRACED_OPERATION(+, "add")
TRACED_OPERATION(-, "sub")
TRACED_OPERATION(*, "mul")
TRACED_OPERATION(/, "div")
TRACED_COMPARISON(<)
TRACED_COMPARISON(>)
TRACED_COMPARISON(<=)
TRACED_COMPARISON(>=)
TRACED_COMPARISON(==)
TRACED_COMPARISON(!=)

template <typename Real>
constexpr Number<Real> operator-(const Number<Real>& a) {
    return record("neg", -a.value, {a});
}
template <typename Real>
constexpr Number<Real>& operator+=(Number<Real>& a, const Number<Real>& b) {
    return a = a + b;
}

// A namespace of its own, since the core has functions with the same names.
namespace builtin {

constexpr Double fma(Double a, Double b, Double c) {
    return record("fma", __builtin_fma(a.value, b.value, c.value), {a, b, c});
}
constexpr Float fmaf(Float a, Float b, Float c) {
    return record("fma", __builtin_fmaf(a.value, b.value, c.value), {a, b, c});
}
constexpr Double sqrt(Double a) { return record("sqrt", __builtin_sqrt(a.value), {a}); }
constexpr Float sqrtf(Float a) { return record("sqrt", __builtin_sqrtf(a.value), {a}); }
constexpr Double fabs(Double a) { return record("abs", __builtin_fabs(a.value), {a}); }
constexpr Float fabsf(Float a) { return record("abs", __builtin_fabsf(a.value), {a}); }

}  // namespace builtin

template <typename To, typename From>
constexpr To bit_cast(const From& from) {
    if constexpr (std::is_same_v<To, Double> || std::is_same_v<To, Float>) {
        if (std::is_constant_evaluated()) return {__builtin_bit_cast(decltype(To{}.value), from), constant};
        std::printf("n%d = from_bits\n", count);
        return {__builtin_bit_cast(decltype(To{}.value), from), count++};
    } else if constexpr (std::is_same_v<From, Double> || std::is_same_v<From, Float>) {
        if (!std::is_constant_evaluated() && from.node != constant) std::printf("bits n%d\n", from.node);
        if constexpr (sizeof(To) == sizeof(from.value)) return __builtin_bit_cast(To, from.value);
        else return bit_cast<To>(bit_cast<std::uint32_t>(from));  // the type was chosen by sizeof, which differs
    } else if constexpr (sizeof(To) != sizeof(From)) {
        return static_cast<To>(from);
    } else {
        return __builtin_bit_cast(To, from);
    }
}

// The inputs and outputs of a proof.
inline Double input(const char* its_name, double value) {
    std::printf("n%d = input %s\n", count, its_name);
    return {value, count++};
}
inline Float input_float(const char* its_name, float value) {
    std::printf("n%d = input_float %s\n", count, its_name);
    return {value, count++};
}
template <typename Real>
void output(const char* its_name, const Number<Real>& number) {
    std::printf("output %s %s\n", its_name, name(number.node, number.value).c_str());
}
template <typename Real>
void state(const char* its_name, const Number<Real>& number) {
    std::printf("constant %s %a\n", its_name, static_cast<double>(number.value));
}
inline void begin(const std::string& function) {
    std::printf("function %s\n", function.c_str());
    count = 0;
}

}  // namespace traced

// The compiler's operations, by the names that the headers use.
#define __builtin_fma traced::builtin::fma
#define __builtin_fmaf traced::builtin::fmaf
#define __builtin_sqrt traced::builtin::sqrt
#define __builtin_sqrtf traced::builtin::sqrtf
#define __builtin_fabs traced::builtin::fabs
#define __builtin_fabsf traced::builtin::fabsf
#define __builtin_bit_cast(To, from) traced::bit_cast<To>(from)
#define double traced::Double
#define float traced::Float
