// Releases the interpreter's lock within a scope.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <thread>

namespace halfulp {

// Acquires the lock again. If the interpreter is shutting down, the calling (daemon) thread never returns from here.
// Python does this itself from 3.14 on. Earlier versions end the thread, which on Linux unwinds its stack, through
// functions that must not throw: the process would abort. Therefore the unwinding is stopped here, at its first frame.
inline void take_interpreter(PyThreadState* state) {
    struct EndOfThread {
        bool is_unwinding = true;
        ~EndOfThread() {
            while (is_unwinding) std::this_thread::sleep_for(std::chrono::hours(1));
        }
    } end;
    PyEval_RestoreThread(state);
    end.is_unwinding = false;
}

// nanobind's own helper always acquires the main interpreter's lock, and must not be unwound.
class InterpreterReleased {
public:
    InterpreterReleased() : state_(PyEval_SaveThread()) {}
    ~InterpreterReleased() { take_interpreter(state_); }
    InterpreterReleased(const InterpreterReleased&) = delete;
    InterpreterReleased& operator=(const InterpreterReleased&) = delete;

    // Runs Python's signal handlers. Returns false if one raised.
    bool no_signal() {
        take_interpreter(state_);
        bool none = PyErr_CheckSignals() == 0;
        state_ = PyEval_SaveThread();
        return none;
    }

private:
    PyThreadState* state_;
};

}  // namespace halfulp
