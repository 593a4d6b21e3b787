// The triple phase for the lanes that the pair phase leaves undecided, in short loops. Look-ups are loops of their own, which
// no compiler need make vectors of.
#pragma once

#include "../numerics/pow_td.h"
#include "kernels.h"

namespace halfulp::HALFULP_ISA {

// So many at a time: with more, their arrays would not fit a small thread's stack.
static constexpr int triple_tile = 64;

// Triples of a tile.
struct Triples {
    alignas(64) double a[triple_tile], b[triple_tile], c[triple_tile];

    Triple operator[](int i) const { return {a[i], b[i], c[i]}; }
    void store(int i, const Triple& value) {
        a[i] = value.a;
        b[i] = value.b;
        c[i] = value.c;
    }
};

// finish(i, power) for each of x^y, at most triple_tile.
template <typename Y, typename F>
[[gnu::noinline]] static void raise_triples(const double* x, Y y, int n, F finish) {
    Triples whole, t, power;
    alignas(64) double f[triple_tile], high[triple_tile], low[triple_tile], error[triple_tile];
    alignas(64) double s[triple_tile], lost_of_s[triple_tile], lost[triple_tile], lost_last[triple_tile];
    for (int i = 0; i < n; ++i) {
        const TripleLogarithm begun = begin_logarithm(absolute(x[i]));
        f[i] = begun.f;
        whole.store(i, begun.whole);
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        DoubleDouble tail = {polynomial(constants::log2_triple, f[i]), 0};
        DoubleDouble rest = horner<4, 9>(constants::log2_triple_pairs, tail, f[i]);
        high[i] = rest.high;
        low[i] = rest.low;
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        DoubleDouble rest = horner<0, 4>(constants::log2_triple_pairs, DoubleDouble{high[i], low[i]}, f[i]);
        high[i] = rest.high;
        low[i] = rest.low;
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        t.store(i, multiply_add(f[i], {high[i], low[i], 0}, constants::log2_triple_triples[0]));
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        t.store(i, multiply_add(f[i], t[i], whole[i]));
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        if constexpr (Y::has_lows) t.store(i, product(t[i], {y.high(i), y.low(i)}));
        else t.store(i, product(t[i], y.high(i)));
    }
    for (int i = 0; i < n; ++i) {
        const TripleStart begun = begin_power(t[i]);
        s[i] = begun.s;
        lost_of_s[i] = begun.lost_of_s;
        power.a[i] = begun.power;
        lost[i] = begun.lost.high;
        lost_last[i] = begun.lost.low;
        error[i] = error_of(begun, t.a[i]);
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        DoubleDouble tail = {polynomial(constants::exp2_triple, s[i]), 0};
        DoubleDouble rest = horner<0, 7>(constants::exp2_triple_pairs, tail, s[i]);
        high[i] = rest.high;
        low[i] = rest.low;
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        const TripleStart begun = {s[i], lost_of_s[i], power.a[i], {lost[i], lost_last[i]}};
        power.store(i, end_power(begun, {high[i], low[i]}));
    }
    // vector loop: avx512(most) avx2(most) neon(most)
    for (int i = 0; i < n; ++i) {
        finish(i, absolute(t.a[i]), TriplePower{power[i], error[i], whole_exponent(t.a[i])});
    }
}

// The ends of the intervals that hold x^y, rounded by `round`; -1 beside them where t is too great.
template <typename Y, typename Round>
static void triple_phase(const double* x, Y y, double* least, double* greatest, int n, Round round) {
    for (int from = 0; from < n; from += triple_tile) {
        const auto finish = [=](int i, double t, const TriplePower& power) {
            const Rounding rounding = round(power);
            least[from + i] = rounding.least;
            greatest[from + i] = t <= greatest_triple_t ? rounding.greatest : -1;
        };
        raise_triples(x + from, y.from(from), n - from < triple_tile ? n - from : triple_tile, finish);
    }
}

}  // namespace halfulp::HALFULP_ISA
