// An execution provider for ONNX Runtime 1.24 and later: kernels for ONNX's own Pow and PRelu, so that models stay as
// they are. The runtime's processor provider runs the other nodes, in the same memory.

#include <algorithm>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "node.h"

namespace halfulp::ort {

namespace {

constexpr const char* provider_name = "HalfulpExecutionProvider";
// What session options call the provider's options, which begin so.
constexpr const char* option_prefix = "ep.halfulpexecutionprovider.";

struct Instance : KernelImpl {
    Instance(const Api* api, const Version& of_node, Element type, const KernelInfo* info)
        : KernelImpl{}, api(api), node(api, of_node, type, info) {
        version = provider_version;
        compute = [](KernelImpl* self, KernelContext* context) {
            const Instance& instance = *static_cast<Instance*>(self);
            return guarded(instance.api, [&] { instance.node.compute(context); });
        };
        release = [](KernelImpl* self) { delete static_cast<Instance*>(self); };
    }
    const Api* api;
    Node node;
};

// Calls f(type) for each of a version's types, which are separated by spaces.
template <typename F>
void for_each_type(std::string_view names, F f) {
    for (size_t end; (end = names.find(' ')) != names.npos; names.remove_prefix(end + 1))
        for (int i = 0; i < element_count; ++i)
            if (names.substr(0, end) == element_rows[i].name) f(static_cast<Element>(i));
}

// The kernels of a factory.
class Registry {
public:
    explicit Registry(const Api* api) : api_(api), ep_(get_ep_api(api)) {
        check(create_registry(ep_, &registry_));
        for (const Version& version : versions) for_each_type(version.types, [&](Element type) { add(version, type); });
    }
    ~Registry() { release_registry(ep_, registry_); }
    Registry(const Registry&) = delete;
    Registry& operator=(const Registry&) = delete;

    const KernelRegistry* get() const { return registry_; }

private:
    struct Made {
        const Api* api;
        const Version& version;
        Element type;
    };

    // A kernel for each type of X: a kernel is told the type of its node only here.
    void add(const Version& version, Element type) {
        KernelDefBuilder* made;
        check(create_builder(ep_, &made));
        const auto release = [this](KernelDefBuilder* held) { release_builder(ep_, held); };
        const std::unique_ptr<KernelDefBuilder, decltype(release)> builder(made, release);
        check(set_operator_type(ep_, made, version.name));
        check(set_domain(ep_, made, ""));
        check(set_versions(ep_, made, version.since, version.until));
        check(set_provider(ep_, made, provider_name));
        add_types_of(made, "T", {type});
        std::vector<Element> exponents;
        for_each_type(version.exponent_types, [&](Element exponent) { exponents.push_back(exponent); });
        if (!exponents.empty()) add_types_of(made, "T1", exponents);
        const int first = 0;
        check(add_may_inplace(ep_, made, &first, &first, 1));
        KernelDef* definition;
        check(build(ep_, made, &definition));
        Status* status =
            add_kernel(ep_, registry_, definition, create, &states_.emplace_back(Made{api_, version, type}));
        release_def(ep_, definition);
        check(status);
    }

    void add_types_of(KernelDefBuilder* builder, const char* variable, const std::vector<Element>& types) {
        std::vector<const DataType*> data_types;
        for (Element type : types) check(tensor_type(ep_, number_of(type), &data_types.emplace_back()));
        check(add_types(ep_, builder, variable, data_types.data(), data_types.size()));
    }

    static Status* create(void* state, const KernelInfo* info, KernelImpl** kernel) {
        const Made& made = *static_cast<Made*>(state);
        return guarded(made.api, [&] { *kernel = new Instance(made.api, made.version, made.type, info); });
    }

    const Api* api_;
    const EpApi* ep_;
    KernelRegistry* registry_ = nullptr;
    std::list<Made> states_;
};

struct Factory : EpFactory {
    explicit Factory(const Api* api);

    const Api* api;
    std::mutex mutex;
    std::unique_ptr<const Registry> registry;  // made for the first session
};

// The provider of a session.
struct Provider : Ep {
    Provider(Factory& factory, const SessionOptions* options) : Ep{}, factory(factory) {
        version = provider_version;
        name = [](const Ep*) { return provider_name; };
        get_capability = [](Ep* self, const Graph* graph, SupportInfo* info) {
            const Provider& provider = *static_cast<Provider*>(self);
            return guarded(provider.factory.api, [&] { provider.claim(graph, info); });
        };
        get_kernel_registry = [](Ep* self, const KernelRegistry** registry) {
            Factory& factory = static_cast<Provider*>(self)->factory;
            return guarded(factory.api, [&] {
                std::lock_guard lock(factory.mutex);
                if (!factory.registry) factory.registry = std::make_unique<const Registry>(factory.api);
                *registry = factory.registry->get();
            });
        };
        read_operators(option(options, "operators"));
    }

    Factory& factory;
    std::vector<std::string> operators;  // all if it is empty

private:
    // Returns an empty text if the session's options lack it.
    std::string option(const SessionOptions* options, const std::string& key) const {
        const std::string entry = option_prefix + key;
        int has = 0;
        check(has_config(factory.api, options, entry.c_str(), &has));
        if (!has) return "";
        size_t size = 0;
        check(get_config(factory.api, options, entry.c_str(), nullptr, &size));
        std::string text(size, '\0');
        check(get_config(factory.api, options, entry.c_str(), text.data(), &size));
        return text.c_str();
    }

    void read_operators(const std::string& text) {
        for (size_t begin = 0; begin < text.size();) {
            const size_t end = std::min(text.find(',', begin), text.size());
            const std::string& one = operators.emplace_back(text, begin, end - begin);
            begin = end + 1;
            if (one != "Pow" && one != "PRelu")
                throw Failure{
                    create_status(factory.api, invalid_argument,
                                  ("halfulp: the option operators is Pow, PRelu or Pow,PRelu; got " + text).c_str())};
        }
    }

    // Claims the nodes that the registry has kernels for.
    void claim(const Graph* graph, SupportInfo* info) const {
        const Api* api = factory.api;
        const EpApi* ep = get_ep_api(api);
        size_t count;
        check(node_count(api, graph, &count));
        std::vector<const GraphNode*> nodes(count);
        check(graph_nodes(api, graph, nodes.data(), count));
        for (const GraphNode* node : nodes) {
            const char *type, *domain;
            check(operator_type(api, node, &type));
            check(operator_domain(api, node, &domain));
            const std::string_view of_node = type;
            if ((of_node != "Pow" && of_node != "PRelu") || (*domain != '\0' && domain != std::string_view("ai.onnx")))
                continue;
            if (!operators.empty() && std::find(operators.begin(), operators.end(), of_node) == operators.end())
                continue;
            const KernelDef* kernel = nullptr;
            check(look_up_kernel(ep, info, node, &kernel));
            if (kernel != nullptr) check(add_single_node(ep, info, node));
        }
    }
};

Factory::Factory(const Api* api) : EpFactory{}, api(api) {
    version = ort::provider_version;
    name = [](const EpFactory*) { return provider_name; };
    vendor = [](const EpFactory*) { return "halfulp"; };
    vendor_id = [](const EpFactory*) { return uint32_t{0x4855}; };
    provider_version = [](const EpFactory*) { return HALFULP_VERSION; };
    get_supported_devices = [](EpFactory* self, const HardwareDevice* const* devices, size_t count, EpDevice** out,
                               size_t most, size_t* found) {
        const Api* api = static_cast<Factory*>(self)->api;
        return guarded(api, [&] {
            *found = 0;
            for (size_t i = 0; i < count && *found < std::min<size_t>(most, 1); ++i)
                if (device_type(api, devices[i]) == processor)
                    check(create_ep_device(get_ep_api(api), self, devices[i], nullptr, nullptr, &out[(*found)++]));
        });
    };
    create_ep = [](EpFactory* self, const HardwareDevice* const*, const KeyValuePairs* const*, size_t,
                   const SessionOptions* options, const Logger*, Ep** provider) {
        Factory& factory = *static_cast<Factory*>(self);
        return guarded(factory.api, [&] { *provider = new Provider(factory, options); });
    };
    release_ep = [](EpFactory*, Ep* provider) { delete static_cast<Provider*>(provider); };
    create_allocator = [](EpFactory*, const void*, const void*, void** allocator) -> Status* {
        *allocator = nullptr;
        return nullptr;
    };
    release_allocator = [](EpFactory*, void*) {};
    create_data_transfer = [](EpFactory*, void** transfer) -> Status* {
        *transfer = nullptr;
        return nullptr;
    };
    is_stream_aware = [](const EpFactory*) { return false; };
}

}  // namespace

}  // namespace halfulp::ort

// ONNX Runtime looks these functions up in a library that is registered as an execution provider's.
extern "C" HALFULP_EXPORTED halfulp::ort::Status* CreateEpFactories(const char*, const halfulp::ort::ApiBase* base,
                                                                    const halfulp::ort::Logger*,
                                                                    halfulp::ort::EpFactory** factories, size_t most,
                                                                    size_t* count) {
    using namespace halfulp::ort;
    return entered(base, "halfulp's execution provider", provider_version, provider_version, [&](const Api* api) {
        *count = 0;
        if (most > 0) factories[(*count)++] = new Factory(api);
    });
}

extern "C" HALFULP_EXPORTED halfulp::ort::Status* ReleaseEpFactory(halfulp::ort::EpFactory* factory) {
    delete static_cast<halfulp::ort::Factory*>(factory);
    return nullptr;
}
