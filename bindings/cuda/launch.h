// Powers and PReLU of operands in a device's memory: which kernels, for which elements.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "array/view.h"
#include "driver.h"
#include "formats/element.h"

namespace halfulp::cuda {

// x^y, or PReLU with the slope y. The views' addresses are a device's.
struct Operation {
    bool prelu = false;
    Element type = Element::count, y_type = Element::count;
    Shape shape;
    View x, y, out;  // `out` is an operand's view, or overlaps none. An operand's data is null where it is one number:
    uint64_t x_number = 0, y_number = 0;  // its encoding
};

// Allocates memory on the device, which may be reused once the work that is now in the stream is done. Null: the
// driver allocates.
using Allocate = std::function<DevicePointer(size_t bytes)>;

// The kernels' PTX, to be given once, before the first launch.
void set_kernels(std::string ptx);

// Puts the work into the stream, and does not wait for it. Throws std::runtime_error.
void launch(const Operation& operation, Device device, Stream stream, const Allocate& allocate = nullptr);

// How many powers the last phase could not decide on the device (see numerics/pow_exact.h). Waits for the device.
uint64_t undecided(Device device);

}  // namespace halfulp::cuda
