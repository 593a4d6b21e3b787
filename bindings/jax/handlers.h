// Handlers that XLA calls in the middle of a compiled program, for JAX on the processor.
#pragma once

#include "ffi.h"

namespace halfulp::xla {

// Broadcast their two operands as NumPy does.
Error* pow(Call* call);
Error* prelu(Call* call);
// Its second operand is one number as three uint32: the exponent's halfulp_type, and the low and high half of its
// element. JAX may have no 64-bit types.
Error* pow_of_number(Call* call);

}  // namespace halfulp::xla
