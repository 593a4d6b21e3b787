"""Networks in OpenVINO, on the CPU, in f32."""

from __future__ import annotations

from typing import Any

import openvino as ov
from openvino import opset1

from halfulp.benchmark.comparison import Exactness
from halfulp.benchmark.network import (
    PROFILED_RUNS,
    Contender,
    Network,
    NodeTimes,
    Prepare,
    Samples,
)
from halfulp.benchmark.timing import Call
from halfulp.errors import ModelError
from halfulp.integrations.openvino import put_into
from halfulp.integrations.openvino.engine import Compiled, sentence
from halfulp.integrations.openvino.operators import ROWS, WIDE, core, tensor_of
from halfulp.models.onnx.tensors import release
from halfulp.models.source import format_of

_MAKERS = {"Power": opset1.power, "PReLU": opset1.prelu}
_KINDS = frozenset({"Power", "PRelu", "HalfulpPower", "HalfulpPReLU"})
_WIDE = frozenset(ROWS[name].name for name in WIDE)


def preparer(network: Network) -> Prepare:
    """Return a function that compiles a network, unchanged or with halfulp's operators.

    Both compiled models use weights that were read once.

    Raises:
        ModelError: OpenVINO does not read it.
    """
    try:
        model = core().read_model(network.path)
    except RuntimeError as error:  # OpenVINO has no class for this error
        told = f"openvino's reader refuses it: {sentence(error)}"
        raise ModelError(told, file=network.path.name) from None
    return lambda ours: _prepare(model, network, ours=ours)


def _prepare(model: Any, network: Network, *, ours: bool) -> tuple[Contender, Call]:
    results = _results(network, ours=ours)  # first, before the network occupies its memory
    release()
    left = put_into(model) if ours else []
    names = _names(model, network)
    compiled = Compiled(model, network.path.name, threads=network.threads, profile=True)
    compiled.bind(network.inputs)
    compiled.infer()
    outputs = dict(compiled.named_outputs())  # read before the next run
    found = Contender.of(outputs, _times(compiled, names), results, left)
    return found, compiled.infer


def _names(model: Any, network: Network) -> set[str]:
    """Return the names of the nodes, halfulp's or OpenVINO's, that are Pow and PRelu in the network.

    OpenVINO's reader of ONNX models also creates Power and PReLU nodes for other operators.
    """
    if format_of(network.path) == "openvino":
        found = [node for node in model.get_ordered_ops() if node.get_type_name() in _KINDS]
        return {node.get_friendly_name() for node in found}
    names, outputs = set(), network.outputs_of_nodes
    for node in model.get_ordered_ops():
        for output in node.outputs():
            if outputs.isdisjoint(output.get_names()):
                continue
            maker = output.get_node()
            while maker.get_type_name() in ("Convert", "HalfulpConvert"):  # around operands of two types
                maker = maker.input_value(0).get_node()
            if maker.get_type_name() in _KINDS:
                names.add(maker.get_friendly_name())
    return names


def _times(compiled: Compiled, names: set[str]) -> NodeTimes:
    runs: list[tuple[float, float]] = []
    executed: set[str] = set()
    for _ in range(PROFILED_RUNS):
        compiled.infer()
        layers = compiled.layers()
        executed |= names.intersection(name for name, _, _ in layers)
        runs.append(
            (sum(taken for name, _, taken in layers if name in names), sum(taken for _, _, taken in layers))
        )
    return NodeTimes.of(len(executed), runs)


def _results(network: Network, *, ours: bool) -> list[Exactness]:
    """Compute each node alone, and return its exactness.

    Nodes of 64-bit types are left out, because their neighbours in the network may narrow the operands.
    """
    samples = network.samples.without(_WIDE)
    if not samples.nodes:
        return []
    model = _alone(samples)
    if ours:
        put_into(model)
    compiled = Compiled(model, network.path.name, threads=network.threads)
    compiled.bind(samples.fed)
    compiled.infer()
    return samples.exactness(compiled.named_outputs())


def _alone(samples: Samples) -> Any:
    """Return a model that consists of these nodes."""
    if any(node.standard == "onnx" for node in samples.nodes.values()):
        return core().read_model(samples.proto().SerializeToString())
    ends: dict[str, Any] = {}
    for name, array in samples.values.items():
        tensor = tensor_of(array)
        if name in samples.constants:
            ends[name] = ov.op.Constant(tensor)
        else:
            ends[name] = ov.op.Parameter(tensor.element_type, ov.PartialShape(list(array.shape)))
            ends[name].output(0).set_names({name})
    outputs = []
    for result, node in samples.nodes.items():
        made = _MAKERS[node.type](*(ends[name] for name in node.inputs), **node.attributes)
        made.output(0).set_names({result})
        outputs.append(made)
    return ov.Model(outputs, [ends[name] for name in samples.fed])
