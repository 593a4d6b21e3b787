// Kernels for torch's dispatcher, under its stable ABI (torch/csrc/stable/c/shim.h). torch's functions are looked up at run
// time, so that building needs nothing of torch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace halfulp::torch {

// The operands of a call, and after it the result: tensors (handles, owned by the stack), numbers and flags.
using Kernel = void (*)(uint64_t* stack, uint64_t inputs, uint64_t outputs);

// Looks torch's functions up by their names, and sets the element types (halfulp_type) of torch's numbers of types.
void connect(const std::function<void*(const char* name)>& find, const std::vector<std::pair<int, int>>& types);

// The kernels and their operators: those of the namespace aten, and halfulp's, which `kernels.py` defines.
const std::vector<std::pair<std::string, Kernel>>& kernels();

}  // namespace halfulp::torch
