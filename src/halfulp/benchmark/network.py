"""Measure a network in ONNX Runtime, with its own Pow and PRelu and with halfulp's; give a table or JSON."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from onnx import NodeProto

from halfulp.benchmark.comparison import Exactness, exactness, share_of, spread, time_of
from halfulp.benchmark.timing import Call, InterleavedRuns, ratio, summary
from halfulp.conversion.opset import inline
from halfulp.conversion.verify import is_ours as is_one_of_ours
from halfulp.conversion.verify import rounded
from halfulp.conversion.walk import check_clauses
from halfulp.errors import HalfulpError, count_of, printable
from halfulp.installed import version_of
from halfulp.integrations.onnxruntime import engine
from halfulp.models.graph import Array, Node, unused
from halfulp.models.onnx import Onnx, parse
from halfulp.models.onnx.tensors import release
from halfulp.models.onnx.walk import every_node, is_ours
from halfulp.models.run.report import RunReport, sentence, vacuous
from halfulp.operators import op
from halfulp.types import TYPES

PROFILED_RUNS = 10


@contextmanager
def light(path: Path) -> Iterator[Onnx]:
    """Yield a model whose weights are in a file that all sessions map, so that none holds a copy.

    Its functions are inlined. Each Pow and PRelu has a name of its own, because a profile lists nodes by name. A
    ModelError says that the model is broken.
    """
    model = parse(path).check()
    check_clauses(model)
    release()
    inline(model)
    names: set[str] = set()
    for node in nodes_of(model):
        node.name = unused(node.name or f"{node.op_type} {len(names)}", names)
        names.add(node.name)
    with model.mapped() as mapped:
        del model
        release()
        yield mapped


def nodes_of(model: Onnx) -> list[NodeProto]:
    """Return the Pow and PRelu nodes of a model without functions, including those in subgraphs."""
    return list(filter(is_ours, every_node(model.proto.graph)))


class NodeTimes(NamedTuple):
    """The Pow and PRelu nodes in the runtime's own profile."""

    executed: int  # the number of nodes that ran as such; the others are merged into other layers, or folded
    seconds: float  # the time of these nodes in a run
    share: float  # their share of the time of all nodes, from 0 to 1


def node_times(reports: Sequence[RunReport], wanted: Set[str], *, exact: bool) -> NodeTimes:
    """Return the medians over several runs of the nodes with these labels, if halfulp ran them, or did not."""
    own = [[row for row in each.nodes if (row.engine == "halfulp") == exact] for each in reports]
    parts = [sum(row.seconds for row in rows if row.label in wanted) for rows in own]
    shares = (part / (report.seconds or 1.0) for part, report in zip(parts, reports, strict=True))
    executed = {row.label for row in chain(*own)} & wanted
    return NodeTimes(len(executed), statistics.median(parts), statistics.median(shares))


@dataclass(frozen=True)
class Contender:
    """The results of a network with one kind of kernels."""

    nodes: NodeTimes
    exactness: Sequence[Exactness]  # of each Pow and PRelu outside of subgraphs, given its operands
    outputs: Mapping[str, Array]
    times: list[float] = field(default_factory=list)  # of the whole network, in turns with the other kernels

    @property
    def results(self) -> Exactness:
        """The exactness of the nodes together."""
        return together(self.exactness)


def together(comparisons: Sequence[Exactness]) -> Exactness:
    """Combine several comparisons into one."""
    misrounded, total = sum(each.misrounded for each in comparisons), sum(each.total for each in comparisons)
    return Exactness(misrounded, total, max((each.farthest for each in comparisons), default=0))


@dataclass(frozen=True)
class Comparison:
    """A network with ONNX Runtime's own Pow and PRelu and with halfulp's: the results, or why it does not run."""

    own: Contender | str
    ours: Contender | str

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
    model: Onnx,
    inputs: Mapping[str, Any],
    threads: int,
    seconds: float,
    progress: Callable[[str], None] = lambda line: None,
) -> Comparison:
    """Run a network with both kinds of kernels, in turns that take some seconds in all; tell each step."""
    results: dict[str, Contender | str] = {}
    calls: dict[str, Call] = {}
    for exact, whose in enumerate(("ONNX Runtime", "halfulp")):
        progress(f"preparing it with {whose}'s kernels")
        try:
            settings = engine.Settings(exact=bool(exact), threads=threads)
            compared = _exactness(model, inputs, exact=bool(exact))
            session, outputs, reports = engine.open_profiled(model, inputs, settings, runs=PROFILED_RUNS)
        except HalfulpError as error:
            results[whose] = error.message
            continue
        # ONNX Runtime also turns some other operators into Pow.
        names = {f"'{printable(node.name)}' ({node.op_type})" for node in nodes_of(model)}
        tensors = {name: each for name, each in outputs.items() if str(getattr(each, "dtype", "")) in TYPES}
        results[whose] = Contender(node_times(reports, names, exact=bool(exact)), compared, tensors)
        calls[whose] = partial(engine.run_in, session, model, inputs)
    progress("measuring")
    for whose, times in InterleavedRuns(calls).take(seconds).items() if calls else ():
        contender = results[whose]
        assert isinstance(contender, Contender)
        contender.times.extend(times)
    return Comparison(*results.values())


def _exactness(model: Onnx, inputs: Mapping[str, Any], *, exact: bool) -> list[Exactness]:
    """Run a network node by node, and compare each Pow and PRelu outside of subgraphs with the right result."""
    nodes = list(filter(is_one_of_ours, model.graph.nodes))
    names = dict.fromkeys(name for node in nodes for name in (*node.inputs, node.outputs[0]))
    held = {name: model.scope().array(name, or_default=True) for name in names}
    known = {name: array for name, array in held.items() if array is not None} | {**inputs}
    watched = rounded(model.with_outputs([name for name in names if name not in known]))
    known |= engine.runner(watched, engine.Settings(exact=exact, optimized=False))(inputs)

    def right(node: Node) -> Array:
        return op(node.operator)(*(known[name] for name in node.inputs), **node.attributes)

    return [exactness(known[node.outputs[0]], right(node)) for node in nodes]


# --- as a table and as JSON ----------------------------------------------------------------------


def report(row: Comparison, nodes: int) -> list[list[str]]:
    """Return the cells of a network with this number of Pow and PRelu nodes: a line for each kind of kernels."""
    names = f"onnxruntime {version_of('onnxruntime') or ''}", "  with halfulp"
    return [[name, *_cells(each, nodes)] for name, each in zip(names, (row.own, row.ours), strict=True)]


def sentences(row: Comparison) -> Iterator[str]:
    """Yield the gain, or the reason why the network does not run."""
    if row.ratio is not None and (outputs := row.difference) is not None:
        share = share_of(outputs.misrounded / outputs.total) if outputs.total else ""
        apart = f"outputs at most {outputs.farthest:,} ulp apart, in {share} of {outputs.total:,} elements"
        if not outputs.misrounded:
            apart = "outputs equal" if share else "the outputs have no elements: -i DIM=N changes sizes"
        yield f"with halfulp {1 / row.ratio:.2g}x as fast; {apart}"
    yield from (sentence(name, reason) for name, reason in row.vacuous.items())
    if isinstance(row.own, str):
        yield row.own
    if isinstance(row.ours, str) and row.ours != row.own:
        yield f"with halfulp: {row.ours}"


def document(row: Comparison) -> dict[str, Any]:
    """Return the measurements for JSON: seconds, shares from 0 to 1, distances in representable values."""
    return {
        "runtime": "onnxruntime",
        "version": version_of("onnxruntime") or "",
        "own": _entry(row.own),
        "halfulp": _entry(row.ours),
        "ratio": row.ratio,
        "outputs": row.difference and row.difference._asdict(),
        "vacuous": row.vacuous,
    }


def _cells(contender: Contender | str, nodes: int) -> list[str]:
    if isinstance(contender, str):
        return ["refused", "", ""]
    times, results, compared = contender.nodes, contender.results, len(contender.exactness)
    part = f"{_time(times.seconds)}, {times.share:.0%}; {times.executed} of {count_of(nodes, 'node')}"
    exact = f"{results} in {results.total:,} values"
    exact = f"{exact}; {compared} of {nodes} nodes" if compared < nodes else exact
    # A fusion may compute another function.
    exact = f"node by node: {exact}" if times.executed == 0 else exact
    return [
        spread(summary(contender.times), _time),
        part if times.executed else "merged into others",
        exact if compared else "not compared",
    ]


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
    }
