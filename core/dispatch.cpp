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
    throw std::runtime_error("HALFULP_ISA=" + std::string(wanted) + ": this processor has only " + names);
}

}  // namespace

std::vector<const Kernels*> available_kernels() {
    std::vector<const Kernels*> sets;
#ifdef HALFULP_WITH_scalar
    sets.push_back(&scalar::kernels);
#endif
#if defined(HALFULP_WITH_avx2) || defined(HALFULP_WITH_avx512)
    // The features of x86-64-v3 and v4 that both old and new compilers know. A processor with these has the others too.
    __builtin_cpu_init();
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2");
#ifdef HALFULP_WITH_avx2
    if (v3) sets.push_back(&avx2::kernels);
#endif
#ifdef HALFULP_AVX512_MODEL
    if (v3) sets.push_back(&avx512::kernels);
#elif defined(HALFULP_WITH_avx512)
    if (v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        sets.push_back(&avx512::kernels);
#endif
    if (sets.empty())
        throw std::runtime_error(
            "halfulp was built with HALFULP_ISA=native for another processor: install it again here");
#endif
    return sets;
}

const Kernels& chosen_kernels() {
    static const Kernels& chosen = choose();
    return chosen;
}

}  // namespace halfulp
