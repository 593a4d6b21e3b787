"""Networks in OpenVINO, on the CPU, in f32."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import openvino as ov
from openvino import opset1, opset13

from halfulp.benchmark.network import (
    PROFILED_RUNS,
    Contender,
    Network,
    Prepare,
    Samples,
    node_times,
    nodes_of,
)
from halfulp.benchmark.timing import Call
from halfulp.integrations.openvino import put_into
from halfulp.integrations.openvino.engine import Compiled, blaming
from halfulp.integrations.openvino.operators import ROWS, WIDE, core, tensor_of
from halfulp.models.files import format_of
from halfulp.models.graph import Array
from halfulp.models.onnx.tensors import release
from halfulp.types import TYPES

_KINDS = frozenset({"Power", "PRelu", "HalfulpPower", "HalfulpPReLU"})
_WIDE = frozenset(ROWS[name].name for name in WIDE)


def preparer(network: Network) -> Prepare:
    """Return a function that compiles a network, which is read once, unchanged or with halfulp's operators."""
    with blaming(network.path.name):
        model = core().read_model(network.path)
    return lambda exact: _prepare(model, network, exact=exact)


def _prepare(model: Any, network: Network, *, exact: bool) -> tuple[Contender, Call]:
    # Nodes of 64-bit types are not compared, because their neighbours in the network may narrow the operands.
    samples = network.samples.without(_WIDE)
    # First, before the network occupies its memory.
    exactness = samples.exactness(lambda: _alone(samples, network, exact=exact))
    release()
    left = put_into(model) if exact else []
    names = _names(model, network)
    compiled = Compiled(model, network.path.name, threads=network.threads, profile=True)
    outputs = _each_once(compiled(network.inputs), {value.name for value in network.model.graph.outputs})
    profiles = []
    for _ in range(PROFILED_RUNS):
        compiled.infer()
        profiles.append([(name, seconds) for name, _, seconds in compiled.layers()])
    return Contender(node_times(profiles, names), exactness, outputs, left), compiled.infer


def _each_once(found: Mapping[str, Array], preferred: Set[str]) -> dict[str, Array]:
    """Return outputs that are given by all of their names by one name each."""
    names = {id(found[name]): name for name in sorted(found, key=lambda name: (name in preferred, name))}
    return {name: found[name] for name in names.values()}


def _names(model: Any, network: Network) -> set[str]:
    """Return the names of the nodes, halfulp's or OpenVINO's, that are Pow and PRelu in the network.

    OpenVINO's reader of ONNX models also creates Power and PReLU nodes for other operators.
    """
    if format_of(network.path) == "openvino":
        found = [node for node in model.get_ordered_ops() if node.get_type_name() in _KINDS]
        return {node.get_friendly_name() for node in found}
    names, outputs = set(), {node.outputs[0] for node in nodes_of(network.model.graph)}
    for node in model.get_ordered_ops():
        for output in node.outputs():
            if outputs.isdisjoint(output.get_names()):
                continue
            maker = output.get_node()
            while maker.get_type_name() == "Convert":  # around operands of two types
                maker = maker.input_value(0).get_node()
            if maker.get_type_name() in _KINDS:
                names.add(maker.get_friendly_name())
    return names


def _alone(samples: Samples, network: Network, *, exact: bool) -> dict[str, Any]:
    model = _model(samples)
    if exact:
        put_into(model)
    return Compiled(model, network.path.name, threads=network.threads)(samples.fed)


def _model(samples: Samples) -> Any:
    if any(node.standard == "onnx" for node in samples.nodes.values()):
        return core().read_model(samples.proto().SerializeToString())
    ends = {}
    for name, array in samples.values.items():
        if name in samples.constants:
            ends[name] = opset13.constant(tensor_of(array))
        else:
            ends[name] = opset1.parameter(
                list(array.shape), getattr(ov.Type, str(TYPES[array.dtype.name].openvino))
            )
            ends[name].output(0).set_names({name})
    results = []
    for name, node in samples.nodes.items():
        make = {"Power": opset1.power, "PReLU": opset1.prelu}[node.type]
        result = make(*(ends[each] for each in node.inputs), **node.attributes)
        result.output(0).set_names({name})
        results.append(result)
    return ov.Model(results, [ends[name] for name in samples.fed])
