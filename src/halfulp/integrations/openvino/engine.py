"""OpenVINO as an engine: compiled models, and IR files of any layers with halfulp's Power and PReLU."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import openvino as ov

from halfulp._interop import Array
from halfulp.errors import ModelError, UnsupportedError, printable
from halfulp.integrations.openvino import array_of, core, is_ours, place_of, put_into, tensor_of, type_of
from halfulp.models.graph import Model
from halfulp.models.run.api import Origin
from halfulp.models.run.inputs import bind
from halfulp.models.run.report import NodeRun, RunReport


class Compiled:
    """A compiled model with one request, whose layers are timed. OpenVINO's errors become ModelErrors."""

    def __init__(self, model: Any, file: str) -> None:
        self._file = file
        settings = {"INFERENCE_PRECISION_HINT": "f32", "PERF_COUNT": True}
        with blaming(file):
            self._compiled = core().compile_model(model, "CPU", settings)
            self._request = self._compiled.create_infer_request()

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Run the model on inputs by any of their names, and return the outputs by all of their names."""
        ends = self._compiled.inputs
        given = [next(inputs[name] for name in end.get_names() if name in inputs) for end in ends]
        results = zip(self._compiled.outputs, self.infer(given), strict=True)
        return {name: array for end, array in results for name in end.get_names()}

    def infer(self, inputs: Iterable[Any]) -> list[Array]:
        """Run the model on inputs in its order, and return copies of the outputs in its order."""
        with blaming(self._file):
            for index, array in enumerate(map(np.asarray, inputs)):
                tensor = ov.Tensor(array) if array.dtype.kind == "b" else tensor_of(array)
                self._request.set_input_tensor(index, tensor)
            self._request.infer()
        return [
            np.array(tensor.data, bool) if type_of(tensor) == "boolean" else array_of(tensor).copy()
            for tensor in self._request.output_tensors
        ]


def sentence(error: object) -> str:
    """Return OpenVINO's message, without the places in its own source."""
    text = re.sub(r"(?m)^\s*(Exception from|Check '.*' failed at) \S+:\d*:?\s*$", "", str(error))
    return printable(" ".join(text.split()), most=1000)


@contextmanager
def blaming(file: str) -> Iterator[None]:
    """Turn an error of OpenVINO into a ModelError."""
    try:
        yield
    except RuntimeError as error:  # OpenVINO has no class of its own
        raise ModelError(f"fails in openvino: {sentence(error)}", file=file) from None


class Runner(Compiled):
    """Runs the graph of an IR file: Power and PReLU by halfulp's operators, the other layers by OpenVINO's.

    An UnsupportedError says that a Power or PReLU would stay OpenVINO's own, in a narrower type.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        graph, origin = model.graph, model.graph.source
        assert isinstance(origin, Origin)
        network = origin.model.clone()  # replace changes it
        layers = zip(origin.model.get_ordered_ops(), network.get_ordered_ops(), strict=True)
        copies = {own.get_name(): copy for own, copy in layers}
        results = [place_of(result.input_value(0)) for result in network.get_results()]
        self._places: dict[str, int] = {}  # of the outputs among the network's
        for value in graph.outputs:
            name, index = place_of(origin.ends[value.name])
            end = copies[name].output(index)
            if place_of(end) not in results:
                network.add_outputs([end])
                results.append(place_of(end))
            self._places[value.name] = results.index(place_of(end))
        if left := put_into(network, every_node=True):
            reason = "not exact in openvino, which has to run other layers"
            raise UnsupportedError(f"{model.file}: {reason}: {left[0]}")
        self._ours = {node.get_friendly_name() for node in network.get_ordered_ops() if is_ours(node)}
        super().__init__(network, model.file)

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Return the outputs by name."""
        values = bind(self._model, inputs)
        arrays = self.infer(values[value.name] for value in self._model.graph.inputs)
        return {name: arrays[place] for name, place in self._places.items()}

    def report(self) -> RunReport:
        """Return the layers that OpenVINO has executed in the last run."""
        nodes = {node.source.get_friendly_name(): node for node in self._model.graph.nodes}
        rows = []
        for layer in self._request.get_profiling_info():
            if layer.status != ov.ProfilingInfo.Status.EXECUTED:
                continue
            name, kind, seconds = layer.node_name, layer.node_type, layer.real_time.total_seconds()
            label, in_halfulp = f"'{printable(name)}' ({kind})", name in self._ours
            row = NodeRun(label, kind, "halfulp" if in_halfulp else "openvino", seconds=seconds, calls=1)
            if name in nodes:
                node, known = nodes[name], self._model.graph.declared
                row.label, row.operator = node.label, node.operator
                row.inputs = tuple(str(known[operand]) for operand in node.inputs)
                row.outputs = tuple(str(known[output]) for output in node.outputs)
            rows.append(row)
        return RunReport(rows)
