"""What lies between the formats: operators that are ours and the plumbing around them, free of any format.

A format's reader makes a :class:`IR` of its file, a writer a file of one. Broadcasting here is NumPy's,
types are unrestricted: what a format lacks is its writer's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from halfulp.conversion.editor import Change, NoExactForm, unused
from halfulp.errors import HalfulpError, UnsupportedError
from halfulp.models.graph import Array, Value, type_name
from halfulp.specs.broadcast import NUMPY, UNIDIRECTIONAL, Mismatch
from halfulp.specs.tensor import Dim, Shape, TensorType


@dataclass(frozen=True)
class Op:
    """One operator: ``pow``, ``prelu``, ``cast`` ...; ``label`` is how messages name its node."""

    kind: str
    inputs: tuple[str, ...]
    output: str
    label: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class IR:
    """A graph between two formats.

    Attributes:
        file: its name in messages.
        name: the graph's.
        inputs, outputs: by the names that they are fed and asked for by.
        constants: by name.
        ops: each after those that it reads.
        types: of every value.
        changes: what was done, and what could not be carried over.
        defaults: what an input is where nothing is fed.
        renamed: the new names of outputs, by the old.
    """

    file: str
    name: str
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    types: dict[str, TensorType] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    defaults: dict[str, Array] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)

    def note(self, label: str, what: str, differs: str | None = None) -> None:
        """Say what was done."""
        self.changes.append(Change(label, what, differs))

    def add_input(self, value: Value) -> None:
        """Add an input, of a known type."""
        if value.kind != "tensor" or value.type is None:
            raise UnsupportedError(
                f"{self.file}: input {value.name!r} is no tensor of a known type", got=str(value)
            )
        self.inputs.append(value)
        self.types[value.name] = TensorType(value.type, value.shape)

    def add_constant(self, array: Array, name: str) -> str:
        """Add a constant, under a name like this if it is taken, and return that."""
        name = self.free(name)
        self.constants[name] = array
        self.types[name] = TensorType(type_name(array.dtype), array.shape)
        return name

    def add(
        self, kind: str, inputs: Sequence[str], label: str, output: str | None = None, **parameters: Any
    ) -> str:
        """Add an operator and return its output's name.

        Raises:
            HalfulpError: the shapes don't fit together.
        """
        name = output or self.free(f"{inputs[0]}_{kind}")
        self.types[name] = infer(kind, [self.types[i] for i in inputs], parameters)
        self.ops.append(Op(kind, tuple(inputs), name, label, parameters))
        return name

    def free(self, wished: str) -> str:
        """Return a name that no value has, like the one wished for."""
        return unused(wished, self.types)

    def rank(self, name: str) -> int:
        """Return a value's rank; raises NoExactForm where it is not known."""
        shape = self.types[name].shape
        if shape is None:
            raise NoExactForm(f"the rank of {name!r} is not known")
        return len(shape)


def infer(kind: str, operands: Sequence[TensorType], parameters: Mapping[str, Any]) -> TensorType:
    """Return the type and shape of an operator's output."""
    x = operands[0]
    try:
        match kind:
            case "cast":
                return TensorType(parameters["to"], x.shape)
            case "prelu":
                return TensorType(x.type, UNIDIRECTIONAL.infer(x.shape, operands[1].shape, {}))
            case "unsqueeze":
                _check_axes(x.shape, parameters["axes"])
                return TensorType(x.type, unsqueezed(x.shape, parameters["axes"]))
            case "reshape":
                return TensorType(x.type, _reshaped(x.shape, parameters["shape"]))
            case "identity" | "floor":
                return x
        shape = operands[-1].shape
        for operand in operands[:-1]:
            shape = NUMPY.infer(operand.shape, shape, {})
    except Mismatch as error:
        raise HalfulpError(error.message.format(x="the first input", y="the second")) from None
    if kind in ("less", "equal", "and"):
        return TensorType("bool", shape)
    return TensorType(operands[1].type if kind == "where" else x.type, shape)


def _check_axes(shape: Shape, axes: Sequence[int]) -> None:
    rank = len(axes) + len(shape or ())
    known = shape is not None
    if len(set(axes)) < len(axes) or (known and not all(0 <= axis < rank for axis in axes)):
        raise HalfulpError("the axes must be distinct dims of the output", got=list(axes)[:64])


def unsqueezed(shape: Shape, axes: Sequence[int]) -> Shape:
    """Return a shape with 1-dims inserted; the axes are those of the result, none negative."""
    if shape is None:
        return None
    rest = iter(shape)
    return tuple(1 if axis in axes else next(rest) for axis in range(len(shape) + len(axes)))


def _reshaped(shape: Shape, asked: Sequence[int]) -> Shape:
    """Return the shape of a Reshape in which 0 copies a dim and -1 is what remains."""
    dims: list[Dim] = []
    for axis, dim in enumerate(asked):
        copied = shape[axis] if dim == 0 and shape is not None and axis < len(shape) else None
        dims.append(copied if dim < 1 else dim)
    known = [dim for dim in dims if isinstance(dim, int)]
    given = [dim for dim in shape or () if isinstance(dim, int)]
    if -1 in asked and shape is not None and len(given) == len(shape) and len(known) == len(dims) - 1:
        others = prod(known)
        dims[list(asked).index(-1)] = prod(given) // others if others else None
    return tuple(dims)
