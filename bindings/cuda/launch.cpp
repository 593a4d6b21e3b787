#include "launch.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "arguments.h"

namespace halfulp::cuda {

namespace {

// The order of the kernels' names: first those of each type that has its own, then those of all types.
enum class Form { own, one, each };
constexpr Element own_kernels[] = {Element::float64, Element::float32, Element::float16, Element::bfloat16};
constexpr const char* forms_of_pow[] = {"pow_own_", "pow_one_", "pow_each_"};
constexpr const char* forms_of_prelu[] = {"prelu_own_", "prelu_one_"};
constexpr int types = std::size(own_kernels);

struct Kernels {
    Function pow[std::size(forms_of_pow)][types], prelu[std::size(forms_of_prelu)][types];
    Function prelu_each, pow_rest;
    DevicePointer undecidable;  // a count of 64 bits
    int processors;             // multiprocessors of the device
};

std::string& ptx() {
    static std::string text;
    return text;
}

Kernels load(Device device) {
    if (ptx().empty()) throw std::runtime_error("CUDA: the kernels are not loaded");
    constexpr int multiprocessor_count = 16, major_capability = 75, minor_capability = 76;
    const auto attribute = [&](int which) {
        int value = 0;
        check(driver().device_attribute(&value, which, device), "device " + std::to_string(device));
        return value;
    };
    const int capability = 10 * attribute(major_capability) + attribute(minor_capability);
    if (capability < 75)
        throw std::runtime_error("CUDA: the kernels need compute capability 7.5, and device " + std::to_string(device) +
                                 " has " + std::to_string(capability / 10) + "." + std::to_string(capability % 10));
    Module module;
    check(driver().load_module(&module, ptx().c_str(), 0, nullptr, nullptr), "the kernels for this device");
    Kernels kernels{};
    const auto function = [&](const std::string& name) {
        Function found;
        check(driver().get_function(&found, module, name.c_str()), name);
        return found;
    };
    for (int type = 0; type < types; ++type) {
        const std::string name = row(own_kernels[type]).name;
        for (size_t form = 0; form < std::size(forms_of_pow); ++form)
            kernels.pow[form][type] = function(forms_of_pow[form] + name);
        for (size_t form = 0; form < std::size(forms_of_prelu); ++form)
            kernels.prelu[form][type] = function(forms_of_prelu[form] + name);
    }
    kernels.prelu_each = function("prelu_each");
    kernels.pow_rest = function("pow_rest");
    check(driver().allocate_at_once(&kernels.undecidable, sizeof(uint64_t)), "memory for a count");
    check(driver().clear(kernels.undecidable, 0, sizeof(uint64_t)), "memory for a count");
    kernels.processors = attribute(multiprocessor_count);
    return kernels;
}

// The device must be current.
const Kernels& kernels_of(Device device) {
    static std::mutex mutex;
    static std::map<Device, Kernels> loaded;
    const std::lock_guard lock(mutex);
    const auto found = loaded.find(device);
    return found != loaded.end() ? found->second : loaded.emplace(device, load(device)).first->second;
}

std::optional<int> own_kernels_of(Element type) {
    const auto* found = std::find(std::begin(own_kernels), std::end(own_kernels), type);
    if (found == std::end(own_kernels)) return std::nullopt;
    return static_cast<int>(found - own_kernels);
}

// An axis of all operands, in elements.
struct LongAxis {
    int64_t extent, x_stride, y_stride, out_stride;
};

bool continues(const LongAxis& fast, const LongAxis& slow) {
    return slow.x_stride == fast.x_stride * fast.extent && slow.y_stride == fast.y_stride * fast.extent &&
           slow.out_stride == fast.out_stride * fast.extent;
}

// A part of an operation: its offsets, and its axes, the fastest one first.
struct Box {
    const char *x, *y;
    char* out;
    std::array<LongAxis, max_axes> axis;
    int axes = 0;

    int64_t count() const {
        int64_t product = 1;
        for (int i = 0; i < axes; ++i) product *= axis[i].extent;
        return product;
    }
    void move(const LongAxis& along, int64_t index) {
        if (x != nullptr) x += index * along.x_stride;
        if (y != nullptr) y += index * along.y_stride;
        out += index * along.out_stride;
    }
};

// Merges the axes to as few as possible, at least one, in the order of the output's memory.
Box box_of(const Operation& operation) {
    Box box{operation.x.data, operation.y.data, operation.out.data, {}, 0};
    const auto stride_of = [](const View& view, int i) { return view.data == nullptr ? 0 : view.strides[i]; };
    std::array<LongAxis, max_axes> axes;
    int count = 0;
    for (int i = operation.shape.dims - 1; i >= 0; --i) {
        const int64_t extent = operation.shape.extent[i];
        if (extent == 1) continue;
        axes[count++] = {extent, stride_of(operation.x, i), stride_of(operation.y, i), operation.out.strides[i]};
    }
    std::stable_sort(axes.begin(), axes.begin() + count, [](const LongAxis& a, const LongAxis& b) {
        return std::abs(a.out_stride) < std::abs(b.out_stride);
    });
    for (int i = 0; i < count; ++i) {
        if (box.axes > 0 && continues(box.axis[box.axes - 1], axes[i])) box.axis[box.axes - 1].extent *= axes[i].extent;
        else box.axis[box.axes++] = axes[i];
    }
    if (box.axes == 0) box.axis[box.axes++] = {1, 0, 0, 0};
    return box;
}

// Calls f(box) for parts that are small enough for 32-bit counts.
template <typename F>
void for_small_boxes(Box box, F f) {
    constexpr int64_t most = int64_t{1} << 30;
    if (box.count() <= most) return f(box);
    const LongAxis slowest = box.axis[box.axes - 1];
    const int64_t inner = box.count() / slowest.extent;
    const int64_t step = inner <= most ? most / inner : 1;
    for (int64_t done = 0; done < slowest.extent; done += step) {
        Box part = box;
        part.move(slowest, done);
        part.axis[part.axes - 1].extent = std::min(step, slowest.extent - done);
        if (part.axis[part.axes - 1].extent == 1 && part.axes > 1) --part.axes;
        for_small_boxes(part, f);
    }
}

// n / extent as (high half of n * factor + n) >> shift, for n < 2^31 (Granlund and Montgomery, "Division by invariant
// integers using multiplication", 1994).
Axis axis_of(const LongAxis& from, int64_t vector) {
    const uint64_t extent = static_cast<uint64_t>(from.extent) / static_cast<uint64_t>(vector);
    uint32_t shift = 0;
    while ((uint64_t{1} << shift) < extent) ++shift;
    const uint64_t factor = ((uint64_t{1} << 32) * ((uint64_t{1} << shift) - extent)) / extent + 1;
    return {static_cast<uint32_t>(extent), static_cast<uint32_t>(factor), shift,
            from.x_stride * vector,        from.y_stride * vector,        from.out_stride * vector};
}

// The arguments for a box whose fastest axis is divided into vectors of `vector` elements.
Arguments arguments_of(const Operation& operation, const Box& box, int vector) {
    Arguments arguments{};
    arguments.x = box.x;
    arguments.y = box.y;
    arguments.out = box.out;
    arguments.x_number = operation.x_number;
    arguments.y_number = operation.y_number;
    arguments.count = static_cast<uint32_t>(box.count() / vector);
    arguments.type = static_cast<uint8_t>(operation.type);
    arguments.y_type = static_cast<uint8_t>(operation.y_type);
    arguments.axes = box.axes;
    for (int i = 0; i < box.axes; ++i) arguments.axis[i] = axis_of(box.axis[i], i == 0 ? vector : 1);
    return arguments;
}

// Returns the layout of exponents or slopes for vectors of `vector` elements, if the box can be taken in such vectors.
std::optional<Form> form_of(const Operation& operation, const Box& box, int vector) {
    const int64_t size = row(operation.type).size, bytes = size * vector;
    const LongAxis& fastest = box.axis[0];
    const bool y_is_one = fastest.y_stride == 0;
    const bool y_is_own = operation.y_type == operation.type && fastest.y_stride == size;
    const auto is_aligned = [&](const void* address) { return reinterpret_cast<uintptr_t>(address) % bytes == 0; };
    if (fastest.x_stride != size || fastest.out_stride != size || fastest.extent % vector != 0) return std::nullopt;
    if (!is_aligned(box.x) || !is_aligned(box.out) || !(y_is_one || (y_is_own && is_aligned(box.y))))
        return std::nullopt;
    for (int i = 1; i < box.axes; ++i) {
        const LongAxis& axis = box.axis[i];
        if (axis.x_stride % bytes != 0 || axis.out_stride % bytes != 0) return std::nullopt;
        if (!y_is_one && axis.y_stride % bytes != 0) return std::nullopt;
    }
    return y_is_one ? Form::one : Form::own;
}

// The work of one operation on a stream.
class Launcher {
public:
    Launcher(const Operation& operation, Device device, Stream stream, const Allocate& allocate)
        : operation_(operation), kernels_(kernels_of(device)), stream_(stream), allocate_(allocate) {}

    // If there is only one axis, its last vector may be incomplete.
    void run(const Box& box) const {
        const int vector = vector_of(row(operation_.type).size);
        const int64_t extent = box.axis[0].extent, rest = extent % vector;
        if (box.axes > 1 || rest == 0 || rest == extent) return run_part(box, vector);
        Box whole = box, last = box;
        whole.axis[0].extent = extent - rest;
        last.move(box.axis[0], extent - rest);
        last.axis[0].extent = rest;
        run_part(whole, vector);
        run_part(last, vector);
    }

private:
    void run_part(const Box& box, int vector) const {
        const std::optional<int> type = own_kernels_of(operation_.type);
        std::optional<Form> form;
        if (type) form = form_of(operation_, box, vector);
        if (operation_.prelu) return run_prelu(box, type, form, vector);
        run_pow(box, type, form, vector);
    }

    void run_prelu(const Box& box, std::optional<int> type, std::optional<Form> form, int vector) const {
        Arguments arguments = arguments_of(operation_, box, form ? vector : 1);
        void* parameters[] = {&arguments};
        if (form) return start(kernels_.prelu[static_cast<int>(*form)][*type], blocks_of(arguments.count), parameters);
        start(kernels_.prelu_each, blocks_of_elements_apart(arguments.count), parameters);
    }

    void run_pow(const Box& box, std::optional<int> type, std::optional<Form> form, int vector) const {
        Arguments elements = arguments_of(operation_, box, 1);
        const auto undecided = [&](DevicePointer bits, uint32_t threads) {
            return Undecided{reinterpret_cast<const uint8_t*>(bits), threads, static_cast<uint32_t>(vector),
                             reinterpret_cast<unsigned long long*>(kernels_.undecidable)};
        };
        if (!type || elements.count <= few) return run_rest(elements, undecided(0, 0), elements.count);
        if (!form) {
            form = Form::each;
            vector = 1;
        }
        Arguments arguments = arguments_of(operation_, box, vector);
        const uint32_t blocks =
            *form == Form::each ? blocks_of_elements_apart(arguments.count) : blocks_of(arguments.count);
        const uint32_t threads = blocks * block_threads;
        DevicePointer bits;
        if (allocate_) bits = allocate_(threads);
        else check(driver().allocate(&bits, threads, stream_), "memory for undecided powers");
        void* parameters[] = {&arguments, &bits};
        start(kernels_.pow[static_cast<int>(*form)][*type], blocks, parameters);
        run_rest(elements, undecided(bits, threads), threads / undecided_at_once);
        if (!allocate_) check(driver().free(bits, stream_), "memory for undecided powers");
    }

    void run_rest(Arguments& elements, Undecided undecided, uint32_t items) const {
        void* parameters[] = {&elements, &undecided};
        const uint32_t enough = static_cast<uint32_t>(kernels_.processors) * 8;
        start(kernels_.pow_rest, std::min(blocks_of(items), enough), parameters);
    }

    void start(Function function, uint32_t blocks, void** parameters) const {
        check(driver().launch(function, blocks, 1, 1, block_threads, 1, 1, 0, stream_, parameters, nullptr),
              "a launch");
    }

    static uint32_t blocks_of(uint32_t threads) { return (threads + block_threads - 1) / block_threads; }
    static uint32_t blocks_of_elements_apart(uint32_t elements) {
        return (elements + block_threads * elements_apart - 1) / (block_threads * elements_apart);
    }

    // For at most this many elements, one launch of all phases takes less time than two launches.
    static constexpr uint32_t few = 256;

    const Operation& operation_;
    const Kernels& kernels_;
    const Stream stream_;
    const Allocate& allocate_;
};

}  // namespace

Shape shape_of(std::span<const int64_t> dims) {
    if (dims.size() > max_dims) throw std::invalid_argument("too many axes");
    Shape shape;
    shape.dims = static_cast<int>(dims.size());
    std::copy(dims.begin(), dims.end(), shape.extent);
    return shape;
}

View view_of(void* data, std::span<const int64_t> dims, std::span<const int64_t> strides, int size,
             const Shape& shape) {
    const int missing = shape.dims - static_cast<int>(dims.size());
    if (missing < 0 || (!strides.empty() && strides.size() != dims.size()))
        throw std::invalid_argument("an operand has the wrong number of axes");
    View view;
    view.data = static_cast<char*>(data);
    int64_t dense = size;
    for (int i = shape.dims - 1; i >= 0; --i) {
        const int64_t extent = i < missing ? 1 : dims[i - missing];
        if (extent != 1 && extent != shape.extent[i]) throw std::invalid_argument("an operand does not broadcast");
        view.strides[i] = extent == 1 ? 0 : strides.empty() ? dense : strides[i - missing];
        dense *= extent;
    }
    return view;
}

void set_kernels(std::string text) { ptx() = std::move(text); }

void launch(const Operation& operation, Device device, Stream stream, const Allocate& allocate) {
    const Box box = box_of(operation);
    if (box.count() == 0) return;
    const DeviceScope scope(device);
    const Launcher launcher(operation, device, stream, allocate);
    for_small_boxes(box, [&](const Box& part) { launcher.run(part); });
}

uint64_t undecided(Device device) {
    const DeviceScope scope(device);
    uint64_t count;
    check(driver().copy_from_device(&count, kernels_of(device).undecidable, sizeof count), "a count");
    return count;
}

}  // namespace halfulp::cuda
