"""The ranges of a network's data at its nodes, and the results that leave an element type.

The network runs in ONNX Runtime. It runs node by node if ONNX Runtime does not take it, and for nodes in the bodies of
loops and branches. The operands and the result of each node are read, a group at a time so that memory stays bounded:
of Pow, PRelu and norms in all graphs, and of the other nodes in the main graph.
A float16 network also runs in float32, so that an overflow in an earlier node does not hide the real magnitudes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto

from halfulp.auditing.network import Network, Numbered, Sample, Samples, computed, spread
from halfulp.auditing.node import Operand, Site, Use
from halfulp.auditing.ranges import InType, Limits, Range, judged, limits
from halfulp.auditing.uses import of_onnx
from halfulp.conversion.float32 import HALVES, LENGTHS, has_halves, norms, values_of, widened
from halfulp.conversion.opset import inline
from halfulp.errors import HalfulpError, UnsupportedError
from halfulp.models.graph import Array, Value
from halfulp.models.onnx.checks import label
from halfulp.models.onnx.tensors import mapped, tensors
from halfulp.models.onnx.walk import attributes_of, default_opset, subgraphs
from halfulp.models.run.report import finite, lost
from halfulp.types import FLOATS

_LEAST_BEYOND = 65520  # the least number that float16 rounds to infinity
_EPSILON = ("Add", "Clip", "Max")
_SUMS = ("GlobalAveragePool", "ReduceMean")  # devices sum in float16 before they divide
_INSIDE = (
    *_SUMS,
    "InstanceNormalization",
    "LRN",
    "LpNormalization",
    *LENGTHS,
)  # have greater numbers inside than their results
_SMALL = 1 << 22  # elements of the weights of a network that runs node by node beside ONNX Runtime


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

    @classmethod
    def of(cls, use: Use, norm: Sequence[Numbered] = ()) -> NodeData:
        """Return the data of a node before any run; ``norm`` has the nodes of the norm that it is part of."""
        values = None if use.is_prelu else use.second.values
        exponent = float(values[0]) if values is not None and values.size == 1 else None
        type = use.inputs[0].type if use.inputs else None
        if type is None and norm and use.site is not None:  # it is not a power
            type = use.site.values.value(norm[0][1].input[0]).type
        made = {name for _, node in norm for name in node.output}
        shifts = [n.output[0] for _, n in norm if n.op_type in _EPSILON and not made.issuperset(n.input)]
        adds_epsilon = [use.output.name] == shifts[-1:] and norm[-1][1].op_type in ("Div", "Mul")
        found = cls(
            use.label, use.operator, type or "", exponent, is_in_norm=bool(norm), adds_epsilon=adds_epsilon
        )
        found.keep(norm)
        return found

    def keep(self, nodes: Sequence[Numbered]) -> None:
        """Note which nodes have to be in float32 together."""
        self.region = tuple(node.name or f"#{index}" for index, node in nodes)

    def add(self, use: Use, operands: list[Array], result: Array) -> None:
        """Count an evaluation of the node in the network itself."""
        self.type = self.type or operands[0].dtype.name
        self.lost += lost(operands, result)

    def judge(self, use: Use, operands: list[Array], result: Array, *, is_mixed: bool) -> None:
        """Count an evaluation of the node in the network's float32 version."""
        x, y = operands
        self.base.add(x)
        self.result.add(result)
        types = self._judged(is_mixed)
        exact = computed(use, x, y) if types else result
        for type in types:
            self.in_types.setdefault(type, InType()).add(exact, computed(use, x, y, type))

    def look(self, use: Use, operands: list[Array], result: Array, *, is_mixed: bool, is_first: bool) -> None:
        """Count the results of a node that is not a power, or the numbers inside it, as :meth:`judge` does.

        A node outside of norms is at fault only if it ``is_first``: its operands fit into float16.
        """
        if "float16" in self._judged(is_mixed):
            if not (self.is_in_norm or is_first):
                self.in_types.setdefault("float16", InType()).elements += int(finite(result).sum())
                return
            if self.operator in LENGTHS:  # has a sum of squares inside
                result = np.square(result)
            elif self.operator in _SUMS:
                result = result * (operands[0].size / max(result.size, 1))
            elif self.operator in _INSIDE:
                assert use.site is not None
                given = attributes_of(use.site.owner.node[use.site.number])
                is_sum = self.operator == "LpNormalization"
                result = np.abs(operands[0]) if is_sum and given.get("p") == 1 else np.square(operands[0])
                result = result.sum(given.get("axis", -1)) if is_sum else result
            self.result.add(result)
            with np.errstate(over="ignore"):
                self.in_types.setdefault("float16", InType()).add(result, result.astype(np.float16))

    def _judged(self, is_mixed: bool) -> tuple[str, ...]:
        """Return the types to judge it in: none for a float32 node in a float16 network, which is so on purpose."""
        return () if is_mixed and self.type not in HALVES else judged(self.type)

    def overflows(self, type: str) -> bool:
        """Return whether a result that is finite in a wider type is not finite in this type."""
        return type in self.in_types and self.in_types[type].overflow > 0

    @property
    def divisions_by_zero(self) -> int:
        """The number of mean squares that are 0 in float16 though the epsilon of their norm is added."""
        return self.in_types["float16"].zero + self.result.zeros if self.adds_epsilon and self.in_types else 0

    def limits(self, type: str) -> Limits | None:
        """Return where the node leaves a type; None where its exponents vary, and for PRelu."""
        return None if not self.exponent else limits(self.exponent, type)

    def margin(self, type: str) -> float | None:
        """Return the factor by which the base may grow, or shrink, until the first result leaves a type."""
        found = self.limits(type)
        if found is None or found.overflow is None or not self.base.greatest:
            return None
        assert self.exponent is not None
        return found.overflow / self.base.greatest if self.exponent > 0 else self.base.least / found.overflow

    @property
    def of_types(self) -> dict[str, dict[str, object]]:
        """For each judged type: the counts of lost results, the limits and the margin."""
        return {
            type: {**vars(found), "limits": self.limits(type), "margin": self.margin(type)}
            for type, found in self.in_types.items()
        }

    def told(self) -> Iterator[tuple[str, str]]:
        """Give each type that the data leaves at this node, with a line on the place, count and effect."""
        for type, found in self.in_types.items():
            if not found.overflow:
                continue
            ends, margin = self.limits(type), self.margin(type)
            if self.exponent and ends is not None and ends.overflow is not None:
                sign, met, change = "<", self.base.least, "grow"
                if self.exponent > 0:
                    sign, met, change = ">", self.base.greatest, "shrink"
                parts = [
                    f"x^{self.exponent:g} overflows in {type} for |x| {sign} {ends.overflow:.4g}",
                    f"{found.overflow} of {found.elements} do; |x| is {met:.4g} at the worst",
                ]
                if margin is not None:
                    parts.append(f"the data must {change} by {1 / margin:.3g}x")
            else:
                what, each = ("results", "the result")
                if self.operator in _INSIDE:
                    what, each = ("sums and squares inside", "such a number")
                parts = [f"in {type} {found.overflow} of {found.elements} {what} overflow"]
                if self.base.elements:
                    parts.append(f"|x| is at most {self.base.greatest:.4g}")
                parts.append(f"{each} is at most {self.result.greatest:.4g}")
            if type == self.type and self.lost and self.reaches_outputs:
                parts.append("the infinities reach the outputs")
            elif type == self.type and self.lost and self.absorbed:
                shown = ", ".join(self.absorbed)
                parts.append(f"the infinities become finite in {shown}, so the outputs do not show them")
            yield type, "; ".join(parts)
        if zeros := self.divisions_by_zero:
            many = f"{zeros} of {self.result.elements} mean squares"
            yield "float16", f"{many} are 0 in float16, with the norm's epsilon added: the norm divides by 0"


@dataclass(frozen=True)
class NetworkData:
    """The effect of the data on a network."""

    nodes: Mapping[str, NodeData]  # the Pow and PRelu nodes that ran, by label
    samples: int  # how many sets of inputs it ran on
    others: tuple[NodeData, ...] = ()  # other nodes that leave float16; in norms, if no power of theirs does
    inputs: tuple[str, ...] = ()  # the inputs with numbers that float16 does not hold

    @property
    def listed(self) -> list[NodeData]:
        """The nodes, in the file's order."""
        return list(self.nodes.values())


def measured(
    proto: ModelProto,
    file: str,
    folder: Path | None,
    uses: Iterable[Use],
    samples: Samples | int,
    *,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> NetworkData:
    """Return the effect of data on the Pow and PRelu nodes of a network: of samples, or of a number made up.

    Raises:
        ModelError: an input is missing, or contradicts the model's declaration.
    """
    main = in_main(proto, file, folder)
    assert main.site is not None
    measurement = _Measurement(list(filter(_is_valid, uses)), main)
    if not measurement.nodes:
        return NetworkData({}, 0)
    number = 0
    with _networks(proto, file, folder) as (net, wide):
        for number, sample in enumerate(net.samples(samples, dims, seed), 1):
            if progress is not None:
                progress(f"sample {number}")
            measurement.run(net, wide, sample)
    inputs = (main.site.values.value(info.name) for info in proto.graph.input)
    return measurement.result(number, inputs)


class _Measurement:
    """The data of a network's nodes over its samples: of powers and PRelu, and of the other nodes that make floats."""

    def __init__(self, powers: list[Use], main: Use) -> None:
        self._powers = powers
        norms = _norms([use.site for use in (*powers, main) if use.site])
        self._data = {use.label: NodeData.of(use, *norms.get(use.label, ())[1:]) for use in powers}
        self._labels = set(self._data)  # of the powers
        others = [use for name, (use, _) in norms.items() if name not in self._labels]
        self._data |= {use.label: NodeData.of(*norms[use.label]) for use in others}
        for use, data in _beside(main, set(self._data)):
            others.append(use)
            self._data[use.label] = data
        self.nodes = [*powers, *others]
        self._is_mixed = False  # whether the network is of float16, and runs in float32, too
        self._fits: dict[str, bool] = {}  # whether float16 holds the values of a sample in the main graph
        self._beyond: set[str] = set()  # the values there that float16 does not hold in some sample

    def run(self, net: Network, wide: Network, sample: Sample) -> None:
        """Run a network, and ``wide``, its form in float32, on a sample."""
        self._is_mixed = wide is not net
        net.each(self._powers if self._is_mixed else self.nodes, sample, self._add)
        if self._is_mixed:
            wide.each(self.nodes, sample, self._judge)
        for use in self._powers:
            self._follow(use, net, wide, sample)
        self._beyond.update(name for name, is_held in self._fits.items() if not is_held)
        self._fits.clear()

    def _is_wide(self, type: str | None) -> bool:
        """Tell whether a value of a float16 network is in float32 on purpose."""
        return self._is_mixed and type not in HALVES

    def _add(self, use: Use, operands: list[Array], result: Array) -> None:
        if use.label in self._labels:
            self._data[use.label].add(use, operands, result)
        if not self._is_mixed:
            self._judge(use, operands, result)

    def _judge(self, use: Use, operands: list[Array], result: Array) -> None:
        arrays = () if use.where else zip((*use.inputs, use.output), (*operands, result), strict=True)
        for value, array in arrays:
            if value.name not in self._fits:
                self._fits[value.name] = not (finite(array) & _is_beyond(array)).any()
        data = self._data[use.label]
        if use.label in self._labels:
            return data.judge(use, operands, result, is_mixed=self._is_mixed)
        held = (self._fits.get(operand.name) or self._is_wide(operand.type) for operand in use.inputs)
        is_beyond = use.operator in _INSIDE or not self._fits.get(use.output.name, True)
        is_first = is_beyond and all(held) and not _has_beyond(use)
        return data.look(use, operands, result, is_mixed=self._is_mixed, is_first=is_first)

    def _follow(self, use: Use, net: Network, wide: Network, sample: Sample) -> None:
        """Follow the infinities of a power through the network of this sample."""
        seen = self._data[use.label]
        if seen.lost and not (seen.absorbed or seen.reaches_outputs):
            _, ends, leaves = net.spoiled(use, sample, lambda array: ~finite(array))
            seen.reaches_outputs |= leaves and not use.where
            seen.absorbed = tuple(label(node, index, use.where) for index, node in ends)
        if use.where and seen.overflows("float16") and not seen.region:
            nodes, ends, _ = wide.spoiled(use, sample, _is_beyond)
            seen.keep(nodes if ends or not self._is_mixed else [])

    def result(self, samples: int, inputs: Iterable[Value]) -> NetworkData:
        """Return the effect of all samples; ``inputs`` are the network's."""
        for use in self.nodes:
            seen = self._data[use.label]
            if use.site and not use.where and seen.overflows("float16") and not seen.region:
                nodes, _, leaves = spread(use.site, self._beyond)
                seen.keep([] if leaves and self._is_mixed else nodes)  # outputs of a float32 network stay so
        ran = {name: data for name, data in self._data.items() if name in self._labels and data.base.elements}
        inner = (data for name, data in self._data.items() if name not in self._labels)
        others = tuple(_beyond(inner, ran.values()))
        beyond = (v.name for v in inputs if v.name in self._beyond and not self._is_wide(v.type))
        return NetworkData(ran, samples, others, tuple(beyond))


def _is_beyond(array: Array) -> Array:
    """Return which elements float16 does not hold."""
    wide = array.astype(np.float32) if array.dtype == np.float16 else array
    return np.asarray(np.abs(wide) >= _LEAST_BEYOND)


def losses_in(
    proto: ModelProto, file: str, folder: Path | None, inputs: Sample
) -> tuple[dict[str, tuple[int, int]], bool]:
    """Return the Pow and PRelu nodes of a float16 network that lose results, as :class:`RunReport` has them.

    The network runs once more, and again with the operands and results of those nodes of its main graph as outputs that
    give infinities or NaNs; and node by node if it is small and has Pow or PRelu nodes in bodies. The second result is
    whether all nodes were looked at.
    """
    found: dict[str, tuple[int, int]] = {}
    if not has_halves(proto):
        return found, True

    def take(use: Use, operands: list[Array], result: Array) -> None:
        if count := lost(operands, result):
            before, size = found.get(use.label, (0, 0))
            found[use.label] = before + count, size + result.size

    if proto.functions:
        proto = deepcopy(proto)
        with suppress(UnsupportedError):  # nodes in functions are then not looked at
            inline(proto, file, folder)
    uses = of_onnx(proto, file, folder)
    valid = list(filter(_is_valid, uses))
    net = Network(proto, file, folder, rounded=True)
    main = {use.output.name: use for use in valid if not use.where}
    net.each([main[name] for name in net.unsound(main, inputs)], inputs, take)
    inner = [use for use in valid if use.where]
    is_small = not inner or sum(math.prod(tensor.dims) for tensor in tensors(proto)) < _SMALL
    sees_all = is_small and len(valid) == len(uses)
    if is_small:
        try:
            sees_all &= net.each(inner, inputs, take)
        except HalfulpError:  # halfulp refuses more models than ONNX Runtime
            sees_all = False
    return found, sees_all


@contextmanager
def _networks(proto: ModelProto, file: str, folder: Path | None) -> Iterator[tuple[Network, Network]]:
    """Yield a network twice; if it is in float16 or bfloat16, the second one is in float32."""
    if not has_halves(proto):
        net = Network(proto, file, folder)
        yield net, net
        return
    with mapped(widened(proto, file, folder), file, folder) as wide:
        yield Network(proto, file, folder, rounded=True), Network(*wide)


def _is_valid(use: Use) -> bool:
    """Return whether a node runs by itself: it is in a graph, and has both operands and an output."""
    in_graph = use.site is not None and isinstance(use.site.owner, GraphProto)
    return in_graph and len(use.inputs) == 2 and bool(use.output.name)


def in_main(proto: ModelProto, file: str, folder: Path | None) -> Use:
    """Return a placeholder for a node of the main graph."""
    site, opset = Site(proto.graph, 0, "", values_of(proto, file, folder)), default_opset(proto.opset_import)
    return Use("", "", str(opset or 1), (), Operand(""), site=site)


def _norms(sites: Iterable[Site]) -> dict[str, tuple[Use, list[Numbered]]]:
    """Return each node of the norms in the graphs of these nodes, and its norm, by its label."""
    found: dict[str, tuple[Use, list[Numbered]]] = {}
    for owner, _, where, values in {id(site.owner): site for site in sites}.values():
        numbers = {node.output[0]: index for index, node in enumerate(owner.node) if node.output}
        for nodes in norms(owner, values):
            norm = [(numbers[node.output[0]], node) for node in nodes]
            for index, node in norm:
                name, site = label(node, index, where), Site(owner, index, where, values)
                found[name] = _other(node, name, site), norm
    return found


def _has_beyond(use: Use) -> bool:
    """Return whether float16 does not hold a constant that a node reads. Constants are read only where it matters."""
    assert use.site is not None
    arrays = map(use.site.values.array, use.site.owner.node[use.site.number].input)
    floats = (array for array in arrays if array is not None and array.dtype.name in FLOATS)
    return any((finite(array) & _is_beyond(array)).any() for array in floats)


def _other(node: NodeProto, name: str, site: Site, output: str = "") -> Use:
    """Return a node that is not a power, with one output and the floats that it reads, but for constants."""
    values = (site.values.value(each) for each in node.input if each and site.values.tensor(each) is None)
    inputs = tuple(Operand(each.name, each.type) for each in values if each.type in FLOATS)
    return Use(name, node.op_type, "", inputs, Operand(output or node.output[0]), site=site)


def _beside(main: Use, known: Container[str]) -> Iterator[tuple[Use, NodeData]]:
    """Give the other nodes of the main graph that make floats of more than constants, with no data yet.

    A node is given once for each output of the type of its first one; it has the data of all of them.
    """
    assert main.site is not None
    owner, _, where, values = main.site
    fixed: set[str] = set()  # the values that follow from constants
    for index, node in enumerate(owner.node):
        if all(each in fixed or values.tensor(each) is not None for each in node.input if each):
            fixed.update(node.output)
            continue
        name, site = label(node, index, where), Site(owner, index, where, values)
        type = values.value(node.output[0]).type if node.output else None
        if name in known or type not in FLOATS or subgraphs(node):
            continue
        made = NodeData(name, node.op_type, type)
        for output in node.output:
            if values.value(output).type == type:
                yield _other(node, name, site, output), made


def _beyond(inner: Iterable[NodeData], powers: Iterable[NodeData]) -> Iterator[NodeData]:
    """Give the nodes that leave float16 first in their norm, and those with divisions by zero."""
    known = {each.region for each in powers if each.overflows("float16")}
    for each in inner:
        if each.divisions_by_zero or (each.overflows("float16") and each.region not in known):
            yield each
        if each.overflows("float16"):
            known.add(each.region)
