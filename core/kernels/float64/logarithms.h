// The first phase of float64 in vectors, where processors have them for it.
#pragma once

#include "rows.h"
#include "sixteenths.h"

namespace halfulp::HALFULP_ISA {

#if defined(__AVX512F__)
#define HALFULP_DOUBLE_VECTORS
using FastLogarithms = HalfLogarithms;
static constexpr double greatest_fast_t = greatest_half_t;
#elif defined(HALFULP_DOUBLE_ROWS)
#define HALFULP_DOUBLE_VECTORS
using FastLogarithms = LogarithmsByRows;
static constexpr double greatest_fast_t = greatest_float64_t;
#else
static constexpr double greatest_fast_t = greatest_float64_t;
#endif

}  // namespace halfulp::HALFULP_ISA
