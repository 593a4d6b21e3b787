"""Inputs that are made up: batches of 1, the sizes that constants force, and random values with a fixed seed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from halfulp.errors import HalfulpError, ModelError, UnsupportedError, did_you_mean, within
from halfulp.models.graph import Array, Graph, Model, Node, Value
from halfulp.models.memory import guard_memory
from halfulp.models.run.cast import can_cast, cast
from halfulp.models.run.inputs import dtype_named, is_integral, needed
from halfulp.types import FLOATS

DEFAULT_DIM = 3
"""The size of an open dim in made-up inputs, if nothing else is known."""

_SIDE = 64  # of an image: larger than kernels, and divisible by the usual strides
_SAMPLES = 512  # of a signal
_BATCH = re.compile(r"n|b|bs|batch.*|.*batch(_?size)?|dynamicdimension\.0", re.IGNORECASE)
# Operators that an integer may pass through before it is compared or looked up.
_PASSED = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"})
_BROADCASTS = {"Add", "Sub", "Mul", "Div", "Pow", "PRelu"}
# Operators whose result has the channels of their first operand.
_KEEPS_CHANNELS = {*_BROADCASTS, "Cast", "Identity", "Pad", "Relu", "Clip", "BatchNormalization"}
MASK = (1, 1)  # a softmax of masked elements alone would be NaN
_INDEXED = frozenset({"Gather", "GatherElements", "GatherND", "ScatterND", "ScatterElements", "OneHot"})


@dataclass(frozen=True)
class Fit:
    """The sizes and values of made-up inputs.

    Attributes:
        dims: sizes of the dims that the model leaves open, by the names of :func:`dim_names`. The others become 3.
        ranges: the minimum and maximum of integer and boolean inputs that index, mask or are compared.
        chosen: the dims whose sizes were made up, not given.
    """

    dims: Mapping[str, int] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    chosen: frozenset[str] = frozenset()

    def inputs(self, model: Model, seed: int = 0) -> dict[str, Array]:
        """Return arrays of the types and shapes that the model declares. The same seed gives the same arrays.

        Inputs with initializers are left out. Integers are from -5 to 5 (unsigned: 0 to 5).

        Raises:
            ModelError: an input has unknown rank or type, or is too large for this computer's memory.
            HalfulpError: ``dims`` names a dim that the model doesn't have.
        """
        wanted = needed(model)
        names = {name for value in wanted for name in dim_names(value) if name is not None}
        for name in sorted(set(self.dims) - names):
            known = did_you_mean(name, sorted(names)) if names else "none is symbolic"
            raise HalfulpError(f"no dim of the model's inputs is called {name!r}; {known}")
        rng = np.random.default_rng(seed)
        made = {}
        with within(model.file):
            for value in wanted:
                if value.kind != "tensor" or value.type is None or value.shape is None:
                    message = f"does not declare enough of input {value.name!r} to make one up: feed it"
                    raise HalfulpError(message, got=str(value))
                shape = tuple(
                    dim if isinstance(dim, int) else self.dims.get(str(name), DEFAULT_DIM)
                    for dim, name in zip(value.shape, dim_names(value), strict=True)
                )
                # 8 bytes per element, because values are made in float64 and narrowed afterwards.
                guard_memory(shape, 8, f"input {value.name!r}")
                made[value.name] = _random(rng, value.type, shape, self.ranges.get(value.name))
        return made

    @contextmanager
    def blamed(self, model: Model) -> Iterator[None]:
        """Name the sizes that were made up in an error of a run on the inputs."""
        try:
            yield
        except UnsupportedError:
            raise
        except HalfulpError as error:
            if not self.chosen:
                raise
            where: dict[str, Any] = {name: getattr(error, name, None) for name in ("node", "clause")}
            message = f"{error.message}; {self}, -i NAME=FILE gives an input"
            raise ModelError(message, file=model.file, **where | dict(error.shown)) from None

    def __str__(self) -> str:
        """Return a line for the user; empty if no size was made up."""
        sizes = ", ".join(f"{name}={size}" for name, size in self.dims.items() if name in self.chosen)
        return f"dims made up: {sizes}; -i DIM=N changes one" if sizes else ""


def dim_names(value: Value) -> tuple[str | None, ...]:
    """Return the name of each dim of open size: its symbol, or the input with the axis. Other dims give None."""
    return tuple(
        dim if isinstance(dim, str) else f"{value.name}[{axis}]" if dim is None else None
        for axis, dim in enumerate(value.shape or ())
    )


def _random(
    rng: np.random.Generator, kind: str, shape: tuple[int, ...], between: tuple[int, int] | None
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
    normal = np.asarray(rng.standard_normal(shape))
    return cast(normal, dtype) if can_cast(normal.dtype, dtype) else normal.astype(dtype)


def make_up(model: Model, dims: Mapping[str, int] | None = None) -> Fit:
    """Make up the sizes and values of the inputs without an initializer.

    Batches without a size in ``dims`` are 1, and constants force the sizes of others.

    Raises:
        ModelError: an input cannot be made up.
        HalfulpError: ``dims`` names a dim that the model doesn't have.
    """
    given = dict(dims or {})
    Fit(given).inputs(model)  # refuses names and sizes that are given
    usual = {name: size for value in reversed(needed(model)) for name, size in _usual(value)}
    sizes = {**usual, **_forced(model), **given}
    return Fit(sizes, _ranges(model), frozenset(sizes.keys() - given.keys()))


def fit(
    model: Model,
    run: Callable[[Mapping[str, Array]], Mapping[str, Any]],
    *,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
) -> Fit:
    """Make up inputs as :func:`make_up` does, and run the model once on them; errors are those of the run."""
    made = make_up(model, dims)
    with made.blamed(model):
        run(made.inputs(model, seed))
    return made


def _usual(value: Value) -> Iterator[tuple[str, int]]:
    """Yield the open dims of an input, each with its usual size."""
    shape = value.shape or ()
    rank, is_float = len(shape), value.type in FLOATS
    has_layers = rank == 3 and isinstance(shape[0], int) and shape[0] > 1  # the state of an RNN
    has_last_channels = rank > 3 and isinstance(shape[-1], int)
    for axis, name in enumerate(dim_names(value)):
        if name is None:
            continue
        if rank > 1 and (axis == int(has_layers) or _BATCH.fullmatch(name)):
            yield name, 1
        elif axis > 1 or has_last_channels:
            yield name, _SIDE
        else:
            yield name, _SAMPLES if rank == 2 and is_float else DEFAULT_DIM


def _forced(model: Model) -> dict[str, int]:
    """Return the sizes of open dims that the constants of the first nodes require."""
    carried = {value.name: value for value in needed(model) if value.shape}
    constants, sizes = next(_graphs(model.graph, {}))[1], dict[str, int]()
    for node in model.graph.nodes:
        value = carried.get(node.inputs[0]) if node.inputs else None
        if value is None:
            continue
        if node.type in _KEEPS_CHANNELS:
            carried.setdefault(node.outputs[0], value)
        weights = constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
        names = dim_names(value)
        required = {} if weights is None else _required(node, weights.shape, len(names))
        for axis, size in required.items():
            name = names[axis] if 0 <= axis < len(names) else None
            if name is not None:
                sizes.setdefault(name, size)
    return sizes


def _required(node: Node, weights: tuple[int, ...], rank: int) -> dict[int, int]:
    """Return the sizes, by axis, that constants of this shape require of a node's first input."""
    if node.type == "Conv" and len(weights) > 2:
        return {1: weights[1] * int(node.attributes.get("group", 1))}
    if node.type in ("BatchNormalization", "InstanceNormalization") and weights:
        return {1: math.prod(weights)}
    if node.type in ("LSTM", "GRU", "RNN") and weights:
        return {2: weights[-1]}
    if node.type == "MatMul" and len(weights) > 1:
        return {rank - 1: weights[-2]}
    if node.type == "Gemm" and len(weights) == 2 and not node.attributes.get("transA"):
        return {1: weights[node.attributes.get("transB", 0)]}
    if node.type in _BROADCASTS and node.opset >= 7:
        return {rank - len(weights) + axis: size for axis, size in enumerate(weights) if size > 1}
    return {}


def _ranges(model: Model) -> dict[str, tuple[int, int]]:
    """Return ranges for the integer inputs that nodes index, mask with or compare."""
    integers = [
        value.name
        for value in needed(model)
        if value.kind == "tensor" and value.type is not None and is_integral(dtype_named(value.type))
    ]
    ranges = {name: MASK for name in integers if "mask" in name.lower()}
    for graph, constants in reversed([*_graphs(model.graph, {})]):  # the outer graph decides
        known = ((name, _met(graph, name, constants)) for name in integers)
        ranges |= {name: between for name, between in known if between is not None}
    return ranges


def _met(graph: Graph, name: str, constants: Mapping[str, Array]) -> tuple[int, int] | None:
    """Return the range for an integer input by the first node that compares, counts or looks up."""
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
        elif node.type == "Loop" and node.inputs[0] in aliases:
            return 1, 3  # the number of turns
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
