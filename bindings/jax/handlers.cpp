#include "handlers.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>

#include "halfulp.h"

namespace halfulp::xla {

namespace {

using Function = decltype(halfulp_pow);

// XLA's numbers of element types.
constexpr halfulp_type type_of(int number) {
    switch (number) {
        case 2: return HALFULP_INT8;
        case 3: return HALFULP_INT16;
        case 4: return HALFULP_INT32;
        case 5: return HALFULP_INT64;
        case 6: return HALFULP_UINT8;
        case 7: return HALFULP_UINT16;
        case 8: return HALFULP_UINT32;
        case 9: return HALFULP_UINT64;
        case 10: return HALFULP_FLOAT16;
        case 11: return HALFULP_FLOAT32;
        case 12: return HALFULP_FLOAT64;
        case 16: return HALFULP_BFLOAT16;
        case 19: return HALFULP_FLOAT8_E5M2;
        case 20: return HALFULP_FLOAT8_E4M3FN;
        case 21: return HALFULP_INT4;
        case 22: return HALFULP_UINT4;
        case 23: return HALFULP_FLOAT8_E4M3B11FNUZ;
        case 24: return HALFULP_FLOAT8_E5M2FNUZ;
        case 25: return HALFULP_FLOAT8_E4M3FNUZ;
        case 28: return HALFULP_FLOAT8_E4M3;
        case 29: return HALFULP_FLOAT8_E3M4;
        case 32: return HALFULP_FLOAT4_E2M1FN;
        case 33: return HALFULP_FLOAT8_E8M0FNU;
        default: return -1;
    }
}

Error* error(const Api* api, ErrorCode code, const char* message) {
    ErrorArguments arguments{sizeof arguments, nullptr, message, code};
    return api->create_error(&arguments);
}

// The indices of a loop, which any number of threads take.
struct Loop {
    void (*work)(void* data, size_t index);
    void* data;
    size_t count;
    std::atomic<size_t> next{0}, done{0};

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
    const auto succeeded = [&call](Error* error) {
        DestroyArguments arguments{sizeof arguments, nullptr, error};
        if (error != nullptr) call.api->destroy_error(&arguments);
        return error == nullptr;
    };
    const auto loop = std::make_shared<Loop>(work, data, count);
    int64_t threads = 1;
    ThreadCountArguments of_count{sizeof of_count, nullptr, call.context, &threads};
    if (!succeeded(call.api->thread_count(&of_count))) threads = 1;
    for (size_t others = std::min(static_cast<size_t>(threads), count) - 1; others > 0; --others) {
        auto* shared = new (std::nothrow) std::shared_ptr<Loop>(loop);
        if (shared == nullptr) break;
        const auto task = [](void* data) {
            const std::unique_ptr<std::shared_ptr<Loop>> shared(static_cast<std::shared_ptr<Loop>*>(data));
            (*shared)->take();
        };
        ScheduleArguments arguments{sizeof arguments, nullptr, call.context, task, shared};
        if (succeeded(call.api->schedule(&arguments))) continue;
        delete shared;
        break;
    }
    loop->take();
    for (size_t done; (done = loop->done.load()) < count;) loop->done.wait(done);
    return 0;
}

// Answers the question for which version this handler is built: for any that it knows. XLA up to jaxlib 0.8 has the first
// of these versions, and does not say so here.
void answer(const Call& call, MetadataExtension::Metadata& metadata) {
    const int minor = call.api == nullptr ? first_minor_version : call.api->version.minor;
    metadata.version.major = major_version;
    metadata.version.minor = std::clamp(minor, first_minor_version, last_minor_version);
    metadata.traits = 0;
}

halfulp_array array_of(const Buffer& buffer) {
    static_assert(sizeof(ptrdiff_t) == sizeof(int64_t));
    return {buffer.data,
            type_of(buffer.type),
            static_cast<int32_t>(buffer.rank),
            reinterpret_cast<const ptrdiff_t*>(buffer.dims),
            nullptr,
            0};
}

Error* compute(Call* call, Function function, bool by_number) {
    for (Extension* extension = call->extensions; extension != nullptr; extension = extension->next)
        if (extension->type == Extension::metadata)
            return answer(*call, *reinterpret_cast<MetadataExtension*>(extension)->metadata), nullptr;
    const Version& version = call->api->version;
    if (version.major != major_version || version.minor < first_minor_version)
        return error(call->api, failed_precondition, "halfulp needs version 0.1 of XLA's foreign function interface");
    if (call->operands.count != 2 || call->results.count != 1)
        return error(call->api, invalid_argument, "halfulp: expected two operands and one result");
    static halfulp_memo* const memo = halfulp_memo_new();  // null if there is no memory: then nothing is kept
    halfulp_options options{};
    options.size = sizeof options;
    options.flags = HALFULP_NO_OVERLAP;
    options.parallel_for = parallel_for;
    options.parallel_context = call;
    options.memo = memo;
    const halfulp_array x = array_of(*call->operands.buffers[0]), out = array_of(*call->results.buffers[0]);
    halfulp_array y = array_of(*call->operands.buffers[1]);
    if (by_number) {
        auto* words = static_cast<uint32_t*>(y.data);
        y = {words + 1, static_cast<halfulp_type>(words[0]), 0, nullptr, nullptr, 0};
    }
    const halfulp_status status = function(&x, &y, &out, &options);
    if (status == HALFULP_OK) return nullptr;
    const ErrorCode code = status == HALFULP_NO_MEMORY ? resource_exhausted : invalid_argument;
    return error(call->api, code, halfulp_status_text(status));
}

}  // namespace

Error* pow(Call* call) { return compute(call, halfulp_pow, false); }
Error* prelu(Call* call) { return compute(call, halfulp_prelu, false); }
Error* pow_of_number(Call* call) { return compute(call, halfulp_pow, true); }

}  // namespace halfulp::xla
