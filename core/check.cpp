// core_check: prints a digest of the kernels' results for every pair of types, for comparing instruction sets and
// machines. Fails if this machine's instruction sets differ from each other or from numerics/pow.h, which computes one
// element at a time. It needs no Python, so it cross-compiles.
//
//   core_check [ELEMENTS] [FILE...]
//
//   ELEMENTS   the number of operand pairs for each pair of types; 1024 by default
//   FILE       data/worst_cases/<type>.txt: checks its operands too. A line is: x's bits, y's type, y's bits, # comment
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#define HALFULP_ISA one_element
#include "dispatch.h"
#include "fp_environment.h"
#include "numerics/pow.h"
#include "tools/splitmix.h"

namespace {

using namespace halfulp;

// Encodings of four kinds: any bits, near one, short significands, small integers.
uint64_t operand(const ElementRow& type, uint64_t& state) {
    uint64_t random = next(state), kind = next(state) % 4;
    uint64_t mask = type.bits == 64 ? ~uint64_t{0} : (uint64_t{1} << type.bits) - 1;
    if (!type.is_float) return (kind == 0 ? random : random % 16 - 4) & mask;
    int fraction = type.fraction_bits();
    uint64_t one = static_cast<uint64_t>(type.bias) << fraction, sign = random & type.sign();
    if (kind == 0) return random & mask;
    if (kind == 1) return ((one + random % 64 - 32) | sign) & mask;
    int dropped = static_cast<int>(random % static_cast<uint64_t>(fraction + 1));
    uint64_t near = one + (next(state) % (uint64_t{8} << fraction)) - (uint64_t{3} << fraction);
    return ((near >> dropped << dropped) | sign) & mask;
}

using Bytes = std::vector<unsigned char>;

// Operands of two types, in memory.
struct Operands {
    Element type, y_type;
    Bytes x, y;

    int count() const { return static_cast<int>(x.size()) / row(type).size; }
};

void append(Element type, uint64_t encoding, Bytes& to) {
    const auto put = [&](auto stored) {
        unsigned char bytes[sizeof stored];
        std::memcpy(bytes, &stored, sizeof stored);
        to.insert(to.end(), bytes, bytes + sizeof stored);
    };
    switch (row(type).size) {
        case 1: return put(static_cast<uint8_t>(encoding));
        case 2: return put(static_cast<uint16_t>(encoding));
        case 4: return put(static_cast<uint32_t>(encoding));
        default: return put(encoding);
    }
}

Operands random_operands(Element type, Element y_type, int count) {
    Operands operands{type, y_type, {}, {}};
    uint64_t state = static_cast<uint64_t>(type) * element_count + static_cast<uint64_t>(y_type);
    for (int i = 0; i < count; ++i) {
        append(type, operand(row(type), state), operands.x);
        append(y_type, operand(row(y_type), state), operands.y);
    }
    return operands;
}

Element element_named(const std::string& name) {
    for (int i = 0; i < element_count; ++i)
        if (name == element_rows[i].name) return static_cast<Element>(i);
    throw std::runtime_error("unknown element type " + name);
}

// The operands in a file, for each type of y.
std::vector<Operands> read_operands(const std::filesystem::path& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read " + path.string());
    Element type = element_named(path.stem().string());
    std::map<Element, Operands> read;
    for (std::string line; std::getline(file, line);) {
        std::istringstream fields(line.substr(0, line.find('#')));
        std::string x, y_name, y;
        if (!(fields >> x >> y_name >> y)) continue;
        Element y_type = element_named(y_name);
        Operands& operands = read.try_emplace(y_type, Operands{type, y_type, {}, {}}).first->second;
        append(type, std::stoull(x, nullptr, 16), operands.x);
        append(y_type, std::stoull(y, nullptr, 16), operands.y);
    }
    std::vector<Operands> all;
    for (auto& [y_type, operands] : read) all.push_back(std::move(operands));
    return all;
}

struct Case {
    const char* name;
    bool prelu;
    PowOptions options;
};

constexpr Case power = {"pow", false, {}};
constexpr Case cases[] = {
    power,
    {"pow, domain error", false, {.domain_error = true}},
    {"pow, scale and bias", false, {.domain_error = true, .scale_bias = true, .scale = 1.7f, .bias = -0.3f}},
    {"prelu", true, {}},
};

// The results, computed in blocks of `length` elements.
Bytes results(const Kernels& kernels, const Case& test, const Operands& operands, int length, bool streaming = false) {
    const int size = row(operands.type).size, y_size = row(operands.y_type).size;
    alignas(64) static unsigned char x[8 * run_size], y[8 * run_size], room[8 * run_size + cache_line];
    unsigned char* out = streaming ? room + size : room;  // lines that are stored to in part
    Bytes all;
    for (int done = 0; done < operands.count(); done += length) {
        int n = operands.count() - done < length ? operands.count() - done : length;
        std::memcpy(x, operands.x.data() + done * size, static_cast<size_t>(n * size));
        std::memcpy(y, operands.y.data() + done * y_size, static_cast<size_t>(n * y_size));
        if (test.prelu)
            kernels.prelu(operands.type, x, y, test.options.constant_exponent ? n : 1, 0, out, n, streaming);
        else kernels.pow(test.options, operands.type, operands.y_type, x, y, out, n, streaming);
        all.insert(all.end(), out, out + n * size);
    }
    return all;
}

// The results of numerics/pow.h, one element at a time.
template <Element type, Element y_type>
void append_powers(const Operands& operands, bool domain_error, Bytes& all) {
    for (int i = 0; i < operands.count(); ++i) {
        Storage<type> x;
        Storage<y_type> y;
        std::memcpy(&x, operands.x.data() + static_cast<size_t>(i) * sizeof x, sizeof x);
        std::memcpy(&y, operands.y.data() + static_cast<size_t>(i) * sizeof y, sizeof y);
        append(type, one_element::pow<type, y_type>(x, y, domain_error), all);
    }
}

using Append = void (*)(const Operands&, bool domain_error, Bytes&);

template <int... pairs>
constexpr std::array<Append, sizeof...(pairs)> append_of_pairs(std::integer_sequence<int, pairs...>) {
    return {append_powers<static_cast<Element>(pairs / element_count), static_cast<Element>(pairs % element_count)>...};
}

Bytes results_by_element(const Case& test, const Operands& operands) {
    constexpr auto by_pair = append_of_pairs(std::make_integer_sequence<int, element_count * element_count>{});
    Bytes all;
    const int pair = static_cast<int>(operands.type) * element_count + static_cast<int>(operands.y_type);
    by_pair[static_cast<size_t>(pair)](operands, test.options.domain_error, all);
    return all;
}

// The digest of elements of `size` bytes, each from its low byte on, on machines of either byte order.
unsigned long long digest(const Bytes& data, int size) {
    constexpr bool big_endian = std::endian::native == std::endian::big;
    const size_t flip = big_endian ? static_cast<size_t>(size) - 1 : 0;  // sizes are powers of two
    uint64_t sum = 0xcbf29ce484222325;
    for (size_t i = 0; i < data.size(); ++i) sum = (sum ^ data[i ^ flip]) * 0x100000001b3;
    return sum;
}

// The operands with the first y for all.
Operands with_one_y(Operands operands) {
    const size_t size = static_cast<size_t>(row(operands.y_type).size);
    const Bytes y(operands.y.begin(), operands.y.begin() + static_cast<ptrdiff_t>(size));
    for (size_t i = 0; i < operands.y.size(); i += size) std::memcpy(&operands.y[i], y.data(), size);
    return operands;
}

// Prints the digest. Returns whether the results are the same for all instruction sets, block lengths, streaming or
// ordinary stores, and a constant exponent.
bool check(const Case& test, const Operands& operands) {
    const Operands one_y = with_one_y(operands);
    const Kernels& first_set = *available_kernels().front();
    Bytes first = results(first_set, test, operands, tile_size);
    Bytes first_of_one = results(first_set, test, one_y, tile_size);
    std::printf("%s %s %s %d %016llx\n", test.name, row(operands.type).name, row(operands.y_type).name,
                operands.count(), digest(first, row(operands.type).size));
    Case constant = test;
    constant.options.constant_exponent = true;
    bool all_agree = true;
    for (const Kernels* set : available_kernels()) {
        bool agrees = results(*set, test, operands, run_size) == first &&
                      results(*set, constant, operands, 1) == first &&
                      results(*set, constant, one_y, run_size) == first_of_one &&
                      results(*set, test, operands, 777, true) == first &&
                      results(*set, constant, one_y, run_size, true) == first_of_one;
        if (!agrees) std::printf("  %s differs\n", set->name);
        all_agree &= agrees;
    }
    if (!test.prelu && !test.options.scale_bias && results_by_element(test, operands) != first) {
        std::printf("  one element at a time differs\n");
        all_agree = false;
    }
    return all_agree;
}

}  // namespace

int main(int argc, char** argv) {
    bool has_count = argc > 1 && std::atoi(argv[1]) > 0;
    int count = has_count ? std::atoi(argv[1]) : 1024;
    FpEnvironment default_environment;
    bool all_agree = true;
    for (const Case& test : cases) {
        for (int t = 0; t < element_count; ++t) {
            for (int u = 0; u < element_count; ++u) {
                if (test.prelu && t != u) continue;
                all_agree &= check(test, random_operands(static_cast<Element>(t), static_cast<Element>(u), count));
            }
        }
    }
    for (int i = has_count ? 2 : 1; i < argc; ++i)
        for (const Operands& operands : read_operands(argv[i])) all_agree &= check(power, operands);
    for (const Kernels* set : available_kernels()) all_agree &= set->undecided() == 0;
    return all_agree ? 0 : 1;
}
