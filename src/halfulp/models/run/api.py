"""Run a model node by node, for :mod:`halfulp.running` if no other engine runs it.

halfulp walks the graph itself. It evaluates Pow and PRelu in the version of the model's own opset, in the
graph, in the branches of an If, in the body of a Loop and in the model's functions. halfulp also evaluates
the operators around them (:mod:`halfulp.models.run.helpers`) and control flow. The onnx package's
ReferenceEvaluator evaluates every other node.
"""

from __future__ import annotations

import time
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from halfulp.errors import REPAIR, HalfulpError, UnsupportedError, within
from halfulp.models.graph import Graph, Model, Node, Value, listed
from halfulp.models.memory import guard_memory
from halfulp.models.onnx import load
from halfulp.models.onnx.walk import SUPPORTED_OPS
from halfulp.models.run import openvino
from halfulp.models.run.helpers import CONTROL, HELPERS, Foreign, NotOurs, check_types
from halfulp.models.run.inputs import bind, check
from halfulp.models.run.openvino import LAYERS, Origin, foreign
from halfulp.models.run.report import Engine, RunReport, lost, vacuous
from halfulp.models.source import Source
from halfulp.operators import op
from halfulp.specs import ids
from halfulp.specs.tensor import Shape

Watch = Callable[[Node, list[Any], list[Any]], None]
"""Receives a node, its operands and its results."""


class Outputs(dict[str, Any]):
    """A model's outputs by name. An output with further names is found by each of them.

    Attributes:
        inputs: the inputs of the run.
    """

    def __init__(
        self, values: Mapping[str, Any], declared: Sequence[Value], inputs: Mapping[str, Any]
    ) -> None:
        super().__init__(values)
        self.inputs = dict(inputs)
        self._names: dict[str, str] = {}
        for value in declared:
            for alias in value.aliases:
                self._names.setdefault(alias, value.name)

    def __missing__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return self[self._names[name]]

    @property
    def vacuous(self) -> dict[str, str]:
        """The outputs that verify nothing, by name, with the reason: all NaN, infinite or equal, or empty."""
        return vacuous(self)


def run(model: Source | Model, inputs: Mapping[str, Any]) -> Outputs:
    """Return a model's outputs by name. Arguments and errors are those of :func:`run_with_report`."""
    return run_with_report(model, inputs)[0]


def run_with_report(
    model: Source | Model,
    inputs: Mapping[str, Any],
    *,
    watch: Watch | None = None,
) -> tuple[Outputs, RunReport]:
    """Return a model's outputs by name, and the engine and the time of each node.

    Args:
        model: a path, the bytes of a file, an ``onnx.ModelProto``, or a model that was read before.
        inputs: arrays by name. An input with an initializer of its name may be left out.
        watch: a callback that receives each evaluation of a node.

    Raises:
        ModelError: the model is broken or unsafe, or an input or a result contradicts its declaration, or a node's
            operands break a clause of its operator (then ``.clause`` is set).
        UnsupportedError: an operator that this module cannot evaluate.
    """
    loaded = model if isinstance(model, Model) else load(model)
    _refuse_foreign(loaded)
    walk = _Walk(loaded, watch)
    values = bind(loaded, inputs)
    graph = loaded.graph
    if isinstance(graph.source, Origin):
        with within(loaded.file):
            graph.source.check_ranges(values)
    outputs = walk.graph(graph, [values[declared.name] for declared in graph.inputs], None)
    kept = [value for value in values.values() if isinstance(value, np.ndarray)]
    named = {}
    for declared, value in zip(graph.outputs, outputs, strict=True):
        # The caller owns each result. It never shares memory with an input, the model or another result.
        if isinstance(value, np.ndarray):
            if not value.flags.writeable or any(np.may_share_memory(value, other) for other in kept):
                value = value.copy()
            kept.append(value)
        named[declared.name] = value
    return Outputs(named, graph.outputs, inputs), walk.report


_OPERATORS = frozenset(ids())

_Scope = ChainMap[str, Any]
"""The values by name of a graph that is evaluated, and those of the graphs around it."""


class _Walk:
    """One evaluation of one model."""

    def __init__(self, model: Model, watch: Watch | None) -> None:
        self.report = RunReport()
        self._watch = watch
        self._file = model.file
        self._foreign = Foreign()
        self._inner = 0.0  # time spent in subgraphs and function bodies of the current node

    def graph(self, graph: Graph, inputs: Sequence[Any], outer: _Scope | None) -> list[Any]:
        """Evaluate a graph's nodes in order, dropping each value after its last reader."""
        scope = _Scope(dict(graph.constants), *(outer.maps if outer is not None else ()))
        scope.update(zip((value.name for value in graph.inputs), inputs, strict=True))
        for node, dead in zip(graph.nodes, graph.dead_after, strict=True):
            arguments = [scope[name] if name else None for name in node.inputs]
            with within(self._file, node.label):
                outputs = self._timed(node, arguments, scope)
                named = {name: value for name, value in zip(node.outputs, outputs, strict=False) if name}
                for name in named:
                    if name in graph.declared:
                        check(named[name], graph.declared[name], f"its output {name!r}", REPAIR)
            scope.update(named)
            del arguments, outputs, named
            for name in dead:
                scope.maps[0].pop(name, None)
        return [scope[value.name] for value in graph.outputs]

    def _timed(self, node: Node, inputs: list[Any], scope: _Scope) -> list[Any]:
        around, self._inner = self._inner, 0.0
        start = time.perf_counter()
        engine, outputs = self._evaluate(node, inputs, scope)
        if len(outputs) < len(node.outputs):
            message = "the node names more outputs than there are"
            raise HalfulpError(message, expected=len(outputs), got=len(node.outputs))
        elapsed = time.perf_counter() - start
        self.report.add(node, engine, inputs, outputs, elapsed - self._inner)
        if node.operator in _OPERATORS and (count := lost(inputs, outputs[0])):
            before, size = self.report.lost.get(node.label, (0, 0))
            self.report.lost[node.label] = before + count, size + outputs[0].size
        if self._watch is not None:
            self._watch(node, inputs, outputs)
        self._inner = around + elapsed
        return outputs

    def _evaluate(self, node: Node, inputs: list[Any], scope: _Scope) -> tuple[Engine, list[Any]]:
        if node.function is not None:
            absent = [None] * (len(node.function.inputs) - len(inputs))
            return "halfulp", self.graph(node.function, [*inputs, *absent], None)
        if node.standard == "openvino":
            return "halfulp", [openvino.evaluate(node, inputs)]
        if node.domain == "":
            if node.type in SUPPORTED_OPS:
                return "halfulp", [self._ours(node, inputs)]
            if node.type in CONTROL:
                return "halfulp", CONTROL[node.type](node, inputs, partial(self._subgraph, scope))
            if node.type in HELPERS:
                check_types(node, inputs)
                try:
                    with np.errstate(all="ignore"):
                        value = HELPERS[node.type](node, inputs)
                    # NumPy returns scalars for 0-d results.
                    return "halfulp", [np.asarray(value) if isinstance(value, np.generic) else value]
                except NotOurs:
                    pass
        if any(True for _ in node.subgraphs):
            message = f"{node.operator} has subgraphs, which nothing here evaluates"
            raise UnsupportedError(message, expected="the engine onnxruntime, if it has it")
        return "onnx reference", self._foreign(node, inputs)

    def _subgraph(self, scope: _Scope, graph: Graph, values: Sequence[Any]) -> list[Any]:
        if len(values) != len(graph.inputs):
            message = "a subgraph has another number of inputs than the node gives it"
            raise HalfulpError(message, expected=len(graph.inputs), got=len(values))
        return self.graph(graph, values, scope)

    def _ours(self, node: Node, inputs: list[Any]) -> Any:
        operator = op(node.operator)
        if any(not isinstance(value, np.ndarray) for value in inputs):
            raise HalfulpError("an operand is missing, or not a tensor")
        shape = operator.infer(*inputs, **node.attributes).shape
        guard_memory(_sizes(shape), inputs[0].itemsize, "its output")
        return np.asarray(operator(*inputs, **node.attributes))


def _sizes(shape: Shape) -> tuple[int, ...]:
    """Return a shape. It is known, because the operands are."""
    return tuple(dim for dim in shape or () if isinstance(dim, int))


def _refuse_foreign(model: Model) -> None:
    """Raise UnsupportedError if an OpenVINO model has layers that halfulp lacks. The error names them."""
    if unsupported := foreign(model.graph.nodes):
        message = "has layers that halfulp lacks; the engine 'auto' runs them in openvino"
        raise UnsupportedError(
            f"{model.file}: {message}", expected=", ".join(LAYERS), got=listed(unsupported)
        )
