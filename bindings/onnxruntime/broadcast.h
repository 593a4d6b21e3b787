// The broadcasting rules of ONNX's Pow and PRelu, for shapes that are known only at run time. They compute the same as
// src/halfulp/specs/broadcast.py; names and messages come from there (rules.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "array/view.h"
#include "rules.h"

namespace halfulp::ort {

using Dims = std::span<const int64_t>;

// Attributes of Pow before version 7.
struct LegacyAxis {
    std::optional<int64_t> axis;
    bool broadcast = false;
};

// The result's shape, and the operands' dims aligned with it: each is the result's or 1.
struct Arrangement {
    Shape result;
    int64_t x[max_dims], y[max_dims];
};

// Ranks must be at most max_dims. Returns the reason if the shapes do not fit.
std::optional<Mismatch> arrange(Rule rule, const LegacyAxis& legacy, Dims x, Dims y, Arrangement& arrangement);

}  // namespace halfulp::ort
