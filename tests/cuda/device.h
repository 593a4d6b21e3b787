// A device that is a loop: what kernels are for it, and where a thread of theirs stands.
#pragma once

#include <cstdint>

struct Kernel {
    const char* name;  // null ends a table
    void (*run_thread)(void** parameters);
    int parameter_count;
    const unsigned* parameter_sizes;  // in bytes
};

struct Index {
    uint32_t x;
};
extern thread_local Index grid_dim, block_dim, block_index, thread_index;
