// The triple-double phase (numerics/pow_td.h) for the lanes that the double-double phase leaves undecided, in short
// loops. Look-ups have loops of their own, since compilers do not vectorise them.
#pragma once

#include "../../numerics/pow_td.h"
#include "../kernels.h"

namespace halfulp::HALFULP_ISA {

// The number of elements at a time. With more, the arrays would not fit on a thread's stack of 64 KiB.
static constexpr int td_tile = 64;

// A triple for each lane.
struct TripleDoubles {
    alignas(64) double a[td_tile], b[td_tile], c[td_tile];

    TripleDouble operator[](int i) const { return {a[i], b[i], c[i]}; }
    void store(int i, const TripleDouble& value) {
        a[i] = value.a;
        b[i] = value.b;
        c[i] = value.c;
    }
};

// Calls finish(i, |t|, power) for each x^y; n is at most td_tile.
template <typename Y, typename F>
[[gnu::noinline]] static void raise_triple_doubles(const double* x, Y y, int n, F finish) {
    TripleDoubles whole, t, power;
    alignas(64) double f[td_tile], high[td_tile], low[td_tile], error[td_tile];
    alignas(64) double s[td_tile], s_low[td_tile], correction[td_tile], correction_low[td_tile];
    for (int i = 0; i < n; ++i) {
        const TripleDoubleLogarithm begun = begin_logarithm(fabs(x[i]));
        f[i] = begun.f;
        whole.store(i, begun.whole);
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        DoubleDouble tail = {polynomial(constants::log2_td, f[i]), 0};
        DoubleDouble inner = horner<4, 9>(constants::log2_td_pairs, tail, f[i]);
        high[i] = inner.high;
        low[i] = inner.low;
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        DoubleDouble inner = horner<0, 4>(constants::log2_td_pairs, DoubleDouble{high[i], low[i]}, f[i]);
        high[i] = inner.high;
        low[i] = inner.low;
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        t.store(i, multiply_add(f[i], {high[i], low[i], 0}, constants::log2_td_triples[0]));
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        t.store(i, multiply_add(f[i], t[i], whole[i]));
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        if constexpr (Y::has_lows) t.store(i, product(t[i], {y.high(i), y.low(i)}));
        else t.store(i, product(t[i], y.high(i)));
    }
    for (int i = 0; i < n; ++i) {
        const TripleDoubleStart begun = begin_power(t[i]);
        s[i] = begun.s;
        s_low[i] = begun.s_low;
        power.a[i] = begun.power;
        correction[i] = begun.correction.high;
        correction_low[i] = begun.correction.low;
        error[i] = error_of(begun, t.a[i]);
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        DoubleDouble tail = {polynomial(constants::exp2_td, s[i]), 0};
        DoubleDouble inner = horner<0, 7>(constants::exp2_td_pairs, tail, s[i]);
        high[i] = inner.high;
        low[i] = inner.low;
    }
    for (int i = 0; i < n; ++i) {  // vector loop
        const TripleDoubleStart begun = {s[i], s_low[i], power.a[i], {correction[i], correction_low[i]}};
        power.store(i, end_power(begun, {high[i], low[i]}));
    }
    // vector loop: avx512(most) avx2(most) neon(most)
    for (int i = 0; i < n; ++i) {
        finish(i, fabs(t.a[i]), TripleDoublePower{power[i], error[i], whole_exponent(t.a[i])});
    }
}

// The ends of the intervals that contain x^y, rounded by `round`. If |t| is too great for this phase, `greatest` is -1.
template <typename Y, typename Round>
static void triple_double_phase(const double* x, Y y, double* least, double* greatest, int n, Round round) {
    for (int from = 0; from < n; from += td_tile) {
        const auto finish = [=](int i, double t, const TripleDoublePower& power) {
            const Rounding rounding = round(power);
            least[from + i] = rounding.least;
            greatest[from + i] = t <= greatest_td_t ? rounding.greatest : -1;
        };
        raise_triple_doubles(x + from, y.from(from), n - from < td_tile ? n - from : td_tile, finish);
    }
}

}  // namespace halfulp::HALFULP_ISA
