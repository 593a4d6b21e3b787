// The powers of one element, by the functions of core/numerics/ without vectors.
#ifdef _WIN32
#define HALFULP_API __declspec(dllexport)
#endif
#include "halfulp.h"

#include <cstdlib>
#include <cstring>

#define HALFULP_ISA one_element
#include "numerics/pow.h"
#include "one_element.h"

#if defined(HALFULP_WITH_avx2) || defined(HALFULP_WITH_avx512)
double halfulp_fused_powd(double x, double y);
#endif

namespace halfulp {

namespace one_element {

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

double powd_of_baseline(double x, double y) { return power_of_doubles(x, y); }

// The best for this processor from the library's initialization on.
double (*powd)(double, double) = powd_of_baseline;

#if defined(HALFULP_WITH_avx2) || defined(HALFULP_WITH_avx512)
[[gnu::constructor]] void choose() {
    const char* wanted = std::getenv("HALFULP_ISA");
    if (wanted != nullptr && std::strcmp(wanted, "scalar") == 0) return;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) powd = halfulp_fused_powd;
}
#endif

}  // namespace

}  // namespace one_element

[[gnu::noinline, gnu::cold]] float settled_power(float x, float y) {
    return one_element::power_of_one<Element::float32>(x, y);
}
[[gnu::noinline, gnu::cold]] double settled_power(double x, double y) {
    return one_element::power_of_one<Element::float64>(x, y);
}

}  // namespace halfulp

float halfulp_powf(float x, float y) {
    float power;
    if (halfulp::one_element::quick_power(x, y, power)) [[likely]]
        return power;
    return halfulp::settled_power(x, y);
}
double halfulp_powd(double x, double y) { return halfulp::one_element::powd(x, y); }
