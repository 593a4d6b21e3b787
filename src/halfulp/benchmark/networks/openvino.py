"""Networks in OpenVINO, on the CPU, in f32."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov

from halfulp.benchmark.exactness import Exactness, exactness
from halfulp.benchmark.networks.contender import PROFILED_RUNS, Contender, Network, NodeTimes, together
from halfulp.errors import ModelError
from halfulp.integrations.openvino import put_into
from halfulp.integrations.openvino.engine import Compiled, sentence
from halfulp.integrations.openvino.operators import WIDE
from halfulp.operators import op
from halfulp.types import TYPES

_OPERATORS = {
    "Power": "openvino.Power-1",
    "PRelu": "openvino.PReLU-1",
    "HalfulpPower": "openvino.Power-1",
    "HalfulpPReLU": "openvino.PReLU-1",
}


def prepare(network: Network, *, ours: bool) -> Contender:
    """Return a network that OpenVINO has read and compiled.

    Raises:
        HalfulpError: OpenVINO does not read or compile it, or fails on its inputs.
    """
    file = network.path.name
    try:
        model = ov.Core().read_model(network.path)
    except RuntimeError as error:  # of no class of its own
        raise ModelError(f"openvino's reader refuses it: {sentence(error)}", file=file) from None
    left = put_into(model) if ours else []
    results = _results(model.clone(), network)
    compiled = _compiled(model, network)
    found = compiled.named_outputs()
    return Contender(
        compiled.infer,
        {name: value for name, value in found.items() if value.dtype.name in TYPES},
        _times(model, network),
        together(results),
        len(results),
        tuple(left),
    )


def _compiled(model: Any, network: Network, *, profile: bool = False) -> Compiled:
    compiled = Compiled(model, network.path.name, threads=network.threads, profile=profile)
    compiled.bind(network.inputs)
    compiled.infer()
    return compiled


def _nodes(model: Any) -> list[Any]:
    """Return the Power and PReLU nodes, ours or OpenVINO's, that no body holds."""
    return [node for node in model.get_ordered_ops() if node.get_type_name() in _OPERATORS]


def _times(model: Any, network: Network) -> NodeTimes:
    names = {node.get_friendly_name() for node in _nodes(model)}
    compiled = _compiled(model, network, profile=True)
    runs: list[tuple[float, float]] = []
    executed: set[str] = set()
    for _ in range(PROFILED_RUNS):
        compiled.infer()
        layers = compiled.layers()
        executed |= names.intersection(name for name, _ in layers)
        runs.append(
            (sum(taken for name, taken in layers if name in names), sum(taken for _, taken in layers))
        )
    return NodeTimes.of(len(executed), runs)


def _results(model: Any, network: Network) -> list[Exactness]:
    """Return how exact each node is on the operands that it gets.

    What is 64 bits wide is left out: it goes from one operator of ours to the next in another form, and to an output as
    the plugin narrows it.
    """
    nodes = [node for node in _nodes(model) if not WIDE & {_type(end) for end in node.inputs()}]
    if not nodes:
        return []
    model.add_outputs([end for node in nodes for end in (*node.input_values(), node.output(0))])
    # What is an output already is not added.
    values = dict(zip(map(_source, model.get_results()), _compiled(model, network).outputs(), strict=True))
    found = []
    for node in nodes:
        x, y = (values[_place(end)] for end in node.input_values())
        attributes = node.get_attributes()
        kept = {name: attributes[name] for name in ("auto_broadcast",) if name in attributes}
        right = np.asarray(op(_OPERATORS[node.get_type_name()])(x, y, **kept))
        found.append(exactness(values[_place(node.output(0))], right))
    return found


def _source(result: Any) -> tuple[str, int]:
    return _place(result.input_value(0))


def _place(output: Any) -> tuple[str, int]:
    return output.get_node().get_name(), output.get_index()


def _type(end: Any) -> str:
    name: str = end.get_element_type().get_type_name()
    return name
