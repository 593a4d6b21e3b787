// Loads a vector from an address of any alignment.
#pragma once

#include <cstring>

#include "../formats/element.h"

namespace halfulp::HALFULP_ISA {

template <typename Vector>
HALFULP_INLINE Vector load_vector(const void* from) {
    Vector vector;
    std::memcpy(&vector, from, sizeof(vector));
    return vector;
}

}  // namespace halfulp::HALFULP_ISA
