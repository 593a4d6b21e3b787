"""A model's inputs: checks of given inputs against the declarations, and inputs that are made up.

Made-up inputs have batches of 1, the sizes that constants force, and random values with a fixed seed.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import numpy as np

from halfulp._interop import as_array
from halfulp.errors import HalfulpError, ModelError, UnsupportedError, did_you_mean, within
from halfulp.models.graph import Array, Graph, Model, Node, Value, guard_memory
from halfulp.models.onnx.tensors import dtype_of, enum_of
from halfulp.models.run.cast import can_cast, cast
from halfulp.models.run.report import show
from halfulp.types import FLOATS, Dim


def bind(model: Model, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of every input by name: the given value, or else the initializer of that name.

    Raises:
        ModelError: a name is not an input's, an input is missing, a type or shape contradicts the declaration, or a
            symbol would have two sizes.
    """
    given = by_name(model.graph.inputs, inputs, model.file)
    missing = {value.name for value in needed(model)} - given.keys()
    symbols: dict[Dim, tuple[int, str]] = {}
    values: dict[str, Any] = {}
    with within(model.file):
        for declared in model.graph.inputs:
            name = declared.name
            if name in missing:
                message = f"no value is given for its input {name!r}: pass {{{name!r}: array}}"
                raise HalfulpError(message, expected=str(declared), got=", ".join(given) or "no inputs")
            default = model.graph.constants.get(name)
            values[name] = value = as_value(given[name], declared) if name in given else default
            check(value, declared, f"input {name!r}")
            for symbol, size in zip(declared.shape or (), getattr(value, "shape", ()), strict=False):
                bound, by = symbols.setdefault(symbol, (size, name))
                if isinstance(symbol, str) and bound != size:
                    message = f"input {name!r} gives the dim {symbol!r} another size than {by!r} does"
                    raise HalfulpError(message, expected=bound, got=size)
    return values


def by_name(declared: Sequence[Value], inputs: object, file: str) -> dict[str, Any]:
    """Return the given values by the inputs' names. The caller may use aliases."""
    if not isinstance(inputs, Mapping):
        message = "its inputs are fed as a dict of arrays by name"
        raise ModelError(message, file=file, got=type(inputs).__name__)
    names = [value.name for value in declared]
    meanings, own = {name: [name] for name in names}, {*names}
    for value in declared:
        for alias in {*value.aliases} - own:  # a name takes precedence over an alias
            meanings.setdefault(alias, []).append(value.name)
    values: dict[str, Any] = {}
    for given, array in inputs.items():
        name, *others = meanings.get(given, [""])
        if not name:
            raise ModelError(f"has no input {given!r}; {did_you_mean(str(given), names)}", file=file)
        if others:
            expected = ", ".join(meanings[given])
            raise ModelError(f"has several inputs called {given!r}", file=file, expected=expected)
        if name in values:
            raise ModelError(f"input {name!r} is given twice", file=file)
        values[name] = array
    return values


def as_value(fed: Any, declared: Value) -> Any:
    """Return a given value as an array in native byte order. A sequence is returned unchanged."""
    if declared.kind not in ("tensor", "undeclared") or fed is None:
        return fed
    what = f"input {declared.name!r}"
    try:
        array = as_array(fed)
    except HalfulpError as error:
        raise HalfulpError(f"{what}: {error.message}") from None
    if array.dtype.kind == "O" and declared.type not in (None, "string"):
        message = f"{what} is fed Python objects that NumPy makes no numbers of"
        raise HalfulpError(message, expected=str(declared))
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind == "U":
        array = array.astype(object)
    is_python = isinstance(fed, int | float | list | tuple)
    return _typed(array, declared.type, what) if is_python and declared.type is not None else array


def _typed(numbers: Array, type: str, what: str) -> Array:
    """Return Python's numbers, which have no element type, in the declared one; unchanged if a Cast has no meaning."""
    target = dtype_named(type)
    if not can_cast(numbers.dtype, target):
        return numbers
    with np.errstate(over="ignore"):  # too large: infinite, as in a Cast
        converted = cast(numbers, target)
    # Python compares numbers exactly. NumPy would convert one to the other's type.
    wide = np.uint64 if "uint" in target.name else np.int64
    is_integral = target.kind in "iub" or "int" in target.name
    if is_integral and converted.astype(wide).tolist() != numbers.tolist():
        raise HalfulpError(f"the numbers fed as {what} don't fit its type", expected=type)
    return converted


def check(value: Any, declared: Value, what: str, run: str | None = None) -> None:
    """Refuse a value, which the error calls ``what``, without the type, rank and dims that the model declares.

    ``run`` is the command that helps where the type is another one.
    """
    is_of_kind = isinstance(value, _CLASSES.get(declared.kind, object))
    if not is_of_kind or (declared.kind == "tensor" and not declared.fits(value)):
        is_of_type = not isinstance(value, np.ndarray) or value.dtype.name == declared.type
        shown = {"expected": str(declared), "got": show(value), "run": None if is_of_type else run}
        raise HalfulpError(f"{what} contradicts the model's declaration", **shown)


def needed(model: Model) -> list[Value]:
    """Return the required inputs: those without an initializer that are not optional."""
    inputs = (value for value in model.graph.inputs if value.name not in model.graph.constants)
    return [value for value in inputs if value.kind != "optional"]


@cache
def dtype_named(name: str) -> np.dtype[Any]:
    """Return the dtype for an element type's name, including ``string``."""
    return dtype_of(enum_of(name))


# --- inputs that are made up ----------------------------------------------------------------------------

_CLASSES: Mapping[str, type] = {"tensor": np.ndarray, "sequence": list, "map": dict}
DEFAULT_DIM = 3  # the size of an open dim, if nothing else is known
_SIDE = 64  # of an image: larger than kernels, and divisible by the usual strides
_SAMPLES = 512  # of a signal
_BATCH = re.compile(r"n|b|bs|batch.*|.*batch(_?size)?|dynamicdimension\.0", re.IGNORECASE)
# Operators that an integer may pass through before it is compared or looked up.
_PASSED = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"})
_BROADCASTS = {"Add", "Sub", "Mul", "Div", "Pow", "PRelu"}
# Operators whose result has the channels of their first operand.
_KEEPS_CHANNELS = {*_BROADCASTS, "Cast", "Identity", "Pad", "Relu", "Clip", "BatchNormalization"}
_USUAL = {"bool": (0, 1), "int": (-5, 5), "uint": (0, 5)}  # the range of such an input
_Result = TypeVar("_Result")
MASK = (1, 1)  # a softmax of masked elements alone would be NaN
_INDEXED = ("Gather", "GatherElements", "GatherND", "ScatterND", "ScatterElements", "OneHot")
# By operator, the axis of X whose size weights determine, and the axis of the weights.
_SIZES = {"Conv": (1, 1), "BatchNormalization": (1, 0), "InstanceNormalization": (1, 0), "MatMul": (-1, -2)}
_SIZES |= dict.fromkeys(("LSTM", "GRU", "RNN"), (2, -1))


@dataclass(frozen=True)
class Fit:
    """The sizes and values of made-up inputs."""

    dims: Mapping[str, int] = field(default_factory=dict)  # of open size, by dim_names; the others become 3
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # of indices, masks and counts
    chosen: frozenset[str] = frozenset()  # the dims whose sizes were made up, not given

    def inputs(self, model: Model, seed: int = 0) -> dict[str, Array]:
        """Return arrays of the types and shapes that the model declares. The same seed gives the same arrays.

        Inputs with initializers are left out. Integers are from -5 to 5 (unsigned: 0 to 5).

        Raises:
            ModelError: an input has unknown rank or type, or is too large for this computer's memory.
            HalfulpError: ``dims`` names a dim that the model doesn't have.
        """
        required = needed(model)
        names = {name for value in required for name in dim_names(value) if name is not None}
        for name in sorted(set(self.dims) - names):
            known = did_you_mean(name, sorted(names)) if names else "none is symbolic"
            raise HalfulpError(f"no dim of the model's inputs is called {name!r}; {known}")
        rng = np.random.default_rng(seed)
        with within(model.file):
            return {value.name: self._array(value, rng) for value in required}

    def _array(self, value: Value, rng: np.random.Generator) -> Array:
        if value.kind != "tensor" or value.type is None or value.shape is None:
            message = f"does not declare enough of input {value.name!r} to make one up: feed it"
            raise HalfulpError(message, got=str(value))
        shape = tuple(
            dim if isinstance(dim, int) else self.dims.get(str(name), DEFAULT_DIM)
            for dim, name in zip(value.shape, dim_names(value), strict=True)
        )
        # 8 bytes per element, because values are made in float64 and narrowed afterwards.
        guard_memory(shape, 8, f"input {value.name!r}")
        dtype = dtype_named(value.type)
        if value.type == "string":
            digits = np.asarray(rng.integers(0, 9, shape)).astype(str)
            return np.asarray(np.char.add("s", digits)).astype(object)
        if (usual := _USUAL.get(dtype.name.rstrip("0123456789"))) is not None:
            low, high = self.ranges.get(value.name, usual)
            return cast(np.asarray(rng.integers(low, high + 1, shape)), dtype)
        normal = np.asarray(rng.standard_normal(shape))
        if dtype.kind == "c":
            normal = normal + 1j * rng.standard_normal(shape)
        return cast(normal, dtype) if can_cast(normal.dtype, dtype) else normal.astype(dtype)

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


def fit(
    model: Model,
    run: Callable[[Mapping[str, Array]], _Result],
    *,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
) -> tuple[Fit, _Result]:
    """Make up the sizes and values of the inputs without an initializer, and return them with the model's run on them.

    Batches without a size in ``dims`` are 1, and constants force the sizes of others. Errors are those of Fit.inputs
    and of the run, which name the sizes that were made up.
    """
    given = dict(dims or {})
    Fit(given).inputs(model)  # refuses names and sizes that are given
    usual = {name: size for value in reversed(needed(model)) for name, size in _usual(value).items()}
    sizes = {**usual, **_forced(model), **given}
    made_up = Fit(sizes, _ranges(model), frozenset(sizes.keys() - given.keys()))
    try:
        return made_up, run(made_up.inputs(model, seed))
    except UnsupportedError:
        raise
    except HalfulpError as error:
        if not made_up.chosen:
            raise
        where: dict[str, Any] = {name: getattr(error, name, None) for name in ("node", "clause")}
        message = f"{error.message}; {made_up}, -i NAME=FILE gives an input"
        raise ModelError(message, file=model.file, **where | dict(error.shown)) from None


def _usual(value: Value) -> dict[str, int]:
    """Return the open dims of an input, each with its usual size."""
    shape, names = value.shape or (), dim_names(value)
    otherwise = _SAMPLES if len(shape) == 2 and value.type in FLOATS else DEFAULT_DIM
    named = ((axis, name) for axis, name in enumerate(names) if name is not None)
    return {name: _side(shape, axis, name) or otherwise for axis, name in named}


def _side(shape: tuple[Dim, ...], axis: int, name: str) -> int:
    """Return 1 for the dim of a batch, the side of an image for a later one, else 0."""
    rank = len(shape)
    has_layers = rank == 3 and isinstance(shape[0], int) and shape[0] > 1  # the state of an RNN
    if rank > 1 and (axis == int(has_layers) or _BATCH.fullmatch(name)):
        return 1
    return _SIDE if axis > 1 or (rank > 3 and isinstance(shape[-1], int)) else 0


def _forced(model: Model) -> dict[str, int]:
    """Return the sizes of open dims that the constants of the first nodes require."""
    carried = {value.name: value for value in needed(model) if value.shape}
    constants, sizes = next(_graphs(model.graph, {}))[1], dict[str, int]()
    for node in model.graph.nodes:
        first, second, *_ = (*node.inputs, "", "")
        value, weights = carried.get(first), constants.get(second)
        if value is None:
            continue
        if node.type in _KEEPS_CHANNELS:
            carried.setdefault(node.outputs[0], value)
        names = dict(enumerate(dim_names(value)))
        required = {} if weights is None else _required(node, weights.shape, len(names))
        sizes = {name: size for axis, size in required.items() if (name := names.get(axis))} | sizes
    return sizes


def _required(node: Node, weights: tuple[int, ...], rank: int) -> dict[int, int]:
    """Return the sizes, by axis, that constants of this shape require of a node's first input."""
    attributes = node.attributes
    if node.type in _BROADCASTS:
        sizes = {rank - len(weights) + axis: size for axis, size in enumerate(weights) if size > 1}
        return sizes if node.opset >= 7 else {}
    if node.type not in {*_SIZES, "Gemm"} or attributes.get("transA"):
        return {}
    axis, place = _SIZES.get(node.type, (1, attributes.get("transB", 0)))
    if not -len(weights) <= place < len(weights):
        return {}
    return {axis if axis > 0 else rank + axis: weights[place] * int(attributes.get("group", 1))}


def _ranges(model: Model) -> dict[str, tuple[int, int]]:
    """Return ranges for the inputs that nodes index, mask with or compare; those of floats are not asked for."""
    names = {value.name: value.name for value in needed(model)}
    ranges = dict.fromkeys(filter(re.compile("mask", re.IGNORECASE).search, names), MASK)
    for graph, constants in reversed([*_graphs(model.graph, {})]):  # the outer graph decides
        found, sources = dict[str, tuple[int, int]](), {**names}
        for node in graph.nodes:
            for place, name in enumerate(node.inputs):
                if name not in sources:
                    continue
                if place == 0 and node.type in _PASSED:
                    sources.update(dict.fromkeys(node.outputs, sources[name]))
                elif (between := _range(node, place == 0, constants)) is not None:
                    found.setdefault(sources[name], between)  # by the first of its readers that tells
        ranges |= found
    return ranges


def _range(node: Node, is_first: bool, constants: Mapping[str, Array]) -> tuple[int, int] | None:
    """Return the range for an integer input that a node reads, first or after other operands."""
    if node.type == "Equal":
        numbers = (_number(name, constants) for name in node.inputs)
        return next(((int(number), int(number)) for number in numbers if number is not None), None)
    if node.type == "Sub" and _number(node.inputs[0], constants) == 1:
        return MASK  # 1 - mask
    if is_first:
        return (1, 3) if node.type == "Loop" else None  # the turns
    if node.type not in _INDEXED:
        return None
    table, axis = constants.get(node.inputs[0], np.empty(())), int(node.attributes.get("axis", 0))
    rows = dict(zip(range(-table.ndim, table.ndim), table.shape * 2, strict=True)).get(axis, 2)
    return 0, max(0, min(rows, 6) - 1)


def _number(name: str, constants: Mapping[str, Array]) -> Any:
    constant = constants.get(name, np.empty(0))
    number = constant.item() if constant.size == 1 and constant.dtype.kind in "iuf" else math.nan
    return number if abs(number) < 1 << 63 else None


def _graphs(graph: Graph, outer: Mapping[str, Array]) -> Iterator[tuple[Graph, Mapping[str, Array]]]:
    """Yield a graph and the graphs within its nodes, each with the constants visible in it."""
    held = graph.held.items()
    numbers = {name: np.asarray(it) for name, it in held if isinstance(it, np.ndarray | int | float)}
    constants = {**outer, **numbers}
    yield graph, constants
    for node in graph.nodes:
        for subgraph in node.subgraphs:
            yield from _graphs(subgraph, constants)
