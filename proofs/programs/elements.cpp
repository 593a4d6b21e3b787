// Powers and PRelu of elements (numerics/pow.h, numerics/prelu.h): a line for each line of standard input, all numbers
// unsigned decimal encodings.
//
//   pow TYPE Y_TYPE DOMAIN_ERROR X Y    Y_TYPE is float64, int64 or uint64
//   prelu TYPE X SLOPE
//   row TYPE                            precision, bias, largest, overflow, nan, and whether there is a minus zero
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "numerics/pow.h"
#include "numerics/prelu.h"

using namespace halfulp;
using namespace halfulp::HALFULP_ISA;

// Calls f with the element type of this name as a constant.
template <typename F>
static void with_type(const char* name, F f) {
#define HALFULP_FLOAT(type, ...) \
    if (std::strcmp(name, #type) == 0) return f(std::integral_constant<Element, Element::type>{});
#define HALFULP_INT HALFULP_FLOAT
#include "formats/elements.def"
#undef HALFULP_FLOAT
#undef HALFULP_INT
    std::exit(1);
}

template <Element type, Element y_type>
[[gnu::noinline]] static uint64_t power_of(uint64_t x, uint64_t y, bool domain_error) {
    return static_cast<std::make_unsigned_t<Storage<type>>>(
        pow<type, y_type>(static_cast<Storage<type>>(x), static_cast<Storage<y_type>>(y), domain_error));
}

int main() {
    char command[8], name[32], y_name[32];
    unsigned long x, y;
    int domain_error;
    while (std::scanf("%7s %31s", command, name) == 2) {
        with_type(name, [&](auto type) {
            constexpr Element element = type();
            constexpr ElementRow element_row = row(element);
            if (command[0] == 'r') {
                std::printf("%d %d %lu %lu %lu %d\n", element_row.precision, element_row.bias, element_row.largest,
                            element_row.overflow, element_row.nan, element_row.has_minus_zero() ? 1 : 0);
            } else if (std::strcmp(command, "pow") == 0) {
                if (std::scanf("%31s %d %lu %lu", y_name, &domain_error, &x, &y) != 4) std::exit(1);
                const auto power = y_name[0] == 'f'   ? power_of<element, Element::float64>
                                   : y_name[0] == 'i' ? power_of<element, Element::int64>
                                                      : power_of<element, Element::uint64>;
                std::printf("%lu\n", power(x, y, domain_error != 0));
            } else {
                if (std::scanf("%lu %lu", &x, &y) != 2) std::exit(1);
                const auto product = prelu<element>(static_cast<Storage<element>>(x), static_cast<Storage<element>>(y));
                std::printf("%lu\n",
                            static_cast<uint64_t>(static_cast<std::make_unsigned_t<Storage<element>>>(product)));
            }
        });
    }
}
