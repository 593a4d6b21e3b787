#include <algorithm>
#include <exception>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../cuda/arguments.h"
#include "../cuda/launch.h"
#include "call.h"
#include "handlers.h"

namespace halfulp::xla::on_cuda {

namespace {

struct ErrorOfXla {
    Error* error;
};

// XLA's own memory of the device for the time of a call. XLA reuses it only for work that it enqueues later.
class Scratch {
public:
    explicit Scratch(const Call& call) : call_(call) {}
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() {
        for (const auto& [data, bytes] : blocks_) {
            FreeArguments arguments{sizeof arguments, nullptr, call_.context, bytes, data};
            succeeded(call_, call_.api->free(&arguments));
        }
    }

    cuda::DevicePointer allocate(size_t bytes) {
        blocks_.reserve(blocks_.size() + 1);
        AllocateArguments arguments{sizeof arguments, nullptr, call_.context, bytes, cuda::undecided_at_once, nullptr};
        if (Error* error = call_.api->allocate(&arguments)) throw ErrorOfXla{error};
        blocks_.emplace_back(arguments.data, bytes);
        return reinterpret_cast<uintptr_t>(arguments.data);
    }

private:
    const Call& call_;
    std::vector<std::pair<void*, size_t>> blocks_;
};

void launch(const Call& call, bool prelu, const Array& x, const Array& y, const Array& out) {
    for (const Array* array : {&x, &y, &out})
        if (array->type == Element::count)
            throw std::invalid_argument("an operand has a type that halfulp does not have");
    if (out.type != x.type || (prelu && y.type != x.type)) throw std::invalid_argument("the operands' types differ");
    cuda::Operation operation;
    operation.prelu = prelu;
    operation.type = x.type;
    operation.y_type = y.type;
    const auto dims_of = [](const Array& array) { return std::span(array.dims, static_cast<size_t>(array.rank)); };
    operation.shape = cuda::shape_of(dims_of(out));
    const auto view_of = [&](const Array& array) {
        return cuda::view_of(array.data, dims_of(array), {}, row(array.type).size, operation.shape);
    };
    operation.x = view_of(x);
    operation.y = view_of(y);
    operation.out = view_of(out);
    if (std::ranges::count(dims_of(out), 0) > 0) return;  // an empty array has no address that tells the device
    StreamArguments of_stream{sizeof of_stream, nullptr, call.context, nullptr};
    if (Error* error = call.api->stream(&of_stream)) throw ErrorOfXla{error};
    Scratch scratch(call);
    cuda::launch(operation, cuda::device_of(reinterpret_cast<uintptr_t>(out.data)),
                 static_cast<cuda::Stream>(of_stream.stream), [&](size_t bytes) { return scratch.allocate(bytes); });
}

Error* compute(Call* call, bool prelu, bool by_number) {
    return handle(*call, by_number, [&](const Array& x, const Array& y, const Array& out) -> Error* {
        const auto failed = [&](ErrorCode code, const std::exception& exception) {
            return error(*call, code, (std::string("halfulp: ") + exception.what()).c_str());
        };
        try {
            launch(*call, prelu, x, y, out);
            return nullptr;
        } catch (const ErrorOfXla& thrown) { return thrown.error; } catch (const std::bad_alloc&) {
            return error(*call, resource_exhausted, "halfulp: no memory");
        } catch (const std::invalid_argument& exception) {
            return failed(invalid_argument, exception);
        } catch (const std::exception& exception) { return failed(internal, exception); }
    });
}

}  // namespace

Error* pow(Call* call) { return compute(call, false, false); }
Error* prelu(Call* call) { return compute(call, true, false); }
Error* pow_of_number(Call* call) { return compute(call, false, true); }

}  // namespace halfulp::xla::on_cuda
