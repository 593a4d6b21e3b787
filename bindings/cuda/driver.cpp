#include "driver.h"

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#include <map>
#include <mutex>
#include <stdexcept>

namespace halfulp::cuda {

namespace {

#ifdef _WIN32
constexpr const char* library_name = "nvcuda.dll";

void* load_library() { return reinterpret_cast<void*>(LoadLibraryA(library_name)); }
void* symbol(void* library, const char* name) {
    return reinterpret_cast<void*>(GetProcAddress(reinterpret_cast<HMODULE>(library), name));
}
#else
constexpr const char* library_name = "libcuda.so.1";

void* load_library() { return dlopen(library_name, RTLD_NOW | RTLD_LOCAL); }
void* symbol(void* library, const char* name) { return dlsym(library, name); }
#endif

Driver load() {
    void* library = load_library();
    if (library == nullptr) throw std::runtime_error(std::string("no NVIDIA driver: cannot load ") + library_name);
    Driver driver;
    const auto find = [&](auto& function, const char* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol(library, name));
        if (function == nullptr)
            throw std::runtime_error(std::string("the NVIDIA driver is too old: it lacks ") + name);
    };
    find(driver.init, "cuInit");
    find(driver.error_name, "cuGetErrorName");
    find(driver.device_count, "cuDeviceGetCount");
    find(driver.device_attribute, "cuDeviceGetAttribute");
    find(driver.retain_context, "cuDevicePrimaryCtxRetain");
    find(driver.push_context, "cuCtxPushCurrent_v2");
    find(driver.pop_context, "cuCtxPopCurrent_v2");
    find(driver.load_module, "cuModuleLoadDataEx");
    find(driver.get_function, "cuModuleGetFunction");
    find(driver.launch, "cuLaunchKernel");
    find(driver.allocate, "cuMemAllocAsync");
    find(driver.free, "cuMemFreeAsync");
    find(driver.allocate_at_once, "cuMemAlloc_v2");
    find(driver.clear, "cuMemsetD8_v2");
    find(driver.free_at_once, "cuMemFree_v2");
    find(driver.pointer_attribute, "cuPointerGetAttribute");
    find(driver.synchronize, "cuStreamSynchronize");
    find(driver.copy_from_device, "cuMemcpyDtoH_v2");
    if (const int error = driver.init(0); error != 0) {
        const char* name = nullptr;
        driver.error_name(error, &name);
        throw std::runtime_error(std::string("the NVIDIA driver failed to start: ") + (name ? name : "unknown error"));
    }
    return driver;
}

// Primary contexts, which CUDA's runtime and so every library uses. They are never released.
Context context_of(Device device) {
    static std::mutex mutex;
    static std::map<Device, Context> contexts;
    const std::lock_guard lock(mutex);
    const auto found = contexts.find(device);
    if (found != contexts.end()) return found->second;
    Context context;
    check(driver().retain_context(&context, device), "device " + std::to_string(device));
    return contexts[device] = context;
}

}  // namespace

const Driver& driver() {
    static const Driver the_driver = load();  // if it throws, the next call tries again
    return the_driver;
}

void check(int error, const std::string& action) {
    if (error == 0) return;
    const char* name = nullptr;
    driver().error_name(error, &name);
    throw std::runtime_error("CUDA, " + action + ": " + (name != nullptr ? name : "error " + std::to_string(error)));
}

Device device_of(DevicePointer address) {
    constexpr int device_ordinal = 9;
    Device device = 0;
    check(driver().pointer_attribute(&device, device_ordinal, address), "an address");
    return device;
}

DeviceScope::DeviceScope(Device device) { check(driver().push_context(context_of(device)), "context"); }

DeviceScope::~DeviceScope() {
    Context context;
    driver().pop_context(&context);
}

}  // namespace halfulp::cuda
