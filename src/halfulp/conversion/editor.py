"""Replacing the nodes of an ONNX graph one by one: new nodes, constants and names that are free.

It converts operands between the broadcasting of opset 6 (``axis``, ``broadcast``) and that of opset 7
(NumPy's), and tells which element types hold every value of another one.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto

from halfulp.errors import HalfulpError, UnsupportedError
from halfulp.models.graph import Array, Value, unused
from halfulp.models.onnx.infer import Scope
from halfulp.models.onnx.tensors import enum_of
from halfulp.models.onnx.walk import plain_domain, read_names, readers_of
from halfulp.models.run.cast import cast
from halfulp.models.run.inputs import dtype_named
from halfulp.specs.broadcast import LEGACY_AXIS, Mismatch
from halfulp.types import FLOATS, TYPES, Dim

WRAPS = "wraps around, where the power saturates"
"""How products of integers differ from a power with a floating-point exponent."""


@dataclass(frozen=True)
class Change:
    """One thing that a conversion did.

    Attributes:
        node: the node, as messages name it; empty where it stands alone.
        what: the change, in one line.
        differs: how the result can still differ from the exact one; None where it can't.
        ulps: by how many units in the last place it can: of each element for a Pow or PRelu, of the greatest for
            another operator. With None, by as many as the roundings in the operators of such a change explain.
        is_notice: whether nothing was changed, and this is information only.
        output: the first output of the node; empty where the change is not one to a node of an ONNX model.
    """

    node: str
    what: str
    differs: str | None = None
    is_notice: bool = False
    output: str = ""
    ulps: float | None = None

    def __str__(self) -> str:
        where = f"{self.node}: " if self.node else ""
        return where + self.what + (f" ({self.differs})" if self.differs else "")


class NoExactForm(UnsupportedError):
    """A node can't be written in another version or format with the same results; the message is the reason."""


class Editor:
    """Collects the new nodes of one graph or function, and the changes.

    New values are added to ``scope``, whose functions ``value``, ``tensor`` and ``array`` it has; new names to
    ``names()``, those of the model. New nodes are of version ``opset``. Without ``names`` an editor is a view, which
    has the nodes of the graph already and answers for their values.
    """

    def __init__(self, scope: Scope, names: Callable[[], set[str]] | None = None) -> None:
        self.scope, self.owner, self.opset = scope, scope.owner, scope.opset
        self.value, self.tensor, self.array = scope.value, scope.tensor, scope.array
        self.nodes: list[NodeProto] = [] if names else [*scope.owner.node]
        self.changes = list[Change]()
        self._names = names or set
        self._makers: dict[str, NodeProto] = {}
        self._indexed = 0  # how many nodes are already in the table of makers
        self.dropped = set[int]()  # the ids of nodes that were collected before and are left out
        self.start(NodeProto(), "")

    def start(self, node: NodeProto, label: str) -> None:
        """Set the node that is being replaced, and its name in messages: none for one that the conversion has made."""
        self._replaced, self.label = node, label

    @cached_property
    def reads(self) -> Counter[str]:
        """How often each name is read before any replacement. Subgraphs and outputs count as readers."""
        return Counter(read_names(self.owner))

    @cached_property
    def readers(self) -> Mapping[str, list[NodeProto]]:
        """The nodes that read each value before any replacement, in this graph."""
        return readers_of(self.owner.node)

    def maker(self, name: str) -> NodeProto | None:
        """Return the node of ONNX's own domain among those collected so far that makes a value, if one does."""
        for node in self.nodes[self._indexed :]:
            if not plain_domain(node.domain):
                self._makers.update(dict.fromkeys(node.output, node))
        self._indexed = len(self.nodes)
        return self._makers.get(name)

    def note(
        self, what: str, differs: str | None = None, *, is_notice: bool = False, ulps: float | None = None
    ) -> None:
        """Record a change, or a notice about a node that stays; of a node that the conversion has made, nothing."""
        if self.label:
            output = next(iter(self._replaced.output), "")
            self.changes.append(Change(self.label, what, differs, is_notice, output, ulps))

    def keep(self, node: NodeProto) -> None:
        """Add a node unchanged."""
        self.nodes.append(node)
        if node is not self._replaced:
            self.scope.add_node(node)

    def add(self, op_type: str, inputs: Sequence[str], result: Value, **attributes: Any) -> str:
        """Add a node and return its output, which gets a new name if the result has none."""
        name = result.name or self.new_name(op_type.lower(), result)
        self.keep(onnx.helper.make_node(op_type, list(inputs), [name], **attributes))
        return name

    def new_name(self, suffix: str, like: Value | None = None) -> str:
        """Return a free name made of the current node's output and a suffix, for a value that is like another one."""
        base = next(filter(None, self._replaced.output), self._replaced.op_type)
        name = unused(f"{base}_{suffix}", names := self._names())
        names.add(name)
        if like is not None:
            self.scope.types[name] = Value(name, like.type, like.shape)
        return name

    def constant(self, value: Array | TensorProto, suffix: str, *, name: str | None = None) -> str:
        """Add a constant, and return its name, which is a new one if none is given."""
        name = name or self.new_name(suffix)
        held = deepcopy(value) if isinstance(value, TensorProto) else onnx.numpy_helper.from_array(value)
        held.name = name
        if isinstance(self.owner, GraphProto):
            # An initializer, because Constant nodes hold only floats before opset 9.
            self.owner.initializer.append(held)
        else:
            self.nodes.append(onnx.helper.make_node("Constant", [], [name], value=held))
        self.scope.add_tensor(name, held)
        return name

    def type_of(self, name: str) -> str:
        """Return the type of a value; raises NoExactForm where it is not known."""
        if (kind := self.value(name).type) is None:
            raise NoExactForm(f"the type of its input {name!r} is not known")
        return kind

    def shape_of(self, name: str, why: str) -> tuple[Dim, ...]:
        """Return the shape of a value; raises NoExactForm with a reason where it is not known."""
        if (shape := self.value(name).shape) is None:
            raise NoExactForm(why)
        return shape

    # --- plumbing, in the form that the opset has --------------------------------------------------

    def cast(self, name: str, to: str, *, output: str = "") -> str:
        """Return a value cast to an element type."""
        target: Any = TensorProto.DataType.Name(enum_of(to)) if self.opset < 6 else enum_of(to)
        return self.add("Cast", [name], Value(output, to, self.value(name).shape), to=target)

    def keep_cast(self, node: NodeProto, made: str, back: str, *, rounds: bool = False) -> None:
        """Add a node that computes in one type, and a cast of its result to another type, under the output's name."""
        output, wide = node.output[0], Value("", made, self.value(node.output[0]).shape)
        result = node.output[0] = self.new_name("wide", wide)
        self.keep(node)
        self.cast(self.add("Round", [result], wide) if rounds else result, back, output=output)

    def unsqueeze(self, name: str, axes: Sequence[int]) -> str:
        """Return a value with 1-dims inserted; a constant is stored in that shape instead."""
        rest = iter(shape := self.shape_of(name, ""))
        wanted = [1 if axis in axes else next(rest) for axis in range(len(shape) + len(axes))]
        return self.reshape(name, wanted, axes) if axes else name

    def squeeze(self, name: str, axes: Sequence[int], *, output: str = "") -> str:
        """Return a value without some of its 1-dims; a constant is stored in that shape instead."""
        kept = [dim for axis, dim in enumerate(self.shape_of(name, "")) if axis not in axes]
        return self.reshape(name, kept, axes, output) if axes else name

    def reshape(self, name: str, shape: Sequence[Dim], axes: Sequence[int] = (), output: str = "") -> str:
        """Return a value in another shape, where its axes change only those; a constant is stored so instead."""
        if not output and (tensor := self.tensor(name)) is not None:
            held = deepcopy(tensor)
            held.dims[:] = shape
            return self.constant(held, "reshaped")
        value = self.value(name)
        op_type, said, since, numbers = "Reshape", "shape", 5, shape
        if axes:
            op_type = "Unsqueeze" if len(shape) > len(value.shape or ()) else "Squeeze"
            said, since, numbers = "axes", 13, axes
        is_input = self.opset >= since
        inputs = [name, self.constant(np.array(numbers, np.int64), said)] if is_input else [name]
        attributes: dict[str, Any] = {} if is_input else {said: list(numbers)}
        return self.add(op_type, inputs, Value(output, value.type, tuple(shape)), **attributes)


def inherit(node: NodeProto, from_: NodeProto) -> None:
    """Give a node the name, doc string and metadata of the one that it replaces."""
    for field in ("name", "doc_string"):
        if from_.HasField(field):
            setattr(node, field, getattr(from_, field))
    node.metadata_props.extend(from_.metadata_props)


def remade(
    node: NodeProto, inputs: Sequence[str] | None = None, drop: Container[str] = (), **attributes: Any
) -> NodeProto:
    """Return a copy of a node: with these inputs, where given, without some attributes and with others."""
    new = deepcopy(node)
    if inputs is not None:
        new.input[:] = inputs
    for attribute in node.attribute:
        if attribute.name in drop or attribute.name in attributes:
            new.attribute.remove(attribute)
    new.attribute.extend(onnx.helper.make_attribute(name, value) for name, value in attributes.items())
    return new


_MOST_COPIES = 256  # limit on the repetitions of a value along a dim, all of them inputs of one Concat

# The most bits that a value of a type has. A type with at least as many holds each of these values.
SIGNIFICANT = {"int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32}
SIGNIFICANT |= {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


# --- shapes ---------------------------------------------------------------------------------------


def from_legacy(node: NodeProto, attributes: dict[str, int], edit: Editor) -> str:
    """Return the second operand in the shape that NumPy's rules fit to the first."""
    if len(node.input) < 2:  # repair leaves such a node, and may convert the model to a newer opset
        raise NoExactForm(f"{node.op_type} takes 2 inputs")
    y_name: str = node.input[1]
    x, y = edit.value(node.input[0]), edit.value(y_name)
    axis, shape = attributes.get("axis"), y.shape
    if node.op_type != "Pow" and shape is not None and attributes.get("broadcast"):
        shape = tuple(None if dim == 1 else dim for dim in shape)  # as models.run.api does it
    try:
        LEGACY_AXIS.infer(x.shape, shape, attributes)
    except Mismatch as error:
        raise HalfulpError(error.message.format(x="X", y="Y"), got=f"{x} and {y}") from None
    if not attributes.get("broadcast") or axis is None or is_one(y):
        return y_name
    why = f"axis={axis} counts from X's first dim, and the ranks of X and Y are not known"
    rank, own = (len(edit.shape_of(name, why)) for name in node.input)
    return edit.unsqueeze(y_name, range(own, rank - axis % rank))


def to_legacy(x_name: str, y_name: str, edit: Editor) -> tuple[str, str, dict[str, Any]]:
    """Return two operands that opset 6 broadcasts as NumPy's rules broadcast these, and the attributes for it."""
    x, y = edit.value(x_name), edit.value(y_name)
    if x.shape is not None and x.shape == y.shape and None not in x.shape:
        return x_name, y_name, {}
    if x.shape is None or y.shape is None:
        if y.shape in ((), (1,)):
            return x_name, y_name, {"broadcast": 1}
        raise NoExactForm("opset 6 broadcasts by the ranks of X and Y, and they are not known")
    x_name = edit.unsqueeze(x_name, range(len(y.shape) - len(x.shape)))
    x_dims = edit.shape_of(x_name, "")
    if is_one(y):
        return x_name, y_name, {"broadcast": 1} if x_dims != y.shape else {}
    lead = len(x_dims) - len(y.shape)
    padded = (1,) * lead + y.shape
    dims = [*zip(x_dims, padded, strict=True)]
    for a, b in dims:
        if 1 not in (a, b) and (a is None or a != b) and {type(a), type(b)} != {int}:
            raise NoExactForm(
                "whether a dim of X and one of Y are equal, or one of them is 1, is not known until it runs:"
                f" {a or '?'} and {b or '?'}"
            )
    for axis, (a, b) in enumerate(dims):
        if a == 1 and b != 1:
            x_name = _repeated(x_name, axis, b, "X", edit)
    run = [axis for axis, dim in enumerate(padded) if dim != 1]
    start, end = run[0], run[-1] + 1
    for axis, (a, b) in enumerate(dims[start:end], start):
        if b == 1 and a != 1:
            y_name = _repeated(y_name, axis - lead, a, "Y", edit)
    y_name = edit.squeeze(y_name, [*range(start - lead), *range(end - lead, len(y.shape))])
    is_whole = (start, end) == (0, len(dims))
    return x_name, y_name, {} if is_whole else {"axis": start, "broadcast": 1}


def _repeated(name: str, axis: int, times: Dim, which: str, edit: Editor) -> str:
    """Return a value repeated along a dim that is 1."""
    shape, array = edit.shape_of(name, ""), edit.array(name)
    if not isinstance(times, int):
        raise NoExactForm(f"{which} would have to be repeated {times or '?'} times, not known until it runs")
    if times > _MOST_COPIES or not times:
        raise NoExactForm(f"opset 6 can't broadcast {which} here, and it would be repeated {times} times")
    if array is not None:
        return edit.constant(array.repeat(times, axis), "repeated")
    edit.note(f"{which} is repeated {times} times along dim {axis}")
    result = Value("", edit.value(name).type, (*shape[:axis], times, *shape[axis + 1 :]))
    return edit.add("Concat", [name] * times, result, axis=axis)


def is_one(value: Value) -> bool:
    """Tell whether a value is known to have one element."""
    return value.shape is not None and all(dim == 1 for dim in value.shape)


# --- types ----------------------------------------------------------------------------------------


def holds(kind: str, other: str) -> bool:
    """Tell whether a type holds every value of another one."""
    if kind in FLOATS and kind != other:
        # bfloat16 has the range of float32, and so more than float16.
        has_range = other != "bfloat16" or kind in ("float32", "float64")
        return has_range and SIGNIFICANT.get(other, 64) <= SIGNIFICANT.get(kind, 0)
    own, others = TYPES[kind], TYPES[other]
    if own.kind == others.kind:
        return own.bits >= others.bits
    return (own.kind, others.kind) == ("int", "uint") and own.bits > others.bits


def exactly_as(array: Array, kind: str) -> Array | None:
    """Return an array in another type, or None where that would change a value."""
    with np.errstate(all="ignore"):
        there = cast(array, dtype_named(kind))
        back = cast(there, array.dtype)
    same = (back == array) | ((array != array) & (there != there))
    if array.dtype.kind in "iu":
        # Values beyond an integer type come back as its largest value.
        same &= (np.abs(there.astype(np.float64)) < 2.0**63) & ((there < 0) == (array < 0))
    return there if same.all() else None


def settle(
    node: NodeProto, kinds: Iterable[str], edit: Editor, why: str = "", x: str = "", may_round: bool = False
) -> bool:
    """Give a node's second operand the first type that holds it exactly, else the widest if it may be rounded.

    ``x``, the type of X, is tried first, then float32. Return whether one of the types does. A constant is stored in
    it, and any other operand is cast to it.
    """
    name, noun = node.input[1], "exponent" if node.op_type == "Pow" else "slope"
    kinds = sorted(kinds, key=lambda kind: (kind != x, kind != "float32"))
    own, array = edit.type_of(name), edit.array(name)

    def is_held(kind: str) -> bool:
        return holds(kind, own) if array is None else exactly_as(array, kind) is not None

    kind = next(filter(is_held, kinds), "")
    differs = None
    if not kind and may_round:
        kind = max(kinds, key=lambda each: (each in FLOATS, SIGNIFICANT.get(each, 64)))
        said = "is rounded" if {kind, own} & {*FLOATS} else "wraps around"
        differs = f"{'an' if noun == 'exponent' else 'a'} {noun} that {kind} does not hold {said}"
    if kind:
        exactly = ", exactly" if differs is None else ""
        if array is None:
            edit.note(f"the {noun} is cast from {own} to {kind}{exactly}{why and f': {why}'}", differs)
            node.input[1] = edit.cast(name, kind)
        else:
            edit.note(f"the {noun}, a constant in {own}, is stored in {kind}{exactly}", differs)
            node.input[1] = edit.constant(cast(array, dtype_named(kind)), noun)
    return bool(kind)
