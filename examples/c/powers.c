/* Powers of floats by one double, each rounded once: cc powers.c $(python -m halfulp --cflags --libs) */
#include <halfulp.h>
#include <stdio.h>

int main(void) {
    float x[4] = {0.1f, 2, 3, 10}, z[4];
    double y = 2.5;
    halfulp_array of_x = {x, HALFULP_FLOAT32, 1, (const ptrdiff_t[]){4}, NULL, 0};
    halfulp_array of_y = {&y, HALFULP_FLOAT64, 0, NULL, NULL, 0};
    halfulp_array of_z = {z, HALFULP_FLOAT32, 1, (const ptrdiff_t[]){4}, NULL, 0};
    halfulp_status status = halfulp_pow(&of_x, &of_y, &of_z, NULL);
    if (status != HALFULP_OK) return puts(halfulp_status_text(status)), 1;
    for (int i = 0; i < 4; ++i) printf("%.9g\n", z[i]);
}
