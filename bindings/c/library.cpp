// The C interface of halfulp.h: checks the caller's arrays and computes on the core's kernels.
#ifdef _WIN32
#define HALFULP_API __declspec(dllexport)
#endif
#include "halfulp.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>

#include "../this_library.h"
#include "array/thread_pool.h"
#include "array/walker.h"
#include "dispatch.h"

struct halfulp_memo {
    halfulp::KeptTable table;
};

namespace halfulp {

namespace {

static_assert(HALFULP_FLOAT4_E2M1FN == static_cast<int>(Element::float4_e2m1fn));
static_assert(HALFULP_UINT4 == static_cast<int>(Element::uint4) && HALFULP_UINT4 + 1 == element_count);
static_assert(HALFULP_MOST_AXES == max_dims);

// A call's shape and views. They stay as large as the axes in use.
struct Call {
    Shape shape;
    View views[role_count];
    ptrdiff_t elements;
};

bool is_type(halfulp_type type) { return type >= 0 && type < element_count; }

const ElementRow& row_of(const halfulp_array& array) { return element_rows[array.type]; }

// Returns the status of an array by itself.
halfulp_status check(const halfulp_array* array) {
    if (array == nullptr) return HALFULP_BAD_ARGUMENT;
    if (!is_type(array->type)) return HALFULP_BAD_TYPE;
    if (array->axes < 0 || array->axes > max_dims) return HALFULP_BAD_SHAPE;
    if (array->axes > 0 && array->shape == nullptr) return HALFULP_BAD_ARGUMENT;
    bool empty = false;
    for (int i = 0; i < array->axes; ++i) {
        if (array->shape[i] < 0) return HALFULP_BAD_SHAPE;
        empty |= array->shape[i] == 0;
    }
    return array->data == nullptr && !empty ? HALFULP_BAD_ARGUMENT : HALFULP_OK;
}

// The extent of an operand along an axis of the result.
ptrdiff_t extent(const halfulp_array& array, const Shape& shape, int axis) {
    const int own = axis - (shape.dims - array.axes);
    return own < 0 ? 1 : array.shape[own];
}

// Broadcasts to the shape of a result, which has at least as many axes. In place: to copy 64 strides takes as long as the
// rest of a small call.
void set_view(View& view, const halfulp_array& array, const Shape& shape) {
    view.data = static_cast<char*>(array.data);
    view.item_size = row_of(array).size;
    view.swapped = array.swapped != 0;
    ptrdiff_t stride = view.item_size;
    for (int i = shape.dims - 1; i >= 0; --i) {
        const ptrdiff_t size = extent(array, shape, i);
        const int own = i - (shape.dims - array.axes);
        view.strides[i] = size == 1 ? 0 : array.strides != nullptr ? array.strides[own] : stride;
        stride *= size;
    }
}

// Whether the bounds of two views show that they share no memory, or the views are the same.
bool is_safe_to_overwrite(const View& out, const View& in, const Shape& shape) {
    const char *out_low = out.data, *out_high = out.data + out.item_size, *in_low = in.data,
               *in_high = in.data + in.item_size;
    bool same = out.data == in.data && out.item_size == in.item_size;
    for (int i = 0; i < shape.dims; ++i) {
        ptrdiff_t out_reach = out.strides[i] * (shape.extent[i] - 1), in_reach = in.strides[i] * (shape.extent[i] - 1);
        (out_reach < 0 ? out_low : out_high) += out_reach;
        (in_reach < 0 ? in_low : in_high) += in_reach;
        same &= out.strides[i] == in.strides[i];
    }
    return same || out_high <= in_low || in_high <= out_low;
}

// Fills in the call, or says why the arrays do not go together.
halfulp_status arrange(Kernel kernel, const halfulp_array* x, const halfulp_array* y, const halfulp_array* out,
                       bool out_is_safe, Call& call) {
    for (const halfulp_array* array : {x, y, out})
        if (halfulp_status status = check(array)) return status;
    if (out->type != x->type || (kernel == Kernel::prelu && y->type != x->type)) return HALFULP_BAD_TYPE;
    Shape& shape = call.shape;
    shape.dims = out->axes;
    if (std::max(x->axes, y->axes) != shape.dims) return HALFULP_BAD_SHAPE;
    ptrdiff_t bytes = 8;  // of the result, if an element had the size of the largest type
    bool empty = false, fits_in_memory = true;
    for (int i = 0; i < shape.dims; ++i) {
        const ptrdiff_t from_x = extent(*x, shape, i), from_y = extent(*y, shape, i), size = out->shape[i];
        const bool fits =
            from_x == size ? from_y == size || from_y == 1 : kernel == Kernel::pow && from_x == 1 && from_y == size;
        if (!fits) return HALFULP_BAD_SHAPE;
        shape.extent[i] = size;
        empty |= size == 0;
        fits_in_memory &= !__builtin_mul_overflow(bytes, size, &bytes);
    }
    if (kernel == Kernel::prelu && x->axes != shape.dims) return HALFULP_BAD_SHAPE;
    if (!empty && !fits_in_memory) return HALFULP_BAD_SHAPE;
    call.elements = empty ? 0 : bytes / 8;
    set_view(call.views[role_x], *x, shape);
    set_view(call.views[role_y], *y, shape);
    set_view(call.views[role_out], *out, shape);
    if (call.elements == 0 || out_is_safe) return HALFULP_OK;
    for (int i = 0; i < shape.dims; ++i)
        if (shape.extent[i] > 1 && call.views[role_out].strides[i] == 0) return HALFULP_OVERLAP;
    for (Role role : {role_x, role_y})
        if (!is_safe_to_overwrite(call.views[role_out], call.views[role], shape)) return HALFULP_OVERLAP;
    return HALFULP_OK;
}

// Copies the options that the caller's version has. Those of a later version must be zero.
bool read(const halfulp_options* given, halfulp_options& options) {
    std::memset(&options, 0, sizeof options);
    if (given == nullptr) return true;
    if (given->size < offsetof(halfulp_options, flags)) return false;
    const char* bytes = reinterpret_cast<const char*>(given);
    std::memcpy(&options, bytes, std::min(given->size, sizeof options));
    return std::all_of(bytes + std::min(given->size, sizeof options), bytes + given->size,
                       [](char byte) { return byte == 0; }) &&
           options.flags < 2 * HALFULP_NO_OVERLAP && options.threads >= 0;
}

// The tiles of a call, for any threads. It keeps no exceptions: for its first one a thread needs memory too.
struct Work {
    const Tiling& tiling;
    const Operation& operation;
    std::atomic<bool> has_memory{true};

    void run(ptrdiff_t first, ptrdiff_t end) {
        if (first < end && has_memory && !run_tiles(tiling, first, end, operation)) has_memory = false;
    }

    static void run_chunk(void* self, size_t chunk) {
        Work& work = *static_cast<Work*>(self);
        const ptrdiff_t size = work.tiling.tiles_per_chunk(), first = static_cast<ptrdiff_t>(chunk) * size;
        work.run(first, first + size);
    }
};

bool run_on_pool(Work& work, const halfulp_options& options) {
    static const bool stays = (keep_this_library_loaded(), true);  // threads of the pool run its code
    static_cast<void>(stays);
    const ptrdiff_t size = work.tiling.tiles_per_chunk();
    ptrdiff_t done = 0;
    int threads = options.threads;
    if (threads == 0) {  // how long an element takes depends on its value and on the processor: half a chunk tells
        done = std::max<ptrdiff_t>(size / 2, 1);
        const auto begin = std::chrono::steady_clock::now();
        work.run(0, done);
        const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
        const double rest =
            taken.count() / static_cast<double>(done) * static_cast<double>(work.tiling.tile_count - done);
        threads = rest < worth_calling_others() ? 1 : thread_count();
    }
    return parallel_for(
        work.tiling.chunk_count(), threads, std::chrono::milliseconds(30),
        [&options] { return options.keep_going == nullptr || options.keep_going(options.keep_going_context) != 0; },
        [&](ptrdiff_t chunk) { work.run(chunk == 0 ? done : chunk * size, (chunk + 1) * size); });
}

halfulp_status compute(Kernel kernel, const halfulp_array* x, const halfulp_array* y, const halfulp_array* out,
                       const halfulp_options* given) {
    halfulp_options options;
    if (!read(given, options)) return HALFULP_BAD_ARGUMENT;
    Call call;
    const bool out_is_safe = (options.flags & HALFULP_NO_OVERLAP) != 0;
    if (halfulp_status status = arrange(kernel, x, y, out, out_is_safe, call)) return status;
    PowOptions of_pow;
    of_pow.domain_error = (options.flags & HALFULP_DOMAIN_ERROR) != 0;
    if ((options.flags & HALFULP_SCALE_BIAS) != 0) {
        of_pow.scale_bias = true;
        of_pow.scale = options.scale;
        of_pow.bias = options.bias;
    }
    const bool one_y = std::all_of(y->shape, y->shape + y->axes, [](ptrdiff_t size) { return size == 1; });
    const auto& [view_x, view_y, view_out] = call.views;
    const Operation operation(kernel, static_cast<Element>(x->type), static_cast<Element>(y->type),
                              one_y && !view_y.swapped ? view_y.data : nullptr, call.elements, of_pow,
                              options.memo != nullptr ? &options.memo->table : nullptr);
    const Tiling tiling = choose_tiling(call.shape, view_x, view_y, view_out, operation.bound_by());
    Work work{tiling, operation};
    const ptrdiff_t chunks = tiling.chunk_count();
    bool all = true;
    if (chunks == 1) {
        Work::run_chunk(&work, 0);
    } else if (chunks > 1 && options.parallel_for != nullptr) {
        all = options.parallel_for(options.parallel_context, Work::run_chunk, &work, static_cast<size_t>(chunks)) == 0;
    } else if (chunks > 1) {
        all = run_on_pool(work, options);
    }
    return !work.has_memory ? HALFULP_NO_MEMORY : all ? HALFULP_OK : HALFULP_STOPPED;
}

// Returns what f returns, or the status of its exception, whose text is copied to the message.
template <typename F>
halfulp_status guarded(F f, char* message = nullptr, size_t size = 0) noexcept {
    try {
        return f();
    } catch (const std::bad_alloc&) { return HALFULP_NO_MEMORY; } catch (const std::exception& error) {
        if (size > 0) {
            const size_t length = std::min(size - 1, std::strlen(error.what()));
            std::memcpy(message, error.what(), length);
            message[length] = '\0';
        }
        return HALFULP_BAD_ENVIRONMENT;  // the core throws nothing else
    }
}

}  // namespace

}  // namespace halfulp

using namespace halfulp;

halfulp_status halfulp_pow(const halfulp_array* x, const halfulp_array* y, const halfulp_array* out,
                           const halfulp_options* options) {
    return guarded([=] { return compute(Kernel::pow, x, y, out, options); });
}

halfulp_status halfulp_prelu(const halfulp_array* x, const halfulp_array* slope, const halfulp_array* out,
                             const halfulp_options* options) {
    return guarded([=] { return compute(Kernel::prelu, x, slope, out, options); });
}

const char* halfulp_status_text(halfulp_status status) {
    switch (status) {
        case HALFULP_OK: return "The call is done.";
        case HALFULP_BAD_ARGUMENT: return "A pointer is null, or the options are of a later version.";
        case HALFULP_BAD_TYPE: return "A type is none of halfulp.h's, or out has another type than x, or slope than x.";
        case HALFULP_BAD_SHAPE:
            return "The operands are not broadcastable to the shape of out, or an array has over 64 axes or too many"
                   " elements for any memory.";
        case HALFULP_OVERLAP: return "The array out may share memory with an operand other than element by element.";
        case HALFULP_NO_MEMORY: return "There is not enough memory.";
        case HALFULP_STOPPED: return "The caller ended the call: out is partly written.";
        case HALFULP_BAD_ENVIRONMENT: return "The variable HALFULP_ISA or HALFULP_NUM_THREADS can't be followed.";
    }
    return "No status of halfulp has this number.";
}

const char* halfulp_type_name(halfulp_type type) { return is_type(type) ? element_rows[type].name : nullptr; }

halfulp_type halfulp_type_of_name(const char* name) {
    for (int i = 0; name != nullptr && i < element_count; ++i)
        if (std::strcmp(element_rows[i].name, name) == 0) return i;
    return -1;
}

const char* halfulp_version(void) { return HALFULP_VERSION; }

const char* halfulp_instruction_set(void) {
    const char* name = nullptr;
    guarded([&] { return name = chosen_kernels().name, HALFULP_OK; });
    return name;
}

int32_t halfulp_thread_count(void) {
    int32_t count = 0;
    guarded([&] { return count = thread_count(), HALFULP_OK; });
    return count;
}

halfulp_status halfulp_check_environment(char* message, size_t size) {
    return guarded([] { return chosen_kernels(), check_thread_count(), HALFULP_OK; }, message, size);
}

halfulp_memo* halfulp_memo_new(void) { return new (std::nothrow) halfulp_memo; }

void halfulp_memo_free(halfulp_memo* memo) { delete memo; }

halfulp_status halfulp_share_openmp(void (*gomp_parallel)(void (*)(void*), void*, unsigned, unsigned),
                                    int (*omp_get_max_threads)(void)) {
    if (gomp_parallel == nullptr || omp_get_max_threads == nullptr) return HALFULP_BAD_ARGUMENT;
    return guarded([=] { return share_threads_of({gomp_parallel, omp_get_max_threads}), HALFULP_OK; });
}

uint64_t halfulp_undecided(void) {
    uint64_t count = 0;
    guarded([&] { return count = chosen_kernels().undecided(), HALFULP_OK; });
    return count;
}
