"""The parts of a row: ports, attributes, clauses, and what else an OpVersion holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from halfulp.specs.tensor import TensorType


@dataclass(frozen=True)
class Port:
    """An input or an output: its name, its type variable, and what the document says of it."""

    name: str
    type: str
    text: str


@dataclass(frozen=True)
class Attribute:
    """An attribute: its name and type in the document, default, allowed values and text.

    A default of None with ``required`` false means "not set".
    """

    name: str
    type: str
    text: str
    default: Any = None
    required: bool = False
    values: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Clause:
    """A numbered rule of the document, and the checks that enforce it (none: the arithmetic does)."""

    id: str
    text: str
    enforces: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unspecified:
    """What the document leaves open, our choice, and the rule of the numeric contract it follows.

    The key names the question for programs; it is the same in every row that has the question. The rest is for people.
    """

    key: str
    question: str
    choice: str
    rule: str | None = None


@dataclass(frozen=True)
class Limits:
    """Bounds on tensors: the least and the greatest rank, and the most elements; sizes are >= 1."""

    ranks: tuple[int, int]
    elements: int


@dataclass(frozen=True)
class Example:
    """An example of the document: types and shapes, and values where it gives them."""

    name: str
    inputs: tuple[TensorType, ...]
    output: TensorType
    attributes: Mapping[str, Any] = field(default_factory=dict)
    values: tuple[Any, ...] = ()
    result: Any = None


@dataclass(frozen=True)
class Plan:
    """What a call needs to know: made once for given types, shapes and attributes.

    Attributes:
        output: the output's type and shape.
        y_shape: the shape to view Y in, so that NumPy's broadcasting of X and Y gives the output.
    """

    output: TensorType
    y_shape: tuple[int, ...]
