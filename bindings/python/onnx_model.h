// What is asked of a serialized ONNX model before ONNX Runtime gets it.
#pragma once

#include <optional>
#include <string_view>

namespace halfulp {

struct Powers {
    bool may_be_folded;  // all operands of a Pow or PRelu are known: also if nodes out of order hide that one varies
    bool may_be_fused;   // there are a Pow and an operator of a norm or of GELU
};

// Returns what ONNX Runtime may do to a model's powers; empty for a model with halfulp's custom operators. Reads no
// tensor's values. Throws std::invalid_argument if the bytes are no model.
std::optional<Powers> powers_of(std::string_view model);

}  // namespace halfulp
