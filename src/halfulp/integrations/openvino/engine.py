"""OpenVINO as an engine: a model compiled for the CPU, in f32, fed and read by the names of its tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import openvino as ov

from halfulp.errors import ModelError, printable
from halfulp.integrations.openvino.operators import Array, array_of, tensor_of


class Compiled:
    """A model that is compiled, with one request of it.

    Args:
        model: an ``openvino.Model``.
        file: its name in messages.
        threads: how many it uses; 0 is as many as OpenVINO chooses.
        profile: whether :meth:`layers` is wanted.

    Raises:
        ModelError: OpenVINO does not compile it.
    """

    def __init__(self, model: Any, file: str, *, threads: int = 0, profile: bool = False) -> None:
        self._file = file
        settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32", "PERF_COUNT": profile}
        if threads:
            settings["INFERENCE_NUM_THREADS"] = threads
        with _blaming(file):
            self._compiled = ov.Core().compile_model(model, "CPU", settings)
            self._request = self._compiled.create_infer_request()

    def bind(self, inputs: Mapping[str, Any]) -> None:
        """Set the inputs, which have any of their tensors' names.

        Raises:
            ModelError: the model does not take one.
        """
        with _blaming(self._file):
            for end in self._compiled.inputs:
                array = np.asarray(next(inputs[name] for name in end.get_names() if name in inputs))
                tensor = ov.Tensor(array) if array.dtype.kind == "b" else tensor_of(array)
                self._request.set_tensor(end, tensor)

    def infer(self) -> None:
        """Run the model on what was bound.

        Raises:
            ModelError: it fails.
        """
        with _blaming(self._file):
            self._request.infer()

    def outputs(self) -> list[Array]:
        """Return copies of what came out, in the model's order."""
        return [self._array(end) for end in self._compiled.outputs]

    def named_outputs(self) -> dict[str, Array]:
        """Return them by all of their names."""
        pairs = zip(self._compiled.outputs, self.outputs(), strict=True)
        return {name: array for end, array in pairs for name in end.get_names()}

    def layers(self) -> list[tuple[str, float]]:
        """Return the layers that the plugin executed last, as name and seconds."""
        found = self._request.get_profiling_info()
        return [
            (row.node_name, row.real_time.total_seconds())
            for row in found
            if row.status == ov.ProfilingInfo.Status.EXECUTED
        ]

    def _array(self, end: Any) -> Array:
        tensor = self._request.get_tensor(end)
        if end.get_element_type().get_type_name() == "boolean":
            return np.array(tensor.data, bool)
        return array_of(tensor).copy()


def sentence(error: Exception) -> str:
    """Return what OpenVINO says, without the places in its own source."""
    lines = (line.strip() for line in str(error).splitlines())
    told = [
        line
        for line in lines
        if line and not re.match(r"(Exception from|Check '.*' failed at) \S+:\d*:?$", line)
    ]
    return printable(" ".join(told), most=1000)


@contextmanager
def _blaming(file: str) -> Iterator[None]:
    """Turn what OpenVINO raises into an error that names the file."""
    try:
        yield
    except RuntimeError as error:  # of no class of its own
        raise ModelError(f"fails in openvino: {sentence(error)}", file=file) from None
