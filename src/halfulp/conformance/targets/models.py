"""A case as an ONNX model of one node, and the runtimes that take such a model in Python."""

from __future__ import annotations

import ctypes
import math
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper

from halfulp import backend
from halfulp._interop import Array
from halfulp.conformance.case import Case, expected
from halfulp.conformance.targets import Target
from halfulp.errors import UnsupportedError
from halfulp.specs.tensor import Shape
from halfulp.types import TYPES, element_type

_LEAST_IR = 4  # before it, an initializer was a graph input too, which could be fed


def model(case: Case, *, dynamic: bool = False) -> onnx.ModelProto:
    """Return the model of a case: the node in its version's own opset, with the operator's names of its inputs.

    An invalid case's model is as wrong as the case is; nothing checks it here.

    Args:
        case: of an ONNX operator.
        dynamic: declare symbolic dims, ``X_0`` and so on, instead of sizes.

    Raises:
        UnsupportedError: ONNX lacks the operator or an input's type.
    """
    row = case.row
    if row.standard != "onnx":
        raise UnsupportedError(f"ONNX has no operator {row.id}")
    names = input_names(case)
    (output,) = row.outputs
    node = helper.make_node(row.name, names, [output.name], **case.attributes)
    named = list(zip(names, case.inputs, strict=True))
    graph = helper.make_graph(
        [node],
        row.name,
        [_value(name, a, dynamic) for i, (name, a) in enumerate(named) if i not in case.constants],
        [_output(case, output.name, dynamic)],
        [
            onnx.numpy_helper.from_array(array, name)
            for i, (name, array) in enumerate(named)
            if i in case.constants
        ],
    )
    opset = helper.make_opsetid("", int(row.version))
    ir_version = max(_LEAST_IR, helper.find_min_ir_version_for([opset]))
    return helper.make_model(
        graph, opset_imports=[opset], ir_version=ir_version, producer_name="halfulp", doc_string=case.id
    )


def input_names(case: Case) -> list[str]:
    """Return the names of a case's inputs, as the operator's document has them; beyond those, ``extra``."""
    names = [port.name for port in case.row.inputs]
    return [*names, "extra"][: len(case.inputs)]


def model_inputs(case: Case) -> dict[str, Array]:
    """Return the inputs that are no constants, by name: those that are fed."""
    named = zip(input_names(case), case.inputs, strict=True)
    return {name: array for i, (name, array) in enumerate(named) if i not in case.constants}


def _value(name: str, array: Array, dynamic: bool) -> onnx.ValueInfoProto:
    shape: Shape = _symbols(name, array.ndim) if dynamic else array.shape
    return helper.make_tensor_value_info(name, _enum(array.dtype), shape)


def _output(case: Case, name: str, dynamic: bool) -> onnx.ValueInfoProto:
    """Declare the output; of an invalid case, whose shape nobody knows, only the type and the rank."""
    if case.declared is not None:
        return helper.make_tensor_value_info(name, _enum(case.declared.type), case.declared.shape)
    shape: Shape
    if case.clause is not None:
        kind: Any = case.inputs[0].dtype
        shape = _symbols(name, max(array.ndim for array in case.inputs))
    else:
        kind, shape = case.row.infer(*case.inputs, **case.attributes)
        if dynamic:
            shape = _symbols(name, len(shape or ()))
    return helper.make_tensor_value_info(name, _enum(kind), shape)


def _symbols(name: str, rank: int) -> tuple[str, ...]:
    return tuple(f"{name}_{i}" for i in range(rank))


def _enum(dtype: object) -> int:
    row = element_type(dtype)
    if row.onnx_enum is None:
        raise UnsupportedError(f"ONNX has no type {row.name}")
    return row.onnx_enum


# --- runtimes that take a model ------------------------------------------------------------------


class Prepared(NamedTuple):
    """A model, and its inputs by name: all that are no initializers."""

    model: onnx.ModelProto
    inputs: dict[str, Array]


class ModelTarget(Target):
    """Takes a case as an ONNX model."""

    packages: tuple[str, ...] = ("onnx",)

    def prepare(self, case: Case) -> Any:
        """Return the model and its inputs."""
        return Prepared(model(case), model_inputs(case))


class Reference(ModelTarget):
    """Evaluates the model with the onnx package's ReferenceEvaluator."""

    packages = ("onnx", "numpy", "ml_dtypes")

    def __init__(self, threads: int, argument: str) -> None:
        """Load the evaluator."""
        self._reference: Any = import_module("onnx.reference")

    def run(self, prepared: Prepared) -> list[Array]:
        """Return the outputs."""
        return list(self._reference.ReferenceEvaluator(prepared.model).run(None, prepared.inputs))


class Converter(Reference):
    """Converts the model to the newest opset with the onnx package's version converter, and evaluates it."""

    def run(self, prepared: Prepared) -> list[Array]:
        """Return the outputs."""
        newest = onnx.version_converter.convert_version(prepared.model, onnx.defs.onnx_opset_version())
        return super().run(Prepared(newest, prepared.inputs))


class OnnxRuntime(ModelTarget):
    """Runs the model once in a session of ONNX Runtime on the CPU, with only the number of threads set.

    Inputs and outputs cross by their bits, so that they may have types that NumPy lacks.
    """

    def __init__(self, threads: int, argument: str) -> None:
        """Set the number of threads."""
        self._ort: Any = import_module("onnxruntime")
        self._options = self._ort.SessionOptions()
        self._options.intra_op_num_threads = threads
        self._options.inter_op_num_threads = 1
        self._options.log_severity_level = 4

    def versions(self) -> dict[str, str]:
        """Return ONNX Runtime's version, whichever of its packages is installed."""
        return {"onnxruntime": self._ort.__version__} | super().versions()

    def run(self, prepared: Prepared) -> list[Array]:
        """Return the outputs."""
        session = self._ort.InferenceSession(
            prepared.model.SerializeToString(), self._options, providers=["CPUExecutionProvider"]
        )
        binding = session.io_binding()
        kept = {
            name: np.ascontiguousarray(array).reshape(array.shape) for name, array in prepared.inputs.items()
        }
        for name, array in kept.items():
            binding.bind_input(name, "cpu", 0, _enum(array.dtype), array.shape, array.ctypes.data)
        for output in session.get_outputs():
            binding.bind_output(output.name, "cpu")
        session.run_with_iobinding(binding)
        return [_array(value) for value in binding.get_outputs()]


def _array(value: Any) -> Array:
    name = value.data_type().removeprefix("tensor(").removesuffix(")")
    dtype = next(row.dtype for row in TYPES.values() if row.onnx == name)
    shape = tuple(value.shape())
    size = math.prod(shape) * dtype.itemsize
    data = ctypes.string_at(value.data_ptr(), size) if size else b""
    return np.frombuffer(data, dtype).reshape(shape)


class Backend(ModelTarget):
    """Runs the model with any module, or class in one, that has ``prepare`` or ``run_model`` of onnx.backend.base."""

    def __init__(self, threads: int, argument: str) -> None:
        """Import the module or the class of that name."""
        self.packages = (argument.partition(".")[0], "onnx")
        self._backend: Any = _imported(argument)
        if not hasattr(self._backend, "prepare") and not hasattr(self._backend, "run_model"):
            raise TypeError(f"{argument} has neither prepare nor run_model, as an onnx.backend has")

    def run(self, prepared: Prepared) -> list[Any]:
        """Return the outputs; the interface takes the inputs in the model's order."""
        inputs = list(prepared.inputs.values())
        if hasattr(self._backend, "prepare"):
            outputs = self._backend.prepare(prepared.model, "CPU").run(inputs)
        else:
            outputs = self._backend.run_model(prepared.model, inputs, "CPU")
        return [outputs] if isinstance(outputs, np.ndarray) else list(outputs)


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        module, _, attribute = name.rpartition(".")
        if not module or error.name != name:
            raise
        return getattr(import_module(module), attribute)


class Halfulp(ModelTarget):
    """Runs ONNX models with ``halfulp.backend``, and calls the operators of other standards by their ids.

    The slow exact oracle judges it, not halfulp itself. The number of threads comes from the environment.
    """

    packages = ("halfulp",)

    def prepare(self, case: Case) -> Any:
        """Return the model and its inputs, or the case where ONNX has no such operator."""
        return super().prepare(case) if case.operator.startswith("onnx.") else case

    def run(self, prepared: Prepared | Case) -> list[Array]:
        """Return the outputs."""
        if isinstance(prepared, Prepared):
            return list(backend.run_model(prepared.model, prepared.inputs))
        return [expected(prepared)]
