#include "broadcast.h"

#include <algorithm>

namespace halfulp::ort {

namespace {

bool has_one_element(Dims dims) {
    return std::all_of(dims.begin(), dims.end(), [](int64_t dim) { return dim == 1; });
}

// Aligns X with Y, to which `trailing` dims of 1 are appended, as NumPy does. Returns whether they fit.
bool align(Dims x, Dims y, size_t trailing, Arrangement& arrangement) {
    size_t y_rank = y.size() + trailing, rank = std::max(x.size(), y_rank);
    if (rank > max_dims) return false;
    arrangement.result.dims = static_cast<int>(rank);
    for (size_t i = 0; i < rank; ++i) {
        size_t xi = i + x.size(), yi = i + y_rank;  // both exceed the index by `rank`, so that they stay positive
        int64_t from_x = xi >= rank ? x[xi - rank] : 1;
        int64_t from_y = yi >= rank && yi - rank < y.size() ? y[yi - rank] : 1;
        if (from_x != from_y && from_x != 1 && from_y != 1) return false;
        arrangement.x[i] = from_x;
        arrangement.y[i] = from_y;
        arrangement.result.extent[i] = static_cast<ptrdiff_t>(from_x == 1 ? from_y : from_x);
    }
    return true;
}

using Outcome = std::optional<Mismatch>;

Outcome numpy(Dims x, Dims y, Arrangement& arrangement) {
    if (align(x, y, 0, arrangement)) return {};
    return not_broadcastable;
}

Outcome unidirectional(Dims x, Dims y, Arrangement& arrangement) {
    bool fits = y.size() <= x.size() && align(x, y, 0, arrangement) &&
                std::equal(x.begin(), x.end(), arrangement.result.extent);
    if (fits) return {};
    return not_unidirectional;
}

Outcome shared_or_per_channel(Dims x, Dims y, Arrangement& arrangement) {
    if (has_one_element(y)) return numpy(x, {}, arrangement);
    if (y.size() != 1) return unidirectional(x, y, arrangement);
    if (x.size() >= 2 && x[1] == y[0]) {
        align(x, y, x.size() - 2, arrangement);
        return {};
    }
    return not_per_channel;
}

Outcome legacy_axis(const LegacyAxis& legacy, Dims x, Dims y, Arrangement& arrangement) {
    if (!legacy.broadcast) {
        if (std::equal(x.begin(), x.end(), y.begin(), y.end())) return numpy(x, y, arrangement);
        return not_equal;
    }
    if (y.size() > x.size()) return rank_too_great;
    if (has_one_element(y)) return numpy(x, {}, arrangement);
    size_t start = x.size() - y.size();
    if (legacy.axis) {
        int64_t axis = *legacy.axis, rank = static_cast<int64_t>(x.size());
        if (axis < -rank || axis >= rank) return no_such_axis;
        start = static_cast<size_t>(axis < 0 ? axis + rank : axis);
        if (start + y.size() > x.size()) return beyond_the_end;
    }
    Dims matched = x.subspan(start, y.size());
    for (size_t i = 0; i < y.size(); ++i)
        if (y[i] == 1 && matched[i] != 1) return expands_one;
    if (!std::equal(y.begin(), y.end(), matched.begin())) return not_a_subset;
    align(x, y, x.size() - start - y.size(), arrangement);
    return {};
}

}  // namespace

std::optional<Mismatch> arrange(Rule rule, const LegacyAxis& legacy, Dims x, Dims y, Arrangement& arrangement) {
    switch (rule) {
        case Rule::legacy_axis: return legacy_axis(legacy, x, y, arrangement);
        case Rule::numpy: return numpy(x, y, arrangement);
        case Rule::shared_or_per_channel: return shared_or_per_channel(x, y, arrangement);
        case Rule::unidirectional: return unidirectional(x, y, arrangement);
    }
    __builtin_unreachable();
}

}  // namespace halfulp::ort
