"""The ranges of a network's data at its Pow and PRelu nodes, and the results that leave an element type.

The network runs in ONNX Runtime, or node by node if ONNX Runtime does not take it. The operands and the
result of each node are made outputs, a group at a time so that memory stays bounded. A float16 network also
runs in float32, so that an overflow in an earlier node does not hide the real magnitudes of the data.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto

from halfulp.auditing import onnx as audit_onnx
from halfulp.auditing.node import Use
from halfulp.auditing.ranges import InType, Limits, Range, in_type, judged, limits
from halfulp.auditing.rounding import rounding
from halfulp.conversion.float32 import HALVES, as_declared, has_halves, norms, widened
from halfulp.conversion.verify import Run, Subject, runs
from halfulp.errors import HalfulpError, ModelError, printable
from halfulp.models.graph import Array, Model
from halfulp.models.onnx.checks import label
from halfulp.models.onnx.infer import ValueInfo, infer_types
from halfulp.models.onnx.tensors import TensorReader, mapped, release
from halfulp.models.onnx.walk import is_ours
from halfulp.models.run.fitting import fit
from halfulp.models.run.inputs import by_name
from halfulp.models.run.report import finite, lost
from halfulp.types import FLOATS

Sample = Mapping[str, Any]
Samples = Sample | Iterable[Sample]
_Numbered = tuple[int, NodeProto]

_GROUP = 1 << 28  # bytes of outputs that are in memory at once
_UNKNOWN = 1 << 26  # assumed size of a tensor whose shape is not inferred
_SCOPES = "pkg.torch.onnx.name_scopes"
_WIDE = ("float32", "float64")
_MOST_FLOAT16 = 65504
_DEPTH = 16  # nodes through which an infinity is followed


@dataclass
class NodeData:
    """The effect of the data on one node.

    Attributes:
        label: how messages name the node.
        name: as the file has it, or its number as ``#3``.
        operator: the id of the version in force.
        type: the element type of its base.
        exponent: its constant exponent, where it has a single one.
        base, second, result: their values; those of a network of float16 as float32 computes them.
        in_types: how many results are lost in each type that is judged.
        costs: by how many ulps the outputs change at most when this node's results are exact, all else equal; None
            where that was not measured: in networks of float16, and without ONNX Runtime.
        lost: results that are not finite in the network itself, though the operands are.
        reaches_outputs: whether the network's outputs show these.
        absorbed: the nodes whose results are finite again, though they read infinities of this one.
        is_in_norm: whether it is part of a norm that is written out.
        region: the nodes that have to be in float32 together, by name, or by number as ``#3``: the norm, or this node
            and all after it up to those whose results fit into float16 again; empty where the outputs do not.
        modules: of PyTorch, that these nodes were exported from, where the exporter says so.
    """

    label: str
    name: str
    operator: str
    type: str
    exponent: float | None = None
    base: Range = field(default_factory=Range)
    second: Range = field(default_factory=Range)
    result: Range = field(default_factory=Range)
    in_types: dict[str, InType] = field(default_factory=dict)
    costs: float | None = None
    lost: int = 0
    reaches_outputs: bool = False
    absorbed: tuple[str, ...] = ()
    is_in_norm: bool = False
    region: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()

    def keep(self, nodes: Sequence[_Numbered]) -> None:
        """Note which nodes have to be in float32 together."""
        self.region = tuple(_named(node, index) for index, node in nodes)
        self.modules = tuple(dict.fromkeys(filter(None, (_module(node) for _, node in nodes))))

    def overflows(self, type: str) -> bool:
        """Return whether a result that is finite in a wider type is not finite in this type."""
        return type in self.in_types and self.in_types[type].overflow > 0

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

    def told(self) -> Iterator[tuple[str, str]]:
        """Give each type that the data leaves at this node, with a line on the place, count and effect."""
        for type, found in self.in_types.items():
            if not found.overflow or (type.startswith("float8") and type != self.type):
                continue
            parts = [f"in {type} {found.overflow} of {found.elements} results overflow"]
            ends, margin = self.limits(type), self.margin(type)
            if ends is not None and ends.overflow is not None:
                assert self.exponent is not None
                beyond = f"|x| {'>' if self.exponent > 0 else '<'} {ends.overflow:.4g}"
                parts[0] = f"x^{self.exponent:g} overflows in {type} for {beyond}"
                met = self.base.greatest if self.exponent > 0 else self.base.least
                parts.append(f"{found.overflow} of {found.elements} do; |x| is {met:.4g} at the worst")
                if margin is not None:
                    parts.append(
                        f"the data has to be {1 / margin:.3g} times "
                        + ("smaller" if self.exponent > 0 else "greater")
                    )
            else:
                parts.append(
                    f"|x| is at most {self.base.greatest:.4g}, the result {self.result.greatest:.4g}"
                )
            if type == self.type and self.lost:
                shown = ", ".join(self.absorbed)
                if self.reaches_outputs:
                    parts.append("the infinities reach the outputs")
                elif shown:
                    parts.append(
                        f"{shown} makes finite numbers of the infinities: the outputs do not show them"
                    )
            yield type, "; ".join(parts)


@dataclass(frozen=True)
class NetworkData:
    """The effect of the data on a network.

    Attributes:
        nodes: the Pow and PRelu nodes of its graph, by label; those of subgraphs are not looked at.
        samples: how many sets of inputs it ran on.
        fusions: by how many ulps ONNX Runtime's fusions change the outputs; None where that was not measured.
    """

    nodes: Mapping[str, NodeData]
    samples: int
    fusions: float | None = None


def measured(
    proto: ModelProto,
    file: str,
    folder: Path | None,
    uses: Iterable[Use],
    samples: Samples | int,
    *,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> NetworkData:
    """Return the effect of data on the Pow and PRelu nodes of a network's graph.

    Args:
        proto: the model; left as it is.
        file: its name in messages.
        folder: where its external data lies.
        uses: its nodes.
        samples: inputs by name, one set or several; or the number of sets to make up.
        seed: for inputs that are made up.
        progress: gets a line for each run.

    Raises:
        ModelError: an input is missing, or contradicts the model's declaration.
    """
    wanted = dict(_wanted(proto, uses))
    if not wanted:
        return NetworkData({}, 0)
    numbers = {node.output[0]: index for index, node in enumerate(proto.graph.node) if node.output}
    known = ValueInfo(infer_types(proto, file)[""], TensorReader(file, folder))
    known.add_constants(proto.graph)
    of_norms = {each.output[0]: nodes for nodes in norms(proto.graph, known) for each in nodes}
    data = {name: _data_of(use, _named(node, numbers[name])) for name, (node, use) in wanted.items()}
    for name in data.keys() & of_norms.keys():
        data[name].is_in_norm = True
        data[name].keep([(numbers[each.output[0]], each) for each in of_norms[name]])
    with _networks(proto, file, folder) as (net, wide):
        number = -1
        for number, sample in enumerate(net.samples(samples, seed, progress)):
            if progress is not None:
                progress(f"sample {number + 1}")
            for group, names in enumerate(net.groups(wanted, sample)):
                values = net.values(names, sample)
                others = values if wide is net else wide.values(names, sample)
                for name in names:
                    node, use = wanted[name]
                    _add(
                        data[name],
                        use,
                        [values[each] for each in (*node.input, name)],
                        [others[each] for each in (*node.input, name)],
                        is_mixed=wide is not net,
                    )
                if (number, group) == (0, 0) and wide is net:
                    nodes_of = {name: wanted[name] for name in names}
                    costs = net.costs(nodes_of, values, sample)
                    for name, cost in costs.items():
                        data[name].costs = cost
            for name, (node, _) in wanted.items():
                if data[name].lost and not data[name].absorbed:
                    _, ends, leaves = net.spoiled(node, sample, lambda array: ~finite(array))
                    data[name].reaches_outputs = data[name].reaches_outputs or leaves
                    data[name].absorbed = tuple(label(each, index, "") for index, each in ends)
                if data[name].overflows("float16") and not data[name].region:
                    nodes, ends, _ = wide.spoiled(node, sample, lambda array: np.abs(array) > _MOST_FLOAT16)
                    data[name].keep(nodes if ends else [])
    return NetworkData({each.label: each for each in data.values()}, number + 1, net.fusions)


def losses_in(
    proto: ModelProto, file: str, folder: Path | None, inputs: Sample
) -> dict[str, tuple[int, int]]:
    """Return the Pow and PRelu nodes of a float16 network that lose results, as :class:`RunReport` has them.

    The network runs once more, with their operands and results as outputs.
    """
    if not has_halves(proto):
        return {}
    wanted = dict(_wanted(proto, audit_onnx.uses(proto, file, folder)))
    net = _Network(proto, file, folder, rounded=True)
    found: dict[str, tuple[int, int]] = {}
    for names in net.groups(wanted, inputs):
        values = net.values(names, inputs)
        for name in names:
            node, use = wanted[name]
            count = lost([values[each] for each in node.input], values[name])
            if count:
                found[use.label] = count, values[name].size
    return found


@contextmanager
def _networks(proto: ModelProto, file: str, folder: Path | None) -> Iterator[tuple[_Network, _Network]]:
    """Yield a network twice; if it is in float16 or bfloat16, the second one is in float32."""
    if not has_halves(proto):
        net = _Network(proto, file, folder)
        yield net, net
        return
    with mapped(widened(proto, file, folder), file, folder) as wide:
        yield _Network(proto, file, folder, rounded=True), _Network(*wide)


def _wanted(proto: ModelProto, uses: Iterable[Use]) -> Iterator[tuple[str, tuple[NodeProto, Use]]]:
    known = {use.label: use for use in uses if use.refused is None}
    for index, node in enumerate(proto.graph.node):
        named = label(node, index, "")
        if is_ours(node) and named in known and len(node.input) == 2 and node.output and node.output[0]:
            yield node.output[0], (node, known[named])


def _named(node: NodeProto, index: int) -> str:
    return node.name or f"#{index}"


def _module(node: NodeProto) -> str:
    """Return the module of PyTorch that a node was exported from, as both exporters note it; empty without a note."""
    scopes = next((each.value for each in node.metadata_props if each.key == _SCOPES), "")
    if scopes:
        return str(re.findall("'([^']*)'", scopes)[-2:][0])
    return node.name.strip("/").replace("/", ".").rpartition(".")[0] if node.name.startswith("/") else ""


def _data_of(use: Use, name: str) -> NodeData:
    values = use.second.values
    exponent = (
        float(values[0]) if ".Pow" in use.operator and values is not None and values.size == 1 else None
    )
    return NodeData(use.label, name, use.operator, use.inputs[0].type or "", exponent)


def _add(data: NodeData, use: Use, own: list[Array], wide: list[Array], *, is_mixed: bool) -> None:
    """Add a node's operands and result to its counts: those of the network, and those of its float32 version.

    A float32 node in a float16 network is in float32 on purpose: it is not judged in shorter types.
    """
    x, y, result = wide
    data.type = data.type or own[0].dtype.name
    data.base.add(x)
    data.second.add(y)
    data.result.add(result)
    data.lost += lost(own[:2], own[2])
    for type in () if is_mixed and data.type not in HALVES else judged(data.type):
        exact, narrow = in_type(use.operator, (x, y), use.attributes, type)
        data.in_types.setdefault(type, InType()).add(exact, narrow)


# --- running ---------------------------------------------------------------------------------------


class _Network:
    """A model whose intermediate tensors can be read while it runs.

    Args:
        proto, file, folder: the model.
        rounded: whether each Pow and PRelu is to round its result, as a device that computes in float16 does; ONNX
            Runtime's own kernels on a processor compute such nodes in float32, one after the other.
    """

    def __init__(self, proto: ModelProto, file: str, folder: Path | None, *, rounded: bool = False) -> None:
        self._rounded = rounded
        self._proto, self._file = proto, file
        self._subject = Subject.of(proto, file, folder)
        self._made = {name: node for node in proto.graph.node for name in node.output if name}
        self._runs: dict[tuple[str, ...], Run] = {}
        self._sizes: dict[str, int] = {}
        self.fusions: float | None = None  # by how many ulps ONNX Runtime's fusions change the outputs

    @property
    def model(self) -> Model:
        assert isinstance(self._subject.model, Model)
        return self._subject.model

    def samples(
        self, given: Samples | int, seed: int, progress: Callable[[str], None] | None
    ) -> Iterator[Sample]:
        """Give the samples, each once."""
        if isinstance(given, int):
            _, (run,) = runs(self._subject)
            found = fit(self.model, run, seed=seed, progress=progress)
            for number in range(given):
                yield found.inputs(self.model, seed + number)
            return
        for sample in [given] if isinstance(given, Mapping) else given:
            yield by_name(self.model.graph.inputs, sample, self._file)

    def groups(self, wanted: Mapping[str, tuple[NodeProto, Use]], sample: Sample) -> list[list[str]]:
        """Return the nodes, by their outputs, in groups whose tensors fit into memory together."""
        groups: list[list[str]] = [[]]
        size = 0
        for name, (node, _) in wanted.items():
            more = sum(self._size(each, sample) for each in (*node.input, name))
            if groups[-1] and size + more > _GROUP:
                groups.append([])
                size = 0
            groups[-1].append(name)
            size += more
        return groups

    def _size(self, name: str, sample: Sample) -> int:
        if not self._sizes:
            copy = ModelProto()
            copy.CopyFrom(self._proto)
            for info in copy.graph.input:
                array = np.asarray(sample.get(info.name)) if info.name in sample else None
                dims = info.type.tensor_type.shape.dim
                if array is not None and len(dims) == array.ndim:
                    for dim, size in zip(dims, array.shape, strict=True):
                        dim.dim_value = size
            for value in infer_types(copy, self._file)[""].values():
                known = value.shape is not None and all(isinstance(dim, int) for dim in value.shape)
                self._sizes[value.name] = 8 * math.prod(value.shape or ()) if known else _UNKNOWN  # type: ignore[arg-type]
        return self._sizes.get(name, _UNKNOWN) if name in self._made else 0

    def values(self, outputs: Sequence[str], sample: Sample) -> dict[str, Array]:
        """Return the tensors of the nodes with these outputs: their operands and results."""
        nodes = [self._made[name] for name in outputs]
        names = dict.fromkeys(each for node in nodes for each in (*node.input, node.output[0]))
        return self.tensors(list(names), sample)

    def tensors(self, names: Sequence[str], sample: Sample) -> dict[str, Array]:
        """Return tensors of the graph by name: those that nodes make in one run."""
        made = tuple(name for name in names if name in self._made)
        if made and made not in self._runs:
            self._runs = {made: self._opened(made)}  # one session at a time
        computed = self._runs[made](as_declared(sample, self.model)) if made else {}
        return {name: computed[name] if name in made else self._given(name, sample) for name in names}

    def _opened(self, names: tuple[str, ...]) -> Run:
        subject = self._subject.with_outputs(names)
        assert subject.proto is not None
        try:
            from halfulp.integrations.onnxruntime import engine

            settings = engine.Settings(ours=self._rounded, optimized=False)
            return engine.runner(subject.proto, self.model, settings, folder=subject.folder)
        except HalfulpError:  # it is not installed, or refuses the model
            return runs(subject)[1][0]

    def _given(self, name: str, sample: Sample) -> Array:
        if name in sample:
            return np.asarray(as_declared({name: sample[name]}, self.model)[name])
        if name in self.model.graph.constants:
            return np.asarray(self.model.graph.constants[name])
        raise ModelError(f"needs a value for its input {printable(name)!r}", file=self._file)

    def costs(
        self, nodes: Mapping[str, tuple[NodeProto, Use]], values: Mapping[str, Array], sample: Sample
    ) -> dict[str, float]:
        """Return the error that rounding these nodes adds to the outputs; empty if it can't be measured."""
        floats = {name: found for name, found in nodes.items() if values[name].dtype.name in _WIDE}
        if find_spec("onnxruntime") is None or not floats:
            return {}
        self._runs = {}  # one session at a time
        release()
        try:
            found, self.fusions = rounding(
                self._proto, self.model, self._subject.folder, floats, values, sample
            )
        except HalfulpError:
            return {}
        return found

    def spoiled(
        self, node: NodeProto, sample: Sample, is_spoiled: Callable[[Array], Any]
    ) -> tuple[list[_Numbered], list[_Numbered], bool]:
        """Return a node and all later nodes that read spoiled values, and those of them with sound results.

        The last is whether an output is spoiled; then there are no nodes with sound results.

        Args:
            node: one of the graph; its result is spoiled.
            sample: the inputs.
            is_spoiled: tells it of the elements of a tensor.
        """
        reached = {node.output[0]}
        after: list[_Numbered] = []
        for index, each in enumerate(self._proto.graph.node):
            if each.output and each.output[0] == node.output[0]:
                first = index
            elif not reached.isdisjoint(each.input) and len(after) < _DEPTH:
                after.append((index, each))
                reached.update(filter(None, each.output))
        values = self.tensors(list(reached), sample)
        bad = {
            name
            for name, value in values.items()
            if value.dtype.name in FLOATS and np.asarray(is_spoiled(value)).any()
        }
        readers = [(index, each) for index, each in after if not bad.isdisjoint(each.input)]
        ends = [(index, each) for index, each in readers if bad.isdisjoint(each.output)]
        leaves = not bad.isdisjoint(info.name for info in self._proto.graph.output)
        return [(first, node), *readers], [] if leaves else ends, leaves
