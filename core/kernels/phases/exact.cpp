#include "exact.h"

#include "../../numerics/pow.h"

namespace halfulp::HALFULP_ISA {

std::atomic<uint64_t> undecided{0};

static uint64_t counted(const Decision<uint64_t>& power) {
    if (!power.decided) undecided.fetch_add(1, std::memory_order_relaxed);
    return power.result;
}

uint64_t exact_encoding(const ElementRow& type, Dyadic x, bool y_negative, Dyadic y) {
    return counted(pow_exact(type, x, y_negative, y));
}

uint64_t exact_floor(Dyadic x, bool y_negative, Dyadic y) { return counted(pow_floor(x, y_negative, y)); }

#ifdef __AVX512F__
uint32_t pow_of_one_float(uint32_t x, uint32_t y, bool domain_error) {
    return pow<Element::float32, Element::float32>(x, y, domain_error);
}
#endif

}  // namespace halfulp::HALFULP_ISA
