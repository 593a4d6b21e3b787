"""Run a model node by node, for :mod:`halfulp.running` if no other engine runs it.

The operators are those of the onnx package's evaluator, with Pow and PRelu by halfulp in the version of the model's own
opset (:mod:`halfulp.models.run.operators`). That evaluator does not run the graphs themselves, because it keeps every
intermediate value and does not name nodes in its errors.
"""

from __future__ import annotations

import time
import warnings
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from halfulp.errors import REPAIR, HalfulpError, UnsupportedError, within
from halfulp.models.files import Source
from halfulp.models.graph import Graph, Model, Node, Value, listed
from halfulp.models.onnx import load
from halfulp.models.run import openvino
from halfulp.models.run.inputs import bind, check
from halfulp.models.run.openvino import LAYERS, Origin, foreign
from halfulp.models.run.operators import Operators, Scope
from halfulp.models.run.report import Engine, RunReport, lost, vacuous
from halfulp.specs import ids

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
        self._names = {alias: value.name for value in reversed(declared) for alias in value.aliases}

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
    if unsupported := foreign(loaded.graph.nodes):
        message = "has layers that halfulp lacks; the engine 'auto' runs them in openvino"
        raise UnsupportedError(
            f"{loaded.file}: {message}", expected=", ".join(LAYERS), got=listed(unsupported)
        )
    evaluation = _Evaluation(loaded, watch)
    values = bind(loaded, inputs)
    graph = loaded.graph
    if isinstance(graph.source, Origin):
        with within(loaded.file):
            graph.source.check_ranges(values)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # an overflow is a result
        outputs = evaluation.graph(graph, values)
    kept = [value for value in values.values() if isinstance(value, np.ndarray)]
    named = {}
    for declared, value in zip(graph.outputs, outputs, strict=True):
        # The caller owns each result. It never shares memory with an input, the model or another result.
        if isinstance(value, np.ndarray):
            if not value.flags.writeable or any(np.may_share_memory(value, other) for other in kept):
                value = value.copy()
            kept.append(value)
        named[declared.name] = value
    return Outputs(named, graph.outputs, inputs), evaluation.report


_OPERATORS = frozenset(ids())


class _Evaluation:
    def __init__(self, model: Model, watch: Watch | None) -> None:
        self.report = RunReport()
        self._watch = watch
        self._file = model.file
        self._operators = Operators(self.graph)
        self._inner = 0.0  # time spent in subgraphs and function bodies of the current node

    def graph(self, graph: Graph, outer: Scope) -> list[Any]:
        """Evaluate a graph's nodes in order, dropping each value after its last reader.

        Args:
            graph: a graph, whose inputs have values in ``outer``.
            outer: these, and the values of the graphs around a subgraph, by name.
        """
        inputs = {value.name: outer[value.name] for value in graph.inputs}
        scope = ChainMap({**graph.constants, **inputs}, outer)
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

    def _timed(self, node: Node, inputs: list[Any], scope: Scope) -> list[Any]:
        around, self._inner = self._inner, 0.0
        start = time.perf_counter()
        outputs = [*self._evaluate(node, inputs, scope)]
        if len(outputs) < len(node.outputs):
            message = "the node names more outputs than there are"
            raise HalfulpError(message, expected=len(outputs), got=len(node.outputs))
        elapsed = time.perf_counter() - start
        is_own = node.standard == "openvino" or node.operator in _OPERATORS
        engine: Engine = "halfulp" if is_own or node.function is not None else "onnx reference"
        self.report.add(node, engine, inputs, outputs, elapsed - self._inner)
        if node.operator in _OPERATORS and (count := lost(inputs, outputs[0])):
            before, size = self.report.lost.get(node.label, (0, 0))
            self.report.lost[node.label] = before + count, size + outputs[0].size
        if self._watch is not None:
            self._watch(node, inputs, outputs)
        self._inner = around + elapsed
        return outputs

    def _evaluate(self, node: Node, inputs: list[Any], scope: Scope) -> Sequence[Any]:
        if node.function is not None:
            names = (value.name for value in node.function.inputs)
            return self.graph(node.function, dict(zip_longest(names, inputs)))
        if node.standard == "openvino":
            return [openvino.evaluate(node, inputs)]
        return self._operators(node, inputs, scope)
