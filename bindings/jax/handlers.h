// Handlers that XLA calls in the middle of a compiled program, for JAX.
#pragma once

#include "ffi.h"

namespace halfulp::xla {

// On the processor.
// Broadcast their two operands as NumPy does.
Error* pow(Call* call);
Error* prelu(Call* call);
// Its second operand is one number as two uint32, the low and high half of its element, because JAX may have no 64-bit
// types. The attribute exponent_type is its halfulp_type.
Error* pow_of_number(Call* call);

// The same on a CUDA device, whose memory has the operands: they enqueue the work in XLA's stream.
namespace on_cuda {

Error* pow(Call* call);
Error* prelu(Call* call);
Error* pow_of_number(Call* call);

}  // namespace on_cuda

}  // namespace halfulp::xla
