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

}  // namespace halfulp::ort
