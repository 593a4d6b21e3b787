#include "ufunc.h"

#define NO_IMPORT_ARRAY
#define HALFULP_ISA ufunc
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "fp_environment.h"
#include "halfulp.h"
#include "numerics/pow_exact.h"

namespace nb = nanobind;

namespace halfulp {

namespace {

using namespace HALFULP_ISA;

// The exceptions that a call raises are only those of `raise`: where FpEnvironment keeps modes alone, this keeps the rest.
class Exceptions {
public:
#if defined(__SSE2__)
    void raise(int raised) const {
#else
    Exceptions() { std::fegetexceptflag(&before_, FE_ALL_EXCEPT); }
    void raise(int raised) const {
        std::fesetexceptflag(&before_, FE_ALL_EXCEPT);
#endif
        if (raised != 0) std::feraiseexcept(raised);
    }

#if !defined(__SSE2__)
private:
    std::fexcept_t before_;
#endif
};

// What a power raises in IEEE 754 apart from inexact, if its result is zero, subnormal, infinite or NaN.
int exceptions_of(double x, double y, double power) {
    if (x != x || y != y || y == 0 || x == 1 || std::isinf(x) || std::isinf(y)) return 0;
    if (x == 0) return y < 0 ? FE_DIVBYZERO : 0;
    if (power != power) return FE_INVALID;
    if (std::isinf(power)) return FE_OVERFLOW;
    Magnitude exact;
    if (exact_power(dyadic_of(x), y < 0, dyadic_of(y), exact) && !exact.inexact) {
        const Dyadic result = dyadic_of(power);
        const int zeros = std::countr_zero(exact.significand);
        if (result.significand == exact.significand >> zeros && result.exponent == exact.exponent - 63 + zeros)
            return 0;
    }
    return FE_UNDERFLOW;
}

// The operands and results of a loop. The steps are in bytes; a step of 0 repeats an element.
struct Elements {
    char *x, *y, *out;
    npy_intp x_step, y_step, out_step, size;
};

template <typename Word>
Word load(const char* at) {
    Word word;
    std::memcpy(&word, at, sizeof word);
    return word;
}

// The encodings of a type, and the powers of its elements.
template <Element type>
struct Power {
    using Word = Storage<type>;
    static constexpr int bits = 8 * sizeof(Word);
    static constexpr Word infinity = static_cast<Word>(row(type).overflow);
    static constexpr Word unit = static_cast<Word>(Word{1} << row(type).fraction_bits());  // of the exponent field

    // Its top bit is set for zero, subnormals, infinity and NaN: plus one, their exponent fields are 0 or 1.
    static Word unusual(Word power) {
        return static_cast<Word>((static_cast<Word>(power + unit) & infinity & ~unit) - 1);
    }
    static bool is_unusual(Word power) { return unusual(power) >> (bits - 1) != 0; }

    static bool has_unusual(const char* powers, npy_intp step, npy_intp size) {
        const auto any = [=](npy_intp distance) {
            Word found = 0;
            for (npy_intp i = 0; i < size; ++i) found |= unusual(load<Word>(powers + i * distance));  // vector loop
            return found >> (bits - 1) != 0;
        };
        return step == sizeof(Word) ? any(sizeof(Word)) : any(step);
    }

    static int exceptions(Word x, Word y, Word power) {
        return is_unusual(power) ? exceptions_of(decode<type>(x), decode<type>(y), decode<type>(power)) : 0;
    }

    static halfulp_array array(char* at, const npy_intp& step, const npy_intp& size) {
        return {at, static_cast<halfulp_type>(type), step != 0, &size, &step, 0};
    }

    static bool compute(const Elements& all) {
        const halfulp_array x = array(all.x, all.x_step, all.size), y = array(all.y, all.y_step, all.size);
        halfulp_array out = array(all.out, all.out_step, all.size);
        out.axes = 1;
        halfulp_options options{};
        options.size = sizeof options;
        options.flags = HALFULP_NO_OVERLAP;
        if constexpr (bits == 16) {
            static halfulp_memo* const memo = halfulp_memo_new();  // null if there is no memory: then nothing is kept
            options.memo = memo;
        }
        return halfulp_pow(&x, &y, &out, &options) == HALFULP_OK;
    }

    // Returns false if there is no memory.
    static bool compute(Word x, Word y, Word& power) {
        if constexpr (type == Element::float32) {
            const float result = halfulp_powf(__builtin_bit_cast(float, x), __builtin_bit_cast(float, y));
            power = __builtin_bit_cast(Word, result);
        } else if constexpr (type == Element::float64) {
            power = __builtin_bit_cast(Word, halfulp_powd(double_of(x), double_of(y)));
        } else {
            constexpr npy_intp step = sizeof(Word);
            const auto bytes = [](Word& word) { return reinterpret_cast<char*>(&word); };
            return compute({bytes(x), bytes(y), bytes(power), step, step, step, 1});
        }
        return true;
    }

    // One after the other: a result may be a later operand, as in np.power.accumulate.
    static bool compute_in_order(const Elements& all, int& raised) {
        for (npy_intp i = 0; i < all.size; ++i) {
            const Word x = load<Word>(all.x + i * all.x_step), y = load<Word>(all.y + i * all.y_step);
            Word power;
            if (!compute(x, y, power)) return false;
            std::memcpy(all.out + i * all.out_step, &power, sizeof power);
            raised |= exceptions(x, y, power);
        }
        return true;
    }

    static int exceptions(const Elements& all) {
        int raised = 0;
        if (!has_unusual(all.out, all.out_step, all.size)) return raised;
        for (npy_intp i = 0; i < all.size; ++i)
            raised |= exceptions(load<Word>(all.x + i * all.x_step), load<Word>(all.y + i * all.y_step),
                                 load<Word>(all.out + i * all.out_step));
        return raised;
    }

    // By way of other memory, because the exceptions depend on operands that the results overwrite.
    static bool compute_in_place(Elements all, int& raised) {
        constexpr npy_intp most = 1 << 16, step = sizeof(Word);
        const npy_intp chunk = std::min(all.size, most);
        const std::unique_ptr<Word[]> powers(new (std::nothrow) Word[static_cast<size_t>(chunk)]);
        if (powers == nullptr) return compute_in_order(all, raised);
        for (npy_intp left = all.size; left > 0; left -= chunk) {
            all.size = std::min(left, chunk);
            Elements part = all;
            part.out = reinterpret_cast<char*>(powers.get());
            part.out_step = step;
            if (compute(part)) raised |= exceptions(part);
            else if (!compute_in_order(part, raised)) return false;
            for (npy_intp i = 0; i < all.size; ++i) std::memcpy(all.out + i * all.out_step, &powers[i], sizeof(Word));
            all.x += all.size * all.x_step, all.y += all.size * all.y_step, all.out += all.size * all.out_step;
        }
        return true;
    }

    static bool compute(const Elements& all, int& raised) {
        const auto is_out = [&](const char* at, npy_intp step) {
            return at == all.out && step == all.out_step && step != 0;
        };
        // Whether memory of an operand is written before the operand is read.
        const auto depends = [&](const char* at, npy_intp step) {
            const npy_intp last = all.size - 1, length = sizeof(Word);
            const char *begin = at + std::min<npy_intp>(last * step, 0), *end = at + std::max<npy_intp>(last * step, 0);
            const char* out_begin = all.out + std::min<npy_intp>(last * all.out_step, 0);
            const char* out_end = all.out + std::max<npy_intp>(last * all.out_step, 0);
            return !is_out(at, step) && begin < out_end + length && out_begin < end + length;
        };
        constexpr npy_intp few = bits == 16 ? 1 : 16;
        if (all.size <= few || depends(all.x, all.x_step) || depends(all.y, all.y_step))
            return compute_in_order(all, raised);
        if (is_out(all.x, all.x_step) || is_out(all.y, all.y_step)) return compute_in_place(all, raised);
        if (!compute(all)) return compute_in_order(all, raised);
        raised |= exceptions(all);
        return true;
    }
};

std::atomic<bool> was_called;

template <Element type>
void loop(char** args, const npy_intp* dims, const npy_intp* steps, void*) {
    was_called.store(true, std::memory_order_relaxed);
    const Exceptions exceptions;
    int raised = 0;
    bool has_memory;
    {
        const FpEnvironment environment;
        has_memory = Power<type>::compute({args[0], args[1], args[2], steps[0], steps[1], steps[2], dims[0]}, raised);
    }
    exceptions.raise(raised);
    if (has_memory) return;
    const PyGILState_STATE state = PyGILState_Ensure();
    PyErr_NoMemory();
    PyGILState_Release(state);
}

constexpr struct {
    int number;
    PyUFuncGenericFunction loop;
} own_loops[] = {
    {NPY_HALF, loop<Element::float16>}, {NPY_FLOAT, loop<Element::float32>}, {NPY_DOUBLE, loop<Element::float64>}};

nb::object numpys(const char* name) {
    if (PyUFunc_API == nullptr && _import_umath() < 0) throw nb::python_error();
    return nb::module_::import_("numpy").attr(name);
}

constexpr const char* power_doc = R"(Return x1 to the power x2, elementwise, by np.power's rules, and correctly rounded.

It is a real ufunc: ``where``, ``dtype``, ``outer``, ``reduce``, ``accumulate``, ``at`` and the warnings are those of
np.power. ``hu.pow`` has ONNX's rule for types, and more types.

Args:
    x1: the base, an array-like.
    x2: the exponent, broadcast with x1. Both are converted to NumPy's common type.

Returns:
    float16, bfloat16, float32, float64: the exact power rounded once, to nearest, ties to even. Other types: np.power's
    result, or that of float32.

Raises:
    ValueError: an integer to the power of a negative integer, as in np.power.

Example:
    >>> power(np.array([1, 2, 3]), [0.5, -1.0, 2.0])
    array([1. , 0.5, 9. ])
    >>> power.outer(np.float16([1.5, 3]), np.float16([2, -1]))
    array([[2.25  , 0.6665],
           [9.    , 0.3333]], dtype=float16)
)";

PyUFuncObject* as_ufunc(const nb::object& object) { return reinterpret_cast<PyUFuncObject*>(object.ptr()); }

}  // namespace

nb::object power_ufunc() {
    const nb::object like = numpys("power");
    const PyUFuncObject& numpy_power = *as_ufunc(like);
    const auto count = static_cast<size_t>(numpy_power.ntypes);
    // The ufunc refers to them for ever.
    auto* functions = new std::vector<PyUFuncGenericFunction>(numpy_power.functions, numpy_power.functions + count);
    auto* data = new std::vector<void*>(numpy_power.data, numpy_power.data + count);
    for (size_t i = 0; i < count; ++i)
        for (const auto& [number, own] : own_loops)
            if (numpy_power.types[3 * i] == number) (*functions)[i] = own;
    nb::object power =
        nb::steal(PyUFunc_FromFuncAndData(functions->data(), data->data(), numpy_power.types, numpy_power.ntypes, 2, 1,
                                          PyUFunc_None, "halfulp_power", power_doc, 0));
    const nb::object bfloat16 = numpys("dtype")(nb::module_::import_("ml_dtypes").attr("bfloat16"));
    const int number = nb::cast<int>(bfloat16.attr("num")), types[] = {number, number, number};
    if (PyUFunc_RegisterLoopForType(as_ufunc(power), number, loop<Element::bfloat16>, types, nullptr) < 0)
        throw nb::python_error();
    return power;
}

bool replace_numpy_power(bool by_halfulps) {
    static PyUFuncGenericFunction replaced[2][std::size(own_loops)];
    const nb::object ufuncs[] = {numpys("power"), numpys("float_power")};
    for (size_t u = 0; u < std::size(ufuncs); ++u) {
        for (size_t i = 0; i < std::size(own_loops); ++i) {
            const auto& [number, own] = own_loops[i];
            const int types[] = {number, number, number};
            PyUFuncGenericFunction before = nullptr, &kept = replaced[u][i];
            if (!by_halfulps && kept == nullptr) continue;
            if (PyUFunc_ReplaceLoopBySignature(as_ufunc(ufuncs[u]), by_halfulps ? own : kept, types, &before) == 0)
                kept = by_halfulps && before != own ? before : by_halfulps ? kept : nullptr;
        }
    }
    was_called = false;
    ufuncs[0](1.0, 2.0);
    return was_called;
}

}  // namespace halfulp
