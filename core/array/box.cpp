#include "box.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "transpose.h"

namespace halfulp {

void Box::lay_out(const ptrdiff_t* extent, const ptrdiff_t* strides, int count, ptrdiff_t item_size) {
    axes_ = 0;
    int repeats = 0;
    ptrdiff_t packed_stride = item_size;
    for (int i = count - 1; i >= 0; --i) {
        if (extent[i] != 1) add({extent[i], strides[i], packed_stride}, repeats);
        packed_stride *= extent[i];
    }
    if (axes_ == 0) axis_[axes_++] = {1, item_size, item_size};
    std::reverse(axis_, axis_ + axes_);
    merge();
    list_steps();
}

// Inserts an axis. The smallest stride comes first, until lay_out reverses the order. Axes of broadcasting have no
// adjacent elements in memory and so become the outermost ones. Only if they are the packed copy's innermost axes do
// they stay there, `repeats` of them: each value is then loaded once and stored several times.
void Box::add(const Axis& axis, int& repeats) {
    if (axis.stride == 0 && repeats == axes_) ++repeats;
    int place = axes_++;
    const auto is_nearer = [&](const Axis& other) {
        return axis.stride != 0 && (other.stride == 0 || std::abs(axis.stride) < std::abs(other.stride));
    };
    for (; place > repeats && is_nearer(axis_[place - 1]); --place) axis_[place] = axis_[place - 1];
    axis_[place] = axis;
}

void Box::merge() {
    int merged = 0;
    for (int i = 1; i < axes_; ++i) {
        Axis& outer = axis_[merged];
        const Axis& inner = axis_[i];
        if (outer.stride == inner.stride * inner.extent && outer.packed_stride == inner.packed_stride * inner.extent)
            outer = {outer.extent * inner.extent, inner.stride, inner.packed_stride};
        else axis_[++merged] = inner;
    }
    axes_ = merged + 1;
}

void Box::list_steps() {
    stepped_axes_ = 0;
    step_count_ = 1;
    if (axes_ == 1 || axis(0).extent >= short_row) return;
    steps_[0] = {0, 0};
    for (; stepped_axes_ < axes_ && step_count_ * axis(stepped_axes_).extent <= most_steps; ++stepped_axes_) {
        const Axis& more = axis(stepped_axes_);
        int listed = step_count_;
        // Outer axes come later in the list.
        for (ptrdiff_t k = 1; k < more.extent; ++k)
            for (int j = 0; j < listed; ++j)
                steps_[step_count_++] = {steps_[j].offset + k * more.stride,
                                         steps_[j].packed_offset + k * more.packed_stride};
    }
}

namespace {

template <typename Word>
Word byte_swap(Word value) {
    if constexpr (sizeof(Word) == 8) return __builtin_bswap64(value);
    else if constexpr (sizeof(Word) == 4) return __builtin_bswap32(value);
    else if constexpr (sizeof(Word) == 2) return __builtin_bswap16(value);
    else return value;
}

// Rows of tiles are often short and have few lengths. For these, a call of memcpy would take longer than the copy.
inline void copy_row(char* to, const char* from, size_t bytes) {
    switch (bytes) {
        case 128: std::memcpy(to, from, 128); break;
        case 64: std::memcpy(to, from, 64); break;
        case 32: std::memcpy(to, from, 32); break;
        case 16: std::memcpy(to, from, 16); break;
        default: std::memcpy(to, from, bytes);
    }
}

// Copies a word from memory to its packed place, or back. The word may be unaligned: hence memcpy.
template <typename Word, bool gathers, bool swapped>
inline void copy_word(char* data, char* packed) {
    Word word;
    std::memcpy(&word, gathers ? data : packed, sizeof(Word));
    if (swapped) word = byte_swap(word);
    std::memcpy(gathers ? packed : data, &word, sizeof(Word));
}

template <typename Word, bool gathers, bool swapped>
void copy_words(char* data, ptrdiff_t stride, char* packed, ptrdiff_t packed_stride, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; ++i) {
        copy_word<Word, gathers, swapped>(data, packed);
        data += stride;
        packed += packed_stride;
    }
}

template <typename Word>
void swap_row(char* to, const char* from, ptrdiff_t n) {
    constexpr ptrdiff_t lanes = 16 / sizeof(Word);
    typedef Word Lanes [[gnu::vector_size(16)]];
    for (; n >= lanes; n -= lanes) {
        Lanes words;
        std::memcpy(&words, from, 16);
        // Swaps the halves of each word, then of each half, down to bytes.
        if constexpr (sizeof(Word) == 8) words = words << 32 | words >> 32;
        if constexpr (sizeof(Word) >= 4) {
            constexpr Word low_halves = static_cast<Word>(0x0000ffff0000ffff);
            words = (words & low_halves) << 16 | (words >> 16 & low_halves);
        }
        constexpr Word low_bytes = static_cast<Word>(0x00ff00ff00ff00ff);
        words = (words & low_bytes) << 8 | (words >> 8 & low_bytes);
        std::memcpy(to, &words, 16);
        from += 16;
        to += 16;
    }
    copy_words<Word, true, true>(const_cast<char*>(from), sizeof(Word), to, sizeof(Word), n);
}

// Copies a box of words to the packed buffer, or from it.
template <typename Word, bool gathers, bool swapped>
void copy_box(const Box& box, char* data, char* packed_words) {
    constexpr ptrdiff_t size = sizeof(Word);
    const Box::Axis& row = box.axis(0);
    if (gathers && !swapped && gather_transposed<Word>(box, data, packed_words)) return;
    if (row.stride == size && row.packed_stride == size) {
        box.for_each_part(1, data, packed_words, [&](char* part, char* packed) {
            char *to = gathers ? packed : part, *from = gathers ? part : packed;
            if constexpr (swapped && size > 1) swap_row<Word>(to, from, row.extent);
            else copy_row(to, from, sizeof(Word) * static_cast<size_t>(row.extent));
        });
    } else if (box.stepped_axes() > 0) {
        box.for_each_part(box.stepped_axes(), data, packed_words, [&](char* part, char* packed) {
            const Box::Step* steps = box.steps();
            for (int i = 0; i < box.step_count(); ++i)
                copy_word<Word, gathers, swapped>(part + steps[i].offset, packed + steps[i].packed_offset);
        });
    } else if (gathers && row.stride == 0 && row.packed_stride == size) {
        // A broadcast element is loaded once for all its copies.
        box.for_each_part(1, data, packed_words, [n = row.extent](char* from, char* packed) {
            Word word;
            std::memcpy(&word, from, sizeof(Word));
            if (swapped) word = byte_swap(word);
            for (ptrdiff_t i = 0; i < n; ++i) std::memcpy(packed + i * size, &word, sizeof(Word));
        });
    } else if (row.packed_stride == size) {
        box.for_each_part(1, data, packed_words, [&](char* part, char* packed) {
            copy_words<Word, gathers, swapped>(part, row.stride, packed, size, row.extent);
        });
    } else {
        box.for_each_part(1, data, packed_words, [&](char* part, char* packed) {
            copy_words<Word, gathers, swapped>(part, row.stride, packed, row.packed_stride, row.extent);
        });
    }
}

template <typename Word, bool gathers>
void copy_box(const Box& box, bool swapped, char* data, char* packed) {
    if (swapped) copy_box<Word, gathers, true>(box, data, packed);
    else copy_box<Word, gathers, false>(box, data, packed);
}

template <bool gathers>
void copy_box(const Box& box, const View& view, char* data, char* packed) {
    switch (view.item_size) {
        case 1: return copy_box<uint8_t, gathers>(box, false, data, packed);
        case 2: return copy_box<uint16_t, gathers>(box, view.swapped, data, packed);
        case 4: return copy_box<uint32_t, gathers>(box, view.swapped, data, packed);
        default: return copy_box<uint64_t, gathers>(box, view.swapped, data, packed);
    }
}

}  // namespace

void gather(const Box& box, const View& view, char* data, char* packed) { copy_box<true>(box, view, data, packed); }

void scatter(const Box& box, const View& view, char* data, char* packed) { copy_box<false>(box, view, data, packed); }

}  // namespace halfulp
