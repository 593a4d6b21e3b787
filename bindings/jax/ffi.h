// XLA's foreign function interface, as far as a handler needs it, from its public C header. Declared here so that
// building needs nothing of JAX, and one build serves versions 0.1 to 0.3 of the interface (jaxlib 0.5 to 0.10).
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfulp::xla {

// Opaque types of XLA.
struct Error;  // a null pointer is success; otherwise the receiver frees it
struct ExecutionContext;

inline constexpr int major_version = 0, first_minor_version = 1, last_minor_version = 3;

enum ErrorCode : int { invalid_argument = 3, resource_exhausted = 8, failed_precondition = 9, internal = 13 };

// Each struct begins with its size, by which XLA tells versions of it apart, and a list of extensions.
struct Extension {
    size_t size;
    enum Type : int { metadata = 1 } type;
    Extension* next;
};

struct Version {
    size_t size;
    Extension* extensions;
    int major, minor;
};

struct ErrorArguments {
    size_t size;
    Extension* extensions;
    const char* message;
    ErrorCode code;
};

struct DestroyArguments {
    size_t size;
    Extension* extensions;
    Error* error;
};

struct StreamArguments {
    size_t size;
    Extension* extensions;
    ExecutionContext* context;
    void* stream;  // XLA sets it
};

struct AllocateArguments {
    size_t size;
    Extension* extensions;
    ExecutionContext* context;
    size_t bytes, alignment;
    void* data;  // XLA sets it
};

struct FreeArguments {
    size_t size;
    Extension* extensions;
    ExecutionContext* context;
    size_t bytes;
    void* data;
};

struct ScheduleArguments {
    size_t size;
    Extension* extensions;
    ExecutionContext* context;
    void (*task)(void* data);
    void* data;
};

struct ThreadCountArguments {
    size_t size;
    Extension* extensions;
    ExecutionContext* context;
    int64_t* count;  // XLA sets it
};

struct Api {
    size_t size;
    Extension* extensions;
    Version version;
    const void* internal;
    Error* (*create_error)(ErrorArguments*);
    void* error_message;
    void (*destroy_error)(DestroyArguments*);
    void* register_handler;
    Error* (*stream)(StreamArguments*);  // of a device, as are its memory's functions
    void* of_types_and_states[4];
    Error* (*allocate)(AllocateArguments*);
    Error* (*free)(FreeArguments*);
    Error* (*schedule)(ScheduleArguments*);
    Error* (*thread_count)(ThreadCountArguments*);
};

struct Buffer {
    size_t size;
    Extension* extensions;
    int type;
    void* data;
    int64_t rank;
    int64_t* dims;
};

// The operands or the results of a call.
struct Buffers {
    size_t size;
    Extension* extensions;
    int64_t count;
    int* kinds;
    Buffer** buffers;
};

inline constexpr int scalar = 3;  // the kind of an attribute whose value is a Scalar

struct Attributes {
    size_t size;
    Extension* extensions;
    int64_t count;
    int* kinds;
    struct Name {
        const char* first;
        size_t size;
    }** names;
    void** values;
};

struct Scalar {
    int type;
    void* value;
};

struct Call {
    size_t size;
    Extension* extensions;
    const Api* api;
    ExecutionContext* context;
    int stage;
    Buffers operands, results;
    Attributes attributes;
};

// At registration XLA calls a handler with this extension, to ask for which version the handler was built.
struct MetadataExtension {
    Extension extension;
    struct Metadata {
        size_t size;
        Version version;
        uint32_t traits;
    }* metadata;
};

}  // namespace halfulp::xla
