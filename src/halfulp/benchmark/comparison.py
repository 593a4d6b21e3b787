"""halfulp beside other libraries: times, how exact results are, and the words for both in a table.

Of arrays beside NumPy and torch (``make bench`` in the source tree has many more rows), and of a network in ONNX
Runtime, with its own Pow and PRelu and with halfulp's. ``in_turns`` is the only measuring loop of the package and of
``benchmarks/``: calls take turns, so that other load on the machine affects all of them.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from onnx import NodeProto

import halfulp.operators as operators
from halfulp.conversion.opset import inline
from halfulp.conversion.verify import is_ours as is_one_of_ours
from halfulp.conversion.verify import rounded
from halfulp.conversion.walk import check_clauses
from halfulp.errors import HalfulpError, count_of, printable
from halfulp.installed import has_module, version_of
from halfulp.integrations.onnxruntime import engine
from halfulp.models.graph import Array, Node, unused
from halfulp.models.onnx import Onnx, parse
from halfulp.models.onnx.tensors import release
from halfulp.models.onnx.walk import every_node, is_ours
from halfulp.models.run.report import RunReport, sentence, vacuous
from halfulp.types import TYPES, element_type, is_nan, ranks, same_bits

SIZE = 1 << 18  # elements: the operands fit in a cache, and waking the threads pays
ROWS = ("float32 ** float32", "float64 ** float64", "float16 ** float16", "PRelu float32")

Call = Callable[[], object]

_SHORTEST = 300e-6  # minimum seconds of a sample; a shorter call is repeated
_LONG = 2e-3  # seconds; a call this long does not profit from caches that an earlier call warmed


# --- times ---------------------------------------------------------------------------------------


class Summary(NamedTuple):
    """The median, the quartiles and the minimum of some times."""

    median: float
    low: float
    high: float
    least: float


def summary(times: Sequence[float]) -> Summary:
    low, median, high = np.quantile(times, (0.25, 0.5, 0.75)).tolist()
    return Summary(median, low, high, min(times))


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the ratios of each turn. A change of the machine's speed does not affect it."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def in_turns(
    samples: Mapping[str, Callable[[], float]], seconds: float, least: int = 3, most: int = 1000
) -> dict[str, list[float]]:
    """Call functions that take samples in turns, each in another order, for some seconds or turns."""
    names = list(samples)
    taken: dict[str, list[float]] = {name: [] for name in names}
    end = time.perf_counter() + seconds
    collecting = gc.isenabled()
    gc.disable()
    try:
        for turn in range(max(least, most)):
            if turn >= least and time.perf_counter() >= end:
                break
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                taken[name].append(samples[name]())
    finally:
        if collecting:
            gc.enable()
    return taken


def sampler(call: Call) -> Callable[[], float]:
    """Return a function that times a call, repeated if it is short; it is warmed up, and its time estimated, now."""

    def timed(repeats: int) -> float:
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        return (time.perf_counter() - start) / repeats

    call()
    length = timed(1)
    if length < 10 * _LONG:  # unless an interruption made it longer
        length = min(length, timed(1), timed(1))

    def sample() -> float:
        if length < _LONG:
            call()
        return timed(max(1, round(_SHORTEST / length)))

    return sample


# --- exactness -----------------------------------------------------------------------------------


class Exactness(NamedTuple):
    """The findings of a comparison."""

    misrounded: int  # the number of wrong results: another number, or a zero of the wrong sign
    total: int  # the number of results that were compared
    # The maximum distance from the right result, in representable values. A NaN that should be a number, or a number
    # that should be NaN, counts as the type's whole range.
    farthest: int

    def __str__(self) -> str:
        """Return the share of wrong results, and the maximum distance if it is more than one value."""
        if self.misrounded == 0:
            return "exact"
        far = self.farthest if self.farthest < 10_000 else f"{self.farthest:.0e}"
        return f"{share_of(self.misrounded / self.total)} off" + f"; by up to {far}" * (self.farthest > 1)


def share_of(fraction: float) -> str:
    """Return a fraction in percent; ``all`` if it is 1, or nearly so."""
    return f"{100 * fraction:.2g} %" if fraction < 0.995 else "all"


def exactness(result: Array, right: Array) -> Exactness:
    """Compare results with the right ones; all NaNs count as equal. Raises ValueError if types or shapes differ."""
    if result.dtype != right.dtype or result.shape != right.shape:
        raise ValueError(f"not comparable: {result.dtype}{result.shape} and {right.dtype}{right.shape}")
    differs = ~same_bits(result, right)
    ours, theirs = right[differs], result[differs]
    a, b = ranks(ours), ranks(theirs)
    farthest = int((np.maximum(a, b) - np.minimum(a, b)).max(initial=0))
    if (is_nan(ours) | is_nan(theirs)).any():
        farthest = 1 << element_type(right.dtype).bits
    return Exactness(ours.size, right.size, farthest)


# --- text for a terminal -------------------------------------------------------------------------


def time_of(nanoseconds: float) -> str:
    """Return a time in a suitable unit. A number without a unit is in nanoseconds."""
    units = (("", 1.0), (" µs", 1e3), (" ms", 1e6))
    unit, scale = next((u for u in units if nanoseconds < 1000 * u[1]), units[-1])
    value = nanoseconds / scale
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}{unit}"


def spread(summary: Summary, time: Callable[[float], str] = time_of) -> str:
    """Return a median with half the distance of the quartiles."""
    return f"{time(summary.median)} ±{50 * (summary.high - summary.low) / summary.median:.0f}%"


# --- halfulp bench without a model ---------------------------------------------------------------


def measure(row: str, threads: int, seconds: float) -> dict[str, str]:
    """Return a cell for each library: its time in nanoseconds per element, and how exact its results are."""
    random, name = np.random.default_rng(7), row.split()[-1]
    np.seterr(all="ignore")
    if is_prelu := row.startswith("PRelu"):
        x, y = random.normal(size=(1, 64, 64, SIZE >> 12)), random.random((64, 1, 1))
    else:
        x, y = random.uniform(0.01, 10, SIZE), random.uniform(-4, 4, SIZE)
    x, y = x.astype(name), y.astype(name)
    out = np.empty_like(x)  # of all powers
    calls: dict[str, Call] = {
        "halfulp": partial(operators.prelu if is_prelu else operators.pow, x, y, out=out),
        "numpy": (lambda: np.where(x < 0, y * x, x)) if is_prelu else partial(np.power, x, y, out=out),
    }
    if has_module("torch"):
        torch = import_module("torch")
        torch.set_num_threads(threads)
        a, b, result = map(torch.from_numpy, (x, y.ravel(), out))
        prelu = torch.nn.functional.prelu
        calls["torch"] = partial(prelu, a, b) if is_prelu else partial(torch.pow, a, b, out=result)
    right = np.array(calls["halfulp"]())
    exact = {name: f"; {exactness(np.asarray(call()), right)}" for name, call in calls.items()}
    exact["halfulp"] = ""
    taken = in_turns({name: sampler(call) for name, call in calls.items()}, seconds).items()
    return {name: spread(summary([1e9 / SIZE * t for t in times])) + exact[name] for name, times in taken}


# --- a network -----------------------------------------------------------------------------------


@contextmanager
def light(path: Path) -> Iterator[Onnx]:
    """Yield a model without functions whose sessions map the weights, each Pow and PRelu with a name of its own."""
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


class Contender(NamedTuple):
    """The results of a network with one kind of kernels."""

    nodes: NodeTimes
    exactness: Sequence[Exactness]  # of each Pow and PRelu outside of subgraphs, given its operands
    results: Exactness  # of these together
    outputs: Mapping[str, Array]
    times: Sequence[float]  # of the whole network, in turns with the other kernels


def together(comparisons: Sequence[Exactness]) -> Exactness:
    """Combine several comparisons into one."""
    misrounded, total = sum(each.misrounded for each in comparisons), sum(each.total for each in comparisons)
    return Exactness(misrounded, total, max((each.farthest for each in comparisons), default=0))


class Comparison(NamedTuple):
    """A network with ONNX Runtime's own Pow and PRelu and with halfulp's: the results, or why it does not run."""

    own: Contender | str
    ours: Contender | str
    vacuous: Mapping[str, str]  # the outputs whose comparison verifies nothing, by name, each with the reason
    # If both run: the ratio of the time with halfulp to the time without, and the distance of the outputs without
    # halfulp from those with it, where their types and shapes are the same.
    ratio: float | None = None
    difference: Exactness | None = None


def compare(
    model: Onnx,
    inputs: Mapping[str, Any],
    threads: int,
    seconds: float,
    progress: Callable[[str], None] = lambda line: None,
) -> Comparison:
    """Run a network with both kinds of kernels, in turns that take some seconds in all; tell each step."""
    refused, samples = dict[str, str](), dict[str, Callable[[], float]]()
    ran: dict[str, tuple[NodeTimes, list[Exactness], Exactness, dict[str, Array]]] = {}
    # ONNX Runtime also turns some other operators into Pow.
    names = {f"'{printable(node.name)}' ({node.op_type})" for node in nodes_of(model)}
    for exact, whose in ((False, "ONNX Runtime"), (True, "halfulp")):
        progress(f"preparing it with {whose}'s kernels")
        try:
            settings: dict[str, Any] = {"exact": exact, "threads": threads}
            compared = _exactness(model, inputs, exact=exact)
            session, results, reports = engine.open_profiled(model, inputs, runs=10, **settings)
        except HalfulpError as error:
            refused[whose] = error.message
            continue
        tensors = {name: each for name, each in results.items() if str(getattr(each, "dtype", "")) in TYPES}
        ran[whose] = node_times(reports, names, exact=exact), compared, together(compared), tensors
        samples[whose] = sampler(partial(engine.run_in, session, model, inputs))
    progress("measuring")
    times = in_turns(samples, seconds) if samples else {}
    contenders = {whose: Contender(*ran[whose], times[whose]) for whose in ran}
    own, ours = (contenders.get(whose) or refused[whose] for whose in ("ONNX Runtime", "halfulp"))
    outputs = [contender.outputs for contender in contenders.values()]
    empty = vacuous(outputs[-1]) if outputs else {}
    if isinstance(own, str) or isinstance(ours, str):
        return Comparison(own, ours, empty)
    pairs = ((own.outputs[name], ours.outputs[name]) for name in own.outputs.keys() & ours.outputs.keys())
    alike = [exactness(a, b) for a, b in pairs if (a.dtype, a.shape) == (b.dtype, b.shape)]
    return Comparison(own, ours, empty, ratio(ours.times, own.times), together(alike))


def _exactness(model: Onnx, inputs: Mapping[str, Any], *, exact: bool) -> list[Exactness]:
    """Run a network node by node, and compare each Pow and PRelu outside of subgraphs with the right result."""
    nodes = list(filter(is_one_of_ours, model.graph.nodes))
    names = dict.fromkeys(name for node in nodes for name in (*node.inputs, node.outputs[0]))
    held = {name: model.scope().array(name, or_default=True) for name in names}
    known = {name: array for name, array in held.items() if array is not None} | {**inputs}
    watched = rounded(model.with_outputs([name for name in names if name not in known]))
    known |= engine.runner(watched, exact=exact, optimized=False)(inputs)

    def right(node: Node) -> Array:
        return operators.op(node.operator)(*(known[name] for name in node.inputs), **node.attributes)

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
    exact = f"{results} in {results.total:,} values" + f"; {compared} of {nodes} nodes" * (compared < nodes)
    if not times.executed:  # a fusion may compute another function
        part, exact = "merged into others", f"node by node: {exact}"
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
    }
