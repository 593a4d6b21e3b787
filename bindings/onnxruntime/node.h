// A Pow or PRelu node of a session: its attributes and its computation.
#pragma once

#include <exception>
#include <string>

#include "abi.h"
#include "array/operation.h"
#include "broadcast.h"
#include "formats/element.h"

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
int minor_version(const ApiBase* base);

class Node {
public:
    // A custom operator: reads the attributes that the Python side has given the node. Throws Failure.
    Node(const Api* api, bool has_tensor_shape, Kernel kernel, Element type, const KernelInfo* info);
    // ONNX's own operator, as the document of its version says. Throws Failure.
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
    void read(const KernelContext* context, size_t index, Operand& operand) const;
    void prepare(KernelContext* context, Call& call) const;
    [[noreturn]] void refuse(const Mismatch& mismatch, const Operand& x, const Operand& y) const;
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
