/* The powers of `halfulp doors` by a C program that knows nothing of halfulp. Their digests, of doubles and of floats:
 *
 *   cc digest.c -o digest -lm
 *   halfulp exec ./digest 64 | sha256sum | cut -c -16
 *   halfulp exec ./digest 32 | sha256sum | cut -c -16
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint32_t mix(uint32_t n) {
    n = (n ^ n >> 16) * 0x85ebca6b;
    n = (n ^ n >> 13) * 0xc2b2ae35;
    return n ^ n >> 16;
}

int main(int count, char** arguments) {
    const int wide = count < 2 || strcmp(arguments[1], "32") != 0;
    for (uint32_t i = 0; i < 500000; ++i) {
        const uint32_t a = mix(4 * i), b = mix(4 * i + 1), c = mix(4 * i + 2), d = mix(4 * i + 3);
        double x = (a + 1.0 + b / 0x1p32) / 0x1p26, y = (c + d / 0x1p32) / 0x1p28 - 8;
        if (i % 4 == 2) {
            x = 1 + (2 * (a & 127) + 1) * (wide ? 0x1p-52 : 0x1p-23);
            y = (b & (wide ? 127 : 3)) + 0.5;
        } else if (i % 4 == 3) {
            const uint32_t square = wide ? 0x6000001 + 2 * (a & 0xffffff) : 4097 + 2 * (a & 511);
            const uint32_t cube = wide ? 0x38001 + 2 * (a & 0x3fff) : 257 + 2 * (a & 31);
            x = (c & 1 ? cube : square) * (c >> 31 ? -1.0 : 1.0);
            y = 2 + (c & 1);
        }
        const double power = wide ? pow(x, y) : 0;
        const float short_power = wide ? 0 : powf((float)x, (float)y);
        if (wide) fwrite(&power, sizeof power, 1, stdout);
        else fwrite(&short_power, sizeof short_power, 1, stdout);
    }
    return 0;
}
