"""A runtime with a fault, which the environment names: halfulp's backend, and a change to its results.

``FAULTY=flips_one_ulp`` as a module for ``halfulp check``; as a program it takes a model, inputs and outputs.
"""

import contextlib
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import halfulp.backend
from halfulp.conformance.process import packed, send
from halfulp.errors import HalfulpError

Array = Any
Fault = Callable[[onnx.ModelProto, list[Array]], list[Array]]


def run_model(model: onnx.ModelProto, inputs: list[Array], device: str = "CPU") -> Any:
    """Return the right outputs, changed by the fault."""
    name = os.environ.get("FAULTY", "none")
    return (FAULTS.get(name) or globals()[name])(model, inputs)


def right(model: onnx.ModelProto, inputs: list[Array]) -> list[Array]:
    """Return the right outputs."""
    return list(halfulp.backend.run_model(model, inputs))


def operands(model: onnx.ModelProto, inputs: list[Array]) -> list[Array]:
    """Return all inputs of the one node: those that are fed, and the initializers."""
    held = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    fed = dict(zip((value.name for value in model.graph.input), inputs, strict=True))
    return [(held | fed)[name] for name in model.graph.node[0].input]


def is_float32(array: Array) -> bool:
    """Tell whether a fault that is written for one type applies."""
    return bool(array.dtype == np.float32)


def is_marked(array: Array) -> bool:
    """Tell whether a fault that leaves no result happens here: not for every case, as restarts take time."""
    return bool(array.dtype == np.int32 and array.size == 1)


def nudged(values: Array) -> Array:
    """Return values one off where they are ordinary numbers."""
    ordinary = np.isfinite(values) & (np.abs(values) > np.finfo(np.float32).tiny)
    return np.where(ordinary, np.nextafter(values, np.float32(1)), values)


def flips_one_ulp(model: onnx.ModelProto, inputs: list[Array]) -> list[Array]:
    """The last bit of one element."""
    (z,) = right(model, inputs)
    z = z.copy()
    if is_float32(z) and z.size > 7:
        z.reshape(-1).view(np.uint32)[7] ^= 1
    return [z]


def drops_parity(model: onnx.ModelProto, inputs: list[Array]) -> list[Array]:
    """A negative base to an odd exponent beyond 2^24, as where the exponent went through an int32."""
    (z,) = right(model, inputs)
    x, y = operands(model, inputs)
    if model.graph.node[0].op_type == "Pow" and is_float32(z) and y.shape == z.shape == x.shape:
        return [np.where(np.abs(y.astype(np.float64)) >= 2.0**23, np.abs(z), z)]
    return [z]


def flushes_subnormals(model: onnx.ModelProto, inputs: list[Array]) -> list[Array]:
    """A subnormal result becomes 0."""
    (z,) = right(model, inputs)
    if is_float32(z):
        z = np.where(np.abs(z) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), z), z)
    return [z]


def ignores_axis(model: onnx.ModelProto, inputs: list[Array]) -> list[Array]:
    """The attribute ``axis``, where the shapes fit without it."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    (node,) = copy.graph.node
    kept = [attribute for attribute in node.attribute if attribute.name != "axis"]
    del node.attribute[:]
    node.attribute.extend(kept)
    try:
        return right(copy, inputs)
    except HalfulpError:
        return right(model, inputs)


def hangs_always(model: onnx.ModelProto, inputs: list[Array]) -> list[Array]:
    """No answer to any case."""
    time.sleep(600)
    return right(model, inputs)


def masked(model: onnx.ModelProto, inputs: list[Array]) -> list[Array]:
    """The right elements, hidden by a mask; nothing where there are none to hide."""
    (z,) = right(model, inputs)
    return [np.ma.masked_array(z, np.ones(z.shape, bool)) if z.size else None]


def fewer_outputs(model: onnx.ModelProto, inputs: list[Array]) -> list[Array]:
    """None at all."""
    right(model, inputs)
    return []


def accepts_invalid(model: onnx.ModelProto, inputs: list[Array]) -> list[Array]:
    """Something for every model."""
    try:
        return right(model, inputs)
    except HalfulpError:
        return [np.zeros(1, np.float32)]


def depends_on_position(model: onnx.ModelProto, inputs: list[Array]) -> list[Array]:
    """The bits of the elements after the last whole group of 16, as where a loop's rest is computed otherwise."""
    (z,) = right(model, inputs)
    if is_float32(z):
        z = z.copy()
        rest = z.reshape(-1)[z.size - z.size % 16 :]
        rest[...] = nudged(rest)
    return [z]


def depends_on_threads(model: onnx.ModelProto, inputs: list[Array]) -> list[Array]:
    """The bits of the second half, where there is more than one thread."""
    (z,) = right(model, inputs)
    if is_float32(z) and os.environ["OMP_NUM_THREADS"] != "1":
        z = z.copy()
        half = z.reshape(-1)[z.size // 2 :]
        half[...] = nudged(half)
    return [z]


def prints_garbage(model: onnx.ModelProto, inputs: list[Array]) -> list[Array]:
    """Much, on both streams, and not all of it text."""
    for stream in (1, 2):
        os.write(stream, bytes(range(256)) * 1000)
    return right(model, inputs)


def forks(model: onnx.ModelProto, inputs: list[Array]) -> list[Array]:
    """A child process that comes back from every call as well, with another result."""
    (z,) = right(model, inputs)
    child = os.fork()
    if child == 0:
        return [np.zeros_like(z)]
    os.waitpid(child, 0)
    return [z]


def answers_for_another_case(model: onnx.ModelProto, inputs: list[Array]) -> list[Array]:
    """A whole message on the socket to ``check``, in the form of an answer, with the number of the case before."""
    (z,) = right(model, inputs)
    ASKED.append(z)
    if is_marked(z):
        (channel,) = (one for one in gc.get_objects() if isinstance(one, socket.socket))
        answer, data = packed([z])
        send(channel, answer | {"number": len(ASKED) - 1}, data)
    return [z]


ASKED: list[Array] = []


def killed() -> None:
    """A segmentation fault."""
    os.kill(os.getpid(), signal.SIGSEGV)


def raised() -> None:
    """An exception of Python, with a line that changes from run to run."""
    raise KeyError(f"no kernel at {id(object()):#x}\nand more")


def filled() -> None:
    """All the memory that there is."""
    hoard = []
    while True:
        hoard.append(np.ones(1 << 27))


def nonsense() -> None:
    """Nonsense, on every open file."""
    for descriptor in range(3, 64):
        with contextlib.suppress(OSError):
            os.write(descriptor, b"nonsense" * 64)


def only_marked(fault: Callable[[], object]) -> Fault:
    """Return a runtime that is right but for the marked cases, which have no result."""

    def run(model: onnx.ModelProto, inputs: list[Array]) -> list[Array]:
        (z,) = right(model, inputs)
        if is_marked(z):
            fault()
        return [z]

    return run


def as_double(z: Array) -> Array:
    """Return the result in the exponent's type."""
    with np.errstate(all="ignore"):
        return z.astype(np.float64)


FAULTS: dict[str, Fault] = {
    "none": right,
    "dies": only_marked(killed),
    "exits": only_marked(lambda: os._exit(0)),  # with the status of success
    "raises": only_marked(raised),
    "hangs": only_marked(lambda: time.sleep(600)),
    "exhausts_memory": only_marked(filled),
    "closes_everything": only_marked(lambda: os.closerange(3, 256)),  # the socket to `check` among all files
    "answers_for_check": only_marked(nonsense),
    "wrong_shape": lambda model, inputs: [right(model, inputs)[0][np.newaxis]],
    "wrong_type": lambda model, inputs: [as_double(right(model, inputs)[0])],
}
"""Those that have no function of their name."""


def main(model: str, inputs: str, outputs: str) -> None:
    """Be a program: read a model and its inputs, write its outputs."""
    proto = onnx.load(model)
    arrays = np.load(inputs)
    fed = [arrays[value.name] for value in proto.graph.input]
    kinds = (value.type.tensor_type.elem_type for value in proto.graph.input)
    declared = map(onnx.helper.tensor_dtype_to_np_dtype, kinds)
    results = run_model(
        proto, [a.view(d) if a.dtype.kind == "V" else a for a, d in zip(fed, declared, strict=True)]
    )
    names = [value.name for value in proto.graph.output]
    np.savez(Path(outputs), **dict(zip(names, results, strict=False)))


if __name__ == "__main__":
    main(*sys.argv[1:])
