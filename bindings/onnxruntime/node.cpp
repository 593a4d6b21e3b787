#include "node.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <new>
#include <numeric>
#include <string_view>

#include "array/walker.h"
#include "on_cuda.h"

namespace halfulp::ort {

namespace {

struct Numbered {
    Element element;
    ElementNumber number;
};

// The types that ONNX allows for one of the operators. src/halfulp/types.py has the same numbers.
constexpr Numbered numbers[] = {
    {Element::float32, 1},  {Element::uint8, 2},   {Element::int8, 3},    {Element::uint16, 4},
    {Element::int16, 5},    {Element::int32, 6},   {Element::int64, 7},   {Element::float16, 10},
    {Element::float64, 11}, {Element::uint32, 12}, {Element::uint64, 13}, {Element::bfloat16, 16},
};

std::string text_of(Element type, Dims dims) {
    std::string text = std::string(row(type).name) + "[";
    for (size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
    return text + "]";
}

}  // namespace

Element element_of(ElementNumber number) {
    for (const Numbered& entry : numbers)
        if (entry.number == number) return entry.element;
    return Element::count;
}

ElementNumber number_of(Element element) {
    for (const Numbered& entry : numbers)
        if (entry.element == element) return entry.number;
    return any_element;
}

Node::Node(const Api* api, bool has_tensor_shape, Kernel kernel, Element type, const KernelInfo* info)
    : api_(api), has_tensor_shape_(has_tensor_shape), kernel_(kernel), type_(type) {
    std::string rule = text_attribute(info, "broadcasting");
    const auto name = std::find(std::begin(rule_names), std::end(rule_names), rule);
    if (name == std::end(rule_names))
        fail(invalid_argument, "halfulp: no broadcasting rule '" + rule +
                                   "'; another version of halfulp patched this model\n"
                                   "  run: halfulp.integrations.onnxruntime.patch(model)");
    rule_ = static_cast<Rule>(name - std::begin(rule_names));
    read_legacy_axis(info);
    for (int i = 0; i < static_cast<int>(Check::count); ++i) clauses_[i] = text_attribute(info, clause_attributes[i]);
}

Node::Node(const Api* api, const Version& version, Element type, const KernelInfo* info)
    : api_(api),
      has_tensor_shape_(true),
      kernel_(version.name == std::string_view("Pow") ? Kernel::pow : Kernel::prelu),
      type_(type),
      rule_(version.rule) {
    std::copy(std::begin(version.clauses), std::end(version.clauses), clauses_);
    read_legacy_axis(info);
    Operand x, y;
    if (read_known(info, 0, x) && read_known(info, 1, y)) arranged(x, y, "\n  run: halfulp repair in.onnx out.onnx");
}

void Node::read_legacy_axis(const KernelInfo* info) {
    if (rule_ != Rule::legacy_axis) return;
    legacy_.axis = optional_int(info, "axis");
    const int64_t broadcast = optional_int(info, "broadcast").value_or(0);
    if (broadcast != 0 && broadcast != 1)
        fail(invalid_argument, "broadcast has a value that is not allowed (" +
                                   clauses_[static_cast<int>(Check::equal_shapes)] +
                                   ")\n  expected: 0 or 1\n  got: " + std::to_string(broadcast));
    legacy_.broadcast = broadcast == 1;
}

uint32_t minor_version(const ApiBase* base) {
    int major = 0, minor = 0;
    std::sscanf(base->version(), "%d.%d", &major, &minor);
    return major > 1 ? 1000 : static_cast<uint32_t>(minor);
}

void Node::fail(ErrorCode code, const std::string& message) const {
    throw Failure{create_status(api_, code, message.c_str())};
}

// Returns an empty text if the node has no such attribute.
std::string Node::text_attribute(const KernelInfo* info, const char* name) const {
    size_t size = 0;  // with the terminating zero
    std::string text;
    Status* status = string_attribute(api_, info, name, nullptr, &size);
    if (!status) {
        text.resize(size);
        status = string_attribute(api_, info, name, text.data(), &size);
    }
    if (!status) return text.c_str();
    release_status(api_, status);
    return "";
}

std::optional<int64_t> Node::optional_int(const KernelInfo* info, const char* name) const {
    int64_t value;
    Status* status = int_attribute(api_, info, name, &value);
    if (!status) return value;
    release_status(api_, status);
    return {};
}

// Reads the type and shape of an input when the session is created. Returns false if a dim is not known.
bool Node::read_known(const KernelInfo* info, size_t index, Operand& operand) const {
    struct Held {
        const Api* api;
        TypeInfo* info = nullptr;
        ~Held() { release_type_info(api, info); }
    } held{api_};
    check(input_type(api_, info, index, &held.info));
    const TensorInfo* tensor;
    check(as_tensor(api_, held.info, &tensor));
    ElementNumber number;
    if (tensor == nullptr || !has_shape(api_, tensor)) return false;
    read(tensor, operand, number);
    operand.type = element_of(number);
    if (operand.dims.size() > max_dims) return false;
    return std::all_of(operand.dims.begin(), operand.dims.end(), [](int64_t size) { return size >= 0; });
}

void Node::read(const TensorInfo* info, Operand& operand, ElementNumber& number) const {
    size_t count;
    check(element_type(api_, info, &number));
    check(dimension_count(api_, info, &count));
    if (count <= max_dims) check(dimensions(api_, info, operand.stored_dims, count));
    operand.dims = Dims(operand.stored_dims, count);
}

void Node::read(const KernelContext* context, size_t index, Operand& operand) const {
    const Value* value;
    check(input(api_, context, index, &value));
    ElementNumber number;
    if (has_tensor_shape_) {
        const int64_t* dims;
        size_t count;
        check(tensor_shape(api_, value, &number, &dims, &count));
        operand.dims = Dims(dims, count);
    } else {
        struct Info {
            const Api* api;
            TensorInfo* info = nullptr;
            ~Info() { release_tensor_info(api, info); }
        } held{api_};
        check(tensor_info(api_, value, &held.info));
        read(held.info, operand, number);
    }
    if (operand.dims.size() > max_dims) fail(invalid_argument, "halfulp: a tensor of more than 64 dims");
    operand.type = element_of(number);
    if (operand.type == Element::count)
        fail(invalid_argument, "halfulp: unknown element type, number " + std::to_string(number));
    check(tensor_data(api_, value, &operand.data));
}

Arrangement Node::arranged(const Operand& x, const Operand& y, const char* way_out) const {
    Arrangement arrangement;
    if (auto mismatch = arrange(rule_, legacy_, x.dims, y.dims, arrangement)) refuse(*mismatch, x, y, way_out);
    return arrangement;
}

void Node::refuse(const Mismatch& mismatch, const Operand& x, const Operand& y, const char* way_out) const {
    std::string text = mismatch.message;
    text += " (" + clauses_[static_cast<int>(mismatch.check)] + ")";
    text += "\n  X: " + text_of(x.type, x.dims);
    text += std::string("   ") + (kernel_ == Kernel::prelu ? "slope" : "Y") + ": " + text_of(y.type, y.dims);
    if (legacy_.axis) text += "   axis: " + std::to_string(*legacy_.axis);
    if (legacy_.broadcast) text += "   broadcast: 1";
    fail(invalid_argument, text + way_out);
}

// Returns the view of a packed tensor. Each of its dims is the shape's or 1.
View Node::view(Element type, void* data, const Shape& shape, const int64_t* dims) const {
    View view;
    view.data = static_cast<char*>(data);
    view.item_size = row(type).size;
    ptrdiff_t stride = view.item_size;
    for (int i = shape.dims - 1; i >= 0; --i) {
        view.strides[i] = dims[i] == 1 ? 0 : stride;
        stride *= dims[i];
    }
    return view;
}

void Node::prepare(KernelContext* context, Call& call) const {
    Operand &x = call.x_operand, &y = call.y_operand;
    read(context, 0, x);
    read(context, 1, y);
    const Arrangement arrangement = arranged(x, y);
    call.shape = arrangement.result;
    int64_t dims[max_dims];
    std::copy_n(call.shape.extent, call.shape.dims, dims);
    Value* result;
    void* target;
    check(output(api_, context, 0, dims, static_cast<size_t>(call.shape.dims), &result));
    check(tensor_data(api_, result, &target));
    call.x = view(type_, x.data, call.shape, arrangement.x);
    call.y = view(y.type, y.data, call.shape, arrangement.y);
    call.out = view(type_, target, call.shape, dims);
}

void Node::compute_on_cuda(KernelContext* context) const {
    Call call;
    prepare(context, call);
    void* stream;
    check(gpu_stream(api_, context, &stream));
    launch_on_cuda({kernel_ == Kernel::prelu, type_, call.y_operand.type, call.shape, call.x, call.y, call.out},
                   stream);
}

void Node::compute(KernelContext* context) const {
    Call call;
    prepare(context, call);
    const Operand& y = call.y_operand;
    const bool one_y = std::all_of(y.dims.begin(), y.dims.end(), [](int64_t size) { return size == 1; });
    const ptrdiff_t elements = std::accumulate(call.shape.extent, call.shape.extent + call.shape.dims, ptrdiff_t{1},
                                               std::multiplies<ptrdiff_t>());
    const Operation operation(kernel_, type_, y.type, one_y ? y.data : nullptr, elements, {}, &table_);
    const Tiling tiling = choose_tiling(call.shape, call.x, call.y, call.out, operation.bound_by());
    struct Work {
        const Tiling& tiling;
        const Operation& operation;
        std::atomic<bool> has_memory{true};
    } work{tiling, operation};
    if (tiling.chunk_count() == 1) {
        if (!run_chunk(tiling, 0, operation)) throw std::bad_alloc();
    } else if (size_t chunks = static_cast<size_t>(tiling.chunk_count())) {
        // One batch per chunk: a thread takes the next one when it is done, which balances chunks that take longer.
        const auto run = [](void* user, size_t chunk) {
            Work& work = *static_cast<Work*>(user);
            if (work.has_memory && !run_chunk(work.tiling, static_cast<ptrdiff_t>(chunk), work.operation))
                work.has_memory = false;
        };
        check(parallel_for(api_, context, run, chunks, chunks, &work));
        if (!work.has_memory) throw std::bad_alloc();
    }
}

}  // namespace halfulp::ort
