// Results of the last phase's functions (numerics/pow_exact.h), for comparison with integers and MPFR: a line for each
// line of standard input. Numbers of L limbs are hexadecimal, the most significant limb first, in input and output.
//
//   + - * L a b, / L a divisor, < > L a shift     the operations of fixed-point numbers
//   q L numerator denominator                     quotient, of numbers below 2^64
//   p L x x_exponent negative y y_exponent        k and the power, or "near" or "out of range"
//   c ln2, c two_over_ln2                         the constants' limbs
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <type_traits>

#include "numerics/pow_exact.h"

using namespace halfulp::HALFULP_ISA;

static uint64_t next(const char* format) {
    unsigned long number;
    if (std::scanf(format, &number) != 1) std::exit(1);
    return number;
}
static int next_int() { return static_cast<int>(static_cast<int64_t>(next("%ld"))); }

template <int L>
static Fixed<L> read() {
    Fixed<L> number;
    for (int i = L - 1; i >= 0; --i) number.limb[i] = next("%lx");
    return number;
}

template <int L>
static void print(const Fixed<L>& number) {
    for (int i = L - 1; i >= 0; --i) std::printf("%016lx", number.limb[i]);
    std::printf("\n");
}

template <int L>
static void print_power() {
    const uint64_t x = next("%lu");
    const int x_exponent = next_int();
    const bool negative = next("%lu") != 0;
    const uint64_t y = next("%lu");
    const WideExponent<L> t = wide_exponent<L>({x, x_exponent}, negative, {y, next_int()});
    if (t.size != t.ordinary) return void(std::printf(t.size == t.near ? "near\n" : "out of range\n"));
    std::printf("%d ", t.k);
    print(wide_exp2<L>(t.f));
}

template <int L>
static void compute(char operation) {
    if (operation == 'p') return print_power<L>();
    if (operation == 'q') {
        const uint64_t numerator = next("%lu");
        return print(quotient<L>(numerator, next("%lu")));
    }
    const Fixed<L> a = read<L>();
    switch (operation) {
        case '+': return print(a + read<L>());
        case '-': return print(a - read<L>());
        case '*': return print(a * read<L>());
        case '/': return print(a / next("%lu"));
        case '<': return print(a << next_int());
        default: return print(a >> next_int());
    }
}

// Calls f(L) for each number of limbs of the phases.
template <typename F>
static void for_each_size(F f) {
    f(std::integral_constant<int, 3>{});
    f(std::integral_constant<int, 4>{});
    f(std::integral_constant<int, 6>{});
    f(std::integral_constant<int, 9>{});
    f(std::integral_constant<int, 17>{});
}

int main() {
    char operation, word[16];
    while (std::scanf(" %c %15s", &operation, word) == 2) {
        if (operation == 'c') {
            print(Fixed<17>::leading(word[0] == 'l' ? constants::ln2 : constants::two_over_ln2, 17));
            continue;
        }
        for_each_size([&](auto L) {
            if (std::atoi(word) == L) compute<L>(operation);
        });
    }
}
