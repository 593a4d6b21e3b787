"""The libraries side by side: the cases, the environment, and each library's way of computing a case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, NamedTuple

import numpy as np

from halfulp import installed, operators
from halfulp._interop import Array
from halfulp.types import element_type


@dataclass(frozen=True, eq=False)
class Case:
    """One computation. A 0-d exponent is a constant, which a library may know beforehand.

    If ``returned``, each library returns a new array, as in `z = pow(x, y)`, even if it could write the result
    into a given one. Meant for small arrays, where the call itself takes most of the time. Two 0-d operands are
    Python numbers then.

    ``loop``: a loop in C calls the library's function of one number: "numbers" for independent ones, "chain" if
    each base needs the power before it, so that the time is the function's latency.
    """

    operator: Literal["pow", "prelu"]
    x: Array
    y: Array
    returned: bool = False
    loop: Literal["", "numbers", "chain"] = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """The result's shape."""
        return np.broadcast_shapes(self.x.shape, self.y.shape)

    @cached_property
    def output(self) -> Array:
        """The array for the result, in x's memory order if the shapes agree.

        All libraries that accept an output array share this one, because the same computation may take 1.5x
        as long with an array at another address.
        """
        if self.x.shape == self.shape:
            return np.empty_like(self.x)
        return np.empty(self.shape, self.x.dtype)

    @property
    def operands(self) -> tuple[Any, Any]:
        """The base and the exponent (or slope)."""
        return (self.x.item(), self.y.item()) if self.shape == () else (self.x, self.y)

    @property
    def constant(self) -> int | float | None:
        """The constant exponent as a Python number, an int if it is integral; None if it is not constant."""
        if self.operator != "pow" or self.y.ndim:
            return None
        value = float(self.y)
        return int(value) if value.is_integer() else value


def bases(type_name: str, size: int, seed: int = 7) -> Array:
    """Return ordinary bases: 0.01 to 10 in a floating type, -9 to 9 (0 to 9 if unsigned) in an integer one."""
    element, random = element_type(type_name), np.random.default_rng(seed)
    if element.kind == "float":
        return random.uniform(0.01, 10, size).astype(element.dtype)
    return random.integers(-9 if element.kind == "int" else 0, 10, size).astype(element.dtype)


def exponents(type_name: str, size: int, seed: int = 8) -> Array:
    """Return ordinary exponents: -4 to 4 in a floating type, 0 to 10 in an integer one."""
    element, random = element_type(type_name), np.random.default_rng(seed)
    if element.kind == "float":
        return random.uniform(-4, 4, size).astype(element.dtype)
    return random.integers(0, 11, size).astype(element.dtype)


def power(x_type: str, y_type: str, size: int) -> Case:
    """Return a power of two ordinary arrays."""
    return Case("pow", bases(x_type, size), exponents(y_type, size))


def constant_power(type_name: str, exponent: float, size: int) -> Case:
    """Return a power with a constant exponent of the base's type."""
    return Case("pow", bases(type_name, size), np.array(exponent).astype(element_type(type_name).dtype))


def prelu(type_name: str, shape: tuple[int, ...], slope_shape: tuple[int, ...]) -> Case:
    """Return a PRelu of numbers of both signs; the slopes are eighths, or small integers in an integer type."""
    element, random = element_type(type_name), np.random.default_rng(7)
    x = random.integers(-100, 100, shape, np.int8).astype(element.dtype)
    slopes = random.integers(-3, 4, slope_shape, np.int8)
    return Case("prelu", x, (slopes if element.kind == "int" else slopes / 8).astype(element.dtype))


# --- the libraries -------------------------------------------------------------------------------

_SPECIAL_TO_NUMPY = {2: np.square, 0.5: np.sqrt, -1: np.reciprocal}


class RefusalError(Exception):
    """The library does not support the operator or these types. The text is the library's own message."""


class Prepared(NamedTuple):
    """A computation that can be called repeatedly, with its operands in memory.

    ``call`` computes all results before it returns, into existing memory if the library allows it.
    ``to_numpy`` converts the value that it returned to an array.
    """

    call: Callable[[], Any]
    to_numpy: Callable[[Any], Array]


def prepare(name: str, case: Case, threads: int) -> Prepared:
    """Return a library's way of computing a case.

    Raises:
        RefusalError: the library does not support the operator or these types.
    """
    try:
        prepared = PREPARE[name](case, threads)
        result = prepared.to_numpy(prepared.call())
    except Exception as error:  # each library has its own exceptions
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise RefusalError(lines[0]) from error
    if result.dtype != case.x.dtype or result.shape != case.shape:
        raise RefusalError(f"the result is {result.dtype}{result.shape}")
    return prepared


def _halfulp(case: Case, threads: int) -> Prepared:
    """Compute into an array. HALFULP_NUM_THREADS sets the number of threads."""
    if case.loop:
        from side_by_side.vectors import prepare_by  # imported here, because it imports this module

        return prepare_by("halfulp")(case, threads)
    (x, y), out = case.operands, None if case.returned else case.output
    function = operators.pow if case.operator == "pow" else operators.prelu
    return Prepared(lambda: function(x, y, out=out), np.asarray)


def _numpy(case: Case, threads: int) -> Prepared:
    """Compute into an array on one thread. Some constant exponents use the same ufunc as ``**``.

    PRelu is the usual NumPy expression.
    """
    (x, y), out = case.operands, None if case.returned else case.output
    np.seterr(all="ignore")
    if case.operator == "prelu":
        return Prepared(lambda: np.where(x < 0, y * x, x), np.asarray)
    if case.constant in _SPECIAL_TO_NUMPY:
        function = _SPECIAL_TO_NUMPY[case.constant]
        return Prepared(lambda: function(x, out=out), np.asarray)
    # "unsafe": if the exponent has a wider type, the power is computed in that type and then converted.
    return Prepared(lambda: np.power(x, y, out=out, casting="unsafe"), np.asarray)


def _torch(case: Case, threads: int) -> Prepared:
    """Compute into a tensor. PRelu returns a new one, and its slope must be a scalar or per channel."""
    torch: Any = import_module("torch")
    torch.set_num_threads(threads)

    def tensor(array: Array) -> Any:
        if array.dtype.name == "bfloat16":
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)

    def to_numpy(result: Any) -> Array:
        if result.dtype == torch.bfloat16:
            return np.asarray(result.view(torch.int16).numpy().view(case.x.dtype))
        return np.asarray(result.numpy())

    x = tensor(case.x)
    if case.operator == "prelu":
        axes = [axis for axis in range(-case.y.ndim, 0) if case.y.shape[axis] != 1]
        if len(axes) != 1:
            raise NotImplementedError("a slope that is not per channel")
        channels_second, slope = torch.movedim(x, axes[0], 1), tensor(case.y).reshape(-1)
        prelu = torch.nn.functional.prelu
        return Prepared(
            lambda: prelu(channels_second, slope), lambda r: to_numpy(torch.movedim(r, 1, axes[0]))
        )
    y = tensor(case.y) if case.constant is None else case.constant
    out = None if case.returned else tensor(case.output)
    return Prepared(lambda: torch.pow(x, y, out=out), to_numpy)


def _onnxruntime(case: Case, threads: int) -> Prepared:
    """Create a session of one node, and bind arrays to its input and output.

    A constant exponent is an initializer.
    """
    from onnx import helper, numpy_helper

    from halfulp.models.onnx.tensors import declaration, enum_of

    ort: Any = import_module("onnxruntime")
    feeds = {"x": case.x} if case.constant is not None else {"x": case.x, "y": case.y}
    if not all(array.flags.c_contiguous for array in feeds.values()):
        raise NotImplementedError("operands that are not contiguous")
    out = case.output
    declared = [declaration(name, a.dtype.name, a.shape) for name, a in (*feeds.items(), ("z", out))]
    node = helper.make_node("Pow" if case.operator == "pow" else "PRelu", ["x", "y"], ["z"])
    constants = [] if case.constant is None else [numpy_helper.from_array(case.y, "y")]
    graph = helper.make_graph([node], "one_node", declared[:-1], declared[-1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    # Threads that spin-wait for work would slow the next library.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_input(name, "cpu", 0, enum_of(array.dtype.name), array.shape, array.ctypes.data)
    binding.bind_output("z", "cpu", 0, enum_of(out.dtype.name), out.shape, out.ctypes.data)

    def call() -> object:
        session.run_with_iobinding(binding)
        return feeds, out  # keeps the bound memory alive

    return Prepared(call, lambda result: np.asarray(result[1]))


def _openvino(case: Case, threads: int) -> Prepared:
    """Compile a graph of one node with static shapes, with float32 as its minimum precision.

    Its tensors use the arrays' own memory. A constant exponent is a Constant.
    """
    ov: Any = import_module("openvino")
    opset: Any = import_module("openvino.opset13")
    from halfulp.integrations.openvino import core  # imported here, because it imports OpenVINO

    if not (case.x.flags.c_contiguous and case.y.flags.c_contiguous):
        raise NotImplementedError("operands that are not contiguous")

    def ov_type(array: Array) -> Any:
        return getattr(ov.Type, element_type(array.dtype).openvino or "")

    def tensor(array: Array) -> Any:
        if array.dtype.name == "bfloat16":  # OpenVINO has this type, but not as a dtype
            return ov.Tensor(array.view(np.int16), list(array.shape), ov_type(array))
        return ov.Tensor(array, shared_memory=True)

    y = case.y
    if case.operator == "prelu":  # a slope of rank 1 would always apply to the second dim
        y = y.reshape((1,) * (case.x.ndim - y.ndim) + y.shape)
    inputs = [case.x, y] if case.constant is None else [case.x]
    parameters = [opset.parameter(list(array.shape), ov_type(array)) for array in inputs]
    second = opset.constant(tensor(y)) if case.constant is not None else parameters[1]
    if y.dtype != case.x.dtype:
        second = opset.convert(second, ov_type(case.x).get_type_name())
    node = opset.power if case.operator == "pow" else opset.prelu
    model = ov.Model([node(parameters[0], second)], parameters)
    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
    request = core().compile_model(model, "CPU", config).create_infer_request()
    out = case.output
    for index, array in enumerate(inputs):
        request.set_input_tensor(index, tensor(array))
    request.set_output_tensor(0, tensor(out))

    def call() -> object:
        request.infer()
        return inputs, out  # keeps the memory alive

    return Prepared(call, lambda result: np.asarray(result[1]))


def _numexpr(case: Case, threads: int) -> Prepared:
    """Compile the expression and evaluate it into an array. A constant exponent is part of its text."""
    numexpr: Any = import_module("numexpr")
    numexpr.set_num_threads(threads)
    operands = {"x": case.x, "y": case.y}
    if case.operator == "prelu":
        text = "where(x < 0, x * y, x)"
    elif case.constant is not None:
        text, operands = f"x ** {case.constant!r}", {"x": case.x}
    else:
        text = "x ** y"
    out = case.output
    numexpr.validate(text, operands, out=out, casting="unsafe")
    call = numexpr.evaluate
    return Prepared(lambda: call(text, operands, out=out, casting="unsafe"), np.asarray)


def _jax(case: Case, threads: int) -> Prepared:
    """Compile the function for the CPU. It returns a new array. A constant exponent is known to the compiler.

    NPROC in the environment sets the number of threads.
    """
    jax: Any = import_module("jax")
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    x, y = jax.numpy.asarray(case.x), jax.numpy.asarray(case.y)
    if case.operator == "prelu":
        function = jax.jit(lambda a, b: jax.numpy.where(a < 0, a * b, a))
    else:
        constant = case.constant
        function = jax.jit(lambda a, b: (a ** (b if constant is None else constant)).astype(a.dtype))
    return Prepared(lambda: function(x, y).block_until_ready(), np.asarray)


def _numba(case: Case, threads: int) -> Prepared:
    """Compile a ufunc. A constant exponent is known to the compiler."""
    numba: Any = import_module("numba")
    x, y, out = case.x, case.y, case.output
    # An integral constant is an integer. Any other gets x's type, because it would be float64 otherwise.
    constant = x.dtype.type(case.y) if isinstance(case.constant, float) else case.constant
    operands = (x, y) if constant is None else (x,)
    types = [numba.from_dtype(array.dtype) for array in operands]
    target = "cpu" if threads == 1 else "parallel"
    power = (lambda x, y: x**y) if constant is None else (lambda x: x**constant)
    function = power if case.operator == "pow" else (lambda x, y: x * y if x < 0 else x)
    ufunc = numba.vectorize([numba.from_dtype(x.dtype)(*types)], target=target)(function)
    return Prepared(lambda: ufunc(*operands, out=out), np.asarray)


PREPARE: dict[str, Callable[[Case, int], Prepared]] = {
    "halfulp": _halfulp,
    "numpy": _numpy,
    "torch": _torch,
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
    "numexpr": _numexpr,
    "jax": _jax,
    "numba": _numba,
}
"""A function for each library, which loads it and returns its way of computing a case."""

LIBRARIES = tuple(PREPARE)
PEERS = LIBRARIES[1:]


# --- the environment ------------------------------------------------------------------------------

# ONNX Runtime, OpenVINO and numexpr call the C library's pow, which depends only on the processor.
_ISA = {
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "XLA_FLAGS": "--xla_cpu_max_isa=AVX2", "NUMBA_CPU_NAME": "haswell"},
    "scalar": {
        "ATEN_CPU_CAPABILITY": "default",
        "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2",
        "NUMBA_CPU_NAME": "x86-64",
    },
}  # fmt: skip


def environment(threads: int, isa: str = "") -> dict[str, str]:
    """Return environment variables that give all libraries the same number of threads and, if they can be
    told, the same instruction set: ``"scalar"``, ``"avx2"``, ``"avx512"``, or nothing for the best.

    A library reads them when it is loaded.
    """
    # Exclude the time that the system takes to zero the memory of a new result, as with `out=`.
    variables = installed.environment(threads) | {
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(1 << 36),
    }
    if isa:
        variables |= {"HALFULP_ISA": isa} | _ISA.get(isa, {})
    if isa in _ISA:
        wider = ("AVX512", "X86_V4") if isa == "avx2" else ("AVX", "X86_V3", "X86_V4", "FMA")
        dispatched = np._core._multiarray_umath.__cpu_dispatch__  # type: ignore[attr-defined]
        variables["NPY_DISABLE_CPU_FEATURES"] = " ".join(f for f in dispatched if f.startswith(wider))
    return variables
