// How ONNX's Pow and PRelu fit the shape of their second operand to that of X, version by version.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "array/view.h"

namespace halfulp::ort {

using Dims = std::span<const int64_t>;

// The names are those of the operator versions' rows (broadcasting.name in Python).
enum class Rule { numpy, unidirectional, shared_or_channel, legacy_axis };

inline constexpr const char* rule_names[] = {"numpy", "unidirectional", "shared or per channel", "legacy axis"};

// Attributes of Pow before version 7.
struct LegacyAxis {
    std::optional<int64_t> axis;
    bool broadcast = false;
};

// What an operator version's clauses say of shapes. The texts are those that Python's broadcasting rules give.
enum class Check { shape, equal_shapes, one_dim_expansion, axis, count };

inline constexpr const char* check_names[] = {"shape", "equal shapes", "1-dim expansion", "attribute axis"};

struct Mismatch {
    Check check;
    const char* message;
};

// The result's shape, and the operands' dims aligned with it: each is the result's or 1.
struct Arrangement {
    Shape result;
    int64_t x[max_dims], y[max_dims];
};

// Ranks are at most max_dims. Returns what does not fit, or nothing.
std::optional<Mismatch> arrange(Rule rule, const LegacyAxis& legacy, Dims x, Dims y, Arrangement& arrangement);

}  // namespace halfulp::ort
