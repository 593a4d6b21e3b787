// The system's threads. std::thread throws if there is no memory for a thread, and has no handlers of forks.
#pragma once

#ifdef _WIN32
#include <process.h>
#include <windows.h>
#else
#include <pthread.h>
#endif

namespace halfulp {

// Starts a detached thread that calls (object->*f)(). Returns whether it was started.
template <auto f, typename T>
bool start_thread(T* object) {
#ifdef _WIN32
    const auto start = [](void* self) -> unsigned { return (static_cast<T*>(self)->*f)(), 0; };
    const auto thread = reinterpret_cast<HANDLE>(_beginthreadex(nullptr, 0, start, object, 0, nullptr));
    if (thread == nullptr) return false;
    CloseHandle(thread);
#else
    const auto start = [](void* self) -> void* { return (static_cast<T*>(self)->*f)(), nullptr; };
    pthread_t thread;
    if (pthread_create(&thread, nullptr, start, object) != 0) return false;
    pthread_detach(thread);
#endif
    return true;
}

// f is called in every child that the process forks. Windows has no fork.
inline void at_fork_in_child([[maybe_unused]] void (*f)()) {
#ifndef _WIN32
    pthread_atfork(nullptr, nullptr, f);
#endif
}

}  // namespace halfulp
