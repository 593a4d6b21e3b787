// The functions of NVIDIA's driver that the kernels need. The driver is loaded on first use, so that building and
// loading this needs nothing of CUDA. The declarations are those of CUDA 12's driver API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace halfulp::cuda {

using Device = int;
using DevicePointer = unsigned long long;
struct OpaqueContext;
struct OpaqueModule;
struct OpaqueFunction;
struct OpaqueStream;
using Context = OpaqueContext*;
using Module = OpaqueModule*;
using Function = OpaqueFunction*;
using Stream = OpaqueStream*;

// Each returns 0 or an error, which check() throws.
struct Driver {
    int (*init)(unsigned flags);
    int (*error_name)(int error, const char** name);
    int (*device_count)(int* count);
    int (*device_attribute)(int* value, int attribute, Device device);
    int (*retain_context)(Context* context, Device device);
    int (*push_context)(Context context);
    int (*pop_context)(Context* context);
    int (*load_module)(Module* module, const void* image, unsigned options, int* names, void** values);
    int (*get_function)(Function* function, Module module, const char* name);
    int (*launch)(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                  unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters,
                  void** extra);
    int (*allocate)(DevicePointer* address, size_t bytes, Stream stream);
    int (*free)(DevicePointer address, Stream stream);
    int (*allocate_at_once)(DevicePointer* address, size_t bytes);
    int (*clear)(DevicePointer address, unsigned char byte, size_t bytes);
    int (*free_at_once)(DevicePointer address);
    int (*pointer_attribute)(void* value, int attribute, DevicePointer address);
    int (*synchronize)(Stream stream);
    int (*copy_from_device)(void* to, DevicePointer from, size_t bytes);
};

// Throws std::runtime_error if there is no driver that works.
const Driver& driver();

// Throws std::runtime_error with the failed action and the driver's name for the error.
void check(int error, const std::string& action);

// Returns the device whose memory an address is in. Throws std::runtime_error.
Device device_of(DevicePointer address);

// During the lifetime of an object of this class, calls apply to one device, independent of the thread's context.
class DeviceScope {
public:
    explicit DeviceScope(Device device);
    ~DeviceScope();
    DeviceScope(const DeviceScope&) = delete;
    DeviceScope& operator=(const DeviceScope&) = delete;
};

}  // namespace halfulp::cuda
