"""One use of an operator of ours in a model, and the clauses of its document that it breaks."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from halfulp.auditing.constant import describe_constant, values
from halfulp.auditing.halves import Net
from halfulp.errors import HalfulpError, SpecError, printable
from halfulp.models.graph import Array, agree, describe
from halfulp.specs import OpVersion, TensorType, find
from halfulp.specs.tensor import Shape

_SMALL = 1 << 12  # bytes of a constant that is compared by value


@dataclass(frozen=True, eq=False)
class Operand:
    """What is known of an input or an output before anything runs.

    Attributes:
        name: as the file spells it; empty for an input that is absent.
        type: an element type's name; None where it is not known.
        shape: as graphs have it; None where not even the rank is known.
        constant: the array that it always is, where the file holds it.
    """

    name: str
    type: str | None = None
    shape: Shape = None
    constant: Array | None = None

    def __str__(self) -> str:
        return describe(self.type, self.shape)

    @cached_property
    def values(self) -> Array | None:
        """The distinct values of the constant, as ``values`` has them."""
        return values(self.constant)

    @cached_property
    def text(self) -> str | None:
        """The values of the constant as tables show them; None where it is none."""
        return None if self.constant is None else describe_constant(self.constant, self.values)


@dataclass(frozen=True)
class Breach:
    """A clause that a node breaks, and how."""

    clause: str
    message: str


@dataclass(frozen=True, eq=False)
class Use:
    """One node of ours.

    Attributes:
        label: how messages name the node.
        operator: the id of the version in force.
        asked: the opset or feature level that puts it in force.
        inputs: in order.
        output: what the file or inference says of it.
        attributes: as the file spells them.
        refused: what the front end has found broken, where it went no further.
        net: the nodes around it; None where it has none.
    """

    label: str
    operator: str
    asked: str
    inputs: tuple[Operand, ...]
    output: Operand
    attributes: Mapping[str, Any] = field(default_factory=dict)
    refused: Breach | None = None
    net: Net | None = None

    @property
    def row(self) -> OpVersion:
        """The row of the version in force."""
        return find(self.operator)

    @cached_property
    def second(self) -> Operand:
        """The exponent or slope; DirectML's Exponent is a constant FLOAT."""
        if "Exponent" in self.attributes:
            exponent = np.array([self.attributes["Exponent"]], np.float32)
            return Operand("Exponent", exponent.dtype.name, exponent.shape, exponent)
        return self.inputs[1] if len(self.inputs) > 1 else Operand("")

    @cached_property
    def kind(self) -> Hashable:
        """Whatever two nodes have to have in common, besides their constants' values, to be judged alike."""
        operands = tuple((each.type, each.shape, each.constant is None) for each in self.inputs)
        attributes = repr(sorted(self.attributes.items()))
        return (
            self.operator,
            self.asked,
            operands,
            self.output.type,
            self.output.shape,
            attributes,
            self.refused,
        )

    @cached_property
    def constants(self) -> Hashable:
        """The values of the constants; of large ones the array that they are."""
        return tuple(
            None
            if array is None
            else (array.dtype, array.shape, array.tobytes() if array.nbytes <= _SMALL else id(array))
            for array in (operand.constant for operand in self.inputs)
        )

    @cached_property
    def types(self) -> tuple[str, ...] | None:
        """The inputs' types, where all are known."""
        types = tuple(operand.type for operand in self.inputs if operand.type is not None)
        return types if len(types) == len(self.inputs) else None


def breach_of(error: HalfulpError, clause: str) -> Breach:
    """Return an error as a breach of a clause, in one line."""
    shown = ", ".join(f"{name}: {value}" for name, value in error.shown.items())
    text = f"{error.message}; {shown}" if shown else error.message
    return Breach(clause, printable(text, most=None))


def breaches(use: Use) -> tuple[Breach, ...]:
    """Return every clause that a node breaks, whatever its unknown types and dims turn out to be.

    What is broken in one respect is looked at in the others too: attributes, types, shapes, output.
    """
    if use.refused is not None:
        return (use.refused,)
    row = use.row
    found: list[Breach] = []

    def note(error: SpecError) -> None:
        breach = breach_of(error, error.clause)
        if breach.clause not in {known.clause for known in found}:
            found.append(breach)

    attributes = dict(use.attributes)
    try:
        row.check_attributes(attributes)
    except SpecError as error:
        note(error)
        attributes = _allowed(row, attributes)
    types: list[str | None] = [operand.type for operand in use.inputs]
    # What is not known, and in a second round what is wrong, is taken to be right.
    nothing: list[str | None] = [None] * len(types)
    for given in (types, nothing):
        try:
            operands = _operands(row, use, given)
            result = row.infer(*operands, **attributes)
        except SpecError as error:
            note(error)
            continue
        _check_output(use, row, result, given is types and types[:1] != [None], note)
        break
    return tuple(found)


def _allowed(row: OpVersion, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that are right by themselves."""
    kept: dict[str, Any] = {}
    required = {a.name: attributes[a.name] for a in row.attributes if a.required and a.name in attributes}
    for name, value in attributes.items():
        try:
            row.check_attributes({**required, name: value})
        except SpecError:
            continue
        kept[name] = value
    return kept


def _operands(row: OpVersion, use: Use, types: list[str | None]) -> list[TensorType]:
    """Return the operands with allowed types where none is given: that of the same variable, if one is."""
    bound: dict[str, str] = {}
    for port, kind in zip(row.inputs, types, strict=False):
        if kind is not None:
            bound.setdefault(port.type, kind)
    ports = [row.inputs[min(index, len(row.inputs) - 1)] for index in range(len(use.inputs))]
    return [
        TensorType(kind or bound.get(port.type, row.type_variables[port.type][0]), operand.shape)
        for port, kind, operand in zip(ports, types, use.inputs, strict=True)
    ]


def _check_output(use: Use, row: OpVersion, result: TensorType, typed: bool, note: Any) -> None:
    """Compare what the file says of the output with what the operator gives."""
    port, output = row.outputs[0].name, use.output
    wrong_type = typed and output.type is not None and output.type != result.type
    if wrong_type or not agree(output.shape, result.shape):
        note(row.error("output", f"{port} is declared otherwise", expected=result, got=output))


def shown(value: Any) -> str:
    """Return an attribute's value in one line."""
    return printable(str(value))
