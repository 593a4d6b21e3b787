"""The powers that ONNX Runtime would make part of an operator of its own: of LayerNorm, RMSNorm or GELU by tanh.

The conditions are those of ONNX Runtime's optimizers for the CPU. A test compares them with its results.
"""

from __future__ import annotations

import math

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto

from halfulp.errors import HalfulpError
from halfulp.models.onnx.checks import label
from halfulp.models.onnx.infer import ValueInfo, scalar
from halfulp.models.onnx.tensors import TensorReader, declared
from halfulp.models.onnx.walk import every_node

_NORM = ["Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul"]
_GELU = ["Pow", "Mul", "Add", "Mul", "Tanh", "Add", "Mul"]


def given_up(model: ModelProto) -> list[str]:
    """Return the powers of the main graph that ONNX Runtime would make part of a norm or a GELU, without halfulp."""
    try:
        finder = _Finder(model.graph)
        return [
            label(node, index, "") for index, node in enumerate(model.graph.node) if finder.is_fused(node)
        ]
    except HalfulpError:  # ONNX Runtime reads more models
        return []


class _Finder:
    def __init__(self, graph: GraphProto) -> None:
        self._types = {info.name: declared(info, "") for info in (*graph.value_info, *graph.input)}
        self._known = ValueInfo(self._types, TensorReader("", None))
        self._known.add_constants(graph)
        self._makers = {name: node for node in graph.node for name in node.output}
        self._readers = {info.name: [NodeProto()] for info in graph.output}  # the caller reads these
        for node in every_node(graph):
            for name in filter(None, node.input):
                self._readers.setdefault(name, []).append(node)

    def is_fused(self, power: NodeProto) -> bool:
        """Return whether a node is a power, and it and the nodes behind it are a norm or a GELU."""
        nodes: list[NodeProto] = []
        casts: list[NodeProto] = []
        last = power
        while last.output and (nodes or last.op_type == "Pow"):
            (casts if last.op_type == "Cast" else nodes).append(last)
            readers = self._readers.get(last.output[0], [])
            if len(readers) != 1 or len(nodes) == len(_GELU):
                break
            last = readers[0]
        kinds = [node.op_type for node in nodes]
        inside = {node.output[0] for node in nodes + casts}
        beside = [next((name for name in node.input if name not in inside), "") for node in nodes]
        if kinds == _GELU:
            return not casts and self._is_gelu(nodes, beside)
        return kinds[: len(_NORM)] == _NORM and self._is_norm(nodes, beside, bool(casts))

    def _is_gelu(self, nodes: list[NodeProto], beside: list[str]) -> bool:
        power, *_, last = nodes
        halved = self._makers.get(beside[6], NodeProto())
        half = [name for name in halved.input if name != power.input[0]]
        numbers = [self._number(name) for name in (power.input[1], beside[1], beside[3], beside[5], *half)]
        wanted = [3, 0.044715, math.sqrt(2 / math.pi), 1, 0.5]
        return (
            beside[2] == power.input[0]
            and halved.op_type == "Mul"
            and len(self._readers[halved.output[0]]) == 1
            and all(reader.output for reader in self._readers.get(last.output[0], ()))
            and self._known.value(beside[1]).type == "float32"
            and len(half) == 1
            and np.allclose(numbers, wanted, rtol=1e-5)
        )

    def _is_norm(self, nodes: list[NodeProto], beside: list[str], has_cast: bool) -> bool:
        power, mean, *_, divided, scaled = nodes[: len(_NORM)]
        base = power.input[0]
        made, other = (self._makers.get(name, NodeProto()) for name in (base, beside[4]))
        ranks = {len(self._known.value(name).shape or ()) for name in (base, *made.input)}
        axes = [each for attribute in mean.attribute if attribute.name == "axes" for each in attribute.ints]
        if len(mean.input) > 1:
            array = self._known.array(mean.input[1])
            axes = [] if array is None else array.tolist()
        if (
            axes not in ([-1], [max(ranks) - 1])
            or math.isnan(self._number(beside[2]))
            or self._known.value(beside[2]).type == "float64"
            or len(self._known.value(beside[5]).shape or ()) != 1
        ):
            return False
        has_two, is_quotient = self._number(power.input[1]) == 2, divided.input[0] == base
        if has_two and is_quotient and (not has_cast or made.op_type == "Cast"):
            return True  # RMSNorm
        averages = [self._makers.get(name, NodeProto()) for name in made.input]
        return (
            not has_cast
            and made.op_type == other.op_type == "Sub"
            and made.input == other.input
            and any(node.op_type == "ReduceMean" and node.input[0] in made.input for node in averages)
            and [reader.op_type for reader in self._readers.get(scaled.output[0], ())] == ["Add"]
        )

    def _number(self, name: str) -> float:
        number = scalar(name, self._known)
        return math.nan if number is None else number
