"""Replacing the nodes of an ONNX graph one by one: new nodes, constants and names that are free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto

from halfulp.errors import UnsupportedError
from halfulp.models.graph import Array, Value
from halfulp.models.onnx.infer import ValueInfo
from halfulp.models.onnx.tensors import enum_of
from halfulp.models.onnx.walk import Owner, read_names
from halfulp.specs.tensor import Shape


@dataclass(frozen=True)
class Change:
    """One thing that a conversion did.

    Attributes:
        node: the node, as messages name it.
        what: what was done to it, in one line.
        differs: how the result can still differ from the exact one; None where it can't.
        is_notice: whether nothing was done, and this is only said.
    """

    node: str
    what: str
    differs: str | None = None
    is_notice: bool = False

    def __str__(self) -> str:
        return f"{self.node}: {self.what}" + (f" ({self.differs})" if self.differs else "")


def counted(changes: Sequence[Change], noun: str = "change") -> str:
    """Return how many of these are changes, in words."""
    count = sum(not change.is_notice for change in changes)
    return f"{count} {noun}{'' if count == 1 else 's'}"


class NoExactForm(UnsupportedError):
    """A node can't be written in another version or format with the same results; ``why`` says it."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"no exact form: {why}")


class Names:
    """The names that a model uses, and new ones."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def new(self, wished: str) -> str:
        """Return a name that nothing has, like the one wished for."""
        name = unused(wished, self._taken)
        self._taken.add(name)
        return name


def unused(wished: str, taken: Container[str]) -> str:
    """Return a name that is not taken, like the one wished for."""
    name, number = wished, 1
    while name in taken:
        number += 1
        name = f"{wished}_{number}"
    return name


class Editor:
    """Collects the new nodes of one graph or function.

    Attributes:
        opset: the version that new nodes are of.
        known: what is known of the values; new ones are added.
        nodes: what was collected so far.
    """

    def __init__(self, owner: Owner, value_info: ValueInfo, names: Names, opset: int) -> None:
        self.owner = owner
        self.value_info = value_info
        self.opset = opset
        self.nodes: list[NodeProto] = []
        self.changes: list[Change] = []
        self._names = names
        self._makers: dict[str, NodeProto] = {}
        self._indexed = 0  # how many nodes the makers are known of
        self._dropped: set[int] = set()
        self._label: Callable[[], str] | None = None
        self._replaced = NodeProto()

    def start(self, node: NodeProto, label: Callable[[], str] | None) -> None:
        """Name the node that is being replaced: after it new values are called, and changes named.

        What is done to a node that the conversion itself has made is not worth a word: it has no label.
        """
        self._label = label
        self._replaced = node

    @cached_property
    def reads(self) -> Counter[str]:
        """How often each name is read before anything is replaced, by subgraphs and as an output, too."""
        return Counter(read_names(self.owner))

    def maker(self, name: str) -> NodeProto | None:
        """Return the node among those collected so far that makes a value, if one does."""
        for node in self.nodes[self._indexed :]:
            self._makers.update(dict.fromkeys(node.output, node))
        self._indexed = len(self.nodes)
        return self._makers.get(name)

    def drop(self, *nodes: NodeProto) -> None:
        """Leave out nodes that were collected before."""
        self._dropped.update(map(id, nodes))

    @property
    def left(self) -> list[NodeProto]:
        """The nodes that were collected and not dropped."""
        return [node for node in self.nodes if id(node) not in self._dropped]

    @property
    def label(self) -> str:
        """How messages name the node that is being replaced; empty for one that the conversion has made."""
        return "" if self._label is None else self._label()

    def note(self, what: str, differs: str | None = None) -> None:
        """Say what was done."""
        if self._label is not None:
            self.changes.append(Change(self._label(), what, differs))

    def keep(self, node: NodeProto) -> None:
        """Add a node as it is."""
        self.nodes.append(node)
        self.value_info.add_node(node)

    def add(
        self,
        op_type: str,
        inputs: Sequence[str],
        result: Value | None = None,
        *,
        output: str | None = None,
        like: NodeProto | None = None,
        **attributes: Any,
    ) -> str:
        """Add a node and return its output.

        Args:
            op_type: an operator of ONNX.
            inputs: names.
            result: the output's type and shape, where known.
            output: its name; a new one where not given.
            like: the node whose name, doc string and metadata it takes on.
        """
        name = output or self.new_name(op_type.lower())
        node = onnx.helper.make_node(op_type, list(inputs), [name], **attributes)
        if like is not None:
            inherit(node, like)
        if output is None and result is not None:
            self.value_info.types[name] = Value(name, result.type, result.shape)
        self.nodes.append(node)
        return name

    def new_name(self, suffix: str) -> str:
        """Return a free name made of the current node's output and a suffix."""
        node = self._replaced
        base = next(filter(None, node.output), node.name or node.op_type)
        return self._names.new(f"{base}_{suffix}")

    def constant(self, array: Array, suffix: str) -> str:
        """Return the name of a new constant."""
        tensor = onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape))
        return self.constant_tensor(tensor, suffix)

    def constant_tensor(self, tensor: TensorProto, suffix: str, *, name: str | None = None) -> str:
        """Return the name of a new constant that is a tensor already."""
        name = name or self.new_name(suffix)
        held = TensorProto()
        held.CopyFrom(tensor)
        held.name = name
        if isinstance(self.owner, GraphProto):
            # Not a Constant node: before opset 9 those hold floats only.
            self.owner.initializer.append(held)
        else:
            self.nodes.append(onnx.helper.make_node("Constant", [], [name], value=held))
        self.value_info.add_tensor(name, held)
        return name

    # --- plumbing, in the form that the opset has --------------------------------------------------

    def cast(self, name: str, to: str, *, output: str | None = None) -> str:
        """Return a value cast to an element type."""
        value = self.value_info.value(name)
        number = enum_of(to)
        target: Any = TensorProto.DataType.Name(number) if self.opset < 6 else number
        return self.add("Cast", [name], Value("", to, value.shape), output=output, to=target)

    def unsqueeze(self, name: str, axes: Sequence[int]) -> str:
        """Return a value with 1-dims inserted; a constant is stored in that shape instead."""
        value = self.value_info.value(name)
        assert value.shape is not None
        rank = len(value.shape) + len(axes)
        rest = iter(value.shape)
        shape: Shape = tuple(1 if axis in axes else next(rest) for axis in range(rank))
        return self._reshaped("Unsqueeze", name, axes, shape)

    def squeeze(self, name: str, axes: Sequence[int], *, output: str | None = None) -> str:
        """Return a value without some of its 1-dims; a constant is stored in that shape instead."""
        shape = self.value_info.value(name).shape
        assert shape is not None
        kept = tuple(dim for axis, dim in enumerate(shape) if axis not in axes)
        return self._reshaped("Squeeze", name, axes, kept, output)

    def _reshaped(
        self, op_type: str, name: str, axes: Sequence[int], shape: Shape, output: str | None = None
    ) -> str:
        if not axes and output is None:
            return name
        value = Value("", self.value_info.value(name).type, shape)
        tensor = self.value_info.tensor(name)
        if tensor is not None and output is None:
            held = TensorProto()
            held.CopyFrom(tensor)
            del held.dims[:]
            held.dims.extend(dim for dim in shape or () if isinstance(dim, int))
            return self.constant_tensor(held, "reshaped")
        if self.opset >= 13:
            where = self.constant(np.array(axes, np.int64), "axes")
            return self.add(op_type, [name, where], value, output=output)
        return self.add(op_type, [name], value, output=output, axes=list(axes))


def inherit(node: NodeProto, from_: NodeProto) -> None:
    """Give a node the name, doc string and metadata of the one that it replaces."""
    for field in ("name", "doc_string"):
        if from_.HasField(field):
            setattr(node, field, getattr(from_, field))
    node.metadata_props.extend(from_.metadata_props)
