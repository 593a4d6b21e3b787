"""Measure a network in every installed runtime, with and without halfulp's kernels; give a table or JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.table import Table

from halfulp.benchmark.comparison import Exactness, share_of, spread, table, time_of
from halfulp.benchmark.network import (
    PROFILED_RUNS,
    Contender,
    Network,
    Prepare,
    Samples,
    difference,
    node_times,
    nodes_of,
)
from halfulp.benchmark.timing import Call, InterleavedRuns, ratio
from halfulp.errors import HalfulpError, printable
from halfulp.installed import has_module, version_of
from halfulp.integrations.onnxruntime import engine
from halfulp.models.files import format_of
from halfulp.models.graph import Array
from halfulp.models.onnx import Onnx, parse
from halfulp.models.onnx.tensors import release
from halfulp.models.run.report import sentence, vacuous
from halfulp.types import TYPES

Progress = Callable[[str], None]

RUNTIMES = ("onnxruntime", "openvino")
_COLUMNS = ("", "a run", "its Pow and PRelu", "their results")
_OPENVINO_KINDS = ("Power", "PRelu", "HalfulpPower", "HalfulpPReLU")


@dataclass(frozen=True)
class InRuntime:
    """A network in one runtime.

    Attributes:
        runtime, version: its name and version.
        own, ours: the result with the runtime's own Pow and PRelu, and with halfulp's; the reason why it does
            not run.
    """

    runtime: str
    version: str
    own: Contender | str
    ours: Contender | str

    @property
    def ratio(self) -> float | None:
        """The ratio of the time with halfulp to the time without; None if one of them does not run."""
        if isinstance(self.own, str) or isinstance(self.ours, str):
            return None
        return ratio(self.ours.times, self.own.times)

    @property
    def difference(self) -> Exactness | None:
        """The distance of the outputs without halfulp from those with it."""
        if isinstance(self.own, str) or isinstance(self.ours, str):
            return None
        return difference(self.own.outputs, self.ours.outputs)

    @property
    def vacuous(self) -> dict[str, str]:
        """The outputs whose comparison verifies nothing, by name, each with the reason."""
        found = next((found for found in (self.ours, self.own) if isinstance(found, Contender)), None)
        return vacuous(found.outputs) if found else {}


def compare(
    network: Network, runtimes: Sequence[str], seconds: float, progress: Progress = lambda told: None
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
        prepare = _OpenVino(network) if runtime == "openvino" else partial(_in_onnxruntime, network)
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
    readers = ("openvino",) if format_of(path) == "openvino" else RUNTIMES
    return tuple(name for name in readers if has_module(name))


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
    alone = replace(settings, optimized=False)
    exactness = network.samples.exactness(partial(_alone, network, alone))
    found = Contender(node_times(profiles, names), exactness, outputs)
    return found, partial(engine.run_in, session, network.model, network.inputs)


def _alone(network: Network, settings: engine.Settings) -> Mapping[str, Any]:
    session = engine.open_session(Onnx(network.samples.proto()), settings)
    return engine.run_in(session, network.model, network.samples.fed)


class _OpenVino:
    """A network in OpenVINO, on the CPU, in f32. It is read once, and compiled with and without our operators."""

    def __init__(self, network: Network) -> None:
        self._network, self._ov = network, import_module("openvino")
        self._engine: Any = import_module("halfulp.integrations.openvino.engine")
        self._operators: Any = import_module("halfulp.integrations.openvino.operators")
        self._put_into: Any = import_module("halfulp.integrations.openvino").put_into
        with self._engine.blaming(network.path.name):
            self._model: Any = self._operators.core().read_model(network.path)

    def __call__(self, exact: bool) -> tuple[Contender, Call]:
        """Return the results, and a call that runs the network."""
        network, model = self._network, self._model
        # Nodes of 64-bit types are not compared, because their neighbours in the network may narrow the operands.
        samples = network.samples.without({self._operators.ROWS[name].name for name in self._operators.WIDE})
        # First, before the network occupies its memory.
        exactness = samples.exactness(lambda: self._alone(samples, exact=exact))
        release()
        left = self._put_into(model) if exact else []
        names = _names_in_openvino(model, network)
        compiled = self._engine.Compiled(model, network.path.name, threads=network.threads, profile=True)
        outputs = _each_once(compiled(network.inputs), {value.name for value in network.model.graph.outputs})
        profiles = []
        for _ in range(PROFILED_RUNS):
            compiled.infer()
            profiles.append([(name, seconds) for name, _, seconds in compiled.layers()])
        return Contender(node_times(profiles, names), exactness, outputs, left), compiled.infer

    def _alone(self, samples: Samples, *, exact: bool) -> dict[str, Any]:
        """Return the results of the nodes alone."""
        if any(node.standard == "onnx" for node in samples.nodes.values()):
            model = self._operators.core().read_model(samples.proto().SerializeToString())
        else:
            model = self._model_of(samples)
        if exact:
            self._put_into(model)
        compiled = self._engine.Compiled(model, self._network.path.name, threads=self._network.threads)
        results: dict[str, Any] = compiled(samples.fed)
        return results

    def _model_of(self, samples: Samples) -> Any:
        ov, ends = self._ov, {}
        for name, array in samples.values.items():
            if name in samples.constants:
                ends[name] = ov.opset13.constant(self._operators.tensor_of(array))
            else:
                kind = getattr(ov.Type, str(TYPES[array.dtype.name].openvino))
                ends[name] = ov.opset1.parameter(list(array.shape), kind)
                ends[name].output(0).set_names({name})
        results = []
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
    lines = []
    for row in rows:
        lines.append([f"{row.runtime} {row.version}", *_cells(row.own, nodes)])
        lines.append(["  with halfulp", *_cells(row.ours, nodes)])
    return table("", _COLUMNS, lines)


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


def _cells(found: Contender | str, nodes: int) -> list[str]:
    if isinstance(found, str):
        return ["refused", "", ""]
    times = found.nodes
    part = f"{_time(times.seconds)}, {times.share:.0%}; {times.executed} of {nodes} nodes"
    if times.executed == 0:
        part = "merged into others" if nodes else "none"
    compared = len(found.exactness)
    exact = f"{found.results} in {found.results.total:,} values"
    exact = f"{exact}; {compared} of {nodes} nodes" if compared < nodes else exact
    exact = f"alone: {exact}" if times.executed == 0 else exact  # a fusion may compute another function
    return [spread(found.summary, _time), part, exact if compared else "not compared"]


def _time(seconds: float) -> str:
    # Here nanoseconds are written without a unit.
    return time_of(1e9 * seconds) if seconds >= 1e-6 else f"{1e6 * seconds:.2f} µs"


def _entry(found: Contender | str) -> dict[str, Any]:
    if isinstance(found, str):
        return {"refused": found}
    return {
        "seconds": found.summary._asdict(),
        "runs": len(found.times),
        "nodes": found.nodes._asdict(),
        "results": {**found.results._asdict(), "nodes": len(found.exactness)},
        "left": list(found.left),
    }
