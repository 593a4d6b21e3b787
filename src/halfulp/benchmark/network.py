"""A network to measure: a small copy of its file, its Pow and PRelu nodes, and a runtime's results."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from onnx import ModelProto, NodeProto, helper, numpy_helper

from halfulp.benchmark.comparison import Exactness, exactness
from halfulp.benchmark.timing import Call, Summary, summary
from halfulp.conversion.opset import inline
from halfulp.conversion.verify import Run, all_nodes, runs
from halfulp.errors import UnsupportedError
from halfulp.models.files import format_of
from halfulp.models.graph import Array, Graph, Model, Node, unused
from halfulp.models.onnx import parse
from halfulp.models.onnx.tensors import declaration, release
from halfulp.models.onnx.walk import SUPPORTED_OPS, graphs
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
    model = parse(path)
    release()
    inline(model)
    names: set[str] = set()
    for node in (node for _, graph in graphs(model.proto.graph) for node in graph.node):
        if not node.domain and node.op_type in SUPPORTED_OPS:
            node.name = unused(node.name or f"{node.op_type} {len(names)}", names)
            names.add(node.name)
    with model.mapped() as model:
        assert model.folder is not None
        copy = model.folder / path.name
        copy.write_bytes(model.proto.SerializeToString())
        del model
        release()
        yield copy


def nodes_of(graph: Graph) -> Iterator[Node]:
    """Yield the Pow and PRelu nodes, including those in subgraphs and functions."""
    return (node for node in all_nodes(graph.nodes) if node.function is None and _is_wanted(node))


def _is_wanted(node: Node) -> bool:
    return not node.domain and node.type in (*SUPPORTED_OPS, "Power", "PReLU")


def _constants(graph: Graph) -> set[str]:
    """Return the names of the constants, and of the results of nodes that a runtime folds."""
    constants = graph.constants.keys() - {value.name for value in graph.inputs}
    for node in graph.nodes:
        is_held = node.type in ("Constant", "Const")
        if is_held or (any(node.inputs) and constants >= {*filter(None, node.inputs)}):
            constants.update(node.outputs)
    return constants


class Samples:
    """The Pow and PRelu nodes of a graph without its subgraphs, and their operands among tensors given by name.

    Attributes:
        nodes: the nodes with known operands, by the name of the result in a model of these nodes alone. In
            the network, the result may have the name of another node's operand.
        values: the operands of the nodes, by name.
        constants: the names of the operands that are constants of the model.
    """

    def __init__(self, model: Model, values: Mapping[str, Any]) -> None:
        self._model, graph = model, model.graph
        self.constants = _constants(graph)
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
        wide = {name for name, array in self.fed.items() if array.dtype.name in types}
        kept = {name: array for name, array in self.values.items() if name not in wide}
        return Samples(self._model, kept)

    def exactness(self, compute: Callable[[], Mapping[str, Any]]) -> list[Exactness]:
        """Return the exactness of each node's result; ``compute`` gives a runtime's results by name."""
        results = compute() if self.nodes else {}
        found = []
        for name, node in self.nodes.items():
            right = op(node.operator)(*(self.values[each] for each in node.inputs), **node.attributes)
            found.append(exactness(results[name], right))
        return found

    def proto(self) -> ModelProto:
        """Return an ONNX model of these nodes alone: its inputs are their operands, its outputs their results."""
        inputs = [declaration(name, array.dtype.name, array.shape) for name, array in self.fed.items()]
        held = {name: array for name, array in self.values.items() if name in self.constants}
        constants = [numpy_helper.from_array(array, name) for name, array in held.items()]
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
    network = model if format_of(path) == "openvino" else parse(path, file=model.file)
    _, (run,) = runs(network.with_outputs([*dict.fromkeys(names)]))
    return run


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "dtype") and value.dtype.name in TYPES


class Network(NamedTuple):
    """A network, its inputs by name, the threads that a runtime uses, and the operands of its nodes."""

    path: Path
    model: Model
    inputs: Mapping[str, Array]
    threads: int
    samples: Samples


def network_of(path: Path, model: Model, run: Run, inputs: Mapping[str, Array], threads: int) -> Network:
    """Return a network with the operands of its nodes, given the function that :func:`watched` returned."""
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


def node_times(profiles: Iterable[Iterable[tuple[str, float]]], wanted: Set[str]) -> NodeTimes:
    """Return the medians over several runs, each given as all nodes' names and seconds."""
    executed: set[str] = set()
    parts, shares = [], []
    for profile in profiles:
        part = whole = 0.0
        for name, seconds in profile:
            whole += seconds
            if name in wanted:
                executed.add(name)
                part += seconds
        parts.append(part)
        shares.append(part / whole if whole else 0.0)
    return NodeTimes(len(executed), statistics.median(parts), statistics.median(shares))


@dataclass(frozen=True)
class Contender:
    """The results of a network in a runtime.

    Attributes:
        nodes: the time of its Pow and PRelu nodes.
        exactness: that of each of these nodes, without those in subgraphs. The runtime computes the nodes
            alone, on their operands in the network.
        found: the outputs by name.
        left: a sentence for each node that halfulp's operators should have replaced, but did not.
        times: the seconds of each run. The two sessions of a runtime take turns.
    """

    nodes: NodeTimes
    exactness: Sequence[Exactness]
    found: Mapping[str, Any]
    left: Sequence[str] = ()
    times: list[float] = field(default_factory=list)

    @property
    def outputs(self) -> dict[str, Array]:
        """The outputs that are tensors."""
        return {name: value for name, value in self.found.items() if _is_tensor(value)}

    @property
    def results(self) -> Exactness:
        """The exactness of the nodes together."""
        return together(self.exactness)

    @property
    def summary(self) -> Summary:
        """The median and the quartiles of its times."""
        return summary(self.times)


Prepare = Callable[[bool], tuple[Contender, Call]]
"""Opens a network in a runtime, with halfulp's kernels or without, and returns its results and a call that runs it.

It raises HalfulpError if the runtime refuses the network."""


def together(found: Sequence[Exactness]) -> Exactness:
    """Combine several comparisons into one."""
    misrounded, total = sum(one.misrounded for one in found), sum(one.total for one in found)
    return Exactness(misrounded, total, max((one.farthest for one in found), default=0))


def difference(found: Mapping[str, Array], other: Mapping[str, Array]) -> Exactness:
    """Compare the outputs that two runs have in common, with the same type and shape."""
    pairs = [(found[name], other[name]) for name in found if name in other]
    alike = [(a, b) for a, b in pairs if a.dtype == b.dtype and a.shape == b.shape]
    return together([exactness(a, b) for a, b in alike])
