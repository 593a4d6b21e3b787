// An output stored past the caches: a store to what is too large to stay in them would read its old content first.
// Whole cache lines only, since parts of one cost more than they save: what a call leaves of its last line waits for the
// next call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "dispatch.h"

namespace halfulp {

// The most bytes between `room` and `written`: few enough to go out while the next ones are read.
inline constexpr ptrdiff_t streamed_size = 2048;

class StreamedOutput {
public:
    ~StreamedOutput() {
        if (line_ == nullptr) return;
        flush();
#ifdef __SSE2__
        _mm_sfence();  // no lock orders such stores
#endif
    }

    // Where to put what is to go to `target`: aligned as that is.
    char* room(char* target) {
        if (target != line_ + end_) {
            flush();
            begin_ = end_ = reinterpret_cast<uintptr_t>(target) % line_size;
            line_ = target - end_;
        }
        return buffer_ + end_;
    }

    void written(size_t bytes) {
        end_ += bytes;
        size_t whole = end_ - end_ % line_size, from = 0;
        if (whole == 0) return;
        if (begin_ > 0) {
            from = line_size;
            std::memcpy(line_ + begin_, buffer_ + begin_, from - begin_);
        }
        chosen_kernels().stream(line_ + from, buffer_ + from, whole - from);
        line_ += whole;
        begin_ = 0;
        end_ -= whole;
        std::memcpy(buffer_, buffer_ + whole, end_);
    }

private:
    static constexpr size_t line_size = 64;

    void flush() {
        if (end_ > begin_) std::memcpy(line_ + begin_, buffer_ + begin_, end_ - begin_);
    }

    char* line_ = nullptr;        // where in memory the buffer's first line goes
    size_t begin_ = 0, end_ = 0;  // what the buffer holds
    alignas(line_size) char buffer_[streamed_size + 2 * line_size];
};

}  // namespace halfulp
