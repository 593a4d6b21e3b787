/* The powers of the pairs of doubles in its input: what any program does. */
#include <math.h>
#include <stdio.h>

int main(void) {
    double x, y;
    while (scanf("%lf %lf", &x, &y) == 2) printf("%.17g\n", pow(x, y));
    return 0;
}
