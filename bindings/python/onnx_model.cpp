#include "onnx_model.h"

#include <cstdint>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace halfulp {

namespace {

using Parts = std::vector<std::string_view>;

constexpr int deepest = 64;  // graphs within graphs

// The fields of a protobuf message. Those that are not bytes have no value here.
class Message {
public:
    explicit Message(std::string_view bytes) : rest_(bytes) {}

    bool next() {
        if (rest_.empty()) return false;
        const uint64_t key = varint();
        number = static_cast<int>(key >> 3);
        value = {};
        switch (key & 7) {
            case 0: varint(); break;
            case 1: take(8); break;
            case 2: value = take(varint()); break;
            case 5: take(4); break;
            default: throw std::invalid_argument("not a protobuf message");
        }
        return true;
    }

    int number = 0;
    std::string_view value;

private:
    uint64_t varint() {
        uint64_t result = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            const auto byte = static_cast<unsigned char>(take(1)[0]);
            result |= uint64_t{byte & 127u} << shift;
            if (byte < 128) return result;
        }
        throw std::invalid_argument("not a protobuf message");
    }

    std::string_view take(uint64_t size) {
        if (size > rest_.size()) throw std::invalid_argument("a truncated protobuf message");
        const std::string_view bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return bytes;
    }

    std::string_view rest_;
};

// The value of the first field of a number.
std::string_view field(std::string_view bytes, int number) {
    for (Message message(bytes); message.next();)
        if (message.number == number) return message.value;
    return {};
}

// The values of all fields of a number.
Parts parts(std::string_view bytes, int number) {
    Parts found;
    for (Message message(bytes); message.next();)
        if (message.number == number) found.push_back(message.value);
    return found;
}

// The names of a graph, and whether their values vary: are known only at run time.
struct Scope {
    // Returns false for names that nothing has defined so far: arguments of functions, which may be constants, and outputs
    // of nodes out of order.
    bool varies(std::string_view name) const {
        for (const Scope* scope = this; scope != nullptr; scope = scope->outer)
            if (const auto found = scope->names.find(name); found != scope->names.end()) return found->second;
        return false;
    }

    const Scope* outer;  // the names of the graph around it
    std::unordered_map<std::string_view, bool> names = {};
};

// Looks for a Pow or PRelu whose operands do not vary.
class Search {
public:
    void in_graph(std::string_view graph, const Scope* outer, int depth = 0) {
        if (depth > deepest) throw std::invalid_argument("graphs within graphs are too deep");
        Scope scope{outer};
        for (std::string_view input : parts(graph, 11)) scope.names[field(input, 1)] = true;
        for (std::string_view tensor : parts(graph, 5)) scope.names[field(tensor, 8)] = false;
        for (std::string_view tensor : parts(graph, 15)) scope.names[field(field(tensor, 1), 8)] = false;  // sparse
        in_nodes(parts(graph, 1), scope, depth);
    }

    void in_nodes(const Parts& nodes, Scope& scope, int depth) {
        for (std::string_view node : nodes) {
            Parts outputs, graphs;
            std::string_view type, domain;
            bool varies = false;
            for (Message message(node); message.next();) {
                switch (message.number) {
                    // An input or output that is left out has an empty name.
                    case 1: varies = varies || (!message.value.empty() && scope.varies(message.value)); break;
                    case 2: outputs.push_back(message.value); break;
                    case 4: type = message.value; break;
                    case 5:
                        for (Message attribute(message.value); attribute.next();)
                            if (attribute.number == 6 || attribute.number == 11) graphs.push_back(attribute.value);
                        break;
                    case 7: domain = message.value; break;
                }
            }
            if (types.insert(type).second) new_types.push_back(type);
            if (type == "Shape" || type == "Size") varies = false;
            for (std::string_view output : outputs) scope.names[output] = varies;
            const bool is_ours = (type == "Pow" || type == "PRelu") && (domain.empty() || domain == "ai.onnx");
            found = found || (is_ours && !varies);
            for (std::string_view graph : graphs) in_graph(graph, &scope, depth + 1);
        }
    }

    bool found = false;
    std::unordered_set<std::string_view> types;  // of all nodes that were met
    Parts new_types;                             // whose functions have not been searched yet
};

}  // namespace

std::optional<Powers> powers_of(std::string_view model) {
    for (std::string_view opset : parts(model, 8))
        if (field(opset, 1) == "halfulp") return std::nullopt;
    Search search;
    for (std::string_view graph : parts(model, 7)) search.in_graph(graph, nullptr);
    std::unordered_multimap<std::string_view, std::string_view> functions;
    for (std::string_view function : parts(model, 25)) functions.emplace(field(function, 1), function);
    while (!search.new_types.empty()) {
        const auto [first, last] = functions.equal_range(search.new_types.back());
        search.new_types.pop_back();
        for (auto called = first; called != last; ++called) {
            Scope scope{nullptr};
            search.in_nodes(parts(called->second, 7), scope, 0);
        }
    }
    const auto has = [&search](std::string_view type) { return search.types.count(type) > 0; };
    return Powers{search.found, has("Pow") && (has("Sqrt") || has("Tanh"))};
}

}  // namespace halfulp
