// The extension module halfulp._cuda: launches kernels for operands in a device's memory.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "interpreter.h"
#include "jax/handlers.h"
#include "launch.h"

namespace nb = nanobind;

namespace halfulp::cuda {

namespace {

Element element_named(const std::string& name) {
    for (int i = 0; i < element_count; ++i)
        if (name == element_rows[i].name) return static_cast<Element>(i);
    throw std::invalid_argument("unknown element type " + name);
}

// An operand: either its address on the device with its shape and strides in bytes, or a number.
struct Operand {
    uintptr_t address;
    std::string type;
    std::vector<int64_t> shape, strides;
    uint64_t number;  // an encoding

    Operand(uintptr_t address, std::string type, std::vector<int64_t> shape, std::vector<int64_t> strides)
        : address(address), type(std::move(type)), shape(std::move(shape)), strides(std::move(strides)), number(0) {}
    Operand(std::string type, uint64_t number) : address(0), type(std::move(type)), number(number) {}
};

void apply(bool prelu, const Operand& x, const Operand& y, const Operand& out, int device, uintptr_t stream,
           const Allocate& allocate) {
    Operation operation;
    operation.prelu = prelu;
    operation.type = element_named(x.type);
    operation.y_type = element_named(y.type);
    operation.shape = shape_of(out.shape);
    const auto view = [&](const Operand& operand) {
        const int size = row(element_named(operand.type)).size;
        return view_of(reinterpret_cast<void*>(operand.address), operand.shape, operand.strides, size, operation.shape);
    };
    operation.x = view(x);
    operation.y = view(y);
    operation.out = view(out);
    operation.x_number = x.number;
    operation.y_number = y.number;
    launch(operation, device, reinterpret_cast<Stream>(stream), allocate);
}

// Returns DLPack's description of an array: address, the type's code and bits, shape, strides in bytes, device.
nb::tuple read_dlpack(const nb::ndarray<nb::ro>& array) {
    if (array.device_type() != nb::device::cuda::value)
        throw std::invalid_argument("the array is not on a CUDA device");
    nb::list shape, strides;
    for (size_t i = 0; i < array.ndim(); ++i) {
        shape.append(array.shape(i));
        strides.append(array.stride(i) * static_cast<int64_t>(array.itemsize()));
    }
    return nb::make_tuple(reinterpret_cast<uintptr_t>(array.data()), array.dtype().code, array.dtype().bits, shape,
                          strides, array.device_id());
}

// Makes a DLPack capsule for a contiguous array. It keeps the array's owner alive.
nb::object write_dlpack(uintptr_t address, uint8_t code, uint8_t bits, const std::vector<size_t>& shape, int device,
                        nb::handle owner) {
    nb::dlpack::dtype type;
    type.code = code;
    type.bits = bits;
    type.lanes = 1;
    const nb::ndarray<> array(reinterpret_cast<void*>(address), shape.size(), shape.data(), owner, nullptr, type,
                              nb::device::cuda::value, device);
    return nb::cast(array);
}

}  // namespace

}  // namespace halfulp::cuda

NB_MODULE(_cuda, m) {
    using namespace halfulp::cuda;
    nb::class_<Operand>(m, "Operand")
        .def(nb::init<uintptr_t, std::string, std::vector<int64_t>, std::vector<int64_t>>(), nb::arg("address"),
             nb::arg("type"), nb::arg("shape"), nb::arg("strides"))
        .def(nb::init<std::string, uint64_t>(), nb::arg("type"), nb::arg("number"));
    m.def("set_kernels", &set_kernels, nb::arg("ptx"));
    m.def("apply", &apply, nb::arg("prelu"), nb::arg("x"), nb::arg("y"), nb::arg("out"), nb::arg("device"),
          nb::arg("stream"), nb::arg("allocate").none() = nb::none());
    m.def("undecided", &undecided, nb::arg("device"));
    m.def("read_dlpack", &read_dlpack, nb::arg("array"));
    m.def("write_dlpack", &write_dlpack, nb::arg("address"), nb::arg("code"), nb::arg("bits"), nb::arg("shape"),
          nb::arg("device"), nb::arg("owner"));
    m.def(
        "allocate",
        [](int device, size_t bytes) {
            const DeviceScope scope(device);
            DevicePointer address;
            check(driver().allocate_at_once(&address, bytes), "memory for a result");
            return address;
        },
        nb::arg("device"), nb::arg("bytes"));
    m.def(
        "free",
        [](int device, DevicePointer address) {
            const DeviceScope scope(device);
            driver().free_at_once(address);
        },
        nb::arg("device"), nb::arg("address"));
    m.def(
        "synchronize",
        [](int device, uintptr_t stream) {
            const halfulp::InterpreterReleased released;
            const DeviceScope scope(device);
            check(driver().synchronize(reinterpret_cast<Stream>(stream)), "the stream's work");
        },
        nb::arg("device"), nb::arg("stream"));
    m.def("xla_handlers", [] {
        nb::dict handlers;
        const auto add = [&handlers](const char* name, halfulp::xla::Error* (*handler)(halfulp::xla::Call*)) {
            handlers[name] = nb::capsule(reinterpret_cast<void*>(handler));
        };
        add("halfulp_pow", &halfulp::xla::on_cuda::pow);
        add("halfulp_pow_of_number", &halfulp::xla::on_cuda::pow_of_number);
        add("halfulp_prelu", &halfulp::xla::on_cuda::prelu);
        return handlers;
    });
    m.def("device_of", &device_of, nb::arg("address"));
    m.def("device_count", [] {
        int count = 0;
        check(driver().device_count(&count), "device count");
        return count;
    });
}
