"""Replacing the nodes of an ONNX graph one by one: new nodes, constants and names that are free."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from halfulp.conversion.rewrite.value_info import ValueInfo, type_of_tensor
from halfulp.errors import UnsupportedError
from halfulp.models.graph import Array, Value
from halfulp.specs.tensor import Shape


@dataclass(frozen=True)
class Change:
    """One thing that a conversion did.

    Attributes:
        node: the node, as messages name it.
        what: what was done to it, in one line.
        differs: how the result can still differ from the exact one; None where it can't.
    """

    node: str
    what: str
    differs: str | None = None

    def __str__(self) -> str:
        return f"{self.node}: {self.what}" + (f" ({self.differs})" if self.differs else "")


class NoExactForm(UnsupportedError):
    """A node can't be written in another version or format with the same results; ``why`` says it."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"no exact form: {why}")


class Names:
    """The names that a model uses, and new ones."""

    def __init__(self, model: ModelProto) -> None:
        self._taken: set[str] = set()
        self._collect(model.graph)
        for function in model.functions:
            self._taken.update(function.input, function.output)
            self._collect_nodes(function.node)

    def _collect(self, graph: GraphProto) -> None:
        for infos in (graph.input, graph.output, graph.value_info, graph.initializer):
            self._taken.update(info.name for info in infos)
        self._taken.update(sparse.values.name for sparse in graph.sparse_initializer)
        self._collect_nodes(graph.node)

    def _collect_nodes(self, nodes: Iterable[NodeProto]) -> None:
        for node in nodes:
            self._taken.update(node.input, node.output)
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    self._collect(attribute.g)

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

    def __init__(
        self, owner: GraphProto | FunctionProto, value_info: ValueInfo, names: Names, opset: int
    ) -> None:
        self.owner = owner
        self.value_info = value_info
        self.opset = opset
        self.nodes: list[NodeProto] = []
        self.changes: list[Change] = []
        self._names = names
        self._label = ""
        self._base = ""

    def start(self, node: NodeProto, label: str, *, silent: bool = False) -> None:
        """Name the node that is being replaced: after it new values are called, and changes named.

        What is done to a node that the conversion itself has made is not worth a word (``silent``).
        """
        self._label = "" if silent else label
        self._base = next(filter(None, node.output), node.name or node.op_type)

    @property
    def label(self) -> str:
        """How messages name the node that is being replaced; empty for one that the conversion has made."""
        return self._label

    def note(self, what: str, differs: str | None = None) -> None:
        """Say what was done."""
        if self._label:
            self.changes.append(Change(self._label, what, differs))

    def keep(self, node: NodeProto) -> None:
        """Add a node as it is."""
        self.nodes.append(node)
        self.value_info.add_nodes([node])

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
        return self._names.new(f"{self._base}_{suffix}")

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
        self.value_info.constants[name] = held
        self.value_info.types[name] = type_of_tensor(held)
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


@lru_cache(maxsize=256)
def enum_of(type_name: str) -> int:
    """Return the number of an element type in TensorProto.DataType."""
    from halfulp.models.run.inputs import dtype_named

    return onnx.helper.np_dtype_to_tensor_dtype(dtype_named(type_name))
