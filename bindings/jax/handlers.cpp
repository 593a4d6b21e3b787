#include "handlers.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>

#include "call.h"
#include "halfulp.h"

namespace halfulp::xla {

namespace {

using Function = decltype(halfulp_pow);

// The indices of a loop, which any number of threads take.
struct Loop {
    void (*work)(void* data, size_t index);
    void* data;
    size_t count;
    std::atomic<size_t> next{0}, done{0};

    Loop(void (*work)(void* data, size_t index), void* data, size_t count) : work(work), data(data), count(count) {}

    void take() {
        for (size_t index; (index = next.fetch_add(1)) < count;) {
            work(data, index);
            if (done.fetch_add(1) + 1 == count) done.notify_all();
        }
    }
};

// Runs a loop on XLA's threads. The calling thread, which is one of them, takes part: it waits only for indices that
// others have taken. A task that starts later finds none left.
int parallel_for(void* context, void (*work)(void* data, size_t index), void* data, size_t count) {
    const Call& call = *static_cast<const Call*>(context);
    const auto loop = std::make_shared<Loop>(work, data, count);
    int64_t threads = 1;
    ThreadCountArguments of_count{sizeof of_count, nullptr, call.context, &threads};
    if (!succeeded(call, call.api->thread_count(&of_count))) threads = 1;
    for (size_t others = std::min(static_cast<size_t>(threads), count) - 1; others > 0; --others) {
        auto* shared = new (std::nothrow) std::shared_ptr<Loop>(loop);
        if (shared == nullptr) break;
        const auto task = [](void* data) {
            const std::unique_ptr<std::shared_ptr<Loop>> shared(static_cast<std::shared_ptr<Loop>*>(data));
            (*shared)->take();
        };
        ScheduleArguments arguments{sizeof arguments, nullptr, call.context, task, shared};
        if (succeeded(call, call.api->schedule(&arguments))) continue;
        delete shared;
        break;
    }
    loop->take();
    for (size_t done; (done = loop->done.load()) < count;) loop->done.wait(done);
    return 0;
}

halfulp_array array_of(const Array& array) {
    static_assert(sizeof(ptrdiff_t) == sizeof(int64_t));
    return {array.data,
            static_cast<halfulp_type>(array.type),
            static_cast<int32_t>(array.rank),
            reinterpret_cast<const ptrdiff_t*>(array.dims),
            nullptr,
            0};
}

Error* compute(Call* call, Function function, bool by_number) {
    return handle(*call, by_number, [&](const Array& of_x, const Array& of_y, const Array& of_out) -> Error* {
        static halfulp_memo* const memo = halfulp_memo_new();  // null if there is no memory: then nothing is kept
        halfulp_options options{};
        options.size = sizeof options;
        options.flags = HALFULP_NO_OVERLAP;
        options.parallel_for = parallel_for;
        options.parallel_context = call;
        options.memo = memo;
        const halfulp_array x = array_of(of_x), y = array_of(of_y), out = array_of(of_out);
        const halfulp_status status = function(&x, &y, &out, &options);
        if (status == HALFULP_OK) return nullptr;
        const ErrorCode code = status == HALFULP_NO_MEMORY ? resource_exhausted : invalid_argument;
        return error(*call, code, halfulp_status_text(status));
    });
}

}  // namespace

Error* pow(Call* call) { return compute(call, halfulp_pow, false); }
Error* prelu(Call* call) { return compute(call, halfulp_prelu, false); }
Error* pow_of_number(Call* call) { return compute(call, halfulp_pow, true); }

}  // namespace halfulp::xla
