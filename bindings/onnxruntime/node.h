// A Pow or PRelu node of a session: what it was created with, and its computation.
#pragma once

#include <string>

#include "abi.h"
#include "broadcast.h"
#include "formats/element.h"

namespace halfulp::ort {

enum class Kernel { pow, prelu };

// The number of an element type in the ONNX format; Element::count where none of ours has it.
Element element_of(ElementNumber number);
ElementNumber number_of(Element element);

// A Status on its way to the runtime.
struct Failure {
    Status* status;
};

class Node {
public:
    // Reads the node's attributes, which the Python side gives it. Throws Failure.
    Node(const Api* api, bool has_tensor_shape, Kernel kernel, Element type, const KernelInfo* info);

    // Throws Failure where the operands' shapes don't fit, with the text of the Python side's SpecError. On CUDA the
    // operands lie in the device's memory, and the work goes into the call's stream.
    void compute(KernelContext* context) const;
    void compute_on_cuda(KernelContext* context) const;

private:
    struct Operand {
        Element type;
        Dims dims;
        void* data;
        int64_t stored_dims[max_dims];
    };
    // A call's operands, and the output's memory, as views of the result's shape.
    struct Call {
        Operand x_operand, y_operand;
        Shape shape;
        View x, y, out;
    };

    void check(Status* status) const;
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
};

}  // namespace halfulp::ort
