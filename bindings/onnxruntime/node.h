// A Pow or PRelu node of a session: its attributes and its computation.
#pragma once

#include <exception>
#include <string>

#include "../this_library.h"
#include "abi.h"
#include "array/operation.h"
#include "broadcast.h"
#include "dispatch.h"
#include "formats/element.h"

#ifdef _WIN32
#define HALFULP_EXPORTED __declspec(dllexport)
#else
#define HALFULP_EXPORTED [[gnu::visibility("default")]]
#endif

namespace halfulp::ort {

// Convert between element types and their numbers in the ONNX format: Element::count, or any_element, if there is none.
Element element_of(ElementNumber number);
ElementNumber number_of(Element element);

// An exception that holds a Status for the runtime.
struct Failure {
    Status* status;
};

// Throws a Status that is an error.
inline void check(Status* status) {
    if (status) throw Failure{status};
}

// Calls f and turns its exceptions into a Status.
template <typename F>
Status* guarded(const Api* api, F f) noexcept {
    try {
        f();
        return nullptr;
    } catch (const Failure& failure) { return failure.status; } catch (const std::exception& error) {
        return create_status(api, fail, error.what());
    }
}

// 20 of version 1.20.1.
uint32_t minor_version(const ApiBase* base);

// Calls f(api) for a function that ONNX Runtime has looked up in this library. The api is that of a version. Returns an
// error if the runtime is older than the oldest version that `what` needs.
template <typename F>
Status* entered(const ApiBase* base, const char* what, uint32_t oldest, uint32_t version, F f) noexcept {
    if (minor_version(base) < oldest) {
        const std::string message = std::string(what) + " needs ONNX Runtime 1." + std::to_string(oldest) +
                                    " or later; this is " + base->version();
        return create_status(base->get_api(1), fail, message.c_str());
    }
    const Api* api = base->get_api(version);
    return guarded(api, [&] {
        keep_this_library_loaded();
        chosen_kernels();  // an impossible HALFULP_ISA is an error here
        f(api);
    });
}

class Node {
public:
    // A custom operator: reads the attributes that the Python side has given the node. Throws Failure.
    Node(const Api* api, bool has_tensor_shape, Kernel kernel, Element type, const KernelInfo* info);
    // ONNX's own operator, as the document of its version says. Throws Failure, also if the shapes that the session
    // knows do not fit.
    Node(const Api* api, const Version& version, Element type, const KernelInfo* info);

    // Throw Failure, with the text of the Python side's SpecError, if the operands' shapes do not fit. On CUDA the
    // operands are in the device's memory, and the work is put into the call's stream.
    void compute(KernelContext* context) const;
    void compute_on_cuda(KernelContext* context) const;

private:
    struct Operand {
        Element type;
        Dims dims;
        void* data;
        int64_t stored_dims[max_dims];
    };
    // The operands and the output of a call, as views of the result's shape.
    struct Call {
        Operand x_operand, y_operand;
        Shape shape;
        View x, y, out;
    };

    void read_legacy_axis(const KernelInfo* info);
    [[noreturn]] void fail(ErrorCode code, const std::string& message) const;
    std::string text_attribute(const KernelInfo* info, const char* name) const;
    std::optional<int64_t> optional_int(const KernelInfo* info, const char* name) const;
    bool read_known(const KernelInfo* info, size_t index, Operand& operand) const;
    void read(const KernelContext* context, size_t index, Operand& operand) const;
    void read(const TensorInfo* info, Operand& operand, ElementNumber& number) const;
    // An error ends with way_out, lines that begin with a line break.
    Arrangement arranged(const Operand& x, const Operand& y, const char* way_out = "") const;
    void prepare(KernelContext* context, Call& call) const;
    [[noreturn]] void refuse(const Mismatch& mismatch, const Operand& x, const Operand& y, const char* way_out) const;
    View view(Element type, void* data, const Shape& shape, const int64_t* dims) const;

    const Api* api_;
    bool has_tensor_shape_;
    Kernel kernel_;
    Element type_;
    Rule rule_;
    LegacyAxis legacy_;
    std::string clauses_[static_cast<int>(Check::count)];
    mutable KeptTable table_;  // a model's exponent is most often constant
};

}  // namespace halfulp::ort
