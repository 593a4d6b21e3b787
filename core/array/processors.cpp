#include "processors.h"

#if defined(__linux__)
#include <sched.h>
#elif defined(_WIN32)
#include <windows.h>
#endif

#include <algorithm>
#include <bit>
#include <fstream>
#include <sstream>
#include <thread>

namespace halfulp {

namespace {

// Returns the number of processors that a folder's quota allows; 0 if it has no quota or a malformed one.
int quota_in(const std::string& folder) {
    long long quota = 0, period = 0;
    // Version 2 has both numbers in one file, the first of them "max" where there is no limit. Version 1 has two files,
    // and -1 for no limit.
    if (std::ifstream both(folder + "/cpu.max"); both) {
        both >> quota >> period;
    } else {
        std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
        std::ifstream(folder + "/cpu.cfs_period_us") >> period;
    }
    if (quota <= 0 || period <= 0) return 0;
    return static_cast<int>(std::min((quota - 1) / period + 1, 1LL << 16));
}

bool names_cpu(const std::string& controllers) { return ("," + controllers + ",").find(",cpu,") != std::string::npos; }

}  // namespace

int processors_of_groups(const std::string& list, const std::string& root) {
    int least = 0;
    const auto look_at = [&](const std::string& folder) {
        if (int count = quota_in(folder); count > 0) least = least > 0 ? std::min(least, count) : count;
    };
    std::ifstream lines(list);
    std::string number, controllers, path;
    // number:controllers:path; version 2 has no controllers there, version 1 a tree for each of them.
    while (std::getline(lines, number, ':') && std::getline(lines, controllers, ':') && std::getline(lines, path)) {
        if ((!controllers.empty() && !names_cpu(controllers)) || path.rfind('/', 0) != 0) continue;
        const std::string tree = controllers.empty() ? root : root + "/cpu";
        // In a container the path may be one of the host's. A missing folder sets no limit.
        for (; path.size() > 1; path.resize(path.rfind('/'))) look_at(tree + path);
        look_at(tree);
    }
    return least;
}

int processors() {
    int count = static_cast<int>(std::thread::hardware_concurrency());
#if defined(__linux__)
    cpu_set_t bound;
    if (sched_getaffinity(0, sizeof bound, &bound) == 0) count = CPU_COUNT(&bound);
    if (int allowed = processors_of_groups("/proc/self/cgroup", "/sys/fs/cgroup"); allowed > 0)
        count = std::min(count, allowed);
#elif defined(_WIN32)
    DWORD_PTR bound = 0, all = 0;
    if (GetProcessAffinityMask(GetCurrentProcess(), &bound, &all) && bound != 0) count = std::popcount(bound);
#endif
    return std::max(count, 1);
}

}  // namespace halfulp
