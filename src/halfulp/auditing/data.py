"""The ranges of a network's data at its nodes, and the results that leave an element type.

The network runs in ONNX Runtime. It runs node by node if ONNX Runtime does not take it, and for nodes in the bodies of
loops and branches. The operands and the result of each node are read, a group at a time so that memory stays bounded:
of Pow, PRelu and norms in all graphs, and of the other nodes in the main graph.
A float16 network also runs in float32, so that an overflow in an earlier node does not hide the real magnitudes.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain, compress
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, helper

from halfulp.auditing.uses import Operand, Use, of_onnx
from halfulp.conversion.float32 import HALVES, LENGTHS, as_declared, has_halves, widened
from halfulp.conversion.float32 import norms as norms_of
from halfulp.conversion.opset import inline
from halfulp.conversion.verify import Feed, Run, runs
from halfulp.errors import HalfulpError, UnsupportedError
from halfulp.models.graph import Array, Node
from halfulp.models.onnx import Onnx
from halfulp.models.onnx.checks import label
from halfulp.models.onnx.infer import Scope
from halfulp.models.onnx.tensors import tensors
from halfulp.models.onnx.walk import attributes_of, default_opset, subgraphs
from halfulp.models.run.api import Watch, run_with_report
from halfulp.models.run.inputs import by_name, dtype_named, fit
from halfulp.models.run.report import finite, lost
from halfulp.operators import op, pow, prelu
from halfulp.types import FLOATS, float_type, from_codes, tensor_type

Sample = Mapping[str, Any]
Samples = Sample | Iterable[Sample]
Take = Callable[[Use, list[Array], Array], None]  # receives the operands and the result of a node
Behind = Callable[[str, str], list[NodeProto]]  # makes a few nodes behind a tensor, to a result of a name
Numbered = tuple[int, NodeProto]

JUDGED = ("float32", "float16", "bfloat16")  # the element types that networks are converted to
# The types that a node is judged in, by its own: that, if it is a short type, and shorter ones.
_JUDGED_IN = {"float64": JUDGED, "float32": JUDGED[1:], **{half: (half,) for half in HALVES}}
_PIECE = 1 << 20  # elements that are processed at once
_LEAST_BEYOND = np.float32(65520)  # the least number that float16 rounds to infinity
_EPSILON = ("Add", "Clip", "Max")
_SUMS = ("GlobalAveragePool", "ReduceMean")  # devices sum in float16 before they divide
# Operators with greater numbers inside than their results.
_INSIDE = (*_SUMS, "InstanceNormalization", "LRN", "LpNormalization", *LENGTHS)
_GROUP = 1 << 28  # bytes of outputs that are in memory at once
_OPSET = 13  # for nodes of ONNX's own in a network that has none
_SMALL = 1 << 22  # elements of the weights of a network that runs node by node beside ONNX Runtime


@dataclass(frozen=True)
class Limits:
    """The magnitudes of x beyond which x^exponent leaves a type; None if it stays in the type for every x."""

    overflow: float | None  # the result is infinite above it, or below it where the exponent is negative
    zero: float | None  # the result is zero below it, or above it where the exponent is negative


@cache
def limits(exponent: float, type: str) -> Limits:
    """Return where powers with an exponent other than 0 leave a type of floats, by bisection with exact powers."""
    greatest = float_type(type).largest
    with np.errstate(over="ignore"):
        power = np.array(exponent).astype(dtype_named(type))

    def edge(holds: Callable[[float], bool], *, before: bool = False) -> float | None:
        """Return the least number whose power meets a condition that those of greater ones meet; or the one before."""
        codes = range(1, greatest + 1)
        place = bisect_left(codes, True, key=lambda code: holds(float(pow(from_codes(code, type), power))))
        return None if place in (0, greatest) else float(from_codes(place if before else place + 1, type))

    with np.errstate(all="ignore"):
        if exponent > 0:
            return Limits(edge(lambda power: not math.isfinite(power), before=True), edge(bool))
        return Limits(edge(math.isfinite), edge(lambda power: power == 0, before=True))


@dataclass
class Range:
    """A tensor's elements over all samples: counts by kind, and the magnitudes of finite ones other than 0."""

    elements: int = 0
    nan: int = 0
    infinite: int = 0
    zeros: int = 0
    least: float = np.inf
    greatest: float = 0.0

    def add(self, array: Array) -> None:
        """Add an array to the counts."""
        for (piece,) in _pieces(array):
            magnitudes = np.abs(piece[np.isfinite(piece) & (piece != 0)])
            self.elements += piece.size
            self.nan += int(np.isnan(piece).sum())
            self.infinite += int(np.isinf(piece).sum())
            self.zeros += int((piece == 0).sum())
            self.least = float(magnitudes.min(initial=self.least))
            self.greatest = float(magnitudes.max(initial=self.greatest))


@dataclass
class InType:
    """The number of a node's results that are lost in an element type."""

    elements: int = 0  # the results that are finite in the wider type
    overflow: int = 0  # those of them that are infinite, or NaN, in this one
    zero: int = 0  # those other than 0 that become 0

    def add(self, wide: Array, narrow: Array) -> None:
        """Add a node's results to the counts."""
        for right, short in _pieces(wide, narrow):
            is_finite = np.isfinite(right)
            self.elements += int(is_finite.sum())
            self.overflow += int((is_finite & ~np.isfinite(short)).sum())
            self.zero += int((is_finite & (right != 0) & (short == 0)).sum())


def _pieces(*arrays: Array) -> Iterator[list[Array]]:
    """Give the elements of arrays of one size in pieces, in float64, so that memory stays bounded."""
    for start in range(0, arrays[0].size, _PIECE):
        yield [array.reshape(-1)[start : start + _PIECE].astype(np.float64) for array in arrays]


@dataclass
class NodeData:
    """The effect of the data on one node.

    The region has the nodes that have to be in float32 together, by name, or by number as ``#3``: the norm,
    or this node and all after it up to those whose results fit into float16 again. It is empty where the
    outputs do not.
    """

    label: str  # how messages name the node
    operator: str  # the id of the version in force
    type: str  # the element type of its base
    exponent: float | None = None  # its constant exponent, where it has a single one
    base: Range = field(default_factory=Range)  # in a float16 network, the values that float32 computes
    result: Range = field(default_factory=Range)
    in_types: dict[str, InType] = field(default_factory=dict)  # the results lost in each type that is judged
    lost: int = 0  # results that are not finite in the network itself, though the operands are
    reaches_outputs: bool = False  # whether the network's outputs show these
    absorbed: tuple[str, ...] = ()  # the nodes with finite results, though they read infinities of this one
    is_in_norm: bool = False  # whether it is part of a norm that is written out
    adds_epsilon: bool = False  # whether it adds the epsilon of that norm
    region: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.grows = self.exponent is not None and self.exponent > 0  # whether the power grows with its base

    @classmethod
    def of(cls, use: Use, norm: Sequence[Numbered] = ()) -> NodeData:
        """Return the data of a node before any run; ``norm`` has the nodes of the norm that it is part of."""
        type = next((operand.type for operand in use.inputs if operand.type), "")
        data = cls(use.label, use.operator, type, use.exponents, is_in_norm=bool(norm))
        results = {name for _, node in norm for name in node.output}
        # The results that have a number from outside of the norm added, as its epsilon is.
        is_shift = (node.op_type in _EPSILON and not results.issuperset(node.input) for _, node in norm)
        shifts = [node.output[0] for _, node in compress(norm, is_shift)]
        data.adds_epsilon = shifts[-1:] == [use.output.name] and norm[-1][1].op_type in ("Div", "Mul")
        data.keep(norm)
        return data

    def keep(self, nodes: Sequence[Numbered]) -> None:
        """Note which nodes have to be in float32 together."""
        self.region = tuple(node.name or f"#{index}" for index, node in nodes)

    def judge(self, use: Use, operands: list[Array], result: Array, types: Iterable[str]) -> None:
        """Count an evaluation of the node in the network's float32 version, in the types that it is judged in."""
        x, y = operands
        self.base.add(x)
        self.result.add(result)
        compute: Callable[..., Any] = prelu if use.is_prelu else pow
        # The node's version says how its operands broadcast. It need not take the types that a network is converted to.
        y = y.reshape(op(use.operator).plan(tensor_type(x), tensor_type(y), **use.attributes).y_shape)
        for type in types:
            dtype = dtype_named(type)
            with np.errstate(all="ignore"):
                narrow = compute(x.astype(dtype), y.astype(dtype) if y.dtype.name in FLOATS else y)
            self.in_types.setdefault(type, InType()).add(result, np.asarray(narrow))

    def look(self, use: Use, operands: list[Array], result: Array, *, is_first: bool) -> None:
        """Count the results of a node that is not a power, or the numbers inside it, in float16."""
        lost = self.in_types.setdefault("float16", InType())
        if not (self.is_in_norm or is_first):  # it is not at fault, since its operands do not fit
            lost.elements += int(finite(result).sum())
            return
        result = _inside(use, operands, result)
        self.result.add(result)
        with np.errstate(over="ignore"):
            lost.add(result, result.astype(np.float16))

    def overflows(self, type: str) -> bool:
        """Return whether a result that is finite in a wider type is not finite in this type."""
        return type in self.in_types and self.in_types[type].overflow > 0

    @property
    def has_no_region(self) -> bool:
        """Whether a result leaves float16, and no nodes are known that have to be in float32 together."""
        return self.overflows("float16") and not self.region

    @property
    def divisions_by_zero(self) -> int:
        """The number of mean squares that are 0 in float16 though the epsilon of their norm is added."""
        return self.in_types["float16"].zero + self.result.zeros if self.adds_epsilon and self.in_types else 0

    def limits(self, type: str) -> Limits | None:
        """Return where the node leaves a type; None where its exponents vary, and for PRelu."""
        return None if not self.exponent else limits(self.exponent, type)

    def margin(self, type: str) -> float | None:
        """Return the factor by which the base may grow, or shrink, until the first result leaves a type."""
        overflow = found.overflow if (found := self.limits(type)) else None
        if overflow is None or not self.base.greatest:
            return None
        return overflow / self.base.greatest if self.grows else self.base.least / overflow

    @property
    def of_types(self) -> dict[str, dict[str, object]]:
        """For each judged type: the counts of lost results, the limits and the margin."""
        return {
            type: {**vars(counts), "limits": self.limits(type), "margin": self.margin(type)}
            for type, counts in self.in_types.items()
        }

    def losses(self) -> Iterator[tuple[str, str]]:
        """Give each type that the data leaves at this node, with a line on the place, count and effect."""
        for type in filter(self.overflows, self.in_types):
            parts = [*self._overflow(type)]
            if type == self.type and self.reaches_outputs:
                parts.append("the infinities reach the outputs")
            elif type == self.type and self.absorbed:
                nodes = ", ".join(self.absorbed)
                parts.append(f"the infinities become finite in {nodes}, so the outputs do not show them")
            yield type, "; ".join(parts)
        if zeros := self.divisions_by_zero:
            many = f"{zeros} of {self.result.elements} mean squares"
            yield "float16", f"{many} are 0 in float16, with the norm's epsilon added: the norm divides by 0"

    def _overflow(self, type: str) -> Iterator[str]:
        counts, limit, margin = self.in_types[type], self.limits(type), self.margin(type)
        if limit is not None and margin is not None:
            yield f"x^{self.exponent:g} overflows in {type} for |x| {'>' if self.grows else '<'} {limit.overflow:.4g}"
            worst = self.base.greatest if self.grows else self.base.least
            yield f"{counts.overflow} of {counts.elements} do; |x| is {worst:.4g} at the worst"
            yield f"the data must {'shrink' if self.grows else 'grow'} by {1 / margin:.3g}x"
            return
        is_inside = self.operator in _INSIDE
        results = "sums and squares inside" if is_inside else "results"
        yield f"in {type} {counts.overflow} of {counts.elements} {results} overflow"
        if self.base.elements:
            most = float(from_codes(float_type(type).largest, type))
            beyond = f", beyond {type}" if self.base.greatest > most else ""
            yield f"|x| is at most {self.base.greatest:.4g}{beyond}"
        yield f"{'such a number' if is_inside else 'the result'} is at most {self.result.greatest:.4g}"


def _inside(use: Use, operands: list[Array], result: Array) -> Array:
    """Return the greatest numbers that a node which is not a power computes for its result."""
    if use.operator in LENGTHS:  # has a sum of squares inside
        return np.asarray(np.square(result))
    if use.operator in _SUMS:
        return np.asarray(result * (operands[0].size / max(result.size, 1)))
    if use.operator not in _INSIDE:
        return result
    if use.operator != "LpNormalization":
        return np.asarray(np.square(operands[0]))
    attributes = attributes_of(use.scope.owner.node[use.number])
    powers = np.abs(operands[0]) if attributes.get("p") == 1 else np.square(operands[0])
    return np.asarray(powers.sum(attributes.get("axis", -1)))


@dataclass(frozen=True)
class NetworkData:
    """The effect of the data on a network."""

    nodes: tuple[NodeData, ...]  # the Pow and PRelu nodes that ran, in the file's order
    samples: int  # how many sets of inputs it ran on
    others: tuple[NodeData, ...] = ()  # other nodes that leave float16; in norms, if no power of theirs does
    inputs: tuple[str, ...] = ()  # the inputs with numbers that float16 does not hold

    def leaving(self, type: str) -> list[NodeData]:
        """Return the nodes of which a result overflows in a type, or whose norm divides by 0."""
        every = (*self.nodes, *self.others)
        return [node for node in every if node.overflows(type) or node.divisions_by_zero]

    def in_float32(self, type: str) -> str:
        """Return the nodes that have to be in float32 instead of a type, as ``convert --float32`` takes them."""
        nodes = self.leaving(type)
        if all(node.is_in_norm for node in nodes):
            return "norms"
        return ",".join(dict.fromkeys(name for node in nodes for name in node.region))


def measured(model: Onnx, uses: Iterable[Use], samples: Samples | int, feed: Feed) -> NetworkData:
    """Return the effect of data on a network, and note it in its nodes: of samples, or of a number made up.

    Raises:
        ModelError: an input is missing, or contradicts the model's declaration.
    """
    number, is_mixed = 0, has_halves(model.proto)
    with widened(model).mapped() if is_mixed else nullcontext(model) as light:
        net = Network(model, rounded=is_mixed)
        wide = Network(light) if is_mixed else net
        measurement = _Measurement(list(filter(_in_graph, uses)), model.scope(), net, wide)
        for number, sample in enumerate(net.samples(samples, feed) if measurement.nodes else (), 1):
            if feed.progress is not None:
                feed.progress(f"sample {number}")
            measurement.run(sample)
    return measurement.result(number)


class _Measurement:
    """The data of a network's nodes over its samples: of powers and PRelu, and of the other nodes that make floats.

    A float16 network also runs in another form, ``wide``, in float32.
    """

    def __init__(self, powers: list[Use], main: Scope, net: Network, wide: Network) -> None:
        norms = _norms([*(use.scope for use in powers), main])
        self._powers, self._main, self._net, self._wide = powers, main, net, wide
        self._is_mixed = wide is not net
        labels = {use.label for use in powers}
        self._others = [use for name, (use, _) in norms.items() if name not in labels]
        for use in (*powers, *self._others):
            use.data = NodeData.of(use, *norms.get(use.label, ())[1:])
        self._others += _beside(main, labels | norms.keys())
        self.nodes = [*powers, *self._others]
        self._floats = [name for name, value in main.types.items() if value.type in FLOATS]
        self._fits: dict[str, bool] = {}  # whether float16 holds the values of a sample in the main graph
        self._beyond: set[str] = set()  # those that it does not hold in some sample, and that are not wide

    def run(self, sample: Sample) -> None:
        self._net.each(self._powers if self._is_mixed else self.nodes, sample, self._add)
        if self._is_mixed:
            self._wide.each(self.nodes, sample, self._judge)
        unsound = cache(partial(self._net.unsound, self._floats, sample))
        for use in self._powers:
            self._follow(use, sample, unsound)
        beyond = (name for name, is_held in self._fits.items() if not is_held)
        self._beyond.update(name for name in beyond if not self._is_wide(self._main.value(name).type))
        self._fits.clear()

    def _is_wide(self, type: str | None) -> bool:
        """Tell whether a value of a float16 network is in float32 on purpose."""
        return self._is_mixed and type not in HALVES

    def _add(self, use: Use, operands: list[Array], result: Array) -> None:
        if use.asked:
            use.data.type = operands[0].dtype.name  # inference may not know it
            use.data.lost += lost(operands, result)
        if not self._is_mixed:
            self._judge(use, operands, result)

    def _judge(self, use: Use, operands: list[Array], result: Array) -> None:
        arrays = () if use.where else zip((*use.inputs, use.output), (*operands, result), strict=True)
        for value, array in arrays:
            if value.name not in self._fits:
                self._fits[value.name] = not (finite(array) & _is_beyond(array)).any()
        types = () if self._is_wide(use.data.type) else _JUDGED_IN.get(use.data.type, ())
        if use.asked:
            use.data.judge(use, operands, result, types)
        elif "float16" in types:
            use.data.look(use, operands, result, is_first=self._is_first(use))

    def _is_first(self, use: Use) -> bool:
        """Tell whether a node that is not a power leaves float16, and its operands fit."""
        fit = (self._fits.get(operand.name) or self._is_wide(operand.type) for operand in use.inputs)
        is_beyond = use.operator in _INSIDE or not self._fits.get(use.output.name, True)
        if not (is_beyond and all(fit)):
            return False
        # Constants are read only where it matters.
        constants = map(use.scope.array, use.scope.owner.node[use.number].input)
        floats = (array for array in constants if array is not None and array.dtype.name in FLOATS)
        return not any((finite(array) & _is_beyond(array)).any() for array in floats)

    def _follow(self, use: Use, sample: Sample, unsound: Callable[[], list[str]]) -> None:
        """Follow the infinities of a power through the network of this sample."""
        seen = use.data
        if seen.lost and not (seen.absorbed or seen.reaches_outputs):
            bad = self._net.spoiled(use, sample, lambda array: ~finite(array)) if use.where else unsound()
            _, ends, seen.reaches_outputs = spread(use, bad)
            seen.absorbed = tuple(label(node, index, use.where) for index, node in ends)
        if use.where and seen.has_no_region:
            nodes, ends, _ = spread(use, self._wide.spoiled(use, sample, _is_beyond))
            seen.keep(nodes if ends or not self._is_mixed else [])

    def result(self, samples: int) -> NetworkData:
        """Return the effect of all samples."""
        for use in self.nodes:
            if not use.where and use.data.has_no_region:
                nodes, _, leaves = spread(use, self._beyond)
                # Outputs of a float32 network stay so.
                use.data.keep([] if leaves and self._is_mixed else nodes)
        ran = tuple(use.data for use in self._powers if use.data.base.elements)
        beyond = filter(self._beyond.__contains__, (info.name for info in self._main.owner.input))
        return NetworkData(ran, samples, tuple(self._first(ran)), tuple(beyond))

    def _first(self, powers: Iterable[NodeData]) -> Iterator[NodeData]:
        """Give the other nodes that leave float16 first in their norm, and those with divisions by 0."""
        regions = {data.region for data in powers if data.overflows("float16")}
        for data in {use.label: use.data for use in self._others}.values():
            overflows = data.overflows("float16")
            if data.divisions_by_zero or (overflows and data.region not in regions):
                yield data
            if overflows:
                regions.add(data.region)


def _is_beyond(array: Array) -> Array:
    """Return which elements float16 does not hold."""
    return np.asarray(np.abs(array) >= _LEAST_BEYOND)


def losses_in(model: Onnx, inputs: Sample) -> tuple[dict[str, tuple[int, int]], bool]:
    """Return the Pow and PRelu nodes of a float16 network that lose results, as :class:`RunReport` has them.

    The network runs twice more, the second time for those nodes of its main graph that give infinities or NaNs; and
    node by node if it is small and has such nodes in bodies. The second result is whether all nodes were looked at.
    """
    losses: dict[str, tuple[int, int]] = {}
    if not has_halves(model.proto):
        return losses, True

    def take(use: Use, operands: list[Array], result: Array) -> None:
        if count := lost(operands, result):
            before, size = losses.get(use.label, (0, 0))
            losses[use.label] = before + count, size + result.size

    model = without_functions(model)
    uses = of_onnx(model)
    valid = list(filter(_in_graph, uses))
    main = {use.output.name: use for use in valid if not use.where}
    inner = [use for use in valid if use.where]
    net = Network(model, rounded=True)
    net.each([*map(main.__getitem__, net.unsound(main, inputs))], inputs, take)
    is_small = not inner or sum(math.prod(tensor.dims) for tensor in tensors(model.proto)) < _SMALL
    with suppress(HalfulpError):  # halfulp refuses more models than ONNX Runtime
        return losses, is_small and net.each(inner, inputs, take) and len(valid) == len(uses)
    return losses, False


def without_functions(model: Onnx) -> Onnx:
    """Return a model with its functions written out; as it is if they can't be: then their nodes are not looked at."""
    copy = model.copy() if model.proto.functions else model
    with suppress(UnsupportedError):
        inline(copy)
        return copy.of(copy.proto)
    return model


def _in_graph(use: Use) -> bool:
    """Return whether a node runs by itself: a function's nodes run where it is called."""
    return isinstance(use.scope.owner, GraphProto)


def _norms(scopes: Iterable[Scope]) -> dict[str, tuple[Use, list[Numbered]]]:
    """Return each node of the norms in these graphs, and its norm, by its label."""
    norms: dict[str, tuple[Use, list[Numbered]]] = {}
    for scope in dict.fromkeys(scopes):
        numbers = {node.output[0]: index for index, node in enumerate(scope.owner.node) if node.output}
        for nodes in norms_of(scope):
            norm = [(numbers[node.output[0]], node) for node in nodes]
            uses = (_other(scope, index, node, node.output[0]) for index, node in norm)
            norms |= {use.label: (use, norm) for use in uses}
    return norms


def _other(scope: Scope, number: int, node: NodeProto, output: str, data: NodeData | None = None) -> Use:
    """Return a node that is not a power, with one output and the floats that it reads, but for constants."""
    values = (scope.value(each) for each in node.input if scope.tensor(each) is None)
    inputs = tuple(Operand(each.name, each.type) for each in values if each.type in FLOATS)
    facts = scope.label(node), node.op_type, "", inputs, Operand(output)
    return Use(*facts, scope=scope, number=number, data=data)


def _beside(main: Scope, known: Container[str]) -> Iterator[Use]:
    """Give the other nodes of the main graph that make floats of more than constants, each for each result."""
    fixed = {""}  # the values that follow from constants
    for index, node in enumerate(main.owner.node):
        name = main.label(node)
        type = main.value(node.output[0]).type if node.output else None
        if all(each in fixed or main.tensor(each) is not None for each in node.input):
            fixed.update(node.output)
        elif name not in known and type in FLOATS and not subgraphs(node):
            data = NodeData(name, node.op_type, str(type))  # of all outputs of this type
            same = (output for output in node.output if main.value(output).type == type)
            yield from (_other(main, index, node, output, data) for output in same)


# --- a network whose tensors can be read while it runs ----------------------------------------------


class Network:
    """A model whose intermediate tensors can be read while it runs.

    If it is ``rounded``, each Pow and PRelu rounds its result, as a device that computes in float16 does.
    ONNX Runtime's own CPU kernels compute chains of such nodes in float32.
    """

    def __init__(self, model: Onnx, *, rounded: bool = False) -> None:
        self._rounded, self._model = rounded, model
        self._made = {name for node in model.proto.graph.node for name in node.output if name}
        self._runs: dict[tuple[str, ...], Run] = {}  # one session at a time
        self._sizes = Counter[str]()  # bytes

    def samples(self, given: Samples | int, feed: Feed) -> Iterator[Sample]:
        """Give the samples, each once: those given, or as many made up."""
        if isinstance(given, int):
            fitted, _ = fit(self._model, runs(self._model)[1][0], seed=feed.seed, dims=feed.dims)
            yield from (fitted.inputs(self._model, feed.seed + number) for number in range(given))
        else:
            for sample in [given] if isinstance(given, Mapping) else given:
                yield by_name(self._model.graph.inputs, sample, self._model.file)

    def each(self, uses: Sequence[Use], sample: Sample, take: Take) -> bool:
        """Pass the operands and the result of each evaluation of these nodes; return whether all were seen."""
        inner = {use.label: use for use in uses if use.where}

        def watch(node: Node, operands: list[Any], results: list[Any]) -> None:
            if node.label in inner:
                take(inner[node.label], operands, results[0])

        for group in self._groups([use for use in uses if not use.where], sample):
            tensors = self._tensors(chain.from_iterable(use.names for use in group), sample)
            for use in group:
                take(use, [tensors[operand.name] for operand in use.inputs], tensors[use.output.name])
            del tensors
        return not inner or self._watch(sample, watch)

    def _groups(self, uses: Sequence[Use], sample: Sample) -> Iterator[list[Use]]:
        """Give the nodes in groups whose tensors fit into memory together; the first sample tells their sizes."""
        if unknown := {name for use in uses for name in use.names} & self._made - self._sizes.keys():
            counts = self._numbers(unknown, lambda name, n: [helper.make_node("Size", [name], [n])], sample)
            self._sizes.update({name: 8 * int(count) for name, count in counts.items()})
        group, names, size = list[Use](), set[str](), 0
        for use in uses:
            size += sum(map(self._sizes.__getitem__, {*use.names} - names))
            if size > _GROUP:
                yield group
                group, names, size = [], set(), sum(map(self._sizes.__getitem__, {*use.names}))
            group.append(use)
            names.update(use.names)
        if group:
            yield group

    def unsound(self, names: Collection[str], sample: Sample) -> list[str]:
        """Return those of these results of the main graph that have infinities or NaNs, from one run."""
        to = 1 if (default_opset(self._model.proto.opset_import) or _OPSET) > 5 else "FLOAT"

        def total(name: str, total: str) -> list[NodeProto]:
            wide, rest = f"{name}//wide", f"{name}//rest"
            return [
                helper.make_node("Cast", [name], [wide], to=to),
                helper.make_node("Sub", [wide, wide], [rest]),  # NaN, not 0, for an infinity
                helper.make_node("ReduceSum", [rest], [total]),
            ]

        totals = self._numbers([name for name in names if name in self._made], total, sample)
        return [name for name, value in totals.items() if np.isnan(value).any()]

    def _numbers(self, names: Collection[str], behind: Behind, sample: Sample) -> dict[str, Array]:
        """Return the number that a few nodes behind each tensor make of it, from a run that holds few at once."""
        copy, nodes = self._model.copy(), list[NodeProto]()
        graph, numbers = copy.proto.graph, {name: f"{name}//number" for name in names}
        if default_opset(copy.proto.opset_import) is None:
            copy.proto.opset_import.add(version=_OPSET)
        for node in graph.node:
            nodes.append(node)
            for name in filter(numbers.__contains__, node.output):
                nodes += behind(name, numbers[name])
        del graph.node[:]
        graph.node.extend(nodes)
        tensors = Network(copy, rounded=self._rounded)._tensors(numbers.values(), sample)
        return {name: tensors[number] for name, number in numbers.items()}

    def _tensors(self, names: Iterable[str], sample: Sample) -> dict[str, Array]:
        """Return tensors of the main graph by name, from one run."""
        wanted = dict.fromkeys(names)
        computed_names = tuple(filter(self._made.__contains__, wanted))
        if computed_names and computed_names not in self._runs:
            self._runs.clear()  # before the next session is there
            self._runs[computed_names] = self._opened(computed_names)
        given = as_declared(sample, self._model)
        computed = self._runs[computed_names](given) if computed_names else {}
        known = {**self._model.graph.constants, **given, **computed}
        return {name: np.asarray(known[name]) for name in wanted}

    def _opened(self, names: tuple[str, ...]) -> Run:
        model = self._model.with_outputs(names)
        try:
            from halfulp.integrations.onnxruntime import engine

            return engine.runner(model, exact=self._rounded, optimized=False)
        except HalfulpError:  # it is not installed, or refuses the model
            return runs(model)[1][0]

    def _watch(self, sample: Sample, watch: Watch) -> bool:
        """Run the network node by node, and pass each evaluation; return whether it could."""
        with suppress(UnsupportedError):  # ONNX Runtime, which has the operator, shows no values of subgraphs
            run_with_report(self._model, as_declared(sample, self._model), watch=watch)
            return True
        return False

    def spoiled(self, use: Use, sample: Sample, is_spoiled: Callable[[Array], Any]) -> set[str]:
        """Return the values of the body around a node in which any element is spoiled."""
        labels, bad = {*use.scope.labels.values()}, set[str]()

        def watch(node: Node, operands: list[Any], results: list[Any]) -> None:
            for name, value in zip(node.outputs, results, strict=False) if node.label in labels else ():
                if str(getattr(value, "dtype", "")) in FLOATS and np.any(is_spoiled(value)):
                    bad.add(name)

        self._watch(sample, watch)
        return bad


def spread(use: Use, bad: Collection[str]) -> tuple[list[Numbered], list[Numbered], bool]:
    """Return a node with a spoiled result and all later ones that read such, and those with sound results.

    The last is whether an output of the network is spoiled; of a graph with spoiled outputs none count as sound.
    """
    owner, first = use.scope.owner, use.number
    nodes, readers = [(first, owner.node[first])], list[Numbered]()
    spoiled = set(bad)
    reached = spoiled.intersection(owner.node[first].output)
    for index, node in enumerate(owner.node[first + 1 :], first + 1):
        within = _readers_within(node, reached)
        if within or not reached.isdisjoint(node.input):
            readers.append((index, node))
            nodes += [readers[-1], *within]
            reached |= spoiled.intersection(node.output)
    leaves = not reached.isdisjoint(info.name for info in owner.output)
    sound = [] if leaves else [reader for reader in readers if reached.isdisjoint(reader[1].output)]
    return nodes, sound, leaves and not use.where


def _readers_within(node: NodeProto, reached: Collection[str]) -> list[Numbered]:
    """Return the nodes in the bodies of a node that depend on some values around them."""
    readers: list[Numbered] = []
    inside = set(reached)
    for _, body in subgraphs(node):
        for index, inner in enumerate(body.node):
            within = _readers_within(inner, inside)
            if within or not inside.isdisjoint(inner.input):
                readers += [(index, inner), *within]
                inside.update(inner.output)
    return readers
