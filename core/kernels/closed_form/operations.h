// Powers with a constant exponent by one operation that IEEE 754 rounds correctly: x^2, x^(1/2) and 1/x.
//
// For a type shorter than float32 the result is rounded a second time. A square of a 16-bit type is exact, or so small
// that it rounds to zero (see numerics/prelu.h). A root or a quotient of float16 is farther from every boundary than
// the rounding error of a float: a float's 24 bits are at least twice float16's 11 bits, and 2 more.
#pragma once

#include "../../numerics/pow_closed_form.h"
#include "../kernels.h"

namespace halfulp::HALFULP_ISA {

// Whether the formula is for bases below zero too.
static constexpr bool takes_any_sign(Shortcut shortcut) {
    return shortcut != Shortcut::root && shortcut != Shortcut::reciprocal_root && shortcut != Shortcut::root_cube;
}

// If the exponent is not integral, the powers of negative bases are NaN, except that of this one.
template <typename Real>
HALFULP_INLINE Real only_negative_base(const PowOptions& options) {
    return options.domain_error ? Real(0) : -Real(__builtin_inf());
}

// The power, or NaN if x is outside the domain.
template <Shortcut shortcut, typename Real>
HALFULP_INLINE Real with_nan(Real power, Real x, Real only_negative) {
    bool is_number = x == x;
    if constexpr (!takes_any_sign(shortcut)) is_number = (x >= 0) | (x == only_negative);
    return is_number ? power : Real(__builtin_nan(""));
}

// Returns true: every result is right.
template <Shortcut shortcut, typename Real>
static bool fill_by_operation(const Real* __restrict x, Real* __restrict powers, int n, const PowOptions& options) {
    const Real only_negative = only_negative_base<Real>(options);
    for (int i = 0; i < n; ++i) {  // vector loop
        const Real base = takes_any_sign(shortcut) ? x[i] : fabs(x[i]);
        powers[i] = with_nan<shortcut>(exact_power_of<shortcut>(base), x[i], only_negative);
    }
    return true;
}

}  // namespace halfulp::HALFULP_ISA
