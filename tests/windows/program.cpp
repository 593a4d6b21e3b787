// What differs on Windows: threads, the count of processors, and a library that knows its path and is loaded by name.
//
//   program LIBRARY    fails with a line that says what is wrong
#include <windows.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <vector>

#include "array/processors.h"
#include "array/thread_pool.h"
#include "this_library.h"

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
    if (holds) return;
    std::printf("%s\n", what);
    ++failures;
}

// Two shares that end only together need two threads.
void check_threads() {
    std::vector<std::atomic<int>> calls(2);
    std::atomic<int> inside{0};
    const auto meet = [&](ptrdiff_t share) {
        ++calls[static_cast<size_t>(share)];
        ++inside;
        for (const ULONGLONG start = GetTickCount64(); inside < 2 && GetTickCount64() - start < 10'000;) Sleep(1);
    };
    const bool all = halfulp::parallel_for(2, 2, {}, [] { return true; }, meet);
    expect(all && calls[0] == 1 && calls[1] == 1, "a share was not done once");
    expect(inside == 2, "two threads did not work at a time");
    const bool stopped = !halfulp::parallel_for(1000, 2, {}, [] { return false; }, [](ptrdiff_t) {});
    expect(stopped, "a loop did not stop");
}

void check_processors() {
    DWORD_PTR bound = 0, all = 0;
    GetProcessAffinityMask(GetCurrentProcess(), &bound, &all);
    expect(halfulp::processors() == __builtin_popcountll(bound), "processors() is not the affinity's count");
    SetProcessAffinityMask(GetCurrentProcess(), 1);
    expect(halfulp::processors() == 1, "processors() is not 1 once bound to one");
    SetProcessAffinityMask(GetCurrentProcess(), bound);
}

void check_library(const char* path) {
    const HMODULE library = LoadLibraryA(path);
    expect(library != nullptr, "the library can't be loaded");
    expect(GetProcAddress(library, "RegisterCustomOps") != nullptr, "it does not export RegisterCustomOps");
    const std::string own = halfulp::path_of_this_library();
    expect(own.ends_with(".exe"), "a library's own path is wrong");
    halfulp::keep_this_library_loaded();
}

}  // namespace

int main(int, char** argv) {
    check_threads();
    check_processors();
    check_library(argv[1]);
    return failures;
}
