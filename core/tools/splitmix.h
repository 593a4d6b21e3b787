// Splitmix64, for the programs that check the core: random bits that are the same everywhere.
#pragma once

#include <cstdint>

namespace halfulp {

inline uint64_t next(uint64_t& state) {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

}  // namespace halfulp
