// Transposes matrices of 1 to 8 bytes an element, in squares that registers hold.
#pragma once

#include <cstring>
#include <utility>

#include "box.h"

namespace halfulp {

#if __has_builtin(__builtin_shufflevector)
// A square of words, `side` to a vector of 16 bytes. It is transposed in log2(side) rounds of interleaving.
template <typename Word>
struct Square {
    static constexpr int side = 16 / sizeof(Word);
    typedef Word Row [[gnu::vector_size(16)]];

    Row rows[side];

    template <int... i>
    void interleave(std::integer_sequence<int, i...>) {
        Row next[side];
        for (int k = 0; k < side / 2; ++k) {
            const Row &a = rows[k], &b = rows[k + side / 2];
            next[2 * k] = __builtin_shufflevector(a, b, (i / 2 + i % 2 * side)...);
            next[2 * k + 1] = __builtin_shufflevector(a, b, (i / 2 + i % 2 * side + side / 2)...);
        }
        for (int k = 0; k < side; ++k) rows[k] = next[k];
    }

    void transpose() {
        for (int round = 1; round < side; round *= 2) interleave(std::make_integer_sequence<int, side>{});
    }
};

// Gathers a box whose columns are contiguous in memory and whose rows are contiguous in the packed copy. Returns false,
// and copies nothing, if the box has another layout or sides that are not multiples of a square's.
template <typename Word>
static bool gather_transposed(const Box& box, char* data, char* packed_words) {
    constexpr ptrdiff_t side = Square<Word>::side, size = sizeof(Word);
    if (box.axes() < 2) return false;
    const Box::Axis &along = box.axis(0), &across = box.axis(1);
    if (along.stride != size || across.packed_stride != size) return false;
    if (along.extent % side != 0 || across.extent % side != 0) return false;
    box.for_each_part(2, data, packed_words, [&](const char* plane, char* packed) {
        for (ptrdiff_t j = 0; j < across.extent; j += side) {
            const char* from = plane + j * across.stride;
            char* to = packed + j * size;
            for (ptrdiff_t i = 0; i < along.extent; i += side) {
                Square<Word> square;
                for (ptrdiff_t k = 0; k < side; ++k)
                    std::memcpy(&square.rows[k], from + k * across.stride + i * size, 16);
                square.transpose();
                for (ptrdiff_t k = 0; k < side; ++k)
                    std::memcpy(to + (i + k) * along.packed_stride, &square.rows[k], 16);
            }
        }
    });
    return true;
}
#else
template <typename Word>
static bool gather_transposed(const Box&, char*, char*) {
    return false;
}
#endif

}  // namespace halfulp
