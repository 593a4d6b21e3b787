#include "operation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "dispatch.h"
#include "fp_environment.h"

namespace halfulp {

namespace {

// From this many elements on, to compute all powers of the type and to look these up takes less time.
ptrdiff_t worth_a_table(int item_size) { return item_size == 1 ? 1 << 11 : 1 << 18; }

uint64_t bytes_of(Element type, const void* element) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, element, static_cast<size_t>(row(type).size));
    return bytes;
}

}  // namespace

// Neither waits: in a forked child, a thread of the parent may hold the mutex for ever. A call then makes its own table.
std::shared_ptr<const PowerTable> KeptTable::get() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    return lock ? table_ : nullptr;
}

void KeptTable::set(std::shared_ptr<const PowerTable> table) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) table_ = std::move(table);
}

Operation::Operation(Kernel kernel, Element type, Element y_type, const void* one_y, ptrdiff_t elements,
                     const PowOptions& options, KeptTable* kept)
    : kernels_(chosen_kernels()), kernel_(kernel), type_(type), y_type_(y_type), options_(options) {
    const ElementRow& x = row(type);
    if (kernel == Kernel::prelu) {
        bound_by_ = BoundBy::memory;
    } else if (!options.scale_bias && kernels_.bound_by_memory(type, y_type, one_y)) {
        bound_by_ = BoundBy::mostly_memory;
    } else if (one_y != nullptr && x.is_float && x.size <= 2 && elements >= worth_a_table(x.size)) {
        bound_by_ = BoundBy::memory;
        if (kept != nullptr) table_ = kept->get();
        if (table_ != nullptr && is_of_this(*table_, one_y)) return;
        table_ = make_table(one_y);
        if (kept != nullptr) kept->set(table_);
    }
}

bool Operation::is_of_this(const PowerTable& table, const void* one_y) const {
    return table.type == type_ && table.y_type == y_type_ && table.y == bytes_of(y_type_, one_y) &&
           table.options.domain_error == options_.domain_error && table.options.scale_bias == options_.scale_bias &&
           table.options.scale == options_.scale && table.options.bias == options_.bias;
}

std::shared_ptr<const PowerTable> Operation::make_table(const void* one_y) const {
    FpEnvironment default_environment;
    const int size = row(type_).size, codes = 1 << 8 * size, step = std::min(codes, block_size);
    PowerTable table{type_, y_type_, bytes_of(y_type_, one_y), options_,
                     std::vector<char>(static_cast<size_t>(codes * size))};
    char* powers = table.powers.data();
    for (int i = 0; i < codes; ++i) {
        const auto code = static_cast<uint16_t>(i);
        if (size == 1) powers[i] = static_cast<char>(code);
        else std::memcpy(powers + 2 * i, &code, 2);
    }
    PowOptions options = options_;
    options.constant_exponent = true;
    for (int i = 0; i < codes; i += step)
        kernels_.pow(options, type_, y_type_, powers + i * size, one_y, powers + i * size, step, false);
    return std::make_shared<const PowerTable>(std::move(table));
}

}  // namespace halfulp
