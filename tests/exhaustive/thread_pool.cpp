// Calls parallel_for from several threads at once, with early stops and calls within calls, for the thread sanitizer to
// watch: threads ROUNDS. Shares count themselves without atomics, so that a share which two threads compute, or whose
// result the caller reads too early, is a race that the sanitizer sees.
#include "array/thread_pool.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

namespace {

using halfulp::parallel_for;

constexpr int callers = 4;

void expect(bool holds, const char* what) {
    if (holds) return;
    std::printf("error: %s\n", what);
    std::exit(1);
}

void nest() {
    std::vector<int> done(5);
    const bool all =
        parallel_for(5, 3, {}, [] { return true; }, [&](ptrdiff_t share) { ++done[static_cast<size_t>(share)]; });
    expect(all && done == std::vector<int>(5, 1), "a call within a call leaves shares out");
}

void call(unsigned seed, int rounds) {
    std::mt19937 random(seed);
    for (int round = 0; round < rounds; ++round) {
        const size_t count = random() % 40;
        const int threads = 1 + static_cast<int>(random() % 5);
        const unsigned patience = random() % 4 == 0 ? random() % 10 : 1000;
        const bool work_nests = random() % 8 == 0, question_nests = random() % 8 == 0;
        std::vector<int> done(count);
        unsigned asked = 0;
        bool refused = false;
        const bool all = parallel_for(
            static_cast<ptrdiff_t>(count), threads, std::chrono::microseconds(random() % 3),
            [&] {
                if (question_nests) nest();
                refused |= asked++ == patience;
                return !refused;
            },
            [&](ptrdiff_t share) {
                if (work_nests) nest();
                ++done[static_cast<size_t>(share)];
            });
        for (int times : done) expect(all ? times == 1 : times <= 1, "a share is left out, or computed twice");
        expect(all || refused, "a call ends early that nobody stopped");
        if (random() % 16 == 0) std::this_thread::yield();
    }
}

}  // namespace

int main(int, char** arguments) {
    const int rounds = std::atoi(arguments[1]);
    std::vector<std::thread> all;
    for (unsigned seed = 0; seed < callers; ++seed) all.emplace_back(call, seed, rounds);
    for (std::thread& thread : all) thread.join();
    std::printf("%d rounds of %d callers\n", rounds, callers);
}
