#include "dispatch.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace halfulp {

namespace {

const Kernels& choose() {
    std::vector<const Kernels*> sets = available_kernels();
    const char* wanted = std::getenv("HALFULP_ISA");
    if (wanted == nullptr || *wanted == '\0') return *sets.back();
    std::string names;
    for (const Kernels* set : sets) {
        if (set->name == std::string(wanted)) return *set;
        names += std::string(names.empty() ? "" : ", ") + set->name;
    }
    throw std::runtime_error("HALFULP_ISA=" + std::string(wanted) + " is not one of this processor's: " + names);
}

}  // namespace

std::vector<const Kernels*> available_kernels() {
    std::vector<const Kernels*> sets = {&scalar::kernels};
#ifndef HALFULP_SINGLE_ISA
    // Of the features of x86-64-v3 and v4 those that compilers old and new know; a processor that has these
    // has the others too.
    __builtin_cpu_init();
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2");
    const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
    if (v3) sets.push_back(&avx2::kernels);
    if (v4) sets.push_back(&avx512::kernels);
#endif
    return sets;
}

const Kernels& chosen_kernels() {
    static const Kernels& chosen = choose();
    return chosen;
}

}  // namespace halfulp
