// ONNX Runtime's C ABI, as far as custom operators and an execution provider need it, from its public description.
// Declared here so that building needs nothing of ONNX Runtime, and one build serves every version from 1.20 on.
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
template <int index, typename Signature, typename Table = Api>
struct Function;

template <int index, typename Result, typename... Arguments, typename Table>
struct Function<index, Result(Arguments...), Table> {
    Result operator()(const Table* table, Arguments... arguments) const {
        return reinterpret_cast<Result (*const*)(Arguments...)>(table)[index](arguments...);
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

// --- custom operators --------------------------------------------------------------------------

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

// --- execution providers, from 1.24 on ----------------------------------------------------------

inline constexpr uint32_t provider_version = 24;

struct EpApi;
struct HardwareDevice;
struct KeyValuePairs;
struct Logger;
struct EpDevice;
struct Graph;
struct GraphNode;
struct SupportInfo;
struct KernelRegistry;
struct KernelDefBuilder;
struct KernelDef;
struct DataType;
struct TypeInfo;

inline constexpr Function<237, Status*(const SessionOptions*, const char* key, int* has)> has_config{};
inline constexpr Function<238, Status*(const SessionOptions*, const char* key, char*, size_t* size)> get_config{};
// What a session knows of a kernel's inputs; null if it is not a tensor, and -1 for a dim that is not known.
inline constexpr Function<55, Status*(const TypeInfo*, const TensorInfo**)> as_tensor{};
inline constexpr Function<98, void(TypeInfo*)> release_type_info{};
inline constexpr Function<234, Status*(const KernelInfo*, size_t index, TypeInfo**)> input_type{};
inline constexpr Function<390, bool(const TensorInfo*)> has_shape{};
inline constexpr Function<307, int(const HardwareDevice*)> device_type{};
inline constexpr int processor = 0;
inline constexpr Function<317, const EpApi*()> get_ep_api{};
inline constexpr Function<344, Status*(const Graph*, size_t*)> node_count{};
inline constexpr Function<345, Status*(const Graph*, const GraphNode**, size_t count)> graph_nodes{};
inline constexpr Function<350, Status*(const GraphNode*, const char**)> operator_type{};
inline constexpr Function<351, Status*(const GraphNode*, const char**)> operator_domain{};

// The functions that the runtime calls of a provider's parts, in their order. Those at the end are never called of a
// provider of this version.
struct Ep {
    uint32_t version;
    const char* (*name)(const Ep*);
    Status* (*get_capability)(Ep*, const Graph*, SupportInfo*);
    void* of_compiling_providers[10];
    Status* (*get_kernel_registry)(Ep*, const KernelRegistry**);
    void* later[16];
};

struct EpFactory {
    uint32_t version;
    const char* (*name)(const EpFactory*);
    const char* (*vendor)(const EpFactory*);
    Status* (*get_supported_devices)(EpFactory*, const HardwareDevice* const*, size_t, EpDevice**, size_t most,
                                     size_t* count);
    Status* (*create_ep)(EpFactory*, const HardwareDevice* const*, const KeyValuePairs* const*, size_t,
                         const SessionOptions*, const Logger*, Ep**);
    void (*release_ep)(EpFactory*, Ep*);
    uint32_t (*vendor_id)(const EpFactory*);
    const char* (*provider_version)(const EpFactory*);
    void* check_compiled_model;
    // These may give null, but must be there.
    Status* (*create_allocator)(EpFactory*, const void* memory, const void* options, void** allocator);
    void (*release_allocator)(EpFactory*, void*);
    Status* (*create_data_transfer)(EpFactory*, void**);
    bool (*is_stream_aware)(const EpFactory*);
    void* later[16];
};

struct KernelImpl {
    uint32_t version;
    Status* (*compute)(KernelImpl*, KernelContext*);
    void (*release)(KernelImpl*);
    void* later[4];
};

using CreateKernel = Status*(void* state, const KernelInfo*, KernelImpl**);

template <int index, typename Signature> using EpFunction = Function<index, Signature, EpApi>;

inline constexpr EpFunction<0, Status*(EpFactory*, const HardwareDevice*, const KeyValuePairs*, const KeyValuePairs*,
                                       EpDevice**)>
    create_ep_device{};
inline constexpr EpFunction<3, Status*(SupportInfo*, const GraphNode*)> add_single_node{};
inline constexpr EpFunction<18, Status*(KernelRegistry**)> create_registry{};
inline constexpr EpFunction<19, void(KernelRegistry*)> release_registry{};
inline constexpr EpFunction<20, Status*(KernelRegistry*, const KernelDef*, CreateKernel*, void* state)> add_kernel{};
inline constexpr EpFunction<21, Status*(KernelDefBuilder**)> create_builder{};
inline constexpr EpFunction<22, void(KernelDefBuilder*)> release_builder{};
inline constexpr EpFunction<23, Status*(KernelDefBuilder*, const char*)> set_operator_type{};
inline constexpr EpFunction<24, Status*(KernelDefBuilder*, const char*)> set_domain{};
inline constexpr EpFunction<25, Status*(KernelDefBuilder*, int first, int last)> set_versions{};
inline constexpr EpFunction<26, Status*(KernelDefBuilder*, const char*)> set_provider{};
inline constexpr EpFunction<29, Status*(KernelDefBuilder*, const char*, const DataType* const*, size_t)> add_types{};
inline constexpr EpFunction<31, Status*(KernelDefBuilder*, const int* inputs, const int* outputs, size_t)>
    add_may_inplace{};
inline constexpr EpFunction<32, Status*(KernelDefBuilder*, KernelDef**)> build{};
inline constexpr EpFunction<33, void(KernelDef*)> release_def{};
inline constexpr EpFunction<40, Status*(ElementNumber, const DataType**)> tensor_type{};
inline constexpr EpFunction<41, Status*(SupportInfo*, const GraphNode*, const KernelDef**)> look_up_kernel{};

}  // namespace halfulp::ort
