"""Find inputs on which a model runs: sizes of symbolic dims, and values of integers that index or count.

A model does not declare which sizes it takes. For example, a convolution needs an image larger than its kernel, and a
state needs the batch size of its neighbour. So a few sizes are tried, the likeliest first, until the model runs. Then
values are tried: a mask has 0 and 1. If all of an output is NaN, infinite or empty, a few other values are tried.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import islice, zip_longest
from typing import Any

import numpy as np

from halfulp.errors import HalfulpError, ModelError, UnsupportedError, did_you_mean, within
from halfulp.models.graph import Array, Graph, Model, Value
from halfulp.models.memory import guard_memory
from halfulp.models.run.cast import can_cast, cast
from halfulp.models.run.inputs import dtype_named, is_integral, needed
from halfulp.models.run.report import finite, is_usable, vacuous

DEFAULT_DIM = 3
"""The size of a symbolic or unknown dim in made-up inputs, if nothing else is known."""

SIZES = (DEFAULT_DIM, 1, 16, 48, 64, 224, 320, 512, 16000)
"""The sizes to try for a dim, in this order: images' sides, tokens, windows of sound."""

_SECONDS = 30.0
_MOST_SIZES = 600
_MOST_ELEMENTS = 1 << 22  # limit for all inputs of a trial together
_MOST_IMPROVED = 8  # maximum number of trials after one that ran
_BATCH = re.compile(r"n|b|bs|batch.*|.*batch(_?size)?|dynamicdimension\.0", re.IGNORECASE)
# Operators that an integer may pass through before it is compared or looked up.
_PASSED = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"})
# Operators whose result has the channels of their first operand.
_KEEPS_CHANNELS = {
    *("Cast", "Identity", "Pad", "Pow", "PRelu", "Relu", "Clip"),
    *("Add", "Sub", "Mul", "Div", "BatchNormalization"),
}
MASK = (0, 1)
_INDEXED = frozenset({"Gather", "GatherElements", "GatherND", "ScatterND", "ScatterElements", "OneHot"})

Trial = Callable[[Mapping[str, Array]], Mapping[str, Any]]


@dataclass(frozen=True)
class Spread:
    """The distribution of floats in made-up inputs.

    Attributes:
        scale: the scale of the normally distributed numbers.
        is_positive: whether their signs are dropped.
    """

    scale: float = 1.0
    is_positive: bool = False

    def __str__(self) -> str:
        kind = "magnitudes of normally distributed ones" if self.is_positive else "normally distributed"
        return kind if self.scale == 1 else f"{kind}, times {self.scale:g}"

    def of(self, normal: Array) -> Array:
        """Return normally distributed numbers of this scale and sign."""
        return self.scale * (np.abs(normal) if self.is_positive else normal)


NORMAL = Spread()
SPREADS = (Spread(is_positive=True), Spread(0.1), Spread(0.01, is_positive=True))
"""For networks that take logarithms of their inputs, or overflow."""


@dataclass(frozen=True)
class Fit:
    """The sizes and values of made-up inputs.

    Attributes:
        dims: sizes of the dims that the model leaves open, by the names of :func:`dim_names`. The others become 3.
        ranges: the minimum and maximum of integer and boolean inputs for which the usual range did not work.
        chosen: the dims whose sizes were made up, not given.
        floats: the distribution of floats.
    """

    dims: Mapping[str, int] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    chosen: frozenset[str] = frozenset()
    floats: Spread = NORMAL

    @property
    def masks(self) -> list[str]:
        """The inputs of 0 and 1 only."""
        return [name for name, between in self.ranges.items() if between == MASK]

    def inputs(self, model: Model, seed: int = 0) -> dict[str, Array]:
        """Return arrays of the types and shapes that the model declares. The same seed gives the same arrays.

        Inputs with initializers are left out. Integers are from -5 to 5 (unsigned: 0 to 5).

        Raises:
            ModelError: an input has unknown rank or type, or is too large for this computer's memory.
            HalfulpError: ``dims`` names a dim that the model doesn't have.
        """
        wanted = needed(model)
        check_named(self.dims, {name for value in wanted for name in dim_names(value) if name is not None})
        rng = np.random.default_rng(seed)
        made = {}
        with within(model.file):
            for value in wanted:
                if value.kind != "tensor" or value.type is None or value.shape is None:
                    message = f"does not declare enough of input {value.name!r} to make one up: feed it"
                    raise HalfulpError(message, got=str(value))
                shape = sized(value, self.dims)
                # 8 bytes per element, because values are made in float64 and narrowed afterwards.
                guard_memory(shape, 8, f"input {value.name!r}")
                made[value.name] = _random(rng, value.type, shape, self.ranges.get(value.name), self.floats)
        return made

    def __str__(self) -> str:
        """Return a line for the user; empty if nothing was made up."""
        made = {name: size for name, size in self.dims.items() if name in self.chosen}
        lines = [f"dims made up: {_listed(made)}; -i DIM=N changes one"] if made else []
        if self.floats != NORMAL:
            reason = "since the usual ones give outputs without a finite number"
            lines.append(f"floats made up: {self.floats}, {reason}")
        return "\n".join(lines)


def dim_names(value: Value) -> tuple[str | None, ...]:
    """Return the name of each dim of open size: its symbol, or the input with the axis. Other dims give None."""
    return tuple(
        dim if isinstance(dim, str) else f"{value.name}[{axis}]" if dim is None else None
        for axis, dim in enumerate(value.shape or ())
    )


def check_named(dims: Iterable[str], names: set[str]) -> None:
    """Refuse sizes of dims whose names are not among those of a model's inputs."""
    for name in sorted(set(dims) - names):
        known = did_you_mean(name, sorted(names)) if names else "none is symbolic"
        raise HalfulpError(f"no dim of the model's inputs is called {name!r}; {known}")


def sized(value: Value, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return a value's shape with sizes for its open dims, which :func:`dim_names` names."""
    return tuple(
        dim if isinstance(dim, int) else sizes.get(str(name), DEFAULT_DIM)
        for dim, name in zip(value.shape or (), dim_names(value), strict=True)
    )


def _random(
    rng: np.random.Generator,
    kind: str,
    shape: tuple[int, ...],
    between: tuple[int, int] | None,
    floats: Spread,
) -> Array:
    dtype = dtype_named(kind)
    if kind == "string":
        words = [f"s{number}" for number in rng.integers(0, 9, math.prod(shape))]
        return np.array(words, object).reshape(shape)
    if dtype.kind == "b":
        low, high = between or (0, 1)
        return rng.integers(low, high + 1, shape).astype(bool)
    if dtype.kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    if is_integral(dtype):
        low, high = between or (0 if "uint" in dtype.name else -5, 5)
        return cast(np.asarray(rng.integers(low, high + 1, shape)), dtype)
    normal = np.asarray(floats.of(np.asarray(rng.standard_normal(shape))))
    return cast(normal, dtype) if can_cast(normal.dtype, dtype) else normal.astype(dtype)


def fit(
    model: Model,
    run: Trial,
    *,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Fit:
    """Find sizes and values of inputs on which a model runs and gives meaningful outputs.

    If an output is empty or has no finite number, a few other inputs are tried.

    Args:
        model: the model. Its inputs without an initializer are made up.
        run: runs the model once and returns its outputs. It raises a HalfulpError if the model rejects the inputs.
        seed: the seed of the inputs.
        dims: fixed sizes, which are not varied.
        progress: a callback that receives a line with the sizes of each trial.

    Raises:
        ModelError: the model runs on none of the inputs (with the error of the first trial), or an input cannot be
            made up at all.
        UnsupportedError: an operator that no engine evaluates.
        HalfulpError: ``dims`` names a dim that the model doesn't have.
    """
    given = dict(dims or {})
    Fit(given).inputs(model)  # fails before any trial if an input cannot be made up

    def attempt(found: Fit) -> Mapping[str, Any]:
        if progress is not None:
            progress(f"trying inputs: {_listed(found.dims)}")
        return run(found.inputs(model, seed))

    candidates = _candidates(model, given)
    ranges = list(_ranges(model))
    end = time.monotonic() + _SECONDS
    refused: HalfulpError | None = None
    met: Mapping[str, int] = {}
    trials = 0
    is_curable = False
    clauses: set[str | None] = set()  # the clauses that the trials broke
    for found in (replace(sizes, ranges=values) for sizes in candidates for values in ranges):
        if trials and time.monotonic() > end:
            break
        trials += 1
        try:
            outputs = attempt(found)
        except HalfulpError as error:
            clauses.add(getattr(error, "clause", None))
            is_curable = is_curable or not isinstance(error, UnsupportedError)
            if refused is None:  # later sizes are less likely
                refused, met = error, found.dims
        else:
            return _improved(found, outputs, attempt, candidates, ranges)
        if trials == len(ranges) and not is_curable:
            break  # no engine evaluates the operator: other sizes do not help
    assert refused is not None
    if trials == 1 or not is_curable or (len(clauses) == 1 and None not in clauses):
        raise refused
    first = f"The first one{f' ({_listed(met)})' if met else ''}: {refused.message}"
    raise ModelError(
        f"runs on none of {trials} sets of inputs that were made up: give the sizes of its dims (-i DIM=N), or its"
        f" inputs (-i NAME=FILE); halfulp audit names a broken node. {first}",
        file=model.file,
    )


def _listed(dims: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in dims.items())


def _improved(
    found: Fit,
    outputs: Mapping[str, Any],
    attempt: Callable[[Fit], Mapping[str, Any]],
    sizes: Iterator[Fit],
    ranges: Sequence[Mapping[str, tuple[int, int]]],
) -> Fit:
    """Return the inputs with the most meaningful outputs, of these and a few others; the first of equals."""
    masked = bool(found.masks)
    best, least = found, _shortcomings(outputs, masked)
    if not least:
        return found
    if "empty" in vacuous(outputs).values():
        others = (replace(found, dims=other.dims) for other in sizes)
    else:
        seen = [replace(found, ranges={**found.ranges, **dict.fromkeys(found.masks, (1, 1))})]
        seen += [replace(found, ranges=values) for values in ranges]
        seen += [replace(found, floats=spread) for spread in SPREADS]
        others = (other for other in seen if other != found)
    for other in islice(others, _MOST_IMPROVED):
        try:
            count = _shortcomings(attempt(other), masked)
        except HalfulpError:
            continue
        if count < least:
            best, least = other, count
        if not least:
            break
    return best


def _shortcomings(outputs: Mapping[str, Any], masked: bool) -> int:
    """Return the number of useless outputs. If there are masks, outputs with a NaN or an infinity count, too."""
    reasons = vacuous(outputs)
    useless = {name for name, reason in reasons.items() if not is_usable(reason)}
    for name, value in outputs.items() if masked else ():
        if isinstance(value, np.ndarray) and not finite(value).all():
            useless.add(name)
    return len(useless) + (0 < len(outputs) == len(reasons))


def _candidates(model: Model, given: Mapping[str, int]) -> Iterator[Fit]:
    """Yield the sizes to try, each once. Only the first sizes may give inputs above the limit."""
    names = list(dict.fromkeys(name for value in needed(model) for name in filter(None, dim_names(value))))
    read = _channels(model)
    seen: set[tuple[int, ...]] = set()
    for sizes in _sizes(model, [name for name in names if name not in given and name not in read]):
        known = {**sizes, **read, **given}
        found = {name: known.get(name, DEFAULT_DIM) for name in names}
        key = tuple(found.values())
        if key in seen:
            continue
        seen.add(key)
        if len(seen) > _MOST_SIZES:
            return
        elements = sum(math.prod(sized(value, found)) for value in needed(model))
        if len(seen) == 1 or elements <= _MOST_ELEMENTS:
            yield Fit(found, {}, frozenset(names) - given.keys())


def _sizes(model: Model, names: list[str]) -> Iterator[dict[str, int]]:
    """Yield sizes for the dims, the likeliest first."""
    yield dict.fromkeys(names, DEFAULT_DIM)
    if not names:
        return
    batch = _batch(model, names)
    others = [name for name in names if name not in batch]
    one = dict.fromkeys(batch, 1)
    for size in SIZES:
        yield one | dict.fromkeys(others, size)
    usual = one | dict.fromkeys(others, DEFAULT_DIM)
    sizes = sorted({*SIZES, *filter(None, _sizes_of_weights(model))})
    for size in sizes:
        for name in names:
            yield usual | {name: size}
    for pair in zip_longest(*(_by_product(sizes, varied) for varied in (others, names))):
        for combination in filter(None, pair):
            yield usual | combination


def _by_product(sizes: Sequence[int], names: Sequence[str]) -> Iterator[dict[str, int]]:
    """Yield every combination of ascending sizes, the smallest product first, because it runs fastest."""
    queue: list[tuple[int, tuple[int, ...]]] = [(sizes[0] ** len(names), (0,) * len(names))] if names else []
    while queue:
        _, places = heappop(queue)
        chosen = [sizes[place] for place in places]
        yield dict(zip(names, chosen, strict=True))
        # Increase only the last index that is not 0, or one after it, so that each combination has one
        # parent.
        last = max((index for index, place in enumerate(places) if place), default=0)
        for index in range(last, len(names)):
            if places[index] + 1 < len(sizes):
                more = (*places[:index], places[index] + 1, *places[index + 1 :])
                heappush(queue, (math.prod(sizes[place] for place in more), more))


def _batch(model: Model, names: list[str]) -> set[str]:
    """Return the dims that are batch sizes, judged by their names and positions."""
    first = {dim_names(value)[0] for value in needed(model) if len(value.shape or ()) > 1}
    return {name for name in names if name in first or _BATCH.fullmatch(name)}


def _channels(model: Model) -> dict[str, int]:
    """Return the channel dims by name, with the sizes that the first Conv's weights require."""
    carried = {value.name: value for value in needed(model) if len(value.shape or ()) > 2}
    found: dict[str, int] = {}
    graph, constants = next(_graphs(model.graph, {}))
    for node in graph.nodes:
        value = carried.get(node.inputs[0]) if node.inputs else None
        if value is None:
            continue
        if node.type in _KEEPS_CHANNELS:
            carried[node.outputs[0]] = value
        elif node.type == "Conv":
            weights = constants.get(node.inputs[1])
            name = dim_names(value)[1]
            if name is not None and weights is not None and weights.ndim > 2:
                found.setdefault(name, weights.shape[1] * int(node.attributes.get("group", 1)))
    return found


def _sizes_of_weights(model: Model) -> list[int]:
    """Return the sizes that weights require of the other operand."""
    found: set[int] = set()
    for graph, constants in _graphs(model.graph, {}):
        for node in graph.nodes:
            for position, name in enumerate(node.inputs):
                weights = constants.get(name)
                if weights is None or not position or weights.ndim < 2:
                    continue
                if node.type == "Conv":
                    found.add(weights.shape[1] * int(node.attributes.get("group", 1)))
                elif node.type in ("MatMul", "Gemm", "LSTM", "GRU", "RNN"):
                    found.update(weights.shape[-2:])
    return sorted(found)[:8]


def _ranges(model: Model) -> Iterator[dict[str, tuple[int, int]]]:
    """Yield ranges for the integer inputs, the likeliest first. Ranges that nodes imply come before others."""
    integers = [
        value.name
        for value in needed(model)
        if value.kind == "tensor" and value.type is not None and is_integral(dtype_named(value.type))
        if value.type != "bool" or "mask" in value.name.lower()
    ]
    compared = {name: MASK for name in integers if "mask" in name.lower()}
    for graph, constants in reversed([*_graphs(model.graph, {})]):  # the outer graph decides
        for name in integers:
            known = _met(graph, name, constants)
            if known is not None:
                compared[name] = known
    usual: list[dict[str, tuple[int, int]]] = [{}]
    usual += [dict.fromkeys(integers, between) for between in ((0, 1), (1, 1), (0, 0), (16000, 16000))]
    seen = []
    for ranges in [*(ranges | compared for ranges in usual), *usual]:
        if ranges not in seen:
            seen.append(ranges)
            yield ranges


def _met(graph: Graph, name: str, constants: Mapping[str, Array]) -> tuple[int, int] | None:
    """Return the range for an integer input by the first node that compares it, looks it up or takes it from 1."""
    aliases = {name}
    for node in graph.nodes:
        if not aliases.intersection(node.inputs):
            continue
        if node.type in _PASSED and node.inputs[0] in aliases:
            aliases.update(node.outputs)
        elif node.type == "Equal":
            for other in node.inputs:
                constant = constants.get(other)
                if constant is not None and constant.size == 1 and constant.dtype.kind in "iuf":
                    return int(constant.item()), int(constant.item())
        elif node.type == "Sub" and node.inputs[1] in aliases:
            constant = constants.get(node.inputs[0])
            if constant is not None and constant.size == 1 and constant.item() == 1:
                return MASK  # 1 - mask
        elif node.type in _INDEXED and node.inputs[0] not in aliases:
            table = constants.get(node.inputs[0])
            axis = int(node.attributes.get("axis", 0))
            rows = table.shape[axis] if table is not None and -table.ndim <= axis < table.ndim else 2
            return 0, max(0, min(rows, 6) - 1)
    return None


def _graphs(graph: Graph, outer: Mapping[str, Array]) -> Iterator[tuple[Graph, Mapping[str, Array]]]:
    """Yield a graph and the graphs within its nodes, each with the constants visible in it."""
    numbers = (
        (name, each) for name, each in graph.held.items() if isinstance(each, np.ndarray | int | float)
    )
    constants = {**outer, **{name: np.asarray(each) for name, each in numbers}}
    yield graph, constants
    for node in graph.nodes:
        for subgraph in node.subgraphs:
            yield from _graphs(subgraph, constants)
