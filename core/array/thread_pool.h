// A pool of threads that splits a loop over the cores; made at the first use, and again after a fork.
#pragma once

#include <cstddef>
#include <functional>

namespace halfulp {

// HALFULP_NUM_THREADS, or how many processors there are for the thread that asks first (processors.h); at most 256.
int thread_count();

// Calls work(0) .. work(count - 1), each once, on the calling thread and up to threads - 1 others. keep_going is
// asked on the calling thread between its shares; false ends the loop after the shares in progress. Returns whether all
// was done. While the pool is in use, by another thread or by the caller itself, the caller works alone. Neither
// function may throw.
bool parallel_for(ptrdiff_t count, int threads, const std::function<bool()>& keep_going,
                  const std::function<void(ptrdiff_t)>& work);

}  // namespace halfulp
