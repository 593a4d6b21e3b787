// The extension module halfulp._core: the core for Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <numpy/arrayobject.h>

#include <structmember.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#define HALFULP_ISA python
#include "array/view.h"
#include "formats/convert.h"
#include "fp_environment.h"
#include "halfulp.h"
#include "interpreter.h"
#include "jax/handlers.h"
#include "onnx_model.h"
#include "torch/kernels.h"
#include "ufunc.h"

namespace nb = nanobind;

namespace halfulp {

namespace {

// The numbers by which Python names the operations.
enum Operator : int { pow_operator, pow_with_domain_error, prelu_operator };

// NumPy's type number -> element; filled by register_type, because ml_dtypes' numbers are known at run time only.
constexpr int type_numbers = 1024;
signed char element_of_number[type_numbers];

void register_type(int number, const std::string& name) {
    if (number < 0 || number >= type_numbers) throw std::invalid_argument("type number out of range");
    for (int i = 0; i < element_count; ++i) {
        if (name != element_rows[i].name) continue;
        element_of_number[number] = static_cast<signed char>(i);
        return;
    }
    throw std::invalid_argument("unknown element type " + name);
}

// Returns the element type of an array, or Element::count if it is not registered.
Element element_of(PyArrayObject* array) {
    int number = PyArray_TYPE(array);
    if (number < 0 || number >= type_numbers || element_of_number[number] < 0) return Element::count;
    return static_cast<Element>(element_of_number[number]);
}

PyArrayObject* as_array(nb::handle object) {
    return PyArray_CheckExact(object.ptr()) ? reinterpret_cast<PyArrayObject*>(object.ptr()) : nullptr;
}

// Computes the shape by NumPy's broadcasting. Returns whether the operands' shapes allow it.
bool broadcast(PyArrayObject* x, PyArrayObject* y, Shape& shape) {
    int x_dims = PyArray_NDIM(x), y_dims = PyArray_NDIM(y);
    shape.dims = x_dims > y_dims ? x_dims : y_dims;
    for (int i = 0; i < shape.dims; ++i) {
        int xi = i - (shape.dims - x_dims), yi = i - (shape.dims - y_dims);
        npy_intp from_x = xi >= 0 ? PyArray_DIM(x, xi) : 1, from_y = yi >= 0 ? PyArray_DIM(y, yi) : 1;
        if (from_x != from_y && from_x != 1 && from_y != 1) return false;
        shape.extent[i] = from_x == 1 ? from_y : from_x;
    }
    return true;
}

bool has_shape(PyArrayObject* array, const Shape& shape) {
    if (PyArray_NDIM(array) != shape.dims) return false;
    for (int i = 0; i < shape.dims; ++i)
        if (PyArray_DIM(array, i) != shape.extent[i]) return false;
    return true;
}

halfulp_array view_of(PyArrayObject* array) {
    return {PyArray_DATA(array),    static_cast<halfulp_type>(element_of(array)),
            PyArray_NDIM(array),    PyArray_DIMS(array),
            PyArray_STRIDES(array), PyArray_ISBYTESWAPPED(array)};
}

// Returns a new array of x's type in native byte order, with the layout of the operand that has the result's shape. If
// there is no memory, returns no object and sets Python's error.
nb::object new_result(PyArrayObject* x, PyArrayObject* y, const Shape& shape) {
    PyArray_Descr* type = PyArray_DESCR(x);
    if (PyArray_ISBYTESWAPPED(x)) type = PyArray_DescrNewByteorder(type, NPY_NATIVE);
    else Py_INCREF(reinterpret_cast<PyObject*>(type));  // a function under the stable ABI
    PyArrayObject* like = has_shape(x, shape) ? x : has_shape(y, shape) ? y : nullptr;
    // To look for an order of axes takes NumPy longer than the rest of a small array.
    if (like && !PyArray_IS_C_CONTIGUOUS(like)) return nb::steal(PyArray_NewLikeArray(like, NPY_KEEPORDER, type, 0));
    npy_intp dims[max_dims];
    for (int i = 0; i < shape.dims; ++i) dims[i] = shape.extent[i];
    return nb::steal(PyArray_NewFromDescr(&PyArray_Type, type, shape.dims, dims, nullptr, nullptr, 0, nullptr));
}

// From this many elements on a call is long enough to release the interpreter's lock.
constexpr npy_intp long_call = 1 << 14;

// Computes the result of x and y, which must be exact ndarrays of registered types, in `out` or a new array. Returns
// None if the operands are not such arrays or do not fit, so that the caller can say why, and if `out` may share
// memory with them other than element by element.
nb::object apply(int operator_number, nb::handle x_object, nb::handle y_object, nb::handle out_object,
                 nb::handle scale_bias) {
    PyArrayObject *x = as_array(x_object), *y = as_array(y_object);
    if (x == nullptr || y == nullptr) return nb::none();
    Element type = element_of(x), y_type = element_of(y);
    Shape shape;
    if (type == Element::count || y_type == Element::count || !broadcast(x, y, shape)) return nb::none();
    if (operator_number == prelu_operator && (type != y_type || !has_shape(x, shape))) return nb::none();

    nb::object out = nb::borrow(out_object);
    if (out.is_none()) out = new_result(x, y, shape);
    if (!out.is_valid()) return out;
    PyArrayObject* target = as_array(out);
    if (target == nullptr || element_of(target) != type || !has_shape(target, shape) || !PyArray_ISWRITEABLE(target))
        return nb::none();

    halfulp_options options{};
    options.size = sizeof options;
    if (out_object.is_none()) options.flags |= HALFULP_NO_OVERLAP;
    if (operator_number == pow_with_domain_error) options.flags |= HALFULP_DOMAIN_ERROR;
    if (!scale_bias.is_none()) {
        options.flags |= HALFULP_SCALE_BIAS;
        options.scale = nb::cast<float>(scale_bias[0]);
        options.bias = nb::cast<float>(scale_bias[1]);
    }
    const halfulp_array of_x = view_of(x), of_y = view_of(y), of_out = view_of(target);
    halfulp_status status;
    {
        std::optional<InterpreterReleased> released;
        if (PyArray_SIZE(target) > long_call) {
            options.keep_going = [](void* lock) -> int { return static_cast<InterpreterReleased*>(lock)->no_signal(); };
            options.keep_going_context = &released.emplace();
        }
        status = (operator_number == prelu_operator ? halfulp_prelu : halfulp_pow)(&of_x, &of_y, &of_out, &options);
    }
    if (status == HALFULP_NO_MEMORY) {  // not an exception: for its first exception a thread needs memory too
        PyErr_NoMemory();
        return nb::object();
    }
    if (status == HALFULP_STOPPED) throw nb::python_error();
    return status == HALFULP_OK ? out : nb::none();
}

// hu.pow, hu.prelu, and the quick way of an operator: a callable that computes at once if its operands are two arrays,
// or a scalar or number beside one, and leaves other operands to a function in Python, or returns None. It looks like
// that function: functools.update_wrapper fills its dictionary.
struct Function {
    PyObject ob_base;
    vectorcallfunc call;
    PyObject *general, *dict;
    int operator_number;
    uint32_t exponents[element_count];  // for each type of x the set of those of y
};

bool is_scalar(PyObject* object) { return PyArray_IsScalar(object, Generic); }

// Returns an array of an array, a scalar, or a number that counts exactly in every type. Returns no object for another
// operand.
nb::object plain_array(PyObject* object) {
    if (PyArray_CheckExact(object)) return nb::borrow(object);
    if (is_scalar(object)) return nb::steal(PyArray_FromScalar(object, nullptr));
    int overflow = 0;
    double real = 0;
    long long integer = 0;
    const bool is_real = PyFloat_CheckExact(object);
    if (is_real) real = PyFloat_AsDouble(object);
    else if (PyLong_CheckExact(object)) integer = PyLong_AsLongLongAndOverflow(object, &overflow);
    else return nb::object();
    if (overflow != 0) return nb::object();
    PyObject* number = PyArray_SimpleNew(0, nullptr, is_real ? NPY_DOUBLE : NPY_LONGLONG);
    if (number != nullptr) {
        void* data = PyArray_DATA(reinterpret_cast<PyArrayObject*>(number));
        is_real ? std::memcpy(data, &real, sizeof real) : std::memcpy(data, &integer, sizeof integer);
    }
    return nb::steal(number);
}

// A number, or a scalar of NumPy's, as an operand of halfulp_powd or halfulp_powf.
struct NumberOperand {
    enum Kind { other, integer, real, float32, float64 } kind = other;  // integer and real have no type of their own
    double value = 0;
    float of_float32 = 0;  // the value of that kind: to convert a subnormal float may flush it
};

NumberOperand number_operand(PyObject* object) {
    if (PyFloat_CheckExact(object)) return {NumberOperand::real, PyFloat_AsDouble(object)};
    PyTypeObject* type = Py_TYPE(object);
    if (type == &PyDoubleArrType_Type) return {NumberOperand::float64, PyFloat_AsDouble(object)};  // it is a float, too
    if (type == &PyFloatArrType_Type) {
        NumberOperand operand{NumberOperand::float32};
        PyArray_ScalarAsCtype(object, &operand.of_float32);
        return operand;
    }
    if (!PyLong_CheckExact(object)) return {};
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    constexpr long long most = 1LL << 53;
    if (overflow != 0 || value < -most || value > most) return {};
    return {NumberOperand::integer, static_cast<double>(value)};
}

// Whether a number is a normal float, which it is in every floating-point environment; `value` is that.
bool is_float32(const NumberOperand& number, float& value) {
    const double size = std::fabs(number.value);
    value = number.of_float32;
    if (number.kind == NumberOperand::float32) return true;
    if (!(size >= 0x1p-126 && size < 0x1p128)) return false;
    value = static_cast<float>(number.value);
    return static_cast<double>(value) == number.value;
}

PyObject* new_scalar(int type_number, void* value) {
    PyArray_Descr* type = PyArray_DescrFromType(type_number);
    PyObject* scalar = PyArray_Scalar(value, type, nullptr);
    Py_DECREF(reinterpret_cast<PyObject*>(type));
    return scalar;
}

// The power of two integers that are not negative, in the type that NumPy gives them; nothing if it overflows.
PyObject* power_of_integers(npy_int64 x, npy_int64 y) {
    npy_int64 power = 1;
    for (bool more = y != 0; more;) {
        if ((y & 1) != 0 && __builtin_mul_overflow(power, x, &power)) return nullptr;
        y >>= 1;
        more = y != 0;
        if (more && __builtin_mul_overflow(x, x, &x)) return nullptr;
    }
    return new_scalar(NPY_INT64, &power);
}

// The power of two numbers or scalars. Returns nothing if it is to be left to the general way, or if an error is set.
PyObject* power_of_numbers(const NumberOperand& x, const NumberOperand& y) {
    using Operand = NumberOperand;
    if (x.kind == Operand::other || y.kind == Operand::other) return nullptr;
    if (x.kind == Operand::integer && y.kind == Operand::integer && y.value >= 0)
        return power_of_integers(static_cast<npy_int64>(x.value), static_cast<npy_int64>(y.value));
    if (x.kind != Operand::float32 && y.kind != Operand::float32) {
        double power = halfulp_powd(x.value, y.value);
        return new_scalar(NPY_DOUBLE, &power);
    }
    float base, exponent;
    const bool has_float64 = x.kind == Operand::float64 || y.kind == Operand::float64;
    if (has_float64 || !is_float32(x, base) || !is_float32(y, exponent)) return nullptr;
    float power = halfulp_powf(base, exponent);
    return new_scalar(NPY_FLOAT, &power);
}

template <typename Real>
bool fill_powers(Real (*power)(Real, Real), const void* x, const void* y, void* out, npy_intp size, npy_intp y_step) {
    const auto *base = static_cast<const Real*>(x), *exponent = static_cast<const Real*>(y);
    auto* powers = static_cast<Real*>(out);
    for (npy_intp i = 0; i < size; ++i) powers[i] = power(base[i], exponent[i * y_step]);
    return true;
}

constexpr npy_intp most_one_by_one = 16;

// Powers of float16 are those of floats, rounded again. Returns false if a float is a tie, which one more rounding may
// have made, or NaN. Not inlined: the compiler moves arithmetic across changes of the floating-point environment.
template <Element y_type>
[[gnu::noinline]] bool fill_powers_of_halves(const void* x, const void* y, void* out, npy_intp size, npy_intp y_step) {
    const auto* base = static_cast<const uint16_t*>(x);
    const auto* exponent = static_cast<const Storage<y_type>*>(y);
    auto* powers = static_cast<uint16_t*>(out);
    float floats[most_one_by_one];
    for (npy_intp i = 0; i < size; ++i)
        floats[i] = halfulp_powf(python::decode_float<Element::float16>(base[i]),
                                 python::decode_float<y_type>(exponent[i * y_step]));
    bool right = true;
    for (npy_intp i = 0; i < size; ++i) {
        const python::RoundedFloat rounded = python::round_to_float16(std::fabs(floats[i]));
        const uint32_t sign = __builtin_bit_cast(uint32_t, floats[i]) >> 16 & 0x8000;
        powers[i] = static_cast<uint16_t>(rounded.encoding | sign);
        right &= rounded.from_tie != 0 && floats[i] == floats[i];
    }
    return right;
}

bool are_alike(PyArrayObject* x, PyArrayObject* y) {
    if (PyArray_TYPE(y) != PyArray_TYPE(x) || PyArray_NDIM(y) != PyArray_NDIM(x) || !PyArray_ISCARRAY_RO(y))
        return false;
    return std::equal(PyArray_DIMS(x), PyArray_DIMS(x) + PyArray_NDIM(x), PyArray_DIMS(y));
}

// The powers of a few floats, doubles or halves in the plainest of arrays, one after the other: by vectors the call would
// take longer. `out` is None or an array. Returns nothing as above.
PyObject* power_of_small(PyArrayObject* x, PyObject* y_object, PyObject* out) {
    const int type = PyArray_TYPE(x);
    if ((type != NPY_FLOAT && type != NPY_DOUBLE && type != NPY_HALF) || !PyArray_ISCARRAY_RO(x)) return nullptr;
    const npy_intp size = PyArray_SIZE(x);
    if (size < 1 || size > most_one_by_one) return nullptr;
    double number;
    float short_number;
    const void* exponents = &number;
    if (PyArrayObject* y = as_array(y_object)) {
        if (!are_alike(x, y)) return nullptr;
        exponents = PyArray_DATA(y);
    } else {
        const NumberOperand y_number = number_operand(y_object);
        number = y_number.value;
        const bool is_single = y_number.kind == NumberOperand::float32;
        if (y_number.kind == NumberOperand::other || (type == NPY_DOUBLE && is_single)) return nullptr;
        if (type != NPY_DOUBLE) {
            if (!is_float32(y_number, short_number)) return nullptr;
            exponents = &short_number;
        }
    }
    PyArrayObject* target = as_array(out);
    if (out != Py_None && (target == nullptr || !are_alike(x, target) || !PyArray_ISWRITEABLE(target))) return nullptr;
    const npy_intp y_step = as_array(y_object) != nullptr;
    const void* bases = PyArray_DATA(x);
    alignas(double) unsigned char powers[sizeof(double) * most_one_by_one];  // `out` may share memory with the operands
    bool right = false;
    if (type == NPY_FLOAT) {
        right = fill_powers(halfulp_powf, bases, exponents, powers, size, y_step);
    } else if (type == NPY_DOUBLE) {
        right = fill_powers(halfulp_powd, bases, exponents, powers, size, y_step);
    } else {
        const FpEnvironment default_environment;
        right = y_step != 0 ? fill_powers_of_halves<Element::float16>(bases, exponents, powers, size, 1)
                            : fill_powers_of_halves<Element::float32>(bases, exponents, powers, size, 0);
    }
    if (!right) return nullptr;
    PyObject* result = target == nullptr ? PyArray_SimpleNew(PyArray_NDIM(x), PyArray_DIMS(x), type) : Py_NewRef(out);
    if (result == nullptr) return nullptr;
    auto* filled = reinterpret_cast<PyArrayObject*>(result);
    std::memcpy(PyArray_DATA(filled), powers, static_cast<size_t>(PyArray_NBYTES(filled)));
    return target == nullptr ? PyArray_Return(filled) : result;  // a scalar, if there are no axes
}

// Whether the only keyword is `out`, the value behind the operands.
bool is_output_alone(PyObject* names) {
    return PyTuple_Size(names) == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, 0), "out") == 0;
}

// Returns no object if the operands are to be left to the function in Python, or if an error is set.
nb::object quick_result(const Function& function, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    PyObject* out = Py_None;
    if (count != 2) return nb::object();
    if (names != nullptr) {
        if (!is_output_alone(names)) return nb::object();
        out = args[2];
    }
    const bool x_is_array = PyArray_CheckExact(args[0]), y_is_array = PyArray_CheckExact(args[1]);
    const bool are_scalars = is_scalar(args[0]) && !y_is_array && out == Py_None && function.general != Py_None;
    const bool has_number = !is_scalar(args[1]) && !y_is_array;
    if (!are_scalars) {
        if (!x_is_array && !(y_is_array && is_scalar(args[0]))) return nb::object();
        // A result with no axes is left to the function, which knows when it is a scalar.
        PyObject* array = args[x_is_array ? 0 : 1];
        if (!(x_is_array && y_is_array) && PyArray_NDIM(reinterpret_cast<PyArrayObject*>(array)) == 0)
            return nb::object();
    }
    // As a slope, a number has x's type.
    if (has_number && function.operator_number == prelu_operator) return nb::object();
    const nb::object x = plain_array(args[0]), y = plain_array(args[1]);
    if (!x.is_valid() || !y.is_valid()) return nb::object();
    const Element type = element_of(as_array(x)), y_type = element_of(as_array(y));
    if (type == Element::count || y_type == Element::count ||
        (function.exponents[static_cast<int>(type)] >> static_cast<int>(y_type) & 1) == 0)
        return nb::object();
    nb::object result = apply(function.operator_number, x, y, out, nb::none());
    if (!result.is_valid() || result.is_none()) return nb::object();
    // As NumPy's ufuncs do: what has no axes is a scalar.
    if (out == Py_None && function.general != Py_None)
        return nb::steal(PyArray_Return(reinterpret_cast<PyArrayObject*>(result.release().ptr())));
    return result;
}

PyObject* call_function(PyObject* self, PyObject* const* args, size_t flagged_count, PyObject* names) {
    const auto& function = *reinterpret_cast<Function*>(self);
    const Py_ssize_t count = PyVectorcall_NARGS(flagged_count);
    PyObject* out = names == nullptr ? Py_None : is_output_alone(names) ? args[count] : nullptr;
    if (out == Py_None) names = nullptr;
    if (function.operator_number == pow_operator && function.general != Py_None && out != nullptr && count == 2) {
        PyObject* power = nullptr;
        if (PyArray_CheckExact(args[0]))
            power = power_of_small(reinterpret_cast<PyArrayObject*>(args[0]), args[1], out);
        else if (out == Py_None) power = power_of_numbers(number_operand(args[0]), number_operand(args[1]));
        if (power != nullptr || PyErr_Occurred() != nullptr) return power;
    }
    try {
        nb::object result = quick_result(function, args, count, names);
        if (result.is_valid()) return result.release().ptr();
    } catch (nb::python_error& error) {  // a signal's handler raised
        error.restore();
    } catch (const std::bad_alloc&) { PyErr_NoMemory(); }
    if (PyErr_Occurred() != nullptr) return nullptr;
    if (function.general != Py_None) return PyObject_Vectorcall(function.general, args, flagged_count, names);
    Py_RETURN_NONE;
}

// Function(kernel, general, exponents)
PyObject* new_function(PyTypeObject* type, PyObject* args, PyObject*) {
    int number;
    PyObject *general, *exponents;
    if (!PyArg_ParseTuple(args, "iOO!", &number, &general, &PyTuple_Type, &exponents)) return nullptr;
    uint32_t sets[element_count] = {};
    for (int i = 0; i < element_count; ++i) {
        PyObject* set = PyTuple_GetItem(exponents, i);
        if (set == nullptr) return nullptr;
        sets[i] = static_cast<uint32_t>(PyLong_AsUnsignedLong(set));
    }
    if (PyErr_Occurred() != nullptr) return nullptr;
    auto* function = reinterpret_cast<Function*>(PyType_GenericAlloc(type, 0));
    if (function == nullptr) return nullptr;
    function->call = call_function;
    function->general = general;
    Py_INCREF(general);
    function->operator_number = number;
    std::copy_n(sets, element_count, function->exponents);
    return reinterpret_cast<PyObject*>(function);
}

void delete_function(PyObject* self) {
    auto& function = *reinterpret_cast<Function*>(self);
    PyTypeObject* type = Py_TYPE(self);
    Py_XDECREF(function.general);
    Py_XDECREF(function.dict);
    PyObject_Free(self);
    Py_DECREF(reinterpret_cast<PyObject*>(type));
}

// As of a function of C: to be the attribute of a class does not bind it.
PyObject* get_function(PyObject* self, PyObject*, PyObject*) {
    Py_INCREF(self);
    return self;
}

// It is pickled by its name, as functions are.
PyObject* reduce_function(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }

PyObject* function_type() {
    static PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(Function, call), READONLY, nullptr},
        {"__dictoffset__", T_PYSSIZET, offsetof(Function, dict), READONLY, nullptr},
        {},
    };
    static PyMethodDef methods[] = {{"__reduce__", reduce_function, METH_NOARGS, nullptr}, {}};
    static PyGetSetDef properties[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                                       {}};
    PyType_Slot slots[] = {
        {Py_tp_new, reinterpret_cast<void*>(new_function)},
        {Py_tp_dealloc, reinterpret_cast<void*>(delete_function)},
        {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
        {Py_tp_descr_get, reinterpret_cast<void*>(get_function)},
        {Py_tp_members, members},
        {Py_tp_methods, methods},
        {Py_tp_getset, properties},
        {},
    };
    PyType_Spec spec = {"halfulp._core.Function", sizeof(Function), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
                        slots};
    return PyType_FromSpec(&spec);
}

// A context manager that sets the default floating-point environment, for conversions by NumPy.
class DefaultEnvironment {
public:
    void enter() { environment_.emplace(); }
    void exit() { environment_.reset(); }

private:
    std::optional<FpEnvironment> environment_;
};

}  // namespace

}  // namespace halfulp

NB_MODULE(_core, m) {
    using namespace halfulp;
    // The objects of the module are the process's.
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0)
        throw std::runtime_error("halfulp serves the main interpreter only");
    if (_import_array() < 0) throw nb::python_error();
    for (signed char& element : element_of_number) element = -1;
    char message[256];
    if (halfulp_check_environment(message, sizeof message) != HALFULP_OK) throw std::runtime_error(message);
    m.attr("POW") = static_cast<int>(pow_operator);
    m.attr("POW_DOMAIN_ERROR") = static_cast<int>(pow_with_domain_error);
    m.attr("PRELU") = static_cast<int>(prelu_operator);
    m.attr("Function") = nb::steal(function_type());
    m.def("register_type", &register_type, nb::arg("number"), nb::arg("name"));
    m.def("apply", &apply, nb::arg("kernel"), nb::arg("x").none(), nb::arg("y").none(), nb::arg("out").none(),
          nb::arg("scale_bias").none());
    nb::class_<DefaultEnvironment>(m, "DefaultEnvironment")
        .def(nb::init<>())
        .def("__enter__", &DefaultEnvironment::enter)
        .def("__exit__", [](DefaultEnvironment& self, nb::args) { self.exit(); });
    m.def("instruction_set", [] { return std::string(halfulp_instruction_set()); });
    m.def("thread_count", &halfulp_thread_count);
    m.def("share_threads_of", [](uintptr_t parallel, uintptr_t max_threads) {
        halfulp_share_openmp(reinterpret_cast<void (*)(void (*)(void*), void*, unsigned, unsigned)>(parallel),
                             reinterpret_cast<int (*)()>(max_threads));
    });
    m.def("xla_handlers", [] {
        nb::dict handlers;
        const auto add = [&handlers](const char* name, xla::Error* (*handler)(xla::Call*)) {
            handlers[name] = nb::capsule(reinterpret_cast<void*>(handler));
        };
        add("halfulp_pow", &xla::pow);
        add("halfulp_pow_of_number", &xla::pow_of_number);
        add("halfulp_prelu", &xla::prelu);
        return handlers;
    });
    m.def("powers_of", [](nb::handle model) -> nb::object {
        Py_buffer bytes;
        if (PyObject_GetBuffer(model.ptr(), &bytes, PyBUF_SIMPLE) != 0) throw nb::python_error();
        const std::unique_ptr<Py_buffer, decltype(&PyBuffer_Release)> held(&bytes, PyBuffer_Release);
        const auto powers = powers_of({static_cast<const char*>(bytes.buf), static_cast<size_t>(bytes.len)});
        if (!powers) return nb::none();
        return nb::make_tuple(powers->may_be_folded, powers->may_be_fused);
    });
    m.def("torch_kernels", [](const nb::callable& find, const nb::dict& dtypes) {
        std::vector<std::pair<int, int>> types;
        for (const auto& [number, type] : dtypes) types.emplace_back(nb::cast<int>(number), nb::cast<int>(type));
        torch::connect([&find](const char* name) { return reinterpret_cast<void*>(nb::cast<uintptr_t>(find(name))); },
                       types);
        nb::dict addresses;
        for (const auto& [name, kernel] : torch::kernels())
            addresses[name.c_str()] = reinterpret_cast<uintptr_t>(kernel);
        return addresses;
    });
    m.def("power_ufunc", &power_ufunc);
    m.def("replace_numpy_power", &replace_numpy_power, nb::arg("by_halfulps"));
    m.def("undecided", &halfulp_undecided);
}
