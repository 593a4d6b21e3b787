#include "this_library.h"

#include <stdexcept>

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace halfulp {

#ifdef _WIN32

namespace {

HMODULE this_library(DWORD flags) {
    HMODULE library = nullptr;
    const auto here = reinterpret_cast<LPCSTR>(&keep_this_library_loaded);
    if (!GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | flags, here, &library))
        throw std::runtime_error("the library has no path");
    return library;
}

}  // namespace

std::string path_of_this_library() {
    // The maximum length of a path; a longer one is truncated.
    std::string path(32768, '\0');
    const HMODULE library = this_library(GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT);
    path.resize(GetModuleFileNameA(library, path.data(), static_cast<DWORD>(path.size())));
    return path;
}

void keep_this_library_loaded() { this_library(GET_MODULE_HANDLE_EX_FLAG_PIN); }

#else

std::string path_of_this_library() {
    Dl_info here;
    if (dladdr(reinterpret_cast<void*>(&keep_this_library_loaded), &here) == 0)
        throw std::runtime_error("the library has no path");
    return here.dli_fname;
}

void keep_this_library_loaded() {
    // The handle is never closed. NODELETE, because musl and some others do not count handles.
    if (dlopen(path_of_this_library().c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) == nullptr)
        throw std::runtime_error("cannot keep the library loaded");
}

#endif

}  // namespace halfulp
