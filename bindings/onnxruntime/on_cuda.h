// Launches kernels on the device that has the operands, chosen by the CUDA provider.
#pragma once

#include "../cuda/launch.h"

namespace halfulp::ort {

// Throws std::runtime_error.
void launch_on_cuda(const cuda::Operation& operation, void* stream);

}  // namespace halfulp::ort
