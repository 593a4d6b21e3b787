#include "dispatch.h"

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace halfulp {

namespace {

// Best last.
std::vector<const Kernels*> available() {
    std::vector<const Kernels*> sets = {&scalar::kernels};
#ifndef HALFULP_SINGLE_ISA
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v3")) sets.push_back(&avx2::kernels);
    if (__builtin_cpu_supports("x86-64-v4")) sets.push_back(&avx512::kernels);
#endif
    return sets;
}

const Kernels& choose() {
    std::vector<const Kernels*> sets = available();
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

const Kernels& chosen_kernels() {
    static const Kernels& chosen = choose();
    return chosen;
}

}  // namespace halfulp
