// program FUNCTION CALLS: computes the powers of 2048 pairs CALLS times, by the kernels (float32, float64) or by the C
// library (powf, pow).
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "kernels/kernels.h"

using namespace halfulp;

int main(int, char** arguments) {
    constexpr int n = 2048;
    static float x[n], y[n], out[n];
    static double x_wide[n], y_wide[n], out_wide[n];
    unsigned state = 1;
    const auto random = [&] { return ((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-24; };
    for (int i = 0; i < n; ++i) {
        x_wide[i] = 0.01 + 9.99 * random() + 0x1p-24 * random();
        y_wide[i] = 8 * random() - 4 + 0x1p-24 * random();
        x[i] = static_cast<float>(x_wide[i]);
        y[i] = static_cast<float>(y_wide[i]);
    }
    const std::string_view function = arguments[1];
    const auto by_kernel = [&](Element type, const void* bases, const void* exponents, void* powers) {
        scalar::kernels.pow({}, type, type, bases, exponents, powers, n, false);
    };
    double sum = 0;
    for (int call = 0; call < std::atoi(arguments[2]); ++call) {
        if (function == "float32") by_kernel(Element::float32, x, y, out);
        if (function == "float64") by_kernel(Element::float64, x_wide, y_wide, out_wide);
        if (function == "powf")
            for (int i = 0; i < n; ++i) out[i] = std::pow(x[i], y[i]);
        if (function == "pow")
            for (int i = 0; i < n; ++i) out_wide[i] = std::pow(x_wide[i], y_wide[i]);
        sum += out[0] + out_wide[0];
    }
    std::printf("%g\n", sum);
}
