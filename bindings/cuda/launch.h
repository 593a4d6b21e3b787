// Powers and PReLU of operands in a device's memory: chooses the kernels and their elements.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "array/view.h"
#include "driver.h"
#include "formats/element.h"

namespace halfulp::cuda {

// x^y, or PReLU with the slope y. The views' addresses are on the device.
struct Operation {
    bool prelu = false;
    Element type = Element::count, y_type = Element::count;
    Shape shape;
    // `out` is an operand's view or overlaps no operand. If an operand is one number, its data is null.
    View x, y, out;
    uint64_t x_number = 0, y_number = 0;  // the encodings of such numbers
};

// Throws std::invalid_argument if there are more axes than max_dims.
Shape shape_of(std::span<const int64_t> dims);

// The view that broadcasts an array to a shape. Its strides are in bytes; if there are none, its elements are in C order.
// Throws std::invalid_argument.
View view_of(void* data, std::span<const int64_t> dims, std::span<const int64_t> strides, int size, const Shape& shape);

// Allocates memory on the device, which may be reused when the work that is now in the stream is done. If null, the
// driver allocates.
using Allocate = std::function<DevicePointer(size_t bytes)>;

// Sets the kernels' PTX. Call it once, before the first launch.
void set_kernels(std::string ptx);

// Enqueues the work in the stream without waiting. Throws std::runtime_error.
void launch(const Operation& operation, Device device, Stream stream, const Allocate& allocate = nullptr);

// The number of powers that the last phase could not decide on the device (numerics/pow_exact.h). Waits for the device.
uint64_t undecided(Device device);

}  // namespace halfulp::cuda
