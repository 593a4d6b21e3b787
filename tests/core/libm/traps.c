/* Powers with traps enabled, as gfortran's -ffpe-trap enables them. */
#define _GNU_SOURCE
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

static sigjmp_buf place;
static void on_signal(int number) { siglongjmp(place, number); }

int main(void) {
    const int kinds = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW;
    const double x[] = {1.5, 1e-300, 3, 0, -8, 1e300, 1e-300}, y[] = {2.7, .3, 40, -1, .3, 3, 3};
    signal(SIGFPE, on_signal);
    feenableexcept(kinds);
    for (volatile int i = 0; i < 7; i++) {
        if (!sigsetjmp(place, 1)) {
            printf("%g ", pow(x[i], y[i]));
        } else {
            printf("trap ");
            feclearexcept(FE_ALL_EXCEPT);
            feenableexcept(kinds);
        }
    }
    puts("");
    return 0;
}
