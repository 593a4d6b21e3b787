// A pool of threads that splits a loop over the cores; made at the first use, and again after a fork. Or another
// library's threads.
#pragma once

#include <cstddef>
#include <functional>

namespace halfulp {

// HALFULP_NUM_THREADS, or how many processors there are for the thread that asks first (processors.h); at most 256.
int thread_count();

// How many nanoseconds of work are worth calling other threads for. Waking one takes several thousand, where it does
// not wait in a loop.
double worth_calling_others();

// Calls work(0) .. work(count - 1), each once, on the calling thread and up to threads - 1 others. keep_going is
// asked on the calling thread between its shares; false ends the loop after the shares in progress. Returns whether all
// was done. While the pool is in use, by another thread or by the caller itself, the caller works alone. Neither
// function may throw.
bool parallel_for(ptrdiff_t count, int threads, const std::function<bool()>& keep_going,
                  const std::function<void(ptrdiff_t)>& work);

// An OpenMP runtime of the process: its GOMP_parallel and omp_get_max_threads.
struct OpenMp {
    void (*parallel)(void (*body)(void*), void* data, unsigned threads, unsigned flags);
    int (*max_threads)();
};

// From now on parallel_for runs on its threads, and on no more than it would take itself: beside a library whose threads
// wait for work in a loop, others get no processor. A forked child, in which such a runtime may hang, has its own pool.
void share_threads_of(OpenMp runtime);

}  // namespace halfulp
