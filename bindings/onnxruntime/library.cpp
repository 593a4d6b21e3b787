// A library of custom operators for ONNX Runtime: Pow and PRelu in the domain "halfulp", on the core's kernels.
//
// There is one operator per type of X, such as Pow_float16. If one operator had several types, ONNX Runtime would use
// its float32 kernel for a float16 node among nodes that it has no float16 kernels for. Each operator has a kernel
// for the processor and one for the CUDA provider.
//
// Once loaded, the library stays loaded, because sessions come and go. It has no threads of its own, and no exception
// leaves it.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "node.h"

namespace halfulp::ort {

namespace {

constexpr uint32_t oldest_version = 20;  // the oldest version of ONNX Runtime that is tested: 1.20

struct Operator : CustomOperator {
    const Api* api;
    bool has_tensor_shape;
    Kernel kernel;
    Element type;
    bool on_cuda;
    std::string full_name;
};

const Operator& own(const CustomOperator* op) { return *static_cast<const Operator*>(op); }

struct NodeInstance {
    const Api* api;
    Node node;
};

Status* create(const CustomOperator* op, const Api*, const KernelInfo* info, void** kernel) {
    const Operator& self = own(op);
    return guarded(self.api, [&] {
        *kernel = new NodeInstance{self.api, Node(self.api, self.has_tensor_shape, self.kernel, self.type, info)};
    });
}

Status* compute(void* kernel, KernelContext* context) {
    const NodeInstance& instance = *static_cast<NodeInstance*>(kernel);
    return guarded(instance.api, [&] { instance.node.compute(context); });
}

Status* compute_on_cuda(void* kernel, KernelContext* context) {
    const NodeInstance& instance = *static_cast<NodeInstance*>(kernel);
    return guarded(instance.api, [&] { instance.node.compute_on_cuda(context); });
}

// The result may overwrite X.
size_t may_inplace(int** inputs, int** outputs) {
    static int first_input = 0, first_output = 0;
    *inputs = &first_input;
    *outputs = &first_output;
    return 1;
}

Operator make_operator(const Api* api, bool has_tensor_shape, Kernel kernel, Element type, bool on_cuda) {
    Operator op{};
    op.version = abi_version;
    op.name = [](const CustomOperator* self) { return own(self).full_name.c_str(); };
    op.execution_provider = [](const CustomOperator* self) {
        return own(self).on_cuda ? "CUDAExecutionProvider" : "CPUExecutionProvider";
    };
    op.input_type = [](const CustomOperator* self, size_t index) {
        return index == 0 || own(self).kernel == Kernel::prelu ? number_of(own(self).type) : any_element;
    };
    op.input_count = [](const CustomOperator*) { return size_t{2}; };
    op.output_type = [](const CustomOperator* self, size_t) { return number_of(own(self).type); };
    op.output_count = [](const CustomOperator*) { return size_t{1}; };
    op.input_characteristic = [](const CustomOperator*, size_t) { return required; };
    op.output_characteristic = [](const CustomOperator*, size_t) { return required; };
    op.input_memory_type = [](const CustomOperator*, size_t) { return default_memory; };
    op.create_kernel_v2 = create;
    op.compute_v2 = on_cuda ? compute_on_cuda : compute;
    op.destroy_kernel = [](void* kernel) { delete static_cast<NodeInstance*>(kernel); };
    // No infer_output_shape: it sees a tensor of unknown rank as a scalar.
    op.may_inplace = may_inplace;
    op.release_may_inplace = [](int*, int*) {};
    op.api = api;
    op.has_tensor_shape = has_tensor_shape;
    op.kernel = kernel;
    op.type = type;
    op.on_cuda = on_cuda;
    op.full_name = std::string(kernel == Kernel::pow ? "Pow_" : "PRelu_") + row(type).name;
    return op;
}

// The operators that one ONNX Runtime of the process has been given.
class Library {
public:
    Library(const ApiBase* base, const Api* api, bool has_tensor_shape) : base_(base), api_(api) {
        for (bool on_cuda : {false, true}) {
            const auto add = [&](Kernel kernel, Element type) {
                operators_.push_back(make_operator(api, has_tensor_shape, kernel, type, on_cuda));
            };
            for (Element type : {Element::float64, Element::float32, Element::float16, Element::bfloat16,
                                 Element::int32, Element::int64})
                add(Kernel::pow, type);
            for (Element type : {Element::float64, Element::float32, Element::float16, Element::bfloat16,
                                 Element::int32, Element::int64, Element::uint32, Element::uint64})
                add(Kernel::prelu, type);
        }
        check(create_domain(api, "halfulp", &domain_));
        for (const Operator& op : operators_) check(add_operator(api, domain_, &op));
    }
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;

    bool serves(const ApiBase* base) const { return base_ == base; }
    void add_to(SessionOptions* options) const { check(add_domain(api_, options, domain_)); }

private:
    const ApiBase* base_;
    const Api* api_;
    std::vector<Operator> operators_;
    CustomOpDomain* domain_ = nullptr;
};

// Returns the library of a runtime. There is one for all its sessions, because a session does not report its end.
const Library& library_of(const ApiBase* base, const Api* api) {
    static std::mutex mutex;
    static auto& libraries = *new std::vector<std::unique_ptr<const Library>>;  // outlives the last session
    std::lock_guard lock(mutex);
    for (const auto& library : libraries)
        if (library->serves(base)) return *library;
    bool has_tensor_shape = minor_version(base) >= tensor_shape_version;
    libraries.push_back(std::make_unique<Library>(base, api, has_tensor_shape));
    return *libraries.back();
}

}  // namespace

}  // namespace halfulp::ort

// ONNX Runtime looks this function up in a library that a session registers.
extern "C" HALFULP_EXPORTED halfulp::ort::Status* RegisterCustomOps(halfulp::ort::SessionOptions* options,
                                                                    const halfulp::ort::ApiBase* base) {
    using namespace halfulp::ort;
    return entered(base, "halfulp", oldest_version, abi_version,
                   [&](const Api* api) { library_of(base, api).add_to(options); });
}
