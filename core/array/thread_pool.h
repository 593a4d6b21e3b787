// A pool of threads that splits a loop over the cores; made at the first use, and again after a fork. Or another
// library's threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

namespace halfulp {

// HALFULP_NUM_THREADS, or the number of processors for the first calling thread (processors.h); at most 256. Both
// functions throw if the variable is set and is not a positive number.
int thread_count();
void check_thread_count();

// How many nanoseconds of work are worth calling other threads for. Waking one takes several thousand, where it does
// not wait in a loop.
double worth_calling_others();

// Calls work(0) .. work(count - 1), each once, on the calling thread and up to threads - 1 others. Each time that
// `interval` has passed, the other threads finish their shares and wait, and keep_going is called on the calling thread;
// false ends the loop. keep_going may fork the process: the child finishes the call alone. Returns whether all was done.
// While the pool is in use, by another thread or by the caller itself, the caller works alone. Neither function may throw.
bool parallel_for(ptrdiff_t count, int threads, std::chrono::nanoseconds interval,
                  const std::function<bool()>& keep_going, const std::function<void(ptrdiff_t)>& work);

// An OpenMP runtime of the process: its GOMP_parallel and omp_get_max_threads.
struct OpenMp {
    void (*parallel)(void (*body)(void*), void* data, unsigned threads, unsigned flags);
    int (*max_threads)();
};

// From now on parallel_for runs on its threads, and on no more than it would take itself: beside a library whose threads
// wait for work in a loop, others get no processor. A forked child, in which such a runtime may hang, has its own pool.
void share_threads_of(OpenMp runtime);

}  // namespace halfulp
