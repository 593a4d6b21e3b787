// The path and lifetime of the shared library that contains this code.
#pragma once

#include <string>

namespace halfulp {

// Throws std::runtime_error if the loader does not know it.
std::string path_of_this_library();

// Keeps the library loaded until the process ends, even if it is unloaded.
void keep_this_library_loaded();

}  // namespace halfulp
