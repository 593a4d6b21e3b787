"""No temporary of an operand's size: the peak above operands and result stays under 4 MiB."""

import json
from pathlib import Path

import pytest

# The peak is the kernel's for this process (VmHWM), reset before each call. (ru_maxrss starts at the parent's.)
PROGRAM = """
import json, sys
import ml_dtypes, numpy as np
import halfulp as hu

def status(field):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024

def operand(dtype, *shape, value=1.5):
    return np.full(shape, value, dtype)

n = 2500
f4, f8, bf16 = np.float32, np.float64, ml_dtypes.bfloat16
cases = {
    "mixed types": (hu.pow, operand(f4, n, n), operand(np.int8, n, n, value=2)),
    "a wide exponent": (hu.pow, operand(bf16, n, n), operand(f8, n, n)),
    "integers": (hu.pow, operand(np.int32, n, n, value=3), operand(f4, n, n)),
    "swapped": (hu.pow, operand(">f4", n, n), operand(">f8", n, n)),
    "broadcast": (hu.pow, operand(f4, n, 1), operand(f4, 1, n)),
    "transposed": (hu.pow, operand(f4, n, n).T, operand(f4, n, n)),
    "both transposed": (hu.pow, operand(f4, n, n).T, operand(f4, n, n).T),
    "every other": (hu.pow, operand(f4, n, 2 * n)[:, ::2], operand(f4, n, n)),
    "backwards": (hu.pow, operand(f4, n, n)[::-1, ::-1], operand(f4, n, n)),
    "a Python number": (hu.pow, operand(f4, n, n), 2.5),
    "prelu, a channel's slope": (hu.prelu, operand(f4, 6, 1000, 1000, value=-2), operand(f4, 1000, 1)),
    "prelu, swapped": (hu.prelu, operand(">f4", n, n, value=-2), operand("<f4", n, n)),
    "Pow-1": (lambda x, y, **out: hu.op("onnx.Pow-1")(x, y, axis=0, broadcast=1, **out),
              operand(f4, n, n), operand(f4, n)),
}
for _, x, y in cases.values():
    hu.pow(x[:2000], y) if np.ndim(y) == 0 else None  # threads and their stacks exist
extra = {}
for name, (function, x, y) in cases.items():
    for given in (False, True):
        out = np.ones(np.broadcast_shapes(np.shape(x), np.shape(y)), x.dtype.newbyteorder("=")) if given else None
        if given and name == "transposed":
            out = out.T.copy().T
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        before = status("VmRSS")
        result = function(x, y, out=out)
        extra[name + ", out=" * given] = status("VmHWM") - before - (0 if given else result.nbytes)
        del result, out
    # In place the elements are read before they are written.
    if np.shape(x) == np.broadcast_shapes(np.shape(x), np.shape(y)) and x.flags.c_contiguous:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        before = status("VmRSS")
        function(x, y, out=x)
        extra[name + ", in place"] = status("VmHWM") - before
print(json.dumps(extra))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("threads", ["1", "8"])
def test_the_output_and_under_4_mib(threads, python):
    extra = json.loads(python(PROGRAM, HALFULP_NUM_THREADS=threads))
    assert len(extra) > 30
    assert max(extra.values()) < 4 << 20, {name: n / 2**20 for name, n in extra.items() if n >= 4 << 20}
