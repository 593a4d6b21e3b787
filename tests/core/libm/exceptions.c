/* Prints result, exceptions and errno of pow and powf, for special operands and at the edges of the range. */
#include <errno.h>
#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define COUNT 30
static const double values[COUNT] = {0.0,     -0.0,    1,      -1,   INFINITY, -INFINITY, NAN,  2,      -2,    3,
                                     -3,      0.5,     -0.5,   1.5,  0.25,     1e30,      -1e30, 1e-30, 1e300, -1e300,
                                     1e-300,  0x1p127, 127,    1023, -1022,    -1074.5,   -149,  1e10,  27,    1 / 3.0};

static const char* raised(void) {
    static char text[6];
    const int flags = fetestexcept(FE_ALL_EXCEPT);
    const int kinds[] = {FE_INVALID, FE_DIVBYZERO, FE_OVERFLOW, FE_UNDERFLOW, FE_INEXACT};
    for (int i = 0; i < 5; i++) text[i] = flags & kinds[i] ? "VZOUX"[i] : '-';
    return text;
}

int main(void) {
    double (*volatile power)(double, double) = pow;
    float (*volatile powerf)(float, float) = powf;
    for (int i = 0; i < COUNT; i++) {
        for (int j = 0; j < COUNT; j++) {
            const float x = (float)values[i], y = (float)values[j];
            uint64_t bits;
            uint32_t short_bits;
            feclearexcept(FE_ALL_EXCEPT), errno = 0;
            const double z = power(values[i], values[j]);
            memcpy(&bits, &z, 8);
            printf("%a %a = %016lx %s %d\n", values[i], values[j], (unsigned long)bits, raised(), errno);
            feclearexcept(FE_ALL_EXCEPT), errno = 0;
            const float zf = powerf(x, y);
            memcpy(&short_bits, &zf, 4);
            printf("f %a %a = %08x %s %d\n", x, y, short_bits, raised(), errno);
        }
    }
    return 0;
}
