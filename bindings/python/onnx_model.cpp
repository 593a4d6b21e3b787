#include "onnx_model.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <unordered_set>
#include <vector>

namespace halfulp {

namespace {

using Names = std::unordered_set<std::string_view>;
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

// Looks for a Pow or PRelu of values that are all known. `varying` has those that are known only at run time.
class Search {
public:
    bool in_graph(std::string_view graph, Names varying, int depth = 0) {
        if (depth > deepest) throw std::invalid_argument("graphs within graphs are too deep");
        Names constants;
        for (std::string_view initializer : parts(graph, 5)) constants.insert(field(initializer, 8));
        for (std::string_view input : parts(graph, 11)) {
            const std::string_view name = field(input, 1);
            if (constants.count(name) == 0) varying.insert(name);
        }
        return in_nodes(parts(graph, 1), varying, depth);
    }

    bool in_nodes(const Parts& nodes, Names& varying, int depth) {
        for (std::string_view node : nodes) {
            Parts outputs, graphs;
            std::string_view type, domain;
            bool varies = false;
            for (Message message(node); message.next();) {
                switch (message.number) {
                    case 1: varies = varies || varying.count(message.value) > 0; break;
                    case 2: outputs.push_back(message.value); break;
                    case 4: type = message.value; break;
                    case 5:
                        for (Message attribute(message.value); attribute.next();)
                            if (attribute.number == 6 || attribute.number == 11) graphs.push_back(attribute.value);
                        break;
                    case 7: domain = message.value; break;
                }
            }
            types.insert(type);
            if (type == "Shape" || type == "Size") varies = false;
            if (varies) varying.insert(outputs.begin(), outputs.end());
            const bool is_ours = (type == "Pow" || type == "PRelu") && (domain.empty() || domain == "ai.onnx");
            if (is_ours && !varies) return true;
            for (std::string_view graph : graphs)
                if (in_graph(graph, varying, depth + 1)) return true;
        }
        return false;
    }

    Names types;  // of all nodes that were met
};

}  // namespace

std::optional<bool> has_constant_power(std::string_view model) {
    for (std::string_view opset : parts(model, 8))
        if (field(opset, 1) == "halfulp") return std::nullopt;
    Search search;
    for (std::string_view graph : parts(model, 7))
        if (search.in_graph(graph, {})) return true;
    Parts functions = parts(model, 25);
    const auto is_called = [&search](std::string_view function) { return search.types.count(field(function, 1)) > 0; };
    for (;;) {
        const auto called = std::find_if(functions.begin(), functions.end(), is_called);
        if (called == functions.end()) return false;
        Names varying;  // a function's arguments may be constants
        if (search.in_nodes(parts(*called, 7), varying, 0)) return true;
        functions.erase(called);
    }
}

}  // namespace halfulp
