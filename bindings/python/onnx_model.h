// What is asked of a serialized ONNX model before ONNX Runtime gets it.
#pragma once

#include <optional>
#include <string_view>

namespace halfulp {

// Returns whether ONNX Runtime may compute a Pow or PRelu itself, because it knows all operands: also if nodes that are
// not in order hide that an operand varies. Empty for a model with halfulp's custom operators. Reads no tensor's values.
// Throws std::invalid_argument if the bytes are no model.
std::optional<bool> has_constant_power(std::string_view model);

}  // namespace halfulp
