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
    void* others[8];  // until the thread pool's
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

struct Call {
    size_t size;
    Extension* extensions;
    const Api* api;
    ExecutionContext* context;
    int stage;
    Buffers operands, results;
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
