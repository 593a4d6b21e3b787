"""Measure a network in every installed runtime, with and without halfulp's kernels; give a table or JSON.

A small copy of its file serves all runtimes. Its Pow and PRelu nodes are also computed alone, on their operands in it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from onnx import ModelProto, NodeProto, helper, numpy_helper
from rich.table import Table

from halfulp.benchmark.comparison import Exactness, exactness, share_of, spread, table, time_of
from halfulp.benchmark.timing import Call, InterleavedRuns, ratio, summary
from halfulp.conversion.opset import inline
from halfulp.conversion.verify import Run, all_nodes, runs
from halfulp.errors import HalfulpError, UnsupportedError, printable
from halfulp.installed import has_module, version_of
from halfulp.integrations.onnxruntime import engine
from halfulp.models.files import format_of
from halfulp.models.graph import Array, Graph, Model, Node, unused
from halfulp.models.onnx import Onnx, parse
from halfulp.models.onnx.tensors import declaration, release
from halfulp.models.onnx.walk import SUPPORTED_OPS, graphs
from halfulp.models.run.report import sentence, vacuous
from halfulp.operators import op
from halfulp.types import TYPES

PROFILED_RUNS = 10
Progress = Callable[[str], None]

_OPENVINO_KINDS = ("Power", "PRelu", "HalfulpPower", "HalfulpPReLU")


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
    """The Pow and PRelu nodes of a graph without its subgraphs, and their operands among tensors given by name."""

    def __init__(self, model: Model, values: Mapping[str, Any]) -> None:
        self._model, graph = model, model.graph
        self.constants = _constants(graph)  # the names of the constants of the model
        known = {**graph.constants, **values}
        # The nodes with known operands, by the name of the result in a model of these nodes alone. In the network, the
        # result may have the name of another node's operand.
        self.nodes = {
            f"the result of {node.outputs[0]}": node
            for node in graph.nodes
            if _is_wanted(node) and all(_is_tensor(known.get(name)) for name in node.inputs)
        }
        self.values = {name: known[name] for node in self.nodes.values() for name in node.inputs}

    @property
    def fed(self) -> dict[str, Array]:
        """The operands that are not constants."""
        return {name: array for name, array in self.values.items() if name not in self.constants}

    def without(self, types: Set[str]) -> Samples:
        """Return the nodes without an operand of these types. Constants are not counted."""
        wide = {name for name, array in self.fed.items() if array.dtype.name in types}
        narrow = {name: array for name, array in self.values.items() if name not in wide}
        return Samples(self._model, narrow)

    def exactness(self, compute: Callable[[], Mapping[str, Any]]) -> list[Exactness]:
        """Return the exactness of each node's result; ``compute`` gives a runtime's results by name."""
        results = compute() if self.nodes else {}

        def right(node: Node) -> Array:
            return op(node.operator)(*(self.values[name] for name in node.inputs), **node.attributes)

        return [exactness(results[name], right(node)) for name, node in self.nodes.items()]

    def proto(self) -> ModelProto:
        """Return an ONNX model of these nodes alone: its inputs are their operands, its outputs their results."""
        inputs = [declaration(name, array.dtype.name, array.shape) for name, array in self.fed.items()]
        constants = [numpy_helper.from_array(self.values[n], n) for n in self.values.keys() & self.constants]
        nodes: list[NodeProto] = [deepcopy(node.source) for node in self.nodes.values()]
        for name, node in zip(self.nodes, nodes, strict=True):
            node.output[0] = name
        opset = next(iter(self.nodes.values())).opset
        outputs = [onnx.ValueInfoProto(name=name) for name in self.nodes]
        graph = helper.make_graph(nodes, "nodes", inputs, outputs, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def watched(path: Path, model: Model) -> Run:
    """Return a function that runs a network and returns its outputs and its Pow and PRelu nodes' operands."""
    graph = model.graph
    known = {*graph.constants, *(value.name for value in graph.inputs)}
    operands = {name for node in graph.nodes if _is_wanted(node) for name in node.inputs} - known
    network = model if format_of(path) == "openvino" else parse(path, file=model.file)
    _, (run,) = runs(network.with_outputs([*{value.name for value in graph.outputs} | operands]))
    return run


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "dtype") and value.dtype.name in TYPES


def _tensors(outputs: Mapping[str, Any]) -> dict[str, Array]:
    return {name: value for name, value in outputs.items() if _is_tensor(value)}


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
    """The Pow and PRelu nodes in the runtime's own profile."""

    executed: int  # the number of nodes that ran as such; the others are merged into other layers, or folded
    seconds: float  # the time of these nodes in a run
    share: float  # their share of the time of all nodes, from 0 to 1


def node_times(profiles: Sequence[Sequence[tuple[str, float]]], wanted: Set[str]) -> NodeTimes:
    """Return the medians over several runs, each given as all nodes' names and seconds."""
    executed = {name for profile in profiles for name, _ in profile} & wanted
    wholes = (sum(seconds for _, seconds in profile) for profile in profiles)
    parts = [sum(seconds for name, seconds in profile if name in wanted) for profile in profiles]
    shares = (part / whole if whole else 0.0 for part, whole in zip(parts, wholes, strict=True))
    return NodeTimes(len(executed), statistics.median(parts), statistics.median(shares))


@dataclass(frozen=True)
class Contender:
    """The results of a network in a runtime, which also computes its nodes alone, on their operands in the network."""

    nodes: NodeTimes
    exactness: Sequence[Exactness]  # of each Pow and PRelu node alone, without those in subgraphs
    outputs: Mapping[str, Array]  # those that are tensors, by name
    left: Sequence[str] = ()  # a sentence for each node that halfulp's operators should have replaced
    times: list[float] = field(default_factory=list)  # the seconds of each run

    @property
    def results(self) -> Exactness:
        """The exactness of the nodes together."""
        return together(self.exactness)


Prepare = Callable[[bool], tuple[Contender, Call]]
"""Opens a network in a runtime, with halfulp's kernels or without; returns its results and a call that runs it."""


def together(comparisons: Sequence[Exactness]) -> Exactness:
    """Combine several comparisons into one."""
    misrounded, total = sum(each.misrounded for each in comparisons), sum(each.total for each in comparisons)
    return Exactness(misrounded, total, max((each.farthest for each in comparisons), default=0))


# --- in the runtimes ------------------------------------------------------------------------------


@dataclass(frozen=True)
class InRuntime:
    """A network in one runtime: the results, or the reasons why it does not run."""

    runtime: str
    version: str
    own: Contender | str  # with the runtime's own Pow and PRelu
    ours: Contender | str  # with halfulp's

    @property
    def contenders(self) -> list[Contender]:
        """Those of the two that run."""
        return [contender for contender in (self.own, self.ours) if isinstance(contender, Contender)]

    @property
    def ratio(self) -> float | None:
        """The ratio of the time with halfulp to the time without; None if one of them does not run."""
        times = [contender.times for contender in reversed(self.contenders)]
        return ratio(*times) if len(times) == 2 else None

    @property
    def difference(self) -> Exactness | None:
        """The distance of the outputs without halfulp from those with it, where their types and shapes are the same."""
        if len(self.contenders) < 2:
            return None
        own, ours = (contender.outputs for contender in self.contenders)
        pairs = ((own[name], ours[name]) for name in own.keys() & ours.keys())
        return together([exactness(a, b) for a, b in pairs if (a.dtype, a.shape) == (b.dtype, b.shape)])

    @property
    def vacuous(self) -> dict[str, str]:
        """The outputs whose comparison verifies nothing, by name, each with the reason."""
        return vacuous(self.contenders[-1].outputs) if self.contenders else {}


def compare(
    network: Network, runtimes: Sequence[str], seconds: float, progress: Progress = lambda line: None
) -> list[InRuntime]:
    """Run a network in each of these runtimes, with its own Pow and PRelu and with halfulp's.

    ``seconds`` is the total time of the measurement. ``progress`` receives the name of each step before it begins.
    """
    rows = []
    for runtime in runtimes:
        rows.append(_in_runtime(runtime, network, seconds / len(runtimes), progress))
        release()
    return rows


def _in_runtime(runtime: str, network: Network, seconds: float, progress: Progress) -> InRuntime:
    """Run a network in a runtime, then release both sessions."""
    results: dict[str, Contender | str] = {}
    calls: dict[str, Call] = {}
    version, labels = version_of(runtime) or "", (runtime, f"{runtime} with halfulp")
    prepare: Prepare
    progress(f"{runtime}: reading")
    try:
        prepare = _in_openvino(network) if runtime == "openvino" else partial(_in_onnxruntime, network)
    except HalfulpError as error:
        return InRuntime(runtime, version, error.message, error.message)
    for exact, label in enumerate(labels):
        progress(f"{label}: preparing")
        try:
            results[label], calls[label] = prepare(bool(exact))
        except HalfulpError as error:
            results[label] = error.message
        release()
    del prepare
    if calls:
        progress(f"{runtime}: measuring")
        for label, times in InterleavedRuns(calls).take(seconds).items():
            contender = results[label]
            assert isinstance(contender, Contender)
            contender.times.extend(times)
    return InRuntime(runtime, version, *results.values())


def runtimes_of(path: Path) -> tuple[str, ...]:
    """Return the installed runtimes that read a file's format."""
    readers = ("onnxruntime", "openvino")[format_of(path) == "openvino" :]
    return tuple(filter(has_module, readers))


def _in_onnxruntime(network: Network, exact: bool) -> tuple[Contender, Call]:
    settings = engine.Settings(exact=exact, threads=network.threads)
    model = parse(network.path, file=network.model.file)
    session, outputs, reports = engine.open_profiled(model, network.inputs, settings, runs=PROFILED_RUNS)
    # ONNX Runtime also turns some other operators into Pow.
    names = {f"'{printable(node.source.name)}' ({node.type})" for node in nodes_of(network.model.graph)}
    profiles = [
        [(row.label if (row.engine == "halfulp") == exact else "", row.seconds) for row in report.nodes]
        for report in reports
    ]

    def alone() -> Mapping[str, Any]:
        nodes = engine.open_session(Onnx(network.samples.proto()), replace(settings, optimized=False))
        return engine.run_in(nodes, network.model, network.samples.fed)

    contender = Contender(node_times(profiles, names), network.samples.exactness(alone), _tensors(outputs))
    return contender, partial(engine.run_in, session, network.model, network.inputs)


def _in_openvino(network: Network) -> Prepare:
    """Read a network for OpenVINO's CPU plugin, in f32, once; it is compiled with and without halfulp's operators."""
    from halfulp.integrations.openvino import put_into
    from halfulp.integrations.openvino.engine import Compiled, blaming
    from halfulp.integrations.openvino.operators import ROWS, WIDE, core

    name, threads = network.path.name, network.threads
    with blaming(name):
        model: Any = core().read_model(network.path)

    def alone(samples: Samples, exact: bool) -> dict[str, Array]:
        is_onnx = any(node.standard == "onnx" for node in samples.nodes.values())
        nodes = core().read_model(samples.proto().SerializeToString()) if is_onnx else _model_of(samples)
        if exact:
            put_into(nodes)
        return Compiled(nodes, name, threads=threads)(samples.fed)

    def prepare(exact: bool) -> tuple[Contender, Call]:
        # Nodes of 64-bit types are not compared, because their neighbours in the network may narrow the operands.
        samples = network.samples.without({ROWS[kind].name for kind in WIDE})
        # First, before the network occupies its memory.
        exactness = samples.exactness(partial(alone, samples, exact))
        release()
        left = put_into(model) if exact else []
        names = _names_in_openvino(model, network)
        compiled = Compiled(model, name, threads=threads, profile=True)
        outputs = _each_once(compiled(network.inputs), {value.name for value in network.model.graph.outputs})
        profiles = []
        for _ in range(PROFILED_RUNS):
            compiled.infer()
            profiles.append([(layer, seconds) for layer, _, seconds in compiled.layers()])
        return Contender(node_times(profiles, names), exactness, _tensors(outputs), left), compiled.infer

    return prepare


def _model_of(samples: Samples) -> Any:
    """Return an ``openvino.Model`` of the nodes alone."""
    import openvino as ov

    from halfulp.integrations.openvino.operators import tensor_of

    ends: dict[str, Any] = {}
    for name, array in samples.values.items():
        if name in samples.constants:
            ends[name] = ov.opset13.constant(tensor_of(array))
        else:
            kind = getattr(ov.Type, str(TYPES[array.dtype.name].openvino))
            ends[name] = ov.opset1.parameter(list(array.shape), kind)
            ends[name].output(0).set_names({name})
    results: list[Any] = []
    for name, node in samples.nodes.items():
        make = {"Power": ov.opset1.power, "PReLU": ov.opset1.prelu}[node.type]
        results.append(make(*(ends[operand] for operand in node.inputs), **node.attributes))
        results[-1].output(0).set_names({name})
    return ov.Model(results, [ends[name] for name in samples.fed])


def _each_once(outputs: Mapping[str, Array], preferred: Set[str]) -> dict[str, Array]:
    """Return outputs that are given by all of their names by one name each."""
    names = {id(outputs[name]): name for name in sorted(outputs, key=lambda name: (name in preferred, name))}
    return {name: outputs[name] for name in names.values()}


def _names_in_openvino(model: Any, network: Network) -> set[str]:
    """Return the names of the nodes, halfulp's or OpenVINO's, that are Pow and PRelu in the network.

    OpenVINO's reader of ONNX models also creates Power and PReLU nodes for other operators.
    """
    nodes = model.get_ordered_ops()
    if format_of(network.path) != "openvino":
        names = {node.outputs[0] for node in nodes_of(network.model.graph)}
        ends = (output for node in nodes for output in node.outputs() if names & output.get_names())
        nodes = map(_maker, ends)
    return {node.get_friendly_name() for node in nodes if node.get_type_name() in _OPENVINO_KINDS}


def _maker(output: Any) -> Any:
    """Return the node of an output, without a Convert around operands of two types."""
    node = output.get_node()
    return _maker(node.input_value(0)) if node.get_type_name() == "Convert" else node


# --- as a table and as JSON ----------------------------------------------------------------------


def report(rows: Sequence[InRuntime], nodes: int) -> Table:
    """Return the table, with two lines for each runtime of a network with this number of Pow and PRelu nodes."""
    lines = [
        [name, *_cells(contender, nodes)]
        for row in rows
        for name, contender in ((f"{row.runtime} {row.version}", row.own), ("  with halfulp", row.ours))
    ]
    return table("", ("", "a run", "its Pow and PRelu", "their results"), lines)


def sentences(rows: Sequence[InRuntime]) -> Iterator[str]:
    """Yield the gain in each runtime, or the reason why the runtime does not run."""
    for row in rows:
        if row.ratio is not None and row.difference is not None:
            yield f"{row.runtime}: with halfulp {1 / row.ratio:.2g}x as fast; {_apart(row.difference)}"
        for name, reason in row.vacuous.items():
            yield f"{row.runtime}: {sentence(name, reason)}"
        if isinstance(row.own, str):
            yield f"{row.runtime}: {row.own}"
        if isinstance(row.ours, Contender):
            yield from (f"{row.runtime} with halfulp: {left}" for left in row.ours.left)
        elif row.ours != row.own:
            yield f"{row.runtime} with halfulp: {row.ours}"


def _apart(outputs: Exactness) -> str:
    if outputs.total == 0:
        return "the outputs have no elements: -i DIM=N changes sizes"
    share = share_of(outputs.misrounded / outputs.total)
    distance = f"at most {outputs.farthest:,} ulp apart, in {share} of {outputs.total:,} elements"
    return f"outputs {distance if outputs.misrounded else 'equal'}"


def document(rows: Sequence[InRuntime]) -> list[dict[str, Any]]:
    """Return the measurements for JSON: seconds, shares from 0 to 1, distances in representable values."""
    return [
        {
            "runtime": row.runtime,
            "version": row.version,
            "own": _entry(row.own),
            "halfulp": _entry(row.ours),
            "ratio": row.ratio,
            "outputs": row.difference and row.difference._asdict(),
            "vacuous": row.vacuous,
        }
        for row in rows
    ]


def _cells(contender: Contender | str, nodes: int) -> list[str]:
    if isinstance(contender, str):
        return ["refused", "", ""]
    times, results = contender.nodes, contender.results
    part = f"{_time(times.seconds)}, {times.share:.0%}; {times.executed} of {nodes} nodes"
    if times.executed == 0:
        part = "merged into others" if nodes else "none"
    compared = len(contender.exactness)
    exact = f"{results} in {results.total:,} values"
    exact = f"{exact}; {compared} of {nodes} nodes" if compared < nodes else exact
    exact = f"alone: {exact}" if times.executed == 0 else exact  # a fusion may compute another function
    return [spread(summary(contender.times), _time), part, exact if compared else "not compared"]


def _time(seconds: float) -> str:
    # Here nanoseconds are written without a unit.
    return time_of(1e9 * seconds) if seconds >= 1e-6 else f"{1e6 * seconds:.2f} µs"


def _entry(contender: Contender | str) -> dict[str, Any]:
    if isinstance(contender, str):
        return {"refused": contender}
    return {
        "seconds": summary(contender.times)._asdict(),
        "runs": len(contender.times),
        "nodes": contender.nodes._asdict(),
        "results": {**contender.results._asdict(), "nodes": len(contender.exactness)},
        "left": list(contender.left),
    }
