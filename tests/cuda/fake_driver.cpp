// NVIDIA's driver as far as halfulp calls it, with two devices that are no GPUs: loops over the threads of a grid. Device 0
// runs the kernels' PTX, translated (ptx_to_cpp.py), device 1 the kernels as a host's compiler takes them. Their memory
// is the processor's.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "device.h"

extern const Kernel kernels_of_ptx[], kernels_on_host[];
thread_local Index grid_dim, block_dim, block_index, thread_index;

namespace {

constexpr int devices = 2, out_of_memory = 2, invalid_value = 1, not_found = 500, invalid_context = 201;
int current = -1;
std::vector<int> contexts;
std::string log;
long blocks = 0, allocations = 0, allocation_that_fails = -1;
bool only_small_grids = false;

const Kernel* kernels_of(int device) { return device == 0 ? kernels_of_ptx : kernels_on_host; }

void note(const std::string& line) { log += line + "\n"; }

std::string number(const void* value) { return std::to_string(reinterpret_cast<uintptr_t>(value)); }

}  // namespace

extern "C" {

// For tests: what was called since the last time, a line each; that an allocation is to fail, the n-th from now on; that
// great grids are noted and not run.
const char* fake_log() {
    static std::string text;
    text.swap(log);
    log.clear();
    return text.c_str();
}
void fake_failure(long n) { allocation_that_fails = n < 0 ? -1 : allocations + n; }
void fake_run_only_small_grids(int only) { only_small_grids = only != 0; }
long fake_blocks() { return blocks; }  // of memory that is in use
long fake_open_contexts() { return static_cast<long>(contexts.size()); }

int cuInit(unsigned) { return 0; }
int cuGetErrorName(int error, const char** name) {
    *name = error == out_of_memory     ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == invalid_value   ? "CUDA_ERROR_INVALID_VALUE"
            : error == not_found       ? "CUDA_ERROR_NOT_FOUND"
            : error == invalid_context ? "CUDA_ERROR_INVALID_CONTEXT"
                                       : nullptr;
    return 0;
}
int cuDeviceGetCount(int* count) {
    *count = devices;
    return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
    if (device < 0 || device >= devices) return invalid_value;
    *value = attribute == 16 ? 2 : attribute == 75 ? 9 : 0;
    return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
    if (device < 0 || device >= devices) return invalid_value;
    *context = reinterpret_cast<void*>(static_cast<uintptr_t>(device + 1));
    return 0;
}
int cuCtxPushCurrent_v2(void* context) {
    contexts.push_back(current);
    current = static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1;
    return 0;
}
int cuCtxPopCurrent_v2(void** context) {
    *context = reinterpret_cast<void*>(static_cast<uintptr_t>(current + 1));
    current = contexts.back();
    contexts.pop_back();
    return 0;
}
int cuModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) {
    if (std::strstr(static_cast<const char*>(image), ".version") == nullptr) return invalid_value;
    *module = reinterpret_cast<void*>(static_cast<uintptr_t>(current + 1));
    return 0;
}
int cuModuleGetFunction(const Kernel** function, void* module, const char* name) {
    const Kernel* kernel = kernels_of(static_cast<int>(reinterpret_cast<uintptr_t>(module)) - 1);
    while (kernel->name != nullptr && std::strcmp(kernel->name, name) != 0) ++kernel;
    if (kernel->name == nullptr) return not_found;
    *function = kernel;
    return 0;
}
int cuLaunchKernel(const Kernel* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** parameters,
                   void** extra) {
    if (current < 0) return invalid_context;
    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || shared_bytes != 0 || extra)
        return invalid_value;
    note(std::string(function->name) + " device " + std::to_string(current) + " grid " + std::to_string(grid_x) +
         " block " + std::to_string(block_x) + " stream " + number(stream));
    if (only_small_grids && grid_x > 1000) return 0;
    // Copied, as a driver does, so that a kernel sees just the bytes that it has declared.
    std::vector<std::vector<unsigned char>> copies;
    std::vector<void*> pointers;
    for (int i = 0; i < function->parameter_count; ++i) {
        const auto* bytes = static_cast<const unsigned char*>(parameters[i]);
        copies.emplace_back(bytes, bytes + function->parameter_sizes[i]);
        pointers.push_back(copies.back().data());
    }
    grid_dim = {grid_x};
    block_dim = {block_x};
    for (block_index.x = 0; block_index.x < grid_x; ++block_index.x)
        for (thread_index.x = 0; thread_index.x < block_x; ++thread_index.x) function->run_thread(pointers.data());
    return 0;
}
int cuMemAllocAsync(unsigned long long* address, size_t bytes, void* stream) {
    if (allocations++ == allocation_that_fails) return out_of_memory;
    note("allocate " + std::to_string(bytes) + " stream " + number(stream));
    void* memory = std::malloc(bytes);
    ++blocks;
    std::memset(memory, 0xff, bytes);  // whoever reads what was not written is found out
    *address = reinterpret_cast<uintptr_t>(memory);
    return 0;
}
int cuMemFreeAsync(unsigned long long address, void* stream) {
    note("free stream " + number(stream));
    --blocks;
    std::free(reinterpret_cast<void*>(address));
    return 0;
}
int cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
    if (current < 0) return invalid_context;
    *address = reinterpret_cast<uintptr_t>(std::malloc(bytes));
    ++blocks;
    return 0;
}
int cuMemFree_v2(unsigned long long address) {
    --blocks;
    std::free(reinterpret_cast<void*>(address));
    return 0;
}
int cuPointerGetAttribute(void* value, int attribute, unsigned long long) {
    if (attribute != 9) return invalid_value;
    *static_cast<int*>(value) = 0;
    return 0;
}
int cuStreamSynchronize(void* stream) {
    note("synchronize stream " + number(stream));
    return 0;
}
int cuMemsetD8_v2(unsigned long long address, unsigned char byte, size_t bytes) {
    std::memset(reinterpret_cast<void*>(address), byte, bytes);
    return 0;
}
int cuMemcpyDtoH_v2(void* to, unsigned long long from, size_t bytes) {
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return 0;
}
}
