// The number of processors that this process may use.
#pragma once

#include <string>

namespace halfulp {

// Returns the number of processors that the calling thread is bound to (taskset) and that the control groups of the
// process allow, rounded up. If the system is not Linux, returns the number of all processors. At least 1.
int processors();

// Returns the smallest quota, rounded up to whole processors, of the control groups in `list` (a file such as
// /proc/self/cgroup) and their parents, or 0 if they have no quota. The groups are folders under `root`, such as
// /sys/fs/cgroup.
int processors_of_groups(const std::string& list, const std::string& root);

}  // namespace halfulp
