// The kernels of the best instruction set that the processor has, or of the one that HALFULP_ISA names.
#pragma once

#include <vector>

#include "kernels/kernels.h"

namespace halfulp {

// What this processor has, best last.
std::vector<const Kernels*> available_kernels();

// Throws std::runtime_error where HALFULP_ISA names none that this processor has.
const Kernels& chosen_kernels();

}  // namespace halfulp
