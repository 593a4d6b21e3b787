// core_check: prints a digest of the kernels' results for every pair of types, for comparing instruction sets and
// machines; fails where the sets of this one differ. It needs no Python, so it cross-compiles.
//
//   core_check [ELEMENTS]     so many operand pairs for each pair of types, in place of 1024
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "dispatch.h"
#include "fp_environment.h"

namespace {

using namespace halfulp;

// Splitmix64: the same operands everywhere.
uint64_t next(uint64_t& state) {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

// Encodings of all kinds: any bits, near one, with short significands, small integers.
uint64_t operand(const ElementRow& type, uint64_t& state) {
    uint64_t random = next(state), kind = next(state) % 4;
    uint64_t mask = type.bits == 64 ? ~uint64_t{0} : (uint64_t{1} << type.bits) - 1;
    if (!type.is_float) return (kind == 0 ? random : random % 16 - 4) & mask;
    int fraction = type.fraction_bits();
    uint64_t one = static_cast<uint64_t>(type.bias) << fraction, sign = random & type.sign();
    if (kind == 0) return random & mask;
    if (kind == 1) return ((one + random % 64 - 32) | sign) & mask;
    int dropped = static_cast<int>(random % static_cast<uint64_t>(fraction + 1));
    uint64_t near = one + (next(state) % (uint64_t{8} << fraction)) - (uint64_t{3} << fraction);
    return ((near >> dropped << dropped) | sign) & mask;
}

void fill(const ElementRow& type, char* data, int n, uint64_t& state) {
    for (int i = 0; i < n; ++i) {
        uint64_t encoding = operand(type, state);
        std::memcpy(data + i * type.size, &encoding, static_cast<size_t>(type.size));  // little-endian
    }
}

uint64_t digest(uint64_t so_far, const char* data, int bytes) {
    for (int i = 0; i < bytes; ++i) so_far = (so_far ^ static_cast<unsigned char>(data[i])) * 0x100000001b3;
    return so_far;
}

struct Case {
    const char* name;
    bool prelu;
    PowOptions options;
};

uint64_t run(const Kernels& kernels, const Case& what, Element type, Element y_type, int elements) {
    alignas(64) char x[8 * tile_size], y[8 * tile_size], out[8 * tile_size];
    uint64_t state = static_cast<uint64_t>(type) * element_count + static_cast<uint64_t>(y_type),
             sum = 0xcbf29ce484222325;
    for (int done = 0; done < elements; done += tile_size) {
        int n = elements - done < tile_size ? elements - done : tile_size;
        fill(row(type), x, n, state);
        fill(row(y_type), y, n, state);
        if (what.prelu) kernels.prelu(type, x, y, out, n);
        else kernels.pow(what.options, type, y_type, x, y, out, n);
        sum = digest(sum, out, n * row(type).size);
    }
    return sum;
}

}  // namespace

int main(int argc, char** argv) {
    int elements = argc > 1 ? std::atoi(argv[1]) : 1024;
    FpEnvironment default_environment;
    const Case cases[] = {
        {"pow", false, {}},
        {"pow, domain error", false, {.domain_error = true}},
        {"pow, scale and bias", false, {.domain_error = true, .scale_bias = true, .scale = 1.7f, .bias = -0.3f}},
        {"prelu", true, {}},
    };
    bool all_agree = true;
    for (const Case& what : cases) {
        for (int t = 0; t < element_count; ++t) {
            for (int u = 0; u < element_count; ++u) {
                if (what.prelu && t != u) continue;
                Element type = static_cast<Element>(t), y_type = static_cast<Element>(u);
                uint64_t first = run(scalar::kernels, what, type, y_type, elements);
                std::printf("%s %s %s %016llx\n", what.name, row(type).name, row(y_type).name,
                            static_cast<unsigned long long>(first));
                for (const Kernels* set : available_kernels()) {
                    if (run(*set, what, type, y_type, elements) == first) continue;
                    std::printf("  %s differs\n", set->name);
                    all_agree = false;
                }
            }
        }
    }
    return all_agree ? 0 : 1;
}
