#include "thread_pool.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "native_threads.h"
#include "processors.h"

namespace halfulp {

namespace {

constexpr int most_threads = 256;

// The runtime whose threads are shared; null if the pool has its own. The object that it points to is never freed or
// changed.
std::atomic<const OpenMp*> shared_runtime{nullptr};

class Pool;

// Null before the first use, and again in a forked child, where the pool's threads do not exist.
std::atomic<Pool*> the_pool{nullptr};

class Pool {
public:
    // Set while the pool serves a caller. It is not a mutex: keep_going may call parallel_for again on the same thread,
    // and a thread must not lock a mutex that it holds.
    std::atomic_flag in_use;

    bool run(ptrdiff_t count, int threads, std::chrono::nanoseconds interval, const std::function<bool()>& keep_going,
             const std::function<void(ptrdiff_t)>& work) {
        work_ = &work;
        count_ = count;
        next_.store(0, std::memory_order_relaxed);
        bool goes_on = true;
        while (goes_on && next_.load(std::memory_order_relaxed) < count_) {
            paused_.store(false, std::memory_order_relaxed);
            const auto take_some = [&, end = std::chrono::steady_clock::now() + interval] {
                while (take_chunk()) {
                    if (std::chrono::steady_clock::now() >= end) paused_.store(true, std::memory_order_relaxed);
                }
            };
            // After a fork in keep_going the child finishes the call alone. It must not lock the mutex, which a thread
            // of its parent may have held.
            if (the_pool.load() != this) take_some();
            else if (const OpenMp* runtime = shared_runtime.load()) run_shared(*runtime, threads, take_some);
            else run_own(threads, take_some);
            goes_on = next_.load(std::memory_order_relaxed) >= count_ || keep_going();
        }
        work_ = nullptr;
        return goes_on;
    }

private:
    // Both return when no other thread is working on the call.
    template <typename TakeSome>
    void run_shared(const OpenMp& runtime, int threads, const TakeSome& take_some) {
        struct Team {
            Pool* pool;
            const TakeSome* of_caller;
            std::thread::id caller;
        } team{this, &take_some, std::this_thread::get_id()};
        const auto body = [](void* data) {
            const Team& team = *static_cast<Team*>(data);
            if (std::this_thread::get_id() == team.caller) return (*team.of_caller)();
            while (team.pool->take_chunk()) {}
        };
        runtime.parallel(body, &team, static_cast<unsigned>(threads), 0);
    }

    template <typename TakeSome>
    void run_own(int threads, const TakeSome& take_some) {
        grow(threads - 1);
        const int others = std::min(threads - 1, workers_);
        {
            std::lock_guard lock(mutex_);
            wanted_ = others;
            ++round_;
        }
        if (others > 0) wake_.notify_all();
        take_some();
        std::unique_lock lock(mutex_);
        wanted_ = 0;  // workers that have not started yet are no longer needed
        idle_.wait(lock, [&] { return busy_ == 0; });
    }

    bool take_chunk() {
        if (paused_.load(std::memory_order_relaxed)) return false;
        ptrdiff_t chunk = next_.fetch_add(1, std::memory_order_relaxed);
        if (chunk >= count_) return false;
        (*work_)(chunk);
        return true;
    }

    void grow(int workers) {
        for (; workers_ < workers; ++workers_)
            if (!start_thread<&Pool::serve>(this)) return;  // continues with fewer threads
    }

    void serve() {
        uint64_t seen = 0;
        std::unique_lock lock(mutex_);
        for (;;) {
            wake_.wait(lock, [&] { return round_ != seen; });
            seen = round_;
            if (wanted_ == 0) continue;
            --wanted_;
            ++busy_;
            lock.unlock();
            while (take_chunk()) {}
            lock.lock();
            if (--busy_ == 0) idle_.notify_one();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_, idle_;
    const std::function<void(ptrdiff_t)>* work_ = nullptr;
    ptrdiff_t count_ = 0;
    std::atomic<ptrdiff_t> next_{0};
    std::atomic<bool> paused_{false};
    int workers_ = 0, wanted_ = 0, busy_ = 0;
    uint64_t round_ = 0;
};

// The pool is never destroyed, because its threads may outlive main. A forked child makes its own.
Pool& pool() {
    static std::once_flag registered;
    std::call_once(registered, [] {
        at_fork_in_child([] {
            the_pool.store(nullptr);
            shared_runtime.store(nullptr);
        });
    });
    Pool* current = the_pool.load();
    if (current == nullptr) {
        Pool* made = new Pool;
        if (the_pool.compare_exchange_strong(current, made)) current = made;
        else delete made;
    }
    return *current;
}

// Returns HALFULP_NUM_THREADS, or 0 if it is not set.
int wanted_threads() {
    const char* wanted = std::getenv("HALFULP_NUM_THREADS");
    if (wanted == nullptr || *wanted == '\0') return 0;
    const std::string text = wanted;
    const char* end = wanted + text.size();
    int number = 0;
    const auto [rest, error] = std::from_chars(wanted, end, number);
    if (rest == end && error == std::errc::result_out_of_range && *wanted != '-') return most_threads;
    if (rest != end || error != std::errc() || number < 1)
        throw std::runtime_error("HALFULP_NUM_THREADS=" + text + " is not a number of threads: expected 1 to " +
                                 std::to_string(most_threads) + ", or unset it for one thread per processor");
    return std::min(number, most_threads);
}

}  // namespace

int thread_count() {
    static const int count = [] {
        const int number = wanted_threads();
        return number > 0 ? number : std::min(processors(), most_threads);
    }();
    return count;
}

void check_thread_count() { wanted_threads(); }

double worth_calling_others() { return shared_runtime.load() != nullptr ? 30'000 : 160'000; }

void share_threads_of(OpenMp runtime) {
    pool();                                     // registers the handler of forks
    shared_runtime.store(new OpenMp(runtime));  // not freed: a call may still use the previous one
}

bool parallel_for(ptrdiff_t count, int threads, std::chrono::nanoseconds interval,
                  const std::function<bool()>& keep_going, const std::function<void(ptrdiff_t)>& work) {
    if (const OpenMp* runtime = shared_runtime.load()) threads = std::min(threads, runtime->max_threads());
    if (threads > 1) {
        Pool& shared = pool();
        if (!shared.in_use.test_and_set(std::memory_order_acquire)) {
            const bool all = shared.run(count, threads, interval, keep_going, work);
            shared.in_use.clear(std::memory_order_release);
            return all;
        }
    }
    auto asked = std::chrono::steady_clock::now();
    for (ptrdiff_t chunk = 0; chunk < count; ++chunk) {
        work(chunk);
        if (chunk + 1 == count || std::chrono::steady_clock::now() - asked < interval) continue;
        if (!keep_going()) return false;
        asked = std::chrono::steady_clock::now();
    }
    return true;
}

}  // namespace halfulp
