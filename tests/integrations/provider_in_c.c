/* Runs model.onnx, z = Pow(x, y), by halfulp's execution provider, as any program in C or C++ can. Its arguments are the
 * model and halfulp's library. ONNX Runtime's own header declares these functions. Here they are called by their indices
 * in its table, to which new versions only append. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const void* const* (*get_api)(uint32_t version);
    const char* (*version)(void);
} ApiBase;

#ifdef __cplusplus
extern "C"
#endif
    const ApiBase* OrtGetApiBase(void);

static const void* const* api;

#define FUNCTION(index, ...) ((void* (*)(__VA_ARGS__))api[index])

/* Each call returns null or a status. */
static void check(void* status) {
    if (status == NULL) return;
    puts((const char*)FUNCTION(2, void*)(status));
    exit(1);
}

int main(int count, char** arguments) {
    void *env, *options, *session, *memory, *inputs[2], *output = NULL;
    const void* const* devices;
    size_t device_count;
    float x[3] = {0.1f, 2, 3}, y[3] = {2.5f, 2.5f, -1}, *z;
    const int64_t shape[1] = {3};
    const char *const keys[1] = {"operators"}, *const values[1] = {"Pow"};
    const char *const names[2] = {"x", "y"}, *const output_names[1] = {"z"};
    if (count != 3) return 2;
    api = OrtGetApiBase()->get_api(24);
    check(FUNCTION(3, int, const char*, void**)(2, "program", &env));
    check(FUNCTION(301, void*, const char*, const char*)(env, "halfulp", arguments[2]));
    check(FUNCTION(303, void*, const void* const**, size_t*)(env, &devices, &device_count));
    check(FUNCTION(10, void**)(&options));
    for (size_t i = 0; i < device_count; ++i)
        if (strcmp((const char*)FUNCTION(312, const void*)(devices[i]), "HalfulpExecutionProvider") == 0)
            check(FUNCTION(304, void*, void*, const void* const*, size_t, const char* const*, const char* const*,
                           size_t)(options, env, &devices[i], 1, keys, values, 1));
    check(FUNCTION(7, void*, const char*, void*, void**)(env, arguments[1], options, &session));
    check(FUNCTION(69, int, int, void**)(0, 0, &memory));
    check(FUNCTION(49, void*, void*, size_t, const int64_t*, size_t, int, void**)(memory, x, sizeof x, shape, 1, 1,
                                                                                  &inputs[0]));
    check(FUNCTION(49, void*, void*, size_t, const int64_t*, size_t, int, void**)(memory, y, sizeof y, shape, 1, 1,
                                                                                  &inputs[1]));
    check(FUNCTION(9, void*, void*, const char* const*, void**, size_t, const char* const*, size_t, void**)(
        session, NULL, names, inputs, 2, output_names, 1, &output));
    check(FUNCTION(51, void*, void**)(output, (void**)&z));
    printf("%.9g %.9g %.9g\n", z[0], z[1], z[2]);
    for (int i = 0; i < 2; ++i) FUNCTION(96, void*)(inputs[i]);
    FUNCTION(96, void*)(output);
    FUNCTION(94, void*)(memory);
    FUNCTION(95, void*)(session);
    FUNCTION(100, void*)(options);
    check(FUNCTION(302, void*, const char*)(env, "halfulp"));
    FUNCTION(92, void*)(env);
    return 0;
}
