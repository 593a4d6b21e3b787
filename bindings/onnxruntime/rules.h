// Broadcasting rules, checks and messages, made by tools/make_rules.py from halfulp.specs. Do not edit.
#pragma once

namespace halfulp::ort {

// The names are those of the operator versions' rows (broadcasting.name in Python).
enum class Rule { legacy_axis, numpy, shared_or_per_channel, unidirectional };
inline constexpr const char* rule_names[] = {
    "legacy axis", "numpy", "shared or per channel", "unidirectional"};

// The checks of shapes that clauses enforce, and the attributes of a node that hold the clauses' ids.
enum class Check { shape, equal_shapes, attribute_axis, one_dim_expansion, count };
inline constexpr const char* clause_attributes[] = {
    "clause_shape", "clause_equal_shapes", "clause_attribute_axis", "clause_1_dim_expansion"};

struct Mismatch {
    Check check;
    const char* message;
};

inline constexpr Mismatch not_broadcastable{
    Check::shape, "X and Y must be broadcastable to one shape"};
inline constexpr Mismatch not_unidirectional{
    Check::shape, "slope must be unidirectionally broadcastable to X"};
inline constexpr Mismatch not_per_channel{
    Check::shape, "slope must have one element, or one for each channel (dim 1) of X"};
inline constexpr Mismatch not_equal{
    Check::equal_shapes, "X and Y must have the same shape unless broadcast is 1"};
inline constexpr Mismatch rank_too_great{
    Check::shape, "the rank of Y must not exceed the rank of X"};
inline constexpr Mismatch no_such_axis{
    Check::attribute_axis, "axis must be a dim of X"};
inline constexpr Mismatch beyond_the_end{
    Check::attribute_axis, "the shape of Y, starting at axis, must end within X"};
inline constexpr Mismatch expands_one{
    Check::one_dim_expansion, "a dim of 1 inside Y does not expand"};
inline constexpr Mismatch not_a_subset{
    Check::shape, "the shape of Y must be a contiguous subset of the shape of X"};

// The operator versions, the names of types with a space after each; no exponent's types: those of X.
struct Version {
    const char* name;
    int since, until;
    Rule rule;
    const char *types, *exponent_types;
    const char* clauses[static_cast<int>(Check::count)];
};
inline constexpr int most_versions = 1000;
inline constexpr Version versions[] = {
    {"Pow", 1, 6, Rule::legacy_axis, "float64 float32 float16 ", "",
     {"onnx.Pow-1.C2", "onnx.Pow-1.C5", "onnx.Pow-1.C3", "onnx.Pow-1.C4"}},
    {"Pow", 7, 11, Rule::numpy, "float64 float32 float16 ", "",
     {"onnx.Pow-7.C2", "", "", ""}},
    {"Pow", 12, 12, Rule::numpy, "float64 float32 float16 int32 int64 ", "float64 float32 float16 int16 int32 int64 int8 uint16 uint32 uint64 uint8 ",
     {"onnx.Pow-12.C2", "", "", ""}},
    {"Pow", 13, 14, Rule::numpy, "bfloat16 float64 float32 float16 int32 int64 ", "float64 float32 float16 int16 int32 int64 int8 uint16 uint32 uint64 uint8 ",
     {"onnx.Pow-13.C2", "", "", ""}},
    {"Pow", 15, most_versions, Rule::numpy, "bfloat16 float64 float32 float16 int32 int64 ", "bfloat16 float64 float32 float16 int16 int32 int64 int8 uint16 uint32 uint64 uint8 ",
     {"onnx.Pow-15.C2", "", "", ""}},
    {"PRelu", 1, 5, Rule::shared_or_per_channel, "float64 float32 float16 ", "",
     {"onnx.PRelu-1.C2", "", "", ""}},
    {"PRelu", 6, 6, Rule::shared_or_per_channel, "float64 float32 float16 ", "",
     {"onnx.PRelu-6.C2", "", "", ""}},
    {"PRelu", 7, 8, Rule::unidirectional, "float64 float32 float16 ", "",
     {"onnx.PRelu-7.C2", "", "", ""}},
    {"PRelu", 9, 15, Rule::unidirectional, "float64 float32 float16 int32 int64 uint32 uint64 ", "",
     {"onnx.PRelu-9.C2", "", "", ""}},
    {"PRelu", 16, most_versions, Rule::unidirectional, "bfloat16 float64 float32 float16 int32 int64 uint32 uint64 ", "",
     {"onnx.PRelu-16.C2", "", "", ""}},
};

}  // namespace halfulp::ort
