// The kernels of bindings/cuda as a host's compiler takes them: CUDA's words, and a table of the kernels.
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>

#include "device.h"

#define HALFULP_ISA kernels_on_host
#define __global__
#define __grid_constant__
#define __launch_bounds__(threads)
#define gridDim grid_dim
#define blockIdx block_index
#define threadIdx thread_index

static uint32_t __umulhi(uint32_t a, uint32_t b) { return static_cast<uint32_t>(uint64_t{a} * b >> 32); }
static float float_of_half(uint16_t half) { return static_cast<float>(__builtin_bit_cast(_Float16, half)); }
static uint16_t half_of_float(float value) { return __builtin_bit_cast(uint16_t, static_cast<_Float16>(value)); }
static void atomicAdd(unsigned long long* count, unsigned long long more) { *count += more; }

#include "kernels.cu"

namespace {

template <auto kernel>
struct Entry;

template <typename... Parameters, void (*kernel)(Parameters...)>
struct Entry<kernel> {
    static constexpr unsigned sizes[] = {sizeof(Parameters)...};
    static void run_thread(void** parameters) {
        [&]<size_t... i>(std::index_sequence<i...>) {
            kernel(*static_cast<std::remove_const_t<Parameters>*>(parameters[i])...);
        }(std::index_sequence_for<Parameters...>{});
    }
};

}  // namespace

#define ENTRY(name) {#name, Entry<name>::run_thread, std::size(Entry<name>::sizes), Entry<name>::sizes}
#define ENTRIES_OF(type)                                                                           \
    ENTRY(pow_own_##type), ENTRY(pow_one_##type), ENTRY(pow_each_##type), ENTRY(prelu_own_##type), \
        ENTRY(prelu_one_##type)
extern const Kernel kernels_on_host[];
const Kernel kernels_on_host[] = {
    ENTRIES_OF(float64),
    ENTRIES_OF(float32),
    ENTRIES_OF(float16),
    ENTRIES_OF(bfloat16),
    ENTRY(prelu_each),
    ENTRY(pow_rest),
    {nullptr, nullptr, 0, nullptr},
};
