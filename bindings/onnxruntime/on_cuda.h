// Launches on the device that the CUDA provider has put the operands on.
#pragma once

#include "../cuda/launch.h"

namespace halfulp::ort {

// Throws std::runtime_error.
void launch_on_cuda(const cuda::Operation& operation, void* stream);

}  // namespace halfulp::ort
