// A CUDA device for programs that XLA runs on the processor: their calls go on to halfulp's handlers for CUDA, with a
// stream and memory that are stand-ins. All else is XLA's. XLA's own header says where in its table a function is.
#include <xla/ffi/api/c_api.h>

#include <cfenv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace {

std::mutex mutex;  // of the fake driver, too: one call at a time
XLA_FFI_Handler* handlers[3];
XLA_FFI_ExecutionContext* context;
const XLA_FFI_Api* api_of_xla;
std::map<void*, size_t> blocks;
uintptr_t stream = 0;
bool has_memory = true;

XLA_FFI_Error* error(const char* message) {
    XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, nullptr, message,
                                      XLA_FFI_Error_Code_RESOURCE_EXHAUSTED};
    return api_of_xla->XLA_FFI_Error_Create(&args);
}

XLA_FFI_Error* get_stream(XLA_FFI_Stream_Get_Args* args) {
    if (args->struct_size < XLA_FFI_Stream_Get_Args_STRUCT_SIZE || args->ctx != context) return error("bad arguments");
    if (stream == 0) return error("no stream");
    args->stream = reinterpret_cast<void*>(stream);
    return nullptr;
}

XLA_FFI_Error* allocate(XLA_FFI_DeviceMemory_Allocate_Args* args) {
    if (args->struct_size < XLA_FFI_DeviceMemory_Allocate_Args_STRUCT_SIZE || args->ctx != context ||
        args->alignment != 16)
        return error("bad arguments");
    if (!has_memory) return error("no memory of XLA's");
    args->data = std::aligned_alloc(args->alignment, (args->size + 15) / 16 * 16);
    std::memset(args->data, 0xff, args->size);  // whoever reads what was not written is found out
    blocks[args->data] = args->size;
    return nullptr;
}

XLA_FFI_Error* free(XLA_FFI_DeviceMemory_Free_Args* args) {
    const auto block = blocks.find(args->data);
    if (args->struct_size < XLA_FFI_DeviceMemory_Free_Args_STRUCT_SIZE || args->ctx != context ||
        block == blocks.end() || block->second != args->size)
        return error("bad arguments");
    blocks.erase(block);
    std::free(args->data);
    return nullptr;
}

template <int number>
XLA_FFI_Error* pass_on(XLA_FFI_CallFrame* frame) {
    const std::lock_guard lock(mutex);
    if (frame->api == nullptr) return handlers[number](frame);
    XLA_FFI_Api api = *frame->api;
    api.XLA_FFI_Stream_Get = get_stream;
    api.XLA_FFI_DeviceMemory_Allocate = allocate;
    api.XLA_FFI_DeviceMemory_Free = free;
    api_of_xla = std::exchange(frame->api, &api);
    context = frame->ctx;
    std::fenv_t of_xla;  // flushes subnormals, which no device does
    std::fegetenv(&of_xla);
    std::fesetenv(FE_DFL_ENV);
    XLA_FFI_Error* const told = handlers[number](frame);
    std::fesetenv(&of_xla);
    frame->api = api_of_xla;
    return told;
}

}  // namespace

extern "C" {

// Returns a handler for the processor that passes its calls on to the given one.
void* fake_handler(int number, XLA_FFI_Handler* handler) {
    XLA_FFI_Handler* const on_processor[] = {pass_on<0>, pass_on<1>, pass_on<2>};
    handlers[number] = handler;
    return reinterpret_cast<void*>(on_processor[number]);
}

// Sets the stream of later calls, or that there is none, and whether there is memory.
void fake_device(uintptr_t of_stream, int of_memory) {
    stream = of_stream;
    has_memory = of_memory != 0;
}

int fake_xla_blocks() { return static_cast<int>(blocks.size()); }  // of memory that is in use
}
