"""A network to be measured: a light copy of its file, its Pow and PRelu nodes, and a runtime's results."""

from __future__ import annotations

import ctypes
import gc
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from halfulp.benchmark.comparison import Exactness, exactness
from halfulp.benchmark.timing import Call
from halfulp.conversion.editor import unused
from halfulp.conversion.network import link
from halfulp.conversion.opset import inline
from halfulp.conversion.save import external_data
from halfulp.conversion.subject import Run, Subject, runs
from halfulp.errors import UnsupportedError
from halfulp.installed import version_of
from halfulp.models.files import inside
from halfulp.models.graph import Array, Graph, Model, Node
from halfulp.models.onnx import parse
from halfulp.models.onnx.walk import SUPPORTED_OPS, graphs
from halfulp.models.source import format_of
from halfulp.operators import op
from halfulp.types import TYPES

PROFILED_RUNS = 10
_WEIGHTS = "weights.halfulp"
_LEAST = 1024  # bytes of a tensor that goes to that file
_ALIGNED = 64


@contextmanager
def light(path: Path) -> Iterator[Path]:
    """Yield a copy of a model's file for all sessions.

    The weights of an ONNX model lie beside it, so that each session maps the same file and holds no copy. Its functions
    are inlined, and each Pow and PRelu has a name that no other one has: a runtime's profile speaks of them by name.
    """
    if format_of(path) == "openvino":
        yield path
        return
    with TemporaryDirectory(prefix="halfulp-") as made:
        folder = Path(made)
        release()
        proto, _, _ = parse(path)
        release()
        for location in set(external_data(proto)):
            link(inside(path.parent, location, "external data").resolve(), folder / location)
        inline(proto, str(path), path.parent)
        _name_nodes(proto.graph)
        if _is_mapped():
            _move_weights(proto.graph, folder / _WEIGHTS)
        copy = folder / path.name
        copy.write_bytes(proto.SerializeToString())
        del proto
        release()
        yield copy


def release() -> None:
    """Give memory that is not used any more back to the system, before the next session takes its own."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc, which keeps what was freed
        if trim is not None:
            trim(0)


def _name_nodes(graph: GraphProto) -> None:
    taken: set[str] = set()
    for _, each in graphs(graph, ""):
        for node in each.node:
            if not node.domain and node.op_type in SUPPORTED_OPS:
                node.name = unused(node.name or f"{node.op_type} {len(taken)}", taken)
                taken.add(node.name)


def _is_mapped() -> bool:
    """Return whether every runtime finds weights beside a model: ONNX Runtime does so from 1.21 on."""
    version = version_of("onnxruntime")
    return version is None or tuple(map(int, version.split(".")[:2])) >= (1, 21)


def _move_weights(graph: GraphProto, path: Path) -> None:
    with path.open("wb") as file:
        for tensor in graph.initializer:
            data = tensor.raw_data  # a copy
            if len(data) < _LEAST:
                continue
            file.write(bytes(-file.tell() % _ALIGNED))
            for key, value in (("location", path.name), ("offset", file.tell()), ("length", len(data))):
                tensor.external_data.add(key=key, value=str(value))
            file.write(data)
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL


def nodes_of(graph: Graph) -> Iterator[Node]:
    """Yield the Pow and PRelu nodes, those in subgraphs and functions included."""
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
    """The Pow and PRelu nodes of a graph, those in its subgraphs left out, and the operands that they get.

    Args:
        model: the network.
        values: tensors by name, those of :func:`watched`.

    Attributes:
        nodes: those whose operands are known, by the name of the result in a model of them alone. Its name in the
            network may be that of another one's operand.
        values: their operands by name.
        constants: which of these are constants of the model.
    """

    def __init__(self, model: Model, values: Mapping[str, Any]) -> None:
        self._model, graph = model, model.graph
        made = {node.outputs[0] for node in graph.nodes if node.type in ("Constant", "Const")}
        self.constants = (made | graph.constants.keys()) - {value.name for value in graph.inputs}
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
        """Return the nodes whose operands are not of these types, but for constants."""
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
        """Return how exact the results of these nodes are, which a runtime gave, by name."""
        return [exactness(results[name], self.right(node)) for name, node in self.nodes.items()]

    def proto(self) -> ModelProto:
        """Return an ONNX model of these nodes alone: it takes their operands, and gives their results."""
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
    """Return what runs a network and gives its outputs and the operands of its Pow and PRelu nodes."""
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
    """What runs, and on what.

    Attributes:
        path: the file.
        model: the same, as it was read and checked.
        inputs: arrays by name.
        threads: how many a runtime uses.
        samples: its Pow and PRelu nodes with their operands.
    """

    path: Path
    model: Model
    inputs: Mapping[str, Array]
    threads: int
    samples: Samples

    @property
    def outputs_of_nodes(self) -> set[str]:
        """The names of the tensors that its Pow and PRelu nodes give, those in subgraphs included."""
        return {node.outputs[0] for node in nodes_of(self.model.graph)}


def network_of(path: Path, model: Model, run: Run, inputs: Mapping[str, Array], threads: int) -> Network:
    """Return a network with the operands of its nodes.

    Args:
        path, model, inputs, threads: as :class:`Network` has them.
        run: of :func:`watched`.

    Raises:
        ModelError: the network does not run on these inputs.
    """
    try:
        seen = run(inputs)
    except UnsupportedError:  # an operator that a runtime may have all the same
        seen = {}
    return Network(path, model, inputs, threads, Samples(model, {**inputs, **seen}))


class NodeTimes(NamedTuple):
    """What the runtime's own profile says of the Pow and PRelu nodes.

    Attributes:
        executed: how many of them ran as such; the others are merged into other layers, or folded.
        seconds: their time in a run.
        share: that of the time of all nodes, 0 to 1.
    """

    executed: int
    seconds: float
    share: float

    @classmethod
    def of(cls, executed: int, runs: Sequence[tuple[float, float]]) -> NodeTimes:
        """Return the medians over several runs.

        Args:
            executed: as above.
            runs: the seconds of these nodes, and of all nodes.
        """
        seconds = statistics.median(part for part, _ in runs)
        return cls(
            executed, seconds, statistics.median(part / whole if whole else 0.0 for part, whole in runs)
        )


@dataclass(frozen=True)
class Contender:
    """What a network gives in a runtime.

    Attributes:
        outputs: what came out, by name: tensors only.
        nodes: the time of its Pow and PRelu nodes.
        results: how exact the results of these nodes are, of those that no subgraph holds, together: the runtime
            computed these nodes alone, on the operands that they get in the network.
        compared: how many nodes that is.
        left: a sentence for each node that stays the runtime's own where halfulp's were to take their place.
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
        """Return it of all outputs and of the results of single nodes."""
        tensors = {name: value for name, value in outputs.items() if _is_tensor(value)}
        return cls(tensors, nodes, together(results), len(results), tuple(left))


Prepare = Callable[[bool], tuple[Contender, Call]]
"""Returns what a network gives in a runtime, with halfulp's kernels or without, and what runs it there; it raises
HalfulpError where the runtime refuses that."""


def together(found: Iterable[Exactness]) -> Exactness:
    """Return what several comparisons found as one."""
    misrounded = total = farthest = 0
    for one in found:
        misrounded, total = misrounded + one.misrounded, total + one.total
        farthest = max(farthest, one.farthest)
    return Exactness(misrounded, total, farthest)


def difference(found: Mapping[str, Any], other: Mapping[str, Any]) -> Exactness:
    """Return how far the outputs of two runs are apart: those that both have, of the same type and shape."""
    pairs = [(found[name], other[name]) for name in found if name in other]
    return together(exactness(a, b) for a, b in pairs if a.dtype == b.dtype and a.shape == b.shape)
