// halfulp's Power and PReLU of f32, f16 and bf16 as operators of OpenVINO in C++, so that no node calls into Python.
// __init__.py compiles this file against the installed OpenVINO. The types and attributes are those of _Operator, so that
// either implementation reads a model that the other has written.

#include <halfulp.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <array>
#include <openvino/core/extension.hpp>
#include <openvino/core/op_extension.hpp>
#include <openvino/op/op.hpp>
#include <string>

namespace {

template <typename To, typename From>
void convert(const ov::Tensor& from, ov::Tensor& to) {
    const auto* values = from.data<From>();
    std::transform(values, values + from.get_size(), to.data<To>(), [](From value) { return static_cast<To>(value); });
}

// Returns a tensor in its declared type. The plugin may hold one of f16 or bf16 in f32, which has all their values.
ov::Tensor declared(const ov::Tensor& held, const ov::element::Type& type) {
    if (held.get_element_type() == type) return held;
    ov::Tensor tensor(type, held.get_shape());
    type == ov::element::f16 ? convert<ov::float16, float>(held, tensor) : convert<ov::bfloat16, float>(held, tensor);
    return tensor;
}

class Operator : public ov::op::Op {
public:
    bool visit_attributes(ov::AttributeVisitor& visitor) override {
        visitor.on_attribute("operands", attributes.operands);
        return true;
    }

    bool has_evaluate() const override { return true; }

    bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
        outputs[0].set_shape(result_shape(inputs[0].get_shape(), inputs[1].get_shape()));
        const ov::Shape y_shape = aligned(inputs[0].get_shape(), inputs[1].get_shape());
        const ov::Tensor x_tensor = declared(inputs[0], type(0)), y_tensor = declared(inputs[1], type(1));
        const bool is_held = outputs[0].get_element_type() != type(0);
        ov::Tensor result = is_held ? ov::Tensor(type(0), outputs[0].get_shape()) : outputs[0];
        Array x(x_tensor, x_tensor.get_shape()), y(y_tensor, y_shape), out(result, result.get_shape());
        halfulp_options options{};
        options.size = sizeof options;
        options.parallel_for = [](void*, void (*work)(void*, size_t), void* data, size_t count) {
            tbb::parallel_for(size_t{0}, count, [&](size_t index) { work(data, index); });
            return 0;
        };
        const halfulp_status status = compute(&x.array, &y.array, &out.array, &options);
        OPENVINO_ASSERT(status == HALFULP_OK, "halfulp: ", halfulp_status_text(status));
        if (is_held)
            type(0) == ov::element::f16 ? convert<float, ov::float16>(result, outputs[0])
                                        : convert<float, ov::bfloat16>(result, outputs[0]);
        return true;
    }

protected:
    // Those of _Operator in __init__.py.
    struct Attributes {
        std::string operands, auto_broadcast = "numpy";
    } attributes;

    template <typename T>
    static std::shared_ptr<T> cloned(const T& from, const ov::OutputVector& inputs) {
        auto clone = std::make_shared<T>();
        clone->attributes = from.attributes;
        clone->set_arguments(inputs);
        clone->constructor_validate_and_infer_types();
        return clone;
    }

    // Returns an operand's declared type.
    ov::element::Type type(size_t operand) const {
        const size_t comma = attributes.operands.find(',');
        const std::string name =
            operand == 0 ? attributes.operands.substr(0, comma) : attributes.operands.substr(comma + 1);
        OPENVINO_ASSERT(name == "f32" || name == "f16" || name == "bf16", "halfulp: '", get_friendly_name(),
                        "' has operands of ", attributes.operands,
                        ", and halfulp's operators in C++ compute f32, f16 and bf16 only; in Python, register "
                        "halfulp.integrations.openvino.OPERATORS before this library: the first one registered wins");
        return ov::element::Type(name);
    }

    // The result is held in the type in which the first operand is held.
    void check_types() const {
        for (size_t i = 0; i < 2; ++i)
            OPENVINO_ASSERT(get_input_element_type(i) == type(i) || get_input_element_type(i) == ov::element::f32,
                            "halfulp: '", get_friendly_name(),
                            "' gets a type that the model does not declare; compile it for CPU, with "
                            "INFERENCE_PRECISION_HINT f32");
    }

    virtual ov::Shape result_shape(const ov::Shape& x, const ov::Shape& y) const = 0;
    // Returns y's shape as NumPy broadcasts it to x's.
    virtual ov::Shape aligned(const ov::Shape&, const ov::Shape& y) const { return y; }
    virtual halfulp_status compute(const halfulp_array* x, const halfulp_array* y, const halfulp_array* out,
                                   const halfulp_options* options) const = 0;

private:
    struct Array {
        Array(const ov::Tensor& tensor, const ov::Shape& shape) : array{} {
            OPENVINO_ASSERT(shape.size() <= extents.size(), "halfulp: a tensor of more than 64 dims");
            std::copy(shape.begin(), shape.end(), extents.begin());
            const ov::element::Type type = tensor.get_element_type();
            array = {const_cast<void*>(tensor.data()),
                     type == ov::element::f32   ? HALFULP_FLOAT32
                     : type == ov::element::f16 ? HALFULP_FLOAT16
                                                : HALFULP_BFLOAT16,
                     static_cast<int32_t>(shape.size()),
                     extents.data(),
                     nullptr,
                     0};
        }
        std::array<ptrdiff_t, HALFULP_MOST_AXES> extents{};
        halfulp_array array;
    };
};

class HalfulpPower : public Operator {
public:
    OPENVINO_OP("HalfulpPower", "extension");
    HalfulpPower() = default;

    void validate_and_infer_types() override {
        check_types();
        auto shape = get_input_partial_shape(0);
        OPENVINO_ASSERT(ov::PartialShape::broadcast_merge_into(shape, get_input_partial_shape(1), rule()),
                        "halfulp: the shapes of '", get_friendly_name(), "' do not go together");
        set_output_type(0, get_input_element_type(0), shape);
    }

    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        return cloned(*this, inputs);
    }

    bool visit_attributes(ov::AttributeVisitor& visitor) override {
        Operator::visit_attributes(visitor);
        visitor.on_attribute("auto_broadcast", attributes.auto_broadcast);
        return true;
    }

private:
    ov::op::AutoBroadcastSpec rule() const {
        return attributes.auto_broadcast == "numpy" ? ov::op::AutoBroadcastType::NUMPY
                                                    : ov::op::AutoBroadcastType::NONE;
    }

    ov::Shape result_shape(const ov::Shape& x, const ov::Shape& y) const override {
        ov::PartialShape shape = x;
        OPENVINO_ASSERT(ov::PartialShape::broadcast_merge_into(shape, y, rule()), "halfulp: shapes do not go together");
        return shape.to_shape();
    }

    halfulp_status compute(const halfulp_array* x, const halfulp_array* y, const halfulp_array* out,
                           const halfulp_options* options) const override {
        return halfulp_pow(x, y, out, options);
    }
};

class HalfulpPReLU : public Operator {
public:
    OPENVINO_OP("HalfulpPReLU", "extension");
    HalfulpPReLU() = default;

    void validate_and_infer_types() override {
        check_types();
        set_output_type(0, get_input_element_type(0), get_input_partial_shape(0));
    }

    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        return cloned(*this, inputs);
    }

private:
    ov::Shape result_shape(const ov::Shape& x, const ov::Shape&) const override { return x; }

    // A slope of rank 1 belongs to the channels, dim 1 of x, if their number is its length.
    ov::Shape aligned(const ov::Shape& x, const ov::Shape& slope) const override {
        if (slope.size() != 1 || x.size() < 2 || slope[0] != x[1]) return slope;
        ov::Shape shape(x.size() - 1, 1);
        shape[0] = slope[0];
        return shape;
    }

    halfulp_status compute(const halfulp_array* x, const halfulp_array* slope, const halfulp_array* out,
                           const halfulp_options* options) const override {
        return halfulp_prelu(x, slope, out, options);
    }
};

}  // namespace

OPENVINO_CREATE_EXTENSIONS(std::vector<ov::Extension::Ptr>({
    std::make_shared<ov::OpExtension<HalfulpPower>>(),
    std::make_shared<ov::OpExtension<HalfulpPReLU>>(),
}));
