#include "on_cuda.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <stdexcept>
#include <string>

#include "../this_library.h"

namespace halfulp::ort {

namespace {

// Loads the kernels, cuda/kernels.ptx beside this library.
void load_kernels() {
    const std::filesystem::path folder = std::filesystem::path(path_of_this_library()).parent_path();
    std::ifstream file(folder / "cuda" / "kernels.ptx", std::ios::binary);
    if (!file)
        throw std::runtime_error(
            "this installation of halfulp has no kernels for CUDA: it was built without HALFULP_CUDA=1");
    cuda::set_kernels({std::istreambuf_iterator<char>(file), {}});
}

}  // namespace

void launch_on_cuda(const cuda::Operation& operation, void* stream) {
    for (int i = 0; i < operation.shape.dims; ++i)
        if (operation.shape.extent[i] == 0) return;  // an empty tensor has no address that tells the device
    static std::once_flag loaded;
    std::call_once(loaded, load_kernels);
    const auto address = reinterpret_cast<uintptr_t>(operation.out.data);
    cuda::launch(operation, cuda::device_of(address), static_cast<cuda::Stream>(stream));
}

}  // namespace halfulp::ort
