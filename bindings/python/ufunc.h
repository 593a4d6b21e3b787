// np.power with halfulp's powers: as a ufunc beside NumPy's, and as loops in place of NumPy's own.
#pragma once

#include <nanobind/nanobind.h>

namespace halfulp {

// Returns a new ufunc with the types of np.power, NumPy's loops for integers, complex and other numbers, and halfulp's
// for float16, bfloat16, float32 and float64.
nanobind::object power_ufunc();

// Puts halfulp's loops into np.power and np.float_power, or NumPy's back. Returns whether np.power calls halfulp's then.
bool replace_numpy_power(bool by_halfulps);

}  // namespace halfulp
