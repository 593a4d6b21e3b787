// The library that this code is in, as the system's loader knows it.
#pragma once

#include <string>

namespace halfulp::ort {

// Throws std::runtime_error where the loader does not know it.
std::string path_of_this_library();

// From now on it stays loaded until the process ends, whoever unloads it.
void keep_this_library_loaded();

}  // namespace halfulp::ort
