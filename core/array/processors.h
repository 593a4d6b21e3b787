// How many processors there are for this process.
#pragma once

#include <string>

namespace halfulp {

// As many as the calling thread is bound to (taskset) and as the control groups of the process allow, rounded up; where
// the system is not Linux, all there are. At least 1.
int processors();

// The least quota among the control groups that a file in the form of /proc/self/cgroup lists and their parents,
// rounded up to whole processors; 0 where there is none. The groups are folders under `root`: /sys/fs/cgroup.
int processors_of_groups(const std::string& list, const std::string& root);

}  // namespace halfulp
