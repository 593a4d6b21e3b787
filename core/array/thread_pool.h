// Runs a loop on several threads: those of a pool, which is made on first use and again after a fork, or those of
// another library.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

namespace halfulp {

// Returns HALFULP_NUM_THREADS, or the number of processors that the first caller may use (processors.h); at most 256.
// Both functions throw if the variable is set and is not a positive number.
int thread_count();
void check_thread_count();

// The amount of work, in nanoseconds, from which on it pays to call other threads. To wake them took the caller 8,000
// nanoseconds, which are lost if no processor is idle: at most 5 %. Threads that spin while idle take fewer.
double worth_calling_others();

// Calls work(0) .. work(count - 1), each once, on the calling thread and up to threads - 1 others. Each time that
// `interval` has passed, the other threads finish their chunks and wait, and keep_going is called on the calling
// thread. If it returns false, the loop ends. keep_going may fork the process: the child finishes the call alone.
// Returns whether all of the work was done. While the pool is serving another caller, or this one (from keep_going),
// the caller works alone. Neither function may throw.
bool parallel_for(ptrdiff_t count, int threads, std::chrono::nanoseconds interval,
                  const std::function<bool()>& keep_going, const std::function<void(ptrdiff_t)>& work);

// The functions of an OpenMP runtime in this process: GOMP_parallel and omp_get_max_threads.
struct OpenMp {
    void (*parallel)(void (*body)(void*), void* data, unsigned threads, unsigned flags);
    int (*max_threads)();
};

// From now on parallel_for runs on this runtime's threads, and on at most as many as the runtime itself would use. If
// another library's threads spin while idle, the pool's own would get no CPU time. A forked child, in which such a
// runtime may hang, has its own pool.
void share_threads_of(OpenMp runtime);

}  // namespace halfulp
