// The first phase of float64 in vectors, where processors have them for it.
#pragma once

#include "rows.h"
#include "sixteenths.h"

namespace halfulp::HALFULP_ISA {

#if defined(__AVX512F__)
using FastLogarithms = HalfLogarithms;
static constexpr double greatest_fast_t = greatest_half_t;
#else
#ifdef HALFULP_DOUBLE_ROWS
using FastLogarithms = LogarithmsByRows<false>;
#endif
static constexpr double greatest_fast_t = greatest_float64_t;
#endif

}  // namespace halfulp::HALFULP_ISA
