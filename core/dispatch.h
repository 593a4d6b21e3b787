// The kernels of the best instruction set that the processor has, or of the one that HALFULP_ISA names.
#pragma once

#include <vector>

#include "kernels/kernels.h"

namespace halfulp {

// The kernels that this processor supports, the best last.
std::vector<const Kernels*> available_kernels();

// Throws std::runtime_error if HALFULP_ISA names an instruction set that this processor does not have.
const Kernels& chosen_kernels();

}  // namespace halfulp
