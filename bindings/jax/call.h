// What a handler of any platform does with a call: reads it, and reports errors.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>

#include "ffi.h"
#include "formats/element.h"

namespace halfulp::xla {

// An operand or the result, in C order.
struct Array {
    Element type;  // Element::count if halfulp has no such type
    void* data;
    int64_t rank;
    const int64_t* dims;
};

inline constexpr int int32_number = 4;  // XLA's number of the type int32

// XLA's numbers of element types.
constexpr Element element_of(int number) {
    switch (number) {
        case 2: return Element::int8;
        case 3: return Element::int16;
        case int32_number: return Element::int32;
        case 5: return Element::int64;
        case 6: return Element::uint8;
        case 7: return Element::uint16;
        case 8: return Element::uint32;
        case 9: return Element::uint64;
        case 10: return Element::float16;
        case 11: return Element::float32;
        case 12: return Element::float64;
        case 16: return Element::bfloat16;
        case 19: return Element::float8_e5m2;
        case 20: return Element::float8_e4m3fn;
        case 21: return Element::int4;
        case 22: return Element::uint4;
        case 23: return Element::float8_e4m3b11fnuz;
        case 24: return Element::float8_e5m2fnuz;
        case 25: return Element::float8_e4m3fnuz;
        case 28: return Element::float8_e4m3;
        case 29: return Element::float8_e3m4;
        case 32: return Element::float4_e2m1fn;
        case 33: return Element::float8_e8m0fnu;
        default: return Element::count;
    }
}

inline Error* error(const Call& call, ErrorCode code, const char* message) {
    ErrorArguments arguments{sizeof arguments, nullptr, message, code};
    return call.api->create_error(&arguments);
}

// Whether a function of XLA succeeded. Frees its error.
inline bool succeeded(const Call& call, Error* error) {
    DestroyArguments arguments{sizeof arguments, nullptr, error};
    if (error != nullptr) call.api->destroy_error(&arguments);
    return error == nullptr;
}

// Answers the question for which version this handler is built: for any that it knows. XLA up to jaxlib 0.8 has the first
// of these versions, and does not say so here.
inline void answer(const Call& call, MetadataExtension::Metadata& metadata) {
    const int minor = call.api == nullptr ? first_minor_version : call.api->version.minor;
    metadata.version.major = major_version;
    metadata.version.minor = std::clamp(minor, first_minor_version, last_minor_version);
    metadata.traits = 0;
}

// The attribute exponent_type, a halfulp_type. Returns Element::count if there is no such attribute.
inline Element exponent_type_of(const Call& call) {
    const Attributes& given = call.attributes;
    for (int64_t i = 0; i < given.count; ++i) {
        if (std::string_view(given.names[i]->first, given.names[i]->size) != "exponent_type") continue;
        const auto& value = *static_cast<const Scalar*>(given.values[i]);
        if (given.kinds[i] != scalar || value.type != int32_number) break;
        int32_t place;
        std::memcpy(&place, value.value, sizeof place);
        if (place >= 0 && place < element_count) return static_cast<Element>(place);
    }
    return Element::count;
}

// Returns compute(x, y, out), or answers XLA's question at registration.
template <typename F>
Error* handle(const Call& call, bool by_number, F compute) {
    for (Extension* extension = call.extensions; extension != nullptr; extension = extension->next)
        if (extension->type == Extension::metadata)
            return answer(call, *reinterpret_cast<MetadataExtension*>(extension)->metadata), nullptr;
    const Version& version = call.api->version;
    if (version.major != major_version || version.minor < first_minor_version)
        return error(call, failed_precondition, "halfulp needs version 0.1 of XLA's foreign function interface");
    if (call.operands.count != 2 || call.results.count != 1)
        return error(call, invalid_argument, "halfulp: expected two operands and one result");
    const auto array_of = [](const Buffer& buffer) {
        return Array{element_of(buffer.type), buffer.data, buffer.rank, buffer.dims};
    };
    const Array x = array_of(*call.operands.buffers[0]), out = array_of(*call.results.buffers[0]);
    Array y = array_of(*call.operands.buffers[1]);
    if (by_number) {
        y = {exponent_type_of(call), y.data, 0, nullptr};
        if (y.type == Element::count)
            return error(call, invalid_argument, "halfulp: expected the attribute exponent_type");
    }
    return compute(x, y, out);
}

}  // namespace halfulp::xla
