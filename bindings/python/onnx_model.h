// Finds powers in a serialized ONNX model that ONNX Runtime would compute itself.
#pragma once

#include <optional>
#include <string_view>

namespace halfulp {

struct Powers {
    bool may_be_folded;  // the operands of a Pow or PRelu are constants; or may be, in functions and out of order
    bool may_be_fused;   // there is a Pow, and an operator of a norm or GELU
};

// Returns nullopt for a model with halfulp's custom operators. Does not read the values of tensors. Throws
// std::invalid_argument if the bytes are not a model.
std::optional<Powers> powers_of(std::string_view model);

}  // namespace halfulp
