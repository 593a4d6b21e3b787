#include "thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "native_threads.h"
#include "processors.h"

namespace halfulp {

namespace {

std::atomic<bool> shares_threads{false};
OpenMp shared_runtime{};

class Pool {
public:
    // Set by the one caller that the pool serves. No mutex: that caller may come here again, from keep_going, and a
    // thread must not try a mutex that it holds.
    std::atomic_flag in_use;

    bool run(ptrdiff_t count, int threads, const std::function<bool()>& keep_going,
             const std::function<void(ptrdiff_t)>& work) {
        work_ = &work;
        count_ = count;
        next_.store(0, std::memory_order_relaxed);
        stopped_.store(false, std::memory_order_relaxed);
        const auto take_all = [&] {
            while (take_share()) {
                if (!keep_going()) stopped_.store(true, std::memory_order_relaxed);
            }
        };
        if (shares_threads) {
            run_shared(threads, take_all);
        } else {
            run_own(threads, take_all);
        }
        work_ = nullptr;
        return !stopped_.load(std::memory_order_relaxed);
    }

private:
    template <typename TakeAll>
    void run_shared(int threads, const TakeAll& take_all) {
        struct Team {
            Pool* pool;
            const TakeAll* of_caller;
            std::thread::id caller;
        } team{this, &take_all, std::this_thread::get_id()};
        const auto body = [](void* data) {
            const Team& team = *static_cast<Team*>(data);
            if (std::this_thread::get_id() == team.caller) return (*team.of_caller)();
            while (team.pool->take_share()) {}
        };
        shared_runtime.parallel(body, &team, static_cast<unsigned>(threads), 0);
    }

    template <typename TakeAll>
    void run_own(int threads, const TakeAll& take_all) {
        grow(threads - 1);
        const int others = std::min(threads - 1, workers_);
        {
            std::lock_guard lock(mutex_);
            wanted_ = others;
            ++round_;
        }
        if (others > 0) wake_.notify_all();
        take_all();
        std::unique_lock lock(mutex_);
        wanted_ = 0;  // who has not come yet need not
        idle_.wait(lock, [&] { return busy_ == 0; });
    }

    bool take_share() {
        if (stopped_.load(std::memory_order_relaxed)) return false;
        ptrdiff_t share = next_.fetch_add(1, std::memory_order_relaxed);
        if (share >= count_) return false;
        (*work_)(share);
        return true;
    }

    void grow(int workers) {
        for (; workers_ < workers; ++workers_)
            if (!start_thread<&Pool::serve>(this)) return;  // fewer do the work
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
            while (take_share()) {}
            lock.lock();
            if (--busy_ == 0) idle_.notify_one();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_, idle_;
    const std::function<void(ptrdiff_t)>* work_ = nullptr;
    ptrdiff_t count_ = 0;
    std::atomic<ptrdiff_t> next_{0};
    std::atomic<bool> stopped_{false};
    int workers_ = 0, wanted_ = 0, busy_ = 0;
    uint64_t round_ = 0;
};

std::atomic<Pool*> the_pool{nullptr};

// Never destroyed: its threads may outlive main. A forked child has none of them, so it forgets the pool and makes
// its own.
Pool& pool() {
    static std::once_flag registered;
    std::call_once(registered, [] {
        at_fork_in_child([] {
            the_pool.store(nullptr);
            shares_threads = false;
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

}  // namespace

int thread_count() {
    static const int count = [] {
        const char* wanted = std::getenv("HALFULP_NUM_THREADS");
        int number = wanted ? std::atoi(wanted) : 0;
        if (number <= 0) number = processors();
        return std::clamp(number, 1, 256);
    }();
    return count;
}

double worth_calling_others() { return shares_threads ? 10'000 : 60'000; }

void share_threads_of(OpenMp runtime) {
    pool();  // registers what a fork does
    shared_runtime = runtime;
    shares_threads = true;
}

bool parallel_for(ptrdiff_t count, int threads, const std::function<bool()>& keep_going,
                  const std::function<void(ptrdiff_t)>& work) {
    if (shares_threads) threads = std::min(threads, shared_runtime.max_threads());
    if (threads > 1) {
        Pool& shared = pool();
        if (!shared.in_use.test_and_set(std::memory_order_acquire)) {
            const bool all = shared.run(count, threads, keep_going, work);
            shared.in_use.clear(std::memory_order_release);
            return all;
        }
    }
    for (ptrdiff_t share = 0; share < count; ++share) {
        work(share);
        if (share + 1 < count && !keep_going()) return false;
    }
    return true;
}

}  // namespace halfulp
