"""The Pow and PRelu nodes of a model in ONNX or OpenVINO's IR, including bodies and functions, and their breaches."""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import onnx

from halfulp.conversion.editor import Editor
from halfulp.conversion.spellings import is_never_negative
from halfulp.conversion.walk import breaches as clauses_broken
from halfulp.conversion.walk import fits_only_if
from halfulp.errors import ModelError, printable
from halfulp.integrations import ir
from halfulp.integrations.fusions import fused
from halfulp.models.graph import Array, Graph, Node, Value, describe
from halfulp.models.onnx import Onnx, walk
from halfulp.models.onnx.checks import label
from halfulp.models.onnx.infer import Scope
from halfulp.models.onnx.tensors import TensorReader
from halfulp.models.run.api import LAYERS
from halfulp.models.run.inputs import dtype_named
from halfulp.specs import OpVersion, find, in_force
from halfulp.types import FLOATS, Shape

_OLDEST_IR = 3  # before, there was one opset, and models imported none
_MOST_CONSTANT = 1 << 24  # elements; larger exponents and slopes are not read
_SMALL = 1 << 12  # the most bytes of a constant that is compared by value
_Step = tuple[Iterable[str], Iterable[str]]  # the inputs and the outputs of a node


@dataclass(eq=False)
class Operand:
    """An input or an output, with the properties that are known before anything runs."""

    name: str  # as the file spells it; empty for an input that is absent
    type: str | None = None  # an element type's name; None where it is not known
    shape: Shape = None  # as graphs have it; None where not even the rank is known
    constant: Array | None = None  # the array that it always is, where the file holds it; not in a report

    @cached_property
    def text(self) -> str | None:
        """The values of that array as tables show them."""
        if self.constant is None or self.values is None:
            return None if self.constant is None else "?"
        few = [number(self.constant.dtype.type(value)) for value in (*self.values[:4], *self.values[4:][-1:])]
        some = f"{self.values.size} values from {few[0]} to {few[-1]}" if len(few) > 4 else ""
        return some or ", ".join(few) or "no values"

    def __str__(self) -> str:
        shown = describe(self.type, self.shape)
        return shown if self.text is None else f"{shown} = {self.text}"

    @cached_property
    def values(self) -> Array | None:
        """The distinct values of the constant, sorted: as integers, or as float64, which holds all others.

        None for texts and complex numbers, which no operand of a valid node has.
        """
        if self.constant is None or self.constant.dtype.kind in "OUSTc":
            return None
        wide = self.constant.dtype if self.constant.dtype.kind in "iu" else np.float64
        with np.errstate(invalid="ignore"):  # signalling NaNs count as NaNs
            numbers = self.constant.astype(wide, copy=False)
        return numbers.reshape(1) if numbers.size == 1 else np.asarray(np.unique(numbers))

    def holds(self, text: str) -> bool:
        """Tell whether a number, as an example spells it, is among the values of the constant."""
        assert self.constant is not None
        value: Any = int(text) if text.lstrip("-").isdigit() else float(text)
        if self.constant.dtype.kind not in "iu":
            with np.errstate(over="ignore", invalid="ignore"):
                value = np.array(float(text)).astype(self.constant.dtype).astype(np.float64)
        return bool(np.any(self.values == value) or (value != value and np.any(self.values != self.values)))


def number(value: Any) -> str:
    """Return a number with the digits that distinguish it from its neighbours."""
    return str(value).removesuffix(".0")


class Breach(NamedTuple):
    """A clause that a node breaks, and how."""

    clause: str
    message: str


@dataclass(eq=False)
class Use:
    """One Pow or PRelu node, and the results for it; in a report without the network around it.

    Where a network runs on data, so that other nodes are looked at, it may be any node that makes floats.
    """

    label: str  # how messages name the node
    operator: str  # the id of the version in force
    asked: str  # the opset or feature level that puts it in force; empty for another node
    inputs: tuple[Operand, ...]
    output: Operand  # with the type and shape from the file or from inference
    attributes: Mapping[str, Any] = field(default_factory=dict)  # as the file spells them
    scope: Any = None  # in an ONNX model: the Scope of the graph or function around it; not in a report
    number: int = 0  # its place there
    folded: Set[str] = frozenset()  # the values around it that nodes compute from constants alone
    is_alone: bool = True  # whether no other node makes or reads its operands and its result
    mistaken: Mapping[str, str] = field(default_factory=dict)  # by runtime: why it is another function there
    is_base_positive: bool = False  # whether the base is never below 0, and never -0
    breaks: tuple[Breach, ...] = ()  # the clauses that it breaks
    targets: tuple[Any, ...] = ()  # the statement about it for each target
    data: Any = None  # the effect of the inputs on it, if it ran
    only_if: str | None = None  # the condition on an unknown shape under which it is valid, if any
    notices: tuple[str, ...] = ()  # remarks about a node that has no errors

    def __post_init__(self) -> None:
        self.is_prelu = "relu" in self.operator.lower()  # under any standard's name
        self.is_float_power = not self.is_prelu and any(x.type in FLOATS for x in self.inputs[:1])
        self.where = self.scope.where if self.scope else ""  # how messages name the graph around it
        self.names: tuple[str, ...] = (*map(attrgetter("name"), self.inputs), self.output.name)
        self.second = self.inputs[1] if len(self.inputs) > 1 else Operand("")  # the exponent or slope
        types: tuple[str, ...] = tuple(filter(None, map(attrgetter("type"), self.inputs)))
        self.types = types if len(types) == len(self.inputs) else None  # of the inputs, where all are known
        has_slope = self.is_prelu and len(self.inputs) == 2
        self.shapes = [each.shape for each in self.inputs] if has_slope else None  # of X and a PRelu's slope

    @property
    def row(self) -> OpVersion:
        """The row of the version in force."""
        return find(self.operator)

    @cached_property
    def exponents(self) -> float | None:
        """The number that all constant exponents of a power are; None if they differ."""
        values = None if self.is_prelu else self.second.values
        return None if values is None or values.size != 1 else float(values[0])

    @cached_property
    def exponent(self) -> float | None:
        """The constant exponent of a power, if that is one number, and not a tensor of equal ones."""
        constant = self.second.constant
        return None if constant is None or constant.size != 1 else self.exponents

    @property
    def is_folded(self) -> bool:
        """Whether all operands are constants or computed from constants, so that a runtime computes it beforehand."""
        return self.folded >= {operand.name for operand in self.inputs if operand.constant is None}

    @cached_property
    def is_ordinary(self) -> bool:
        """Whether it is a power of constants that are normal numbers, and so are all results, by far."""
        x, y = self.inputs[0], self.second
        if not self.is_float_power or x.values is None or y.values is None:
            return False
        if x.values.size * y.values.size > _SMALL:
            return False
        facts = ml_dtypes.finfo(dtype_named(str(x.type)))  # type: ignore[no-untyped-call]
        with np.errstate(all="ignore"):
            powers = np.power.outer(x.values, y.values.astype(np.float64))
        least, most = 16 * float(facts.smallest_normal), float(facts.max) / 16
        sizes = np.abs(np.concatenate([x.values, powers.ravel()]))
        return bool(((sizes >= least) & (sizes <= most)).all())

    @cached_property
    def kind(self) -> Hashable:
        """The properties, besides their constants' values, that two nodes must share to be judged alike."""
        operands = tuple([(each.type, each.shape, bool(each.text)) for each in self.inputs])
        output = self.output.type, self.output.shape
        values = len({each.name for each in self.inputs})  # x^x does not broadcast
        place = values, self.is_folded, self.is_alone, self.is_base_positive, *self.mistaken.items()
        return self.operator, self.asked, operands, output, repr(sorted(self.attributes.items())), place

    @property
    def constants(self) -> Hashable:
        """A key that nodes with equal constants share. A large constant is equal to itself alone."""
        arrays = [np.empty(0) if each.constant is None else each.constant for each in self.inputs]
        return tuple([(a.dtype, a.shape, a.tobytes() if a.nbytes <= _SMALL else id(a)) for a in arrays])

    @property
    def without_findings(self) -> str:
        """The outcome of a node without findings: valid where no runtime was judged."""
        verdicts = {said.verdict for said in self.targets} or {"valid"}
        return next((each for each in ("unknown", "wider", "valid") if each in verdicts), "right")

    def let_go(self) -> None:
        """Drop the network around the node and the arrays of its constants, which a report does not need."""
        self.scope = None
        for operand in (*self.inputs, self.output):
            vars(operand).update(text=operand.text, constant=None, values=None)


def breaches(use: Use) -> tuple[Breach, ...]:
    """Return all clauses that a node breaks for every choice of its unknown types and dims."""
    by_clause: dict[str, Breach] = {}
    *operands, output = [Value(each.name, each.type, each.shape) for each in (*use.inputs, use.output)]
    for error in clauses_broken(use.row, operands, output, use.attributes):
        by_clause.setdefault(error.clause, Breach(error.clause, printable(error.line, most=None)))
    return tuple(by_clause.values())


def open_slope(use: Use) -> str | None:
    """Return the condition on an unknown shape under which a slope fits; None without a condition."""
    return fits_only_if(use.row, *use.shapes) if use.shapes else None


# --- of a model in ONNX ------------------------------------------------------------------------------


def of_onnx(model: Onnx) -> tuple[Use, ...]:
    """Return the Pow and PRelu nodes of an ONNX model, in the file's order, those of functions last.

    A function's nodes are returned once, with the types and shapes that all its calls agree on. Pow and PRelu may break
    clauses, and operators may be unknown. Everything else must be valid, or else the front end's error is raised.
    """
    error, proto = model.fault_of_ours, model.proto
    *functions, main = walk.owners_of(proto)
    has_opset = walk.default_opset(proto.opset_import) is not None or proto.ir_version < _OLDEST_IR
    tops = (model.scope(*top) for top in [main] * has_opset + functions)
    uses = tuple(chain.from_iterable(_within(model, top, ()) for top in tops))
    # Errors of Pow and PRelu nodes are reported by their clauses.
    if isinstance(error, ModelError) and not any(map(breaches, uses)):
        raise error
    return uses


def _within(model: Onnx, scope: Scope, outer: Iterable[str]) -> Iterator[Use]:
    """Yield the nodes of a graph, those in its bodies included; ``outer`` has the constants around it."""
    nodes = scope.owner.node
    inside = walk.subgraphs if scope.has_bodies else lambda _: ()
    steps = ((chain(n.input, *(walk.read_names(body) for _, body in inside(n))), n.output) for n in nodes)
    folded = _folded(steps, lambda name: scope.tensor(name) is not None, outer)
    owner, functions = scope.owner, {walk.identity(function) for function in model.proto.functions}
    ends = {end if isinstance(end, str) else end.name for end in (*owner.input, *owner.output)}
    placed = _placing(scope, folded, ends)

    @cache
    def operand(name: str) -> Operand:
        value, tensor, array = scope.value(name), scope.tensor(name), None
        if tensor is not None and math.prod(tensor.dims) <= _MOST_CONSTANT:
            array = scope.array(name)
        return Operand(name, value.type if value.kind == "tensor" else None, value.shape, array)

    for index, node in enumerate(nodes):
        for inner in model.within(scope, index, node) if node.attribute else ():
            yield from _within(model, inner, folded)
        if walk.is_ours(node) and walk.identity(node) not in functions:
            operands = map(operand, (*node.input, node.output[0] if node.output else ""))
            names = label(node, index, scope.where), in_force("onnx", node.op_type, scope.opset).id
            yield placed(*names, str(scope.opset), operands, walk.attributes_of(node), scope, index)


def _placing(scope: Scope, folded: set[str], ends: set[str]) -> Callable[..., Use]:
    """Return a function that makes a Use, with the facts about the graph around it that a verdict depends on."""
    view, mistaken = Editor(scope), defaultdict[str, dict[str, str]](dict)
    for power, runtime, reason in fused(scope):
        if reason:
            mistaken[power.output[0]][runtime] = reason

    def placed(label: str, operator: str, asked: str, operands: Iterable[Operand], *facts: Any) -> Use:
        *inputs, output = operands
        use = Use(label, operator, asked, tuple(inputs), output, *facts)
        read = {operand.name for operand in use.inputs if operand.constant is None}
        use.is_alone = not scope.where and {use.output.name, *read} - folded <= ends
        use.folded, use.mistaken = folded, mistaken[use.output.name]
        # The only exponent for which it matters: that of a square root.
        use.is_base_positive = use.exponent == 0.5 and is_never_negative(use.inputs[0].name, view)
        return use

    return placed


def _folded(steps: Iterable[_Step], is_constant: Callable[[str], bool], outer: Iterable[str]) -> set[str]:
    """Return the values that nodes compute from constants alone, and outer ones."""
    folded = {"", *outer}
    for inputs, outputs in steps:
        names = list(inputs)
        if names and all(name in folded or is_constant(name) for name in names):
            folded.update(outputs)
        else:
            folded.difference_update(filter(None, outputs))  # they hide outer values of their names
    return folded


# --- OpenVINO's IR -------------------------------------------------------------------------------


def of_openvino(source: Path | bytes, file: str) -> tuple[tuple[Use, ...], tuple[str, ...]]:
    """Return the Power and PReLU layers of an IR file; a body's follow those of the graph around it.

    The second result has the layers that halfulp has put in the place of others, which an audit does not look into.
    """
    network, _ = ir.read(source, file)
    uses: list[Use] = []
    replaced: list[str] = []
    for where, body in ir.graphs(network):
        graph = ir.graph_of(body, where)
        makers = {name: node for node in graph.nodes for name in node.outputs}
        steps = map(attrgetter("inputs", "outputs"), graph.nodes)
        folded = _folded(steps, graph.constants.__contains__, ())
        ends = {value.name for value in (*graph.inputs, *graph.outputs)} | graph.constants.keys()
        placed = _placing(_in_onnx(graph, makers, where), folded, ends)
        for node in graph.nodes:
            if node.operator in ir.ROWS:
                values = (graph.declared.get(name, Value(name)) for name in (*node.inputs, node.outputs[0]))
                operands = (Operand(v.name, v.type, v.shape, _constant(v, graph, makers)) for v in values)
                use = placed(node.label, node.operator, f"opset{node.opset}", operands, node.attributes)
                uses.append(use)
            elif node.type in ("HalfulpPower", "HalfulpPReLU"):
                replaced.append(node.label)
    return tuple(uses), tuple(replaced)


_AS_ONNX = {"Power": "Pow", "Multiply": "Mul", "Subtract": "Sub"}
_AS_ONNX |= {"Divide": "Div", "Maximum": "Max", "ReLU": "Relu"}


def _in_onnx(graph: Graph, makers: dict[str, Node], where: str) -> Scope:
    """Return an IR's graph with the names that ONNX has for its layers, and its types and small constants."""
    scope, nodes = Scope(onnx.GraphProto(), {**graph.declared}, TensorReader(), "", where), []
    for node in graph.nodes:
        kind = _AS_ONNX.get(node.type, node.type)
        nodes.append(onnx.helper.make_node(kind, node.inputs, node.outputs))
        if kind == "ReduceMean":
            keeps = int(node.source.get_attributes()["keep_dims"])
            nodes[-1].attribute.append(onnx.helper.make_attribute("keepdims", keeps))
        for value in (graph.declared.get(name, Value(name)) for name in node.inputs):
            array = _constant(value, graph, makers) if len(value.shape or ()) < 2 else None
            if array is not None:
                scope.add_tensor(value.name, onnx.numpy_helper.from_array(array))
    scope.owner.node.extend(nodes)
    return scope


def _constant(value: Value, graph: Graph, makers: dict[str, Node]) -> Array | None:
    """Return the array of a constant, which may go through Converts; None for any other value."""
    converts = []  # the last one first
    while (maker := makers.get(value.name)) and maker.type == "Convert" and value.type is not None:
        converts.append(maker)
        value = graph.declared.get(maker.inputs[0], Value(""))
    array = graph.constants.get(value.name)
    for convert in reversed(converts):
        if array is None or array.size > _MOST_CONSTANT:
            return None
        array = LAYERS["Convert"](convert, array)
    return array
