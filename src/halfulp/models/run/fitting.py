"""Inputs on which a model runs: sizes for its symbolic dims, and values for integers that index or count.

A model does not say which sizes it takes: a convolution wants an image larger than its kernel, a state the batch of its
neighbour. They are found by trying: few sizes, most likely first, until the model runs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np

from halfulp.errors import HalfulpError, ModelError, UnsupportedError
from halfulp.models.graph import Array, Graph, Model
from halfulp.models.run.inputs import DEFAULT_DIM, dim_names, dtype_named, is_integral, make_inputs, needed

SIZES = (DEFAULT_DIM, 1, 16, 48, 64, 224, 320, 512, 16000)
"""What a dim is tried with, in this order: images' sides, tokens, windows of sound."""

_SECONDS = 30.0
_MOST_TRIALS = 600
_MOST_ELEMENTS = 1 << 22  # of all inputs of a trial
_MOST_OPEN = 6  # dims that are varied one by one
_BATCH = re.compile(r"n|b|bs|batch.*|.*batch(_?size)?|dynamicdimension\.0", re.IGNORECASE)
# Where an integer that is compared, or looked up, may pass on its way.
_PASSED = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"})
# What has the channels of its first operand.
_KEEPS_CHANNELS = frozenset(
    {
        "Cast",
        "Identity",
        "Pad",
        "Pow",
        "PRelu",
        "Relu",
        "Clip",
        "Add",
        "Sub",
        "Mul",
        "Div",
        "BatchNormalization",
    }
)
_INDEXED = frozenset({"Gather", "GatherElements", "GatherND", "ScatterND", "ScatterElements", "OneHot"})

Trial = Callable[[Mapping[str, Array]], object]


@dataclass(frozen=True)
class Fit:
    """What made-up inputs look like.

    Attributes:
        dims: the sizes of the dims that the model leaves open, by name.
        ranges: the least and the greatest value of integer inputs, where the usual ones did not do.
        chosen: those of the dims that were made up, not given.
    """

    dims: Mapping[str, int]
    ranges: Mapping[str, tuple[int, int]]
    chosen: frozenset[str]

    def inputs(self, model: Model, seed: int) -> dict[str, Array]:
        """Return such inputs."""
        return make_inputs(model, seed=seed, dims=self.dims, ranges=self.ranges)

    def __str__(self) -> str:
        """Return a line for people, empty where nothing was made up."""
        made = ", ".join(f"{name}={self.dims[name]}" for name in self.dims if name in self.chosen)
        return f"dims made up: {made}; --dim NAME=N changes one" if made else ""


def fit(model: Model, run: Trial, *, seed: int = 0, dims: Mapping[str, int] | None = None) -> Fit:
    """Find sizes and values of inputs on which a model runs.

    Args:
        model: its inputs without an initializer are made up, by :func:`make_inputs`.
        run: runs the model once; a HalfulpError says that it does not take the inputs.
        seed: for the inputs.
        dims: sizes that are given: these stay.

    Raises:
        ModelError: no inputs do, with what the first trial met; or an input can't be made up at all.
        UnsupportedError: an operator that nothing evaluates.
        HalfulpError: ``dims`` names a dim that the model doesn't have.

    Example:
        >>> from onnx import parser
        >>> from halfulp.models.load import load
        >>> from halfulp.models.run.api import run
        >>> model = load(parser.parse_model('''<ir_version: 8, opset_import: ["": 15]>
        ...     g (float[N, C] x) => (float[R, 8] y)
        ...     { shape = Constant<value_ints=[-1, 8]>()  y = Reshape(x, shape) }'''))
        >>> print(fit(model, lambda inputs: run(model, inputs)))
        dims made up: N=1, C=16; --dim NAME=N changes one
    """
    given = dict(dims or {})
    make_inputs(model, seed=seed, dims=given)  # what can't be made up at all is said before any trial
    names = [name for value in needed(model) for name in dim_names(value) if name is not None]
    names = list(dict.fromkeys(names))
    read = _channels(model)
    searched = [name for name in names if name not in given and name not in read]
    ranges = list(_ranges(model))
    end = time.monotonic() + _SECONDS
    refused: HalfulpError | None = None
    met: Mapping[str, int] = {}
    trials = 0
    for sizes in islice(_sizes(model, searched), _MOST_TRIALS):
        known = {**sizes, **read, **given}
        found = {name: known.get(name, DEFAULT_DIM) for name in names}
        if trials and _elements(model, found) > _MOST_ELEMENTS:
            continue
        curable = False
        for values in ranges:
            if trials and time.monotonic() > end:
                break
            trials += 1
            attempt = Fit(found, values, frozenset(names) - given.keys())
            try:
                run(attempt.inputs(model, seed))
            except HalfulpError as error:
                curable = curable or not isinstance(error, UnsupportedError)
                if refused is None:  # later sizes are less likely ones
                    refused, met = error, found
            else:
                return attempt
        if refused is not None and not curable and trials <= len(ranges):
            raise refused  # an operator that nothing evaluates: other sizes are no help
    assert refused is not None
    if trials == 1:
        raise refused
    sizes_met = ", ".join(f"{name}={size}" for name, size in met.items())
    raise ModelError(
        f"runs on none of {trials} sets of inputs that were made up: give the sizes of its dims (--dim NAME=N), or its"
        f" inputs (--input NAME=FILE). The first one{f' ({sizes_met})' if sizes_met else ''}: {refused.message}",
        file=model.file,
    )


def _sizes(model: Model, names: list[str]) -> Iterator[dict[str, int]]:
    """Yield sizes for the dims, the likelier ones first."""
    yield dict.fromkeys(names, DEFAULT_DIM)
    if not names:
        return
    batch = _batch(model, names)
    others = [name for name in names if name not in batch]
    one = dict.fromkeys(batch, 1)
    for size in SIZES:
        yield one | dict.fromkeys(others, size)
    sizes = list(dict.fromkeys([*SIZES, *_sizes_of_weights(model)]))
    for varied in (others[:_MOST_OPEN], names[:_MOST_OPEN]):
        # By their product: the least that do are the quickest to run.
        combinations = (
            product(sizes, repeat=len(varied)) if len(sizes) ** len(varied) <= 1 << 18 else iter(())
        )
        for combination in sorted(combinations, key=lambda chosen: float(np.prod(chosen, dtype=float))):
            yield one | dict.fromkeys(others, SIZES[0]) | dict(zip(varied, combination, strict=True))


def _batch(model: Model, names: list[str]) -> set[str]:
    """Return the dims that count examples, as far as their names and places tell."""
    first = {dim_names(value)[0] for value in needed(model) if len(value.shape or ()) > 1}
    return {name for name in names if name in first or _BATCH.fullmatch(name)}


def _channels(model: Model) -> dict[str, int]:
    """Return the dims in the place of channels that the first Conv's weights fix, by name."""
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
    """Return the sizes that weights ask of what they are multiplied with."""
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
    """Yield ranges for the integer inputs, the likelier ones first; what a node compares or looks up goes before."""
    integers = [
        value.name
        for value in needed(model)
        if value.kind == "tensor"
        and value.type is not None
        and is_integral(dtype_named(value.type))
        and dtype_named(value.type).kind != "b"
    ]
    compared: dict[str, tuple[int, int]] = {}
    for graph, constants in _graphs(model.graph, {}):
        for name in integers:
            known = _met(graph, name, constants)
            if known is not None:
                compared.setdefault(name, known)
    usual: list[dict[str, tuple[int, int]]] = [{}]
    usual += [dict.fromkeys(integers, between) for between in ((0, 1), (1, 1), (0, 0), (16000, 16000))]
    seen = []
    for ranges in [*({**ranges, **compared} for ranges in usual), *usual]:
        if ranges not in seen:
            seen.append(ranges)
            yield ranges


def _met(graph: Graph, name: str, constants: Mapping[str, Array]) -> tuple[int, int] | None:
    """Return the range that the first node asks for which an integer input meets: a comparison, or a look-up."""
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
        elif node.type in _INDEXED and node.inputs[0] not in aliases:
            table = constants.get(node.inputs[0])
            axis = int(node.attributes.get("axis", 0))
            rows = table.shape[axis] if table is not None and -table.ndim <= axis < table.ndim else 2
            return 0, max(0, min(rows, 6) - 1)
    return None


def _graphs(graph: Graph, outer: Mapping[str, Array]) -> Iterator[tuple[Graph, Mapping[str, Array]]]:
    """Yield a graph and those within its nodes, each with the constants that it sees."""
    constants = {**outer, **graph.constants}
    for node in graph.nodes:
        if node.type == "Constant" and node.outputs:
            values: Any = next(
                (v for v in node.attributes.values() if isinstance(v, np.ndarray | int | float)), None
            )
            if values is not None:
                constants[node.outputs[0]] = np.asarray(values)
    yield graph, constants
    for node in graph.nodes:
        for subgraph in node.subgraphs:
            yield from _graphs(subgraph, constants)


def _elements(model: Model, sizes: Mapping[str, int]) -> int:
    total = 0
    for value in needed(model):
        shape = zip(value.shape or (), dim_names(value), strict=True)
        total += int(
            np.prod([dim if isinstance(dim, int) else sizes[str(name)] for dim, name in shape], dtype=object)
        )
    return total
