// ONNX Runtime's C ABI, as far as a library of custom operators needs it, from its public description. Declared
// here so that building needs nothing of ONNX Runtime, and one build serves every version from 1.20 on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfulp::ort {

// Opaque types of ONNX Runtime.
struct Api;
struct Status;
struct SessionOptions;
struct CustomOpDomain;
struct KernelInfo;
struct KernelContext;
struct Value;
struct TensorInfo;

enum ErrorCode : int { fail = 1, invalid_argument = 2 };

// The numbers of element types in the ONNX format. library.cpp lists the operators' types.
using ElementNumber = int;
inline constexpr ElementNumber any_element = 0;

struct ApiBase {
    const Api* (*get_api)(uint32_t version);  // null if the runtime is older
    const char* (*version)();                 // such as "1.20.1"
};

// The version of the ABI that defines CustomOperator.
inline constexpr uint32_t abi_version = 18;

// Api is a table of functions that only grows: an index identifies a function.
template <int index, typename Signature>
struct Function;

template <int index, typename Result, typename... Arguments>
struct Function<index, Result(Arguments...)> {
    Result operator()(const Api* api, Arguments... arguments) const {
        return reinterpret_cast<Result (*const*)(Arguments...)>(api)[index](arguments...);
    }
};

// A Status that is not null is an error. The caller releases it or returns it.
inline constexpr Function<0, Status*(ErrorCode, const char* message)> create_status{};
inline constexpr Function<26, Status*(const char* name, CustomOpDomain**)> create_domain{};
inline constexpr Function<27, Status*(CustomOpDomain*, const struct CustomOperator*)> add_operator{};
inline constexpr Function<28, Status*(SessionOptions*, CustomOpDomain*)> add_domain{};
inline constexpr Function<51, Status*(const Value*, void** data)> tensor_data{};
inline constexpr Function<60, Status*(const TensorInfo*, ElementNumber*)> element_type{};
inline constexpr Function<61, Status*(const TensorInfo*, size_t*)> dimension_count{};
inline constexpr Function<62, Status*(const TensorInfo*, int64_t* dims, size_t count)> dimensions{};
inline constexpr Function<65, Status*(const Value*, TensorInfo**)> tensor_info{};
inline constexpr Function<86, Status*(const KernelInfo*, const char* name, int64_t*)> int_attribute{};
inline constexpr Function<87, Status*(const KernelInfo*, const char* name, char*, size_t* size)> string_attribute{};
inline constexpr Function<90, Status*(const KernelContext*, size_t index, const Value**)> input{};
inline constexpr Function<91, Status*(KernelContext*, size_t, const int64_t* dims, size_t count, Value**)> output{};
inline constexpr Function<93, void(Status*)> release_status{};
inline constexpr Function<99, void(TensorInfo*)> release_tensor_info{};
// The stream of a call on a GPU.
inline constexpr Function<193, Status*(const KernelContext*, void** stream)> gpu_stream{};
// Calls work(user, 0) .. work(user, total - 1) on the session's own threads, in up to `batches` portions.
inline constexpr Function<274, Status*(const KernelContext*, void (*work)(void* user, size_t), size_t total,
                                       size_t batches, void* user)>
    parallel_for{};
// From 1.24 on: the same as tensor_info and the three functions before it, without an allocation.
inline constexpr uint32_t tensor_shape_version = 24;
inline constexpr Function<414, Status*(const Value*, ElementNumber*, const int64_t** dims, size_t* count)>
    tensor_shape{};

enum Characteristic : int { required = 0 };
enum MemoryType : int { default_memory = 0 };

// The functions that the runtime calls of an operator, in this order. Those of variadic operators, the alias map, the
// versions and the shape inference may be null. The characteristics may not.
struct CustomOperator {
    uint32_t version;
    void* (*create_kernel)(const CustomOperator*, const Api*, const KernelInfo*);
    const char* (*name)(const CustomOperator*);
    const char* (*execution_provider)(const CustomOperator*);
    ElementNumber (*input_type)(const CustomOperator*, size_t index);
    size_t (*input_count)(const CustomOperator*);
    ElementNumber (*output_type)(const CustomOperator*, size_t index);
    size_t (*output_count)(const CustomOperator*);
    void (*compute)(void* kernel, KernelContext*);
    void (*destroy_kernel)(void* kernel);
    Characteristic (*input_characteristic)(const CustomOperator*, size_t index);
    Characteristic (*output_characteristic)(const CustomOperator*, size_t index);
    MemoryType (*input_memory_type)(const CustomOperator*, size_t index);
    int (*variadic_input_least)(const CustomOperator*);
    int (*variadic_input_homogeneous)(const CustomOperator*);
    int (*variadic_output_least)(const CustomOperator*);
    int (*variadic_output_homogeneous)(const CustomOperator*);
    // If these are not null, they replace create_kernel and compute.
    Status* (*create_kernel_v2)(const CustomOperator*, const Api*, const KernelInfo*, void** kernel);
    Status* (*compute_v2)(void* kernel, KernelContext*);
    Status* (*infer_output_shape)(const CustomOperator*, void* context);
    int (*start_version)(const CustomOperator*);
    int (*end_version)(const CustomOperator*);
    // The inputs whose memory outputs may overwrite. The runtime passes the arrays back to be released.
    size_t (*may_inplace)(int** inputs, int** outputs);
    void (*release_may_inplace)(int* inputs, int* outputs);
    size_t (*alias_map)(int** inputs, int** outputs);
    void (*release_alias_map)(int* inputs, int* outputs);
};

}  // namespace halfulp::ort
