#include "kernels.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "halfulp.h"

namespace halfulp::torch {

namespace {

using Tensor = struct OpaqueTensor*;
using Status = int32_t;  // 0 is success

struct {
    Status (*dtype)(Tensor, int32_t*);
    Status (*dim)(Tensor, int64_t*);
    Status (*sizes)(Tensor, int64_t**);
    Status (*strides)(Tensor, int64_t**);
    Status (*const_data)(Tensor, const void**);
    Status (*mutable_data)(Tensor, void**);
    Status (*empty_strided)(int64_t dims, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t device,
                            int32_t device_index, Tensor*);
    Status (*destroy)(Tensor);
    Status (*call)(const char* name, const char* overload, uint64_t* stack);
    const char* (*error)();
} api;

constexpr int cpu = 0, dtypes = 128;
halfulp_type type_of_dtype[dtypes];
halfulp_memo* memo;  // null if there is no memory: then nothing is kept

Tensor tensor(uint64_t item) {
    Tensor handle;
    std::memcpy(&handle, &item, sizeof handle);
    return handle;
}

uint64_t item(Tensor handle) {
    uint64_t item = 0;
    std::memcpy(&item, &handle, sizeof handle);
    return item;
}

// An operand or a result. Its dims and memory are the tensor's.
struct Operand {
    int32_t dtype = 0;
    halfulp_array array{};
    const int64_t* element_strides;
    ptrdiff_t strides[HALFULP_MOST_AXES];
    std::vector<ptrdiff_t> strides_of_many, shape_of_many;  // for more dims than that

    Operand() = default;
    Operand(const Operand&) = delete;
    Operand& operator=(const Operand&) = delete;

    // Returns false if the kernels do not take such tensors.
    bool read(Tensor handle, bool is_result) {
        int64_t dim, *sizes, *element_strides_;
        if (api.dtype(handle, &dtype) || dtype < 0 || dtype >= dtypes || type_of_dtype[dtype] < 0) return false;
        if (api.dim(handle, &dim)) return false;
        if (api.sizes(handle, &sizes) || api.strides(handle, &element_strides_)) return false;
        const void* data;
        if (is_result ? api.mutable_data(handle, &array.data) : api.const_data(handle, &data)) return false;
        if (!is_result) array.data = const_cast<void*>(data);
        array.type = type_of_dtype[dtype];
        array.axes = static_cast<int32_t>(dim);
        static_assert(sizeof(ptrdiff_t) == sizeof(int64_t));
        array.shape = reinterpret_cast<const ptrdiff_t*>(sizes);
        ptrdiff_t* bytes = strides;
        if (dim > HALFULP_MOST_AXES) {
            strides_of_many.resize(static_cast<size_t>(dim));
            bytes = strides_of_many.data();
        }
        array.strides = bytes;
        element_strides = element_strides_;
        const ptrdiff_t size = element_size(array.type);
        for (int64_t i = 0; i < dim; ++i) bytes[i] = element_strides[i] * size;
        return true;
    }

    // Leaves out the axes along which the result has one element: at most 63 others fit in memory.
    void leave_out_ones(const std::vector<int64_t>& result) {
        const size_t first = result.size() - static_cast<size_t>(array.axes);
        std::vector<ptrdiff_t> kept_strides;
        for (size_t i = first; i < result.size(); ++i) {
            if (result[i] == 1) continue;
            shape_of_many.push_back(array.shape[i - first]);
            kept_strides.push_back(array.strides[i - first]);
        }
        strides_of_many = std::move(kept_strides);
        array.axes = static_cast<int32_t>(shape_of_many.size());
        array.shape = shape_of_many.data();
        array.strides = strides_of_many.data();
    }

    void be_number(const uint64_t* element, halfulp_type type) {
        array = {const_cast<uint64_t*>(element), type, 0, nullptr, nullptr, 0};
    }

    static ptrdiff_t element_size(halfulp_type type) {
        switch (type) {
            case HALFULP_FLOAT64:
            case HALFULP_INT64:
            case HALFULP_UINT64: return 8;
            case HALFULP_FLOAT32:
            case HALFULP_INT32:
            case HALFULP_UINT32: return 4;
            case HALFULP_FLOAT16:
            case HALFULP_BFLOAT16:
            case HALFULP_INT16:
            case HALFULP_UINT16: return 2;
            default: return 1;
        }
    }

    bool has_shape(const std::vector<int64_t>& shape) const {
        return std::equal(array.shape, array.shape + array.axes, shape.begin(), shape.end());
    }
};

// Broadcasts as NumPy does. Returns false if the shapes do not fit.
bool broadcast(const halfulp_array& x, const halfulp_array& y, std::vector<int64_t>& shape) {
    shape.assign(static_cast<size_t>(std::max(x.axes, y.axes)), 1);
    for (const halfulp_array* operand : {&x, &y}) {
        auto size = shape.end() - operand->axes;
        for (int i = 0; i < operand->axes; ++i, ++size) {
            const int64_t own = operand->shape[i];
            if (own != 1 && *size != 1 && own != *size) return false;
            if (own != 1) *size = own;
        }
    }
    return true;
}

// An operand's stride along an axis of the result, 0 where it is broadcast.
int64_t stride_along(const Operand& operand, const std::vector<int64_t>& shape, int axis) {
    const int own = axis - (static_cast<int>(shape.size()) - operand.array.axes);
    if (own < 0 || operand.array.shape[own] != shape[static_cast<size_t>(axis)]) return 0;
    return operand.element_strides[own];
}

// Returns 1 if the first axis is to be further out in memory than the second, -1 if further in, 0 if neither matters.
int compare(int first, int second, const std::vector<int64_t>& shape, const Operand& x, const Operand& y) {
    for (const Operand* operand : {&x, &y}) {
        const int64_t a = stride_along(*operand, shape, first), b = stride_along(*operand, shape, second);
        if (a == 0 || b == 0) continue;
        if (a != b) return a > b ? 1 : -1;
        if (shape[static_cast<size_t>(first)] > shape[static_cast<size_t>(second)]) return 1;
    }
    return 0;
}

// Makes a result without gaps. Its axes are in memory in the operands' order, by the rules of torch's TensorIterator.
Tensor make_result(const std::vector<int64_t>& shape, const Operand& x, const Operand& y) {
    const int dims = static_cast<int>(shape.size());
    std::vector<int> order(shape.size());  // the axis that is fastest in memory, first
    const auto axis = [&order](int place) -> int& { return order[static_cast<size_t>(place)]; };
    for (int i = 0; i < dims; ++i) {
        axis(i) = dims - 1 - i;
        for (int place = i, other = i - 1; other >= 0; --other) {
            const int comparison = compare(axis(other), axis(place), shape, x, y);
            if (comparison < 0) break;
            if (comparison > 0) std::swap(axis(place), axis(other)), place = other;
        }
    }
    std::vector<int64_t> strides(shape.size());
    int64_t stride = 1;
    for (const int place : order) {
        strides[static_cast<size_t>(place)] = stride;
        stride *= std::max<int64_t>(shape[static_cast<size_t>(place)], 1);
    }
    Tensor made = nullptr;
    if (api.empty_strided(dims, shape.data(), strides.data(), x.dtype, cpu, 0, &made)) return nullptr;
    return made;
}

enum class Exponent { tensor, float_number, int_number };
enum class Result { is_new, is_base, is_third };

// Computes a call. Returns false if the kernels do not take its operands; then the stack is unchanged.
bool compute(decltype(halfulp_pow) function, Exponent exponent, Result result, bool types_are_equal, uint64_t* stack) {
    Operand x, y, out;
    if (!x.read(tensor(stack[0]), false)) return false;
    if (exponent == Exponent::float_number) y.be_number(&stack[1], HALFULP_FLOAT64);
    else if (exponent == Exponent::int_number) y.be_number(&stack[1], HALFULP_INT64);
    else if (!y.read(tensor(stack[1]), false) || (types_are_equal && x.dtype != y.dtype)) return false;
    std::vector<int64_t> shape;
    if (!broadcast(x.array, y.array, shape)) return false;

    Tensor target = tensor(stack[result == Result::is_third ? 2 : 0]);
    if (result == Result::is_new) {
        target = make_result(shape, x, y);
        if (target == nullptr) return false;
    }
    halfulp_options options{};
    options.size = sizeof options;
    options.memo = memo;
    if (result == Result::is_new) options.flags = HALFULP_NO_OVERLAP;
    const auto run = [&] {
        if (shape.size() > HALFULP_MOST_AXES) {
            if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
            for (Operand* operand : {&x, &y, &out}) operand->leave_out_ones(shape);
        }
        return function(&x.array, &y.array, &out.array, &options) == HALFULP_OK;
    };
    if (!out.read(target, true) || out.dtype != x.dtype || !out.has_shape(shape) || !run()) {
        if (result == Result::is_new) api.destroy(target);
        return false;
    }
    if (result != Result::is_base) api.destroy(tensor(stack[0]));
    if (exponent == Exponent::tensor) api.destroy(tensor(stack[1]));
    stack[0] = item(target);
    return true;
}

// Calls the operator for other operands, which is written in Python. An error is torch's own: its text is between the
// name of its class and the traceback.
void call_other(const char* name, const char* overload, uint64_t* stack) {
    if (!api.call(name, overload, stack)) return;
    const std::string text = api.error(), error_class = "RuntimeError: ";
    const size_t begin = text.starts_with(error_class) ? error_class.size() : 0;
    throw std::runtime_error(text.substr(begin, text.find("\n\nAt:") - begin));
}

template <Result result>
void pow(uint64_t* stack, uint64_t, uint64_t) {
    constexpr const char* names[] = {"halfulp::_other_pow", "halfulp::_other_pow_", "halfulp::_other_pow"};
    if (!compute(halfulp_pow, Exponent::tensor, result, true, stack))
        call_other(names[static_cast<int>(result)], result == Result::is_third ? "out" : "", stack);
}

void prelu(uint64_t* stack, uint64_t, uint64_t) {
    if (!compute(halfulp_prelu, Exponent::tensor, Result::is_new, true, stack))
        call_other("halfulp::_other_prelu", "", stack);
}

template <Exponent exponent, Result result>
void power(uint64_t* stack, uint64_t, uint64_t) {
    if (compute(halfulp_pow, exponent, result, false, stack)) return;
    // torch releases the operands of a call that succeeds only. (Those of call_other are its callee's.)
    api.destroy(tensor(stack[0]));
    if (exponent == Exponent::tensor) api.destroy(tensor(stack[1]));
    if (result == Result::is_third) api.destroy(tensor(stack[2]));
    throw std::runtime_error("pow: no kernel for these types, or the operands' shapes do not fit");
}

}  // namespace

void connect(const std::function<void*(const char* name)>& find, const std::vector<std::pair<int, int>>& types) {
    const auto set = [&find](auto& function, const char* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(find(name));
    };
    set(api.dtype, "aoti_torch_get_dtype");
    set(api.dim, "aoti_torch_get_dim");
    set(api.sizes, "aoti_torch_get_sizes");
    set(api.strides, "aoti_torch_get_strides");
    set(api.const_data, "torch_get_const_data_ptr");
    set(api.mutable_data, "torch_get_mutable_data_ptr");
    set(api.empty_strided, "aoti_torch_empty_strided");
    set(api.destroy, "aoti_torch_delete_tensor_object");
    set(api.call, "aoti_torch_call_dispatcher");
    set(api.error, "torch_exception_get_what_without_backtrace");
    std::fill(std::begin(type_of_dtype), std::end(type_of_dtype), -1);
    for (const auto& [number, type] : types)
        if (number >= 0 && number < dtypes) type_of_dtype[number] = type;
    if (memo == nullptr) memo = halfulp_memo_new();
}

const std::vector<std::pair<std::string, Kernel>>& kernels() {
    static const std::vector<std::pair<std::string, Kernel>> all{
        {"aten::pow.Tensor_Tensor", pow<Result::is_new>},
        {"aten::pow.Tensor_Tensor_out", pow<Result::is_third>},
        {"aten::pow_.Tensor", pow<Result::is_base>},
        {"aten::_prelu_kernel", prelu},
        {"halfulp::_power", power<Exponent::tensor, Result::is_new>},
        {"halfulp::_power_of_float", power<Exponent::float_number, Result::is_new>},
        {"halfulp::_power_of_float_", power<Exponent::float_number, Result::is_base>},
        {"halfulp::_power_of_float.out", power<Exponent::float_number, Result::is_third>},
        {"halfulp::_power_of_int", power<Exponent::int_number, Result::is_new>},
        {"halfulp::_power_of_int_", power<Exponent::int_number, Result::is_base>},
        {"halfulp::_power_of_int.out", power<Exponent::int_number, Result::is_third>},
    };
    return all;
}

}  // namespace halfulp::torch
