"""A network to measure: a small copy of its file, its Pow and PRelu nodes, and a runtime's results."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from halfulp.benchmark.comparison import Exactness, exactness
from halfulp.benchmark.timing import Call
from halfulp.conversion.editor import unused
from halfulp.conversion.opset import inline
from halfulp.conversion.verify import Run, Subject, runs
from halfulp.errors import UnsupportedError
from halfulp.models.graph import Array, Graph, Model, Node
from halfulp.models.onnx import parse
from halfulp.models.onnx.tensors import mapped, release
from halfulp.models.onnx.walk import SUPPORTED_OPS, graphs
from halfulp.models.source import format_of
from halfulp.operators import op
from halfulp.types import TYPES

PROFILED_RUNS = 10


@contextmanager
def light(path: Path) -> Iterator[Path]:
    """Yield a copy of a model's file for all sessions.

    The weights of an ONNX model are in a file beside it, so that every session maps that file and holds no
    copy. Its functions are inlined. Each Pow and PRelu gets a unique name, because a runtime's profile lists
    nodes by name.
    """
    if format_of(path) == "openvino":
        yield path
        return
    release()
    proto, file, folder = parse(path)
    release()
    inline(proto, file, folder)
    _name_nodes(proto.graph)
    with mapped(proto, file, folder) as (proto, _, place):
        copy = place / path.name
        copy.write_bytes(proto.SerializeToString())
        del proto
        release()
        yield copy


def _name_nodes(graph: GraphProto) -> None:
    taken: set[str] = set()
    for _, each in graphs(graph, ""):
        for node in each.node:
            if not node.domain and node.op_type in SUPPORTED_OPS:
                node.name = unused(node.name or f"{node.op_type} {len(taken)}", taken)
                taken.add(node.name)


def nodes_of(graph: Graph) -> Iterator[Node]:
    """Yield the Pow and PRelu nodes, including those in subgraphs and functions."""
    for node in graph.nodes:
        if node.function is not None:
            yield from nodes_of(node.function)
        elif _is_wanted(node):
            yield node
        for inner in node.subgraphs:
            yield from nodes_of(inner)


def _is_wanted(node: Node) -> bool:
    return not node.domain and node.type in (*SUPPORTED_OPS, "Power", "PReLU")


class Samples:
    """The Pow and PRelu nodes of a graph without its subgraphs, and their operands.

    Args:
        model: the network.
        values: tensors by name, as the function from :func:`watched` returns them.

    Attributes:
        nodes: the nodes with known operands, by the name of the result in a model of these nodes alone. In
            the network, the result may have the name of another node's operand.
        values: the operands of the nodes, by name.
        constants: the names of the operands that are constants of the model.
    """

    def __init__(self, model: Model, values: Mapping[str, Any]) -> None:
        self._model, graph = model, model.graph
        self.constants = graph.constants.keys() - {value.name for value in graph.inputs}
        for node in graph.nodes:  # a runtime folds nodes of constants
            is_held = node.type in ("Constant", "Const")
            if is_held or (any(node.inputs) and self.constants >= {*filter(None, node.inputs)}):
                self.constants.update(node.outputs)
        known = {**graph.constants, **values}
        self.nodes = {
            f"the result of {node.outputs[0]}": node
            for node in graph.nodes
            if _is_wanted(node) and all(_is_tensor(known.get(name)) for name in node.inputs)
        }
        names = [name for node in self.nodes.values() for name in node.inputs]
        self.values: dict[str, Array] = {name: known[name] for name in names}

    @property
    def fed(self) -> dict[str, Array]:
        """The operands that are not constants."""
        return {name: array for name, array in self.values.items() if name not in self.constants}

    def without(self, types: Set[str]) -> Samples:
        """Return the nodes without an operand of these types. Constants are not counted."""
        kept = {
            name: array
            for name, array in self.values.items()
            if name in self.constants or array.dtype.name not in types
        }
        return Samples(self._model, kept)

    def right(self, node: Node) -> Array:
        """Return the correctly rounded result of a node."""
        result: Array = op(node.operator)(*(self.values[name] for name in node.inputs), **node.attributes)
        return result

    def exactness(self, results: Mapping[str, Any]) -> list[Exactness]:
        """Return the exactness of a runtime's results of these nodes, given by name."""
        return [exactness(results[name], self.right(node)) for name, node in self.nodes.items()]

    def proto(self) -> ModelProto:
        """Return an ONNX model of these nodes alone.

        Its inputs are their operands, and its outputs their results.
        """
        inputs, constants = [], []
        for name, array in self.values.items():
            if name in self.constants:
                constants.append(numpy_helper.from_array(array, name))
            else:
                number = TYPES[array.dtype.name].onnx_enum
                assert number is not None, f"{array.dtype} is not a type of ONNX"
                inputs.append(helper.make_tensor_value_info(name, number, array.shape))
        nodes = []
        for name, node in self.nodes.items():
            nodes.append(NodeProto())
            nodes[-1].CopyFrom(node.source)
            nodes[-1].output[0] = name
            opset = node.opset
        outputs = [onnx.ValueInfoProto(name=name) for name in self.nodes]
        graph = helper.make_graph(nodes, "nodes", inputs, outputs, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def watched(path: Path, model: Model) -> Run:
    """Return a function that runs a network and returns its outputs and its Pow and PRelu nodes' operands."""
    graph = model.graph
    known = {*graph.constants, *(value.name for value in graph.inputs)}
    operands = [name for node in graph.nodes if _is_wanted(node) for name in node.inputs]
    names = [*(value.name for value in graph.outputs), *(name for name in operands if name not in known)]
    proto = None if format_of(path) == "openvino" else onnx.load(path, load_external_data=False)
    subject = Subject(model, proto, path.parent).with_outputs(list(dict.fromkeys(names)))
    _, (run,) = runs(subject)
    return run


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "dtype") and value.dtype.name in TYPES


class Network(NamedTuple):
    """A network and its inputs.

    Attributes:
        path: the network's file.
        model: the model in that file, read and checked.
        inputs: arrays by name.
        threads: the number of threads that a runtime uses.
        samples: the Pow and PRelu nodes with their operands.
    """

    path: Path
    model: Model
    inputs: Mapping[str, Array]
    threads: int
    samples: Samples

    @property
    def outputs_of_nodes(self) -> set[str]:
        """The names of the results of its Pow and PRelu nodes, including those in subgraphs."""
        return {node.outputs[0] for node in nodes_of(self.model.graph)}


def network_of(path: Path, model: Model, run: Run, inputs: Mapping[str, Array], threads: int) -> Network:
    """Return a network with the operands of its nodes.

    Args:
        path, model, inputs, threads: as in :class:`Network`.
        run: the function that :func:`watched` returned.

    Raises:
        ModelError: the network does not run on these inputs.
    """
    try:
        seen = run(inputs)
    except UnsupportedError:  # a runtime may still have this operator
        seen = {}
    return Network(path, model, inputs, threads, Samples(model, {**inputs, **seen}))


class NodeTimes(NamedTuple):
    """The Pow and PRelu nodes in the runtime's own profile.

    Attributes:
        executed: the number of nodes that ran as such. The others are merged into other layers, or folded.
        seconds: the time of these nodes in a run.
        share: their share of the time of all nodes, from 0 to 1.
    """

    executed: int
    seconds: float
    share: float

    @classmethod
    def of(cls, executed: int, runs: Sequence[tuple[float, float]]) -> NodeTimes:
        """Return the medians over several runs.

        Args:
            executed: the number of nodes that ran as such.
            runs: for each run, the seconds of these nodes and of all nodes.
        """
        seconds = statistics.median(part for part, _ in runs)
        return cls(
            executed, seconds, statistics.median(part / whole if whole else 0.0 for part, whole in runs)
        )


@dataclass(frozen=True)
class Contender:
    """The results of a network in a runtime.

    Attributes:
        outputs: the output tensors by name. Sequences are left out.
        nodes: the time of its Pow and PRelu nodes.
        results: the exactness of these nodes together, without those in subgraphs. The runtime computes the
            nodes alone, on their operands in the network.
        compared: the number of nodes in ``results``.
        left: a sentence for each node that halfulp's operators should have replaced, but did not.
    """

    outputs: Mapping[str, Array]
    nodes: NodeTimes
    results: Exactness
    compared: int
    left: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        outputs: Mapping[str, Any],
        nodes: NodeTimes,
        results: Sequence[Exactness],
        left: Iterable[str] = (),
    ) -> Contender:
        """Return a contender with all outputs and with the results of single nodes."""
        tensors = {name: value for name, value in outputs.items() if _is_tensor(value)}
        return cls(tensors, nodes, together(results), len(results), tuple(left))


Prepare = Callable[[bool], tuple[Contender, Call]]
"""Opens a network in a runtime, with halfulp's kernels or without, and returns its results and a call that runs it.

It raises HalfulpError if the runtime refuses the network."""


def together(found: Iterable[Exactness]) -> Exactness:
    """Combine several comparisons into one."""
    misrounded = total = farthest = 0
    for one in found:
        misrounded, total = misrounded + one.misrounded, total + one.total
        farthest = max(farthest, one.farthest)
    return Exactness(misrounded, total, farthest)


def difference(found: Mapping[str, Any], other: Mapping[str, Any]) -> Exactness:
    """Compare the outputs that two runs have in common, with the same type and shape."""
    pairs = [(found[name], other[name]) for name in found if name in other]
    return together(exactness(a, b) for a, b in pairs if a.dtype == b.dtype and a.shape == b.shape)
