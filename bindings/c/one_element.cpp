// The powers of one element, by the functions of core/numerics/ without vectors.
#ifdef _WIN32
#define HALFULP_API __declspec(dllexport)
#endif
#include "halfulp.h"

#define HALFULP_ISA one_element
#include "fp_environment.h"
#include "numerics/pow.h"

namespace halfulp::HALFULP_ISA {

namespace {

// Not inlined: the compiler moves arithmetic across changes of the floating-point environment.
template <Element type>
[[gnu::noinline]] Storage<type> power_of_encodings(Storage<type> x, Storage<type> y) {
    return pow<type, type>(x, y, false);
}

template <Element type, typename Real>
Real power_of_one(Real x, Real y) {
    const auto x_bits = __builtin_bit_cast(Storage<type>, x), y_bits = __builtin_bit_cast(Storage<type>, y);
    FpEnvironment default_environment;
    return __builtin_bit_cast(Real, power_of_encodings<type>(x_bits, y_bits));
}

}  // namespace

}  // namespace halfulp::HALFULP_ISA

float halfulp_powf(float x, float y) { return halfulp::one_element::power_of_one<halfulp::Element::float32>(x, y); }
double halfulp_powd(double x, double y) { return halfulp::one_element::power_of_one<halfulp::Element::float64>(x, y); }
