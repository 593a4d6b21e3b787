// How calls are divided into tiles: see test_tiling.py.
//
//   tiling
//
// Reads calls from standard input: what limits them (0 to 2), the number of dims, the extents; then for x, y and the
// output the address, the item size, whether bytes are swapped, and the strides. Prints a JSON object for each.
#include <cstdio>
#include <iostream>

#include "array/tiling.h"

using namespace halfulp;

namespace {

View read_view(int dims) {
    View view;
    uintptr_t address;
    std::cin >> address >> view.item_size >> view.swapped;
    view.data = reinterpret_cast<char*>(address);
    for (int i = 0; i < dims; ++i) std::cin >> view.strides[i];
    return view;
}

template <typename Number>
void print(const char* name, const Number* values, int count) {
    std::printf(", \"%s\": [", name);
    for (int i = 0; i < count; ++i) std::printf("%s%lld", i ? ", " : "", static_cast<long long>(values[i]));
    std::printf("]");
}

}  // namespace

int main() {
    int bound_by;
    Shape shape;
    while (std::cin >> bound_by >> shape.dims) {
        for (int i = 0; i < shape.dims; ++i) std::cin >> shape.extent[i];
        const View x = read_view(shape.dims), y = read_view(shape.dims), out = read_view(shape.dims);
        const Tiling tiling = choose_tiling(shape, x, y, out, static_cast<BoundBy>(bound_by));
        std::printf("{\"chunks\": %lld", static_cast<long long>(tiling.chunk_count()));
        if (tiling.chunk_count() > 0) {
            const int dims = tiling.shape.dims;
            std::printf(", \"elements\": %lld, \"tiles\": %lld", static_cast<long long>(tiling.tile_elements),
                        static_cast<long long>(tiling.tile_count));
            std::printf(", \"flat\": %d, \"panel\": %d, \"rows\": %d, \"streams\": %d", tiling.is_flat, tiling.is_panel,
                        tiling.is_rows, tiling.streams);
            print("shape", tiling.shape.extent, dims);
            print("tile", tiling.tile_extent, dims);
            print("along", tiling.tiles_along, dims);
            print("order", tiling.order, dims);
            print("axes", tiling.tile_axis, tiling.tile_axes);
            print("out", tiling.views[role_out].strides, dims);
        }
        std::printf("}\n");
    }
    return 0;
}
