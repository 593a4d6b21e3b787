// The kernels of a CUDA device. A thread takes a vector of elements or, if these are not adjacent, some that are 256
// apart. It runs the first phase. For an undecided element it sets a bit and does not write the output; pow_rest then
// computes these. So the output may alias an operand.
//
//   NAME_own    each element has its own exponent or slope, of the base's type; all are contiguous
//   NAME_one    a vector of bases has one exponent, of any type, or one slope
//   NAME_each   any strides, exponents of any type
//   pow_rest    all phases for any two types, for the elements whose bits are set, or for all
#include "arguments.h"
#include "numerics/pow.h"
#include "numerics/prelu.h"
#include "pow_fast_phases.h"

using namespace halfulp;
using namespace halfulp::HALFULP_ISA;
using halfulp::cuda::Arguments;
using halfulp::cuda::block_threads;
using halfulp::cuda::elements_apart;
using halfulp::cuda::Undecided;
using halfulp::cuda::undecided_at_once;

namespace {

// Offsets in bytes.
struct Place {
    int64_t x = 0, y = 0, out = 0;
};

HALFULP_INLINE Place place_of(const Arguments& arguments, uint32_t index) {
    Place place;
    int i = 0;
#pragma unroll 1
    for (; i + 1 < arguments.axes; ++i) {
        const auto& axis = arguments.axis[i];
        const uint32_t quotient = (__umulhi(index, axis.factor) + index) >> axis.shift;
        const int64_t along = index - quotient * axis.extent;
        place.x += along * axis.x_stride;
        place.y += along * axis.y_stride;
        place.out += along * axis.out_stride;
        index = quotient;
    }
    const int64_t along = index;
    place.x += along * arguments.axis[i].x_stride;
    place.y += along * arguments.axis[i].y_stride;
    place.out += along * arguments.axis[i].out_stride;
    return place;
}

HALFULP_INLINE uint32_t thread_number() { return blockIdx.x * block_threads + threadIdx.x; }

template <typename T>
HALFULP_INLINE T load(const void* base, int64_t offset) {
    return *reinterpret_cast<const T*>(static_cast<const char*>(base) + offset);
}
template <typename T>
HALFULP_INLINE void store(void* base, int64_t offset, T value) {
    *reinterpret_cast<T*>(static_cast<char*>(base) + offset) = value;
}

// The elements that a thread takes at once.
template <Element type, int elements>
struct alignas(elements * sizeof(Storage<type>)) Vector {
    static constexpr int size = elements;
    Storage<type> of[size];
};
template <Element type>
using WholeVector = Vector<type, halfulp::cuda::vector_of(row(type).size)>;

// The element at an offset, or the number if the operand is one.
template <typename T>
HALFULP_INLINE T load_or(const void* base, int64_t offset, uint64_t number) {
    return base == nullptr ? static_cast<T>(number) : load<T>(base, offset);
}

// An element's encoding; a signed integer's bits above its own are copies of its sign.
HALFULP_INLINE uint64_t load_encoding(const ElementRow& type, const void* base, int64_t offset, uint64_t number) {
    const bool is_signed = type.is_signed && !type.is_float;
    switch (type.size) {
        case 1: {
            const uint8_t stored = load_or<uint8_t>(base, offset, number);
            if (type.bits == 4 && !type.is_float) {
                const uint64_t low = stored & 0xf;
                return is_signed ? static_cast<uint64_t>(static_cast<int64_t>((low ^ 8) - 8)) : low;
            }
            return is_signed ? static_cast<uint64_t>(static_cast<int8_t>(stored)) : stored;
        }
        case 2: {
            const uint16_t stored = load_or<uint16_t>(base, offset, number);
            return is_signed ? static_cast<uint64_t>(static_cast<int16_t>(stored)) : stored;
        }
        case 4: {
            const uint32_t stored = load_or<uint32_t>(base, offset, number);
            return is_signed ? static_cast<uint64_t>(static_cast<int32_t>(stored)) : stored;
        }
        default: return load_or<uint64_t>(base, offset, number);
    }
}

HALFULP_INLINE void store_encoding(const ElementRow& type, void* base, int64_t offset, uint64_t encoding) {
    switch (type.size) {
        case 1:
            return store(base, offset,
                         static_cast<uint8_t>(type.bits == 4 && !type.is_float ? encoding & 0xf : encoding));
        case 2: return store(base, offset, static_cast<uint16_t>(encoding));
        case 4: return store(base, offset, static_cast<uint32_t>(encoding));
        default: return store(base, offset, encoding);
    }
}

HALFULP_INLINE Integer integer_of(const ElementRow& type, uint64_t encoding) {
    return {encoding, type.is_signed && encoding >> 63 != 0};
}

// The value of an encoding of a floating type.
HALFULP_INLINE double decode_number(Element type, uint64_t encoding) {
    switch (type) {
#define HALFULP_FLOAT(name, storage, ...) \
    case Element::name: return decode<Element::name>(static_cast<storage>(encoding));
#define HALFULP_INT(name, ...)
#include "formats/elements.def"
#undef HALFULP_FLOAT
#undef HALFULP_INT
        default: return 0;
    }
}

HALFULP_INLINE Operand exponent_of(Element type, uint64_t encoding) {
    return row(type).is_float ? Operand::of(decode_number(type, encoding))
                              : Operand::of(integer_of(row(type), encoding));
}

HALFULP_INLINE Operand exponent_at(const Arguments& arguments, int64_t offset) {
    const Element type = static_cast<Element>(arguments.y_type);
    return exponent_of(type, load_encoding(row(type), arguments.y, offset, arguments.y_number));
}

template <Element type>
HALFULP_INLINE Operand exponent_of_base_type(Storage<type> y) {
    if constexpr (type == Element::float64) return Operand::of(double_of(y));
    else return Operand::of(static_cast<double>(float_of<type>(y)));
}

// The power of a special value.
template <Element type>
HALFULP_CALLED Storage<type> special_of(Storage<type> x, const Operand& y) {
    double base;
    if constexpr (type == Element::float64) base = double_of(x);
    else base = decode_float<type>(x);
    return static_cast<Storage<type>>(encode_special(row(type), base, y, false));
}

// Calls f(place) for a thread's vector. A thread beyond the last vector leaves nothing undecided.
template <typename F>
HALFULP_INLINE void for_vector(const Arguments& arguments, uint8_t* undecided, F f) {
    const uint32_t index = thread_number();
    if (index < arguments.count) f(place_of(arguments, index));
    else undecided[index] = 0;
}

// Computes a vector of powers by first(x, i), and stores those that are decided. The exponents are y(i).
template <Element type, typename First, typename Y>
HALFULP_INLINE void pow_vector(const Arguments& arguments, const Place& place, uint8_t* undecided, First first, Y y) {
    constexpr int element_size = sizeof(Storage<type>);
    WholeVector<type> vector = load<WholeVector<type>>(arguments.x, place.x);
    uint32_t open = 0, special = 0;
#pragma unroll
    for (int i = 0; i < vector.size; ++i) {
        const FastPower<type> power = first(vector.of[i], i);
        vector.of[i] = power.encoding;
        special |= power.special ? uint32_t{1} << i : 0;
        open |= power.decided ? 0 : uint32_t{1} << i;
    }
    if ((open | special) == 0) {
        store(arguments.out, place.out, vector);
    } else {
#pragma unroll
        for (int i = 0; i < vector.size; ++i)
            if (((open | special) >> i & 1) == 0) store(arguments.out, place.out + i * element_size, vector.of[i]);
#pragma unroll 1
        for (int i = 0; i < vector.size; ++i) {
            if ((special >> i & 1) == 0) continue;
            const auto x = load<Storage<type>>(arguments.x, place.x + i * element_size);
            store(arguments.out, place.out + i * element_size, special_of<type>(x, y(i)));
        }
    }
    undecided[thread_number()] = static_cast<uint8_t>(open & ~special);
}

template <Element type>
HALFULP_INLINE void pow_own(const Arguments& arguments, uint8_t* undecided) {
    for_vector(arguments, undecided, [&](const Place& place) {
        const WholeVector<type> exponents = load<WholeVector<type>>(arguments.y, place.y);
        pow_vector<type>(
            arguments, place, undecided,
            [&](Storage<type> x, int i) { return pow_fast<type>(x, exponent_of_base_type<type>(exponents.of[i])); },
            [&](int i) {
                const int64_t offset = place.y + i * int64_t{sizeof(Storage<type>)};
                return exponent_of_base_type<type>(load<Storage<type>>(arguments.y, offset));
            });
    });
}

template <Element type>
HALFULP_INLINE void pow_one(const Arguments& arguments, uint8_t* undecided) {
    for_vector(arguments, undecided, [&](const Place& place) {
        const Operand y = exponent_at(arguments, place.y);
        const auto pow_by = [&](auto first) {
            pow_vector<type>(arguments, place, undecided, first, [&](int) { return y; });
        };
        const auto fast = [&](Storage<type> x, int) { return pow_fast<type>(x, y); };
        if (y.low != 0) return pow_by(fast);
        const Shortcut shortcut = shortcut_of(y.high);
        with_shortcut(type != Element::float64 || is_exact(shortcut) ? shortcut : Shortcut::none, [&](auto constant) {
            constexpr Shortcut of_y = constant();
            if constexpr (of_y == Shortcut::none) pow_by(fast);
            else if constexpr (type != Element::float64 || is_exact(of_y))
                pow_by([&](Storage<type> x, int) { return pow_by_shortcut<type, of_y>(x, y); });
        });
    });
}

// Calls f(index, bit) for each of a thread's separate elements.
template <typename F>
HALFULP_INLINE void for_elements_apart(const Arguments& arguments, F f) {
    const uint32_t first = blockIdx.x * block_threads * elements_apart + threadIdx.x;
#pragma unroll 1
    for (uint32_t bit = 0; bit < elements_apart; ++bit) {
        const uint32_t index = first + bit * block_threads;
        if (index < arguments.count) f(index, bit);
    }
}

template <Element type>
HALFULP_INLINE void pow_each(const Arguments& arguments, uint8_t* undecided) {
    uint32_t open = 0;
    for_elements_apart(arguments, [&](uint32_t index, uint32_t bit) {
        const Place place = place_of(arguments, index);
        const Operand y = exponent_at(arguments, place.y);
        const auto x = load_or<Storage<type>>(arguments.x, place.x, arguments.x_number);
        const FastPower<type> power = pow_fast<type>(x, y);
        if (power.special) store(arguments.out, place.out, special_of<type>(x, y));
        else if (power.decided) store(arguments.out, place.out, power.encoding);
        else open |= uint32_t{1} << bit;
    });
    undecided[thread_number()] = static_cast<uint8_t>(open);
}

// The index of the element of a thread's bit; `vector` as in Undecided.
HALFULP_INLINE uint32_t element_of(uint32_t thread, uint32_t bit, uint32_t vector) {
    if (vector > 1) return thread * vector + bit;
    return (thread / block_threads * elements_apart + bit) * block_threads + thread % block_threads;
}

// Runs all phases for one element.
HALFULP_CALLED static void pow_element(const Arguments& arguments, uint32_t index, unsigned long long* undecidable) {
    const Place place = place_of(arguments, index);
    const Element x_type = static_cast<Element>(arguments.type), y_type = static_cast<Element>(arguments.y_type);
    const ElementRow& type = row(x_type);
    const uint64_t x = load_encoding(type, arguments.x, place.x, arguments.x_number);
    const uint64_t y = load_encoding(row(y_type), arguments.y, place.y, arguments.y_number);
    Attempt power = {0, true};
    if (type.is_float) {
        power = pow_float(type, decode_number(x_type, x), exponent_of(y_type, y), false);
    } else {
        const IntegerRange range = IntegerRange::of(type);
        if (row(y_type).is_float) power = pow_trunc(range, integer_of(type, x), decode_number(y_type, y), false);
        else power.result = pow_integers(range, integer_of(type, x), integer_of(row(y_type), y));
    }
    store_encoding(type, arguments.out, place.out, power.result);
    if (!power.decided) atomicAdd(undecidable, 1ull);
}

// PReLU of an element (numerics/prelu.h). Types of 16 bits use the device's conversions.
template <Element type>
HALFULP_INLINE Storage<type> prelu_of(Storage<type> x, Storage<type> slope) {
    if constexpr (type != Element::float16 && type != Element::bfloat16) {
        return prelu<type>(x, slope);
    } else {
        const float base = float_of<type>(x), product = base * float_of<type>(slope);
        const Storage<type> encoding = product != product ? row(type).nan : short_of<type>(product);
        return base < 0 ? encoding : x;
    }
}

template <Element type>
HALFULP_INLINE void prelu_own(const Arguments& arguments) {
    const uint32_t index = thread_number();
    if (index >= arguments.count) return;
    const Place place = place_of(arguments, index);
    WholeVector<type> vector = load<WholeVector<type>>(arguments.x, place.x);
    const WholeVector<type> slopes = load<WholeVector<type>>(arguments.y, place.y);
#pragma unroll
    for (int i = 0; i < vector.size; ++i) vector.of[i] = prelu_of<type>(vector.of[i], slopes.of[i]);
    store(arguments.out, place.out, vector);
}

template <Element type>
HALFULP_INLINE void prelu_one(const Arguments& arguments) {
    const uint32_t index = thread_number();
    if (index >= arguments.count) return;
    const Place place = place_of(arguments, index);
    WholeVector<type> vector = load<WholeVector<type>>(arguments.x, place.x);
    const auto slope = load_or<Storage<type>>(arguments.y, place.y, arguments.y_number);
#pragma unroll
    for (int i = 0; i < vector.size; ++i) vector.of[i] = prelu_of<type>(vector.of[i], slope);
    store(arguments.out, place.out, vector);
}

template <Element type>
HALFULP_INLINE void prelu_element(const Arguments& arguments, const Place& place) {
    const auto x = load_or<Storage<type>>(arguments.x, place.x, arguments.x_number);
    const auto slope = load_or<Storage<type>>(arguments.y, place.y, arguments.y_number);
    store(arguments.out, place.out, prelu_of<type>(x, slope));
}

}  // namespace

#define KERNEL(name) extern "C" __global__ void __launch_bounds__(block_threads) name
#define ARGUMENTS const __grid_constant__ Arguments arguments

#define KERNELS_OF(type)                                                                                      \
    KERNEL(pow_own_##type)(ARGUMENTS, uint8_t* undecided) { pow_own<Element::type>(arguments, undecided); }   \
    KERNEL(pow_one_##type)(ARGUMENTS, uint8_t* undecided) { pow_one<Element::type>(arguments, undecided); }   \
    KERNEL(pow_each_##type)(ARGUMENTS, uint8_t* undecided) { pow_each<Element::type>(arguments, undecided); } \
    KERNEL(prelu_own_##type)(ARGUMENTS) { prelu_own<Element::type>(arguments); }                              \
    KERNEL(prelu_one_##type)(ARGUMENTS) { prelu_one<Element::type>(arguments); }
KERNELS_OF(float64)
KERNELS_OF(float32)
KERNELS_OF(float16)
KERNELS_OF(bfloat16)

KERNEL(prelu_each)(ARGUMENTS) {
    for_elements_apart(arguments, [&](uint32_t index, uint32_t) {
        const Place place = place_of(arguments, index);
        switch (static_cast<Element>(arguments.type)) {
#define HALFULP_FLOAT(name, ...) \
    case Element::name: return prelu_element<Element::name>(arguments, place);
#define HALFULP_INT(name, ...) \
    case Element::name: return prelu_element<Element::name>(arguments, place);
#include "formats/elements.def"
#undef HALFULP_FLOAT
#undef HALFULP_INT
            case Element::count: return;
        }
    });
}

KERNEL(pow_rest)(ARGUMENTS, const Undecided undecided) {
    const uint32_t step = gridDim.x * block_threads;
    if (undecided.bits == nullptr) {
        for (uint32_t index = thread_number(); index < arguments.count; index += step)
            pow_element(arguments, index, undecided.undecidable);
        return;
    }
    for (uint32_t first = thread_number() * undecided_at_once; first < undecided.threads;
         first += step * undecided_at_once) {
        const auto words = load<Vector<Element::float32, undecided_at_once / 4>>(undecided.bits, first);
        if ((words.of[0] | words.of[1] | words.of[2] | words.of[3]) == 0) continue;
#pragma unroll 1
        for (uint32_t thread = first; thread < first + undecided_at_once; ++thread) {
            for (uint32_t bits = undecided.bits[thread]; bits != 0; bits &= bits - 1) {
                const uint32_t bit = static_cast<uint32_t>(std::countr_zero(uint64_t{bits}));
                pow_element(arguments, element_of(thread, bit, undecided.vector), undecided.undecidable);
            }
        }
    }
}
