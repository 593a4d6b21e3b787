"""ONNX Runtime on the CPU; its inputs and outputs cross by their bits, so that it may have types that NumPy lacks."""

from __future__ import annotations

import ctypes
import math
from importlib import import_module
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.runner.targets.onnx_model import Prepared, prepare, versions
from halfulp.types import TYPES, element_type

ort: Any = import_module("onnxruntime")

_NAMES = {row.onnx: row for row in TYPES.values() if row.onnx is not None}


class Target:
    """Makes a session of the model and runs it once, with nothing but the number of threads set."""

    def __init__(self, threads: int, argument: str) -> None:
        """Set the number of threads."""
        self._options = ort.SessionOptions()
        self._options.intra_op_num_threads = threads
        self._options.inter_op_num_threads = 1
        self._options.log_severity_level = 4

    def versions(self) -> dict[str, str]:
        """Return ONNX Runtime's version."""
        return {"onnxruntime": ort.__version__} | versions("onnx")

    def prepare(self, case: Case) -> Prepared:
        """Return the model and its inputs."""
        return prepare(case)

    def run(self, prepared: Prepared) -> list[Array]:
        """Return the outputs."""
        session = ort.InferenceSession(
            prepared.model.SerializeToString(), self._options, providers=["CPUExecutionProvider"]
        )
        binding = session.io_binding()
        kept = {
            name: np.ascontiguousarray(array).reshape(array.shape) for name, array in prepared.inputs.items()
        }
        for name, array in kept.items():
            number = element_type(array.dtype).onnx_enum
            binding.bind_input(name, "cpu", 0, number, array.shape, array.ctypes.data)
        for output in session.get_outputs():
            binding.bind_output(output.name, "cpu")
        session.run_with_iobinding(binding)
        return [_array(value) for value in binding.get_outputs()]


def _array(value: Any) -> Array:
    row = _NAMES[value.data_type().removeprefix("tensor(").removesuffix(")")]
    shape = tuple(value.shape())
    size = math.prod(shape) * row.dtype.itemsize
    data = ctypes.string_at(value.data_ptr(), size) if size else b""
    return np.frombuffer(data, row.dtype).reshape(shape)
