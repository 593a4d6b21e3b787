"""The questions that documents leave open, in one table by key for the rows, ``hu.audit`` and ``hu.check``.

First come the questions that rows of several standards share, with halfulp's choices. N1 to N7 are rules of the numeric
contract, which every row follows. ``QUESTIONS`` says by key which nodes each question concerns. A test checks that it
has all keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from halfulp.specs.model import Unspecified, questions
from halfulp.specs.tensor import Dim, Shape
from halfulp.types import TYPES

Array = NDArray[Any]

SHARED: Mapping[str, Unspecified] = {
    question.key: question
    for question in questions("""
        rounding (N1): How exact a floating result is.
            Choice: The exact real x^y of the operands as stored, rounded once to the output's type, to
            nearest, ties to even; subnormals are kept and overflow gives an infinity (in a type without one,
            what ml_dtypes converts an overflow to).
        special-values (N1): Results for zeros, infinities, NaN and a negative base.
            Choice: As pow of IEEE 754-2019 9.2.1: x^0 = 1 and 1^y = 1 even for a NaN; a negative finite base
            with a finite exponent that is not an integer gives NaN.
        nan (N2): Sign and payload of a NaN result.
            Choice: The canonical quiet NaN of the type, with the sign bit clear.
        integer-overflow (N3): An integer result that the type does not hold.
            Choice: The exact integer modulo 2^n (it wraps); 0^0 = 1.
        integer-base (N4): An integer base with a negative or a floating exponent.
            Choice: The exact real value truncated toward zero and saturated to the type; NaN gives 0, and 0
            to a negative power gives the type's maximum.
        environment (N7): Whether a result may depend on anything but its operands.
            Choice: It does not: not on the floating-point environment, shapes, position, alignment, strides,
            aliasing of the output, thread count or instruction set.
        prelu-zero-and-nan (N5): A NaN in the input, and the sign of a zero.
            Choice: x < 0 decides: NaN, +0 and -0 pass through bit for bit, even where the slope is NaN or
            infinite; a product that is NaN is the canonical quiet NaN.
        prelu-rounding (N5): How exact a floating product is.
            Choice: The exact product rounded once to the type, to nearest, ties to even.
        prelu-integer-overflow (N5): An integer product that the type does not hold.
            Choice: The product modulo 2^n (it wraps); an unsigned input is never below 0 and is copied.
    """)
}
"""The questions that rows of several standards share, by key, with halfulp's choices."""


def shared(*keys: str) -> tuple[Unspecified, ...]:
    """Return some of the shared questions."""
    return tuple(SHARED[key] for key in keys)


POW_FLOAT = shared("rounding", "special-values", "nan", "environment")
POW_ANY = (*POW_FLOAT[:-1], *shared("integer-overflow", "integer-base", "environment"))
PRELU_FLOAT = shared("prelu-zero-and-nan", "prelu-rounding", "environment")
PRELU_ANY = (*PRELU_FLOAT[:-1], *shared("prelu-integer-overflow", "environment"))


class Tensor(Protocol):
    """An operand. A type or shape of None is not known."""

    @property
    def type(self) -> str | None: ...

    @property
    def shape(self) -> Shape: ...


@dataclass(frozen=True)
class Node:
    """A node, which may be known in part, or a case.

    Attributes:
        x: the base, or PRelu's input.
        y: the exponent or slope; None if it is not an input.
        attributes: values by name.
        values: the distinct values of a constant exponent or slope, as float64 or as integers.
        exponent: the same as text.
    """

    x: Tensor
    y: Tensor | None
    attributes: Mapping[str, Any]
    values: Array | None = None
    exponent: str = "?"

    @property
    def named(self) -> str:
        """The type of X in words."""
        return self.x.type or "a type that is not known"

    @property
    def scales(self) -> bool:
        """Whether DirectML's scale and bias come before the power."""
        return self.attributes.get("ScaleBias") is not None

    def is_kind(self, *kinds: str) -> bool:
        """Return whether X may have a type of these kinds."""
        return _is_kind(self.x.type, kinds)

    def second_is_kind(self, *kinds: str) -> bool:
        """Return whether the exponent may have a type of these kinds. An attribute is a float."""
        return "float" in kinds if self.y is None else _is_kind(self.y.type, kinds)

    def holds_only(self, *allowed: int) -> bool:
        """Return whether the exponent or slope is a constant of only these values."""
        found = self.values
        return found is not None and found.size <= len(allowed) and all(n in allowed for n in found.tolist())

    def is_integral(self) -> bool:
        """Return whether all values of the constant exponent are integers."""
        assert self.values is not None
        return bool(integral(self.values).all())

    def may_have_one_slope(self) -> bool:
        """Return whether Y may have one element."""
        shape = None if self.y is None else self.y.shape
        return self.y is not None and (
            shape is None or all(dim in (1, None) or isinstance(dim, str) for dim in shape)
        )


def _is_kind(type: str | None, kinds: tuple[str, ...]) -> bool:
    return type is None or (type in TYPES and TYPES[type].kind in kinds)


def integral(array: Array) -> Array:
    """Tell for each element of an exponent whether it is an integer."""
    if array.dtype.kind in "iu":
        return np.ones(array.shape, bool)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.isfinite(array) & (np.floor(array) == array))


def number(value: Any) -> str:
    """Return a number with the digits that distinguish it from its neighbours."""
    return str(value).removesuffix(".0")


Where = Callable[[Node], str | None]
"""Describes how a question concerns a node, or returns None if it does not."""


# --- Pow -----------------------------------------------------------------------------------------


def _rounding(results: str, by: str, *exact: int) -> Where:
    """Describe the rounded results, unless the second operand makes all exact: if no scale and bias come
    before."""

    def where(node: Node) -> str | None:
        if not node.is_kind("float") or (node.holds_only(*exact) and not node.scales):
            return None
        return f"{results} in {node.named}" if node.values is None else f"{node.named} {by} {node.exponent}"

    return where


def _special_values(node: Node) -> str | None:
    if not node.is_kind("float"):
        return None
    if node.values is None:
        return "zeros, infinities, NaN and negative bases"
    if node.holds_only(0):
        return "x^0, of a NaN too"
    if not np.isfinite(node.values).all():
        return f"an exponent of {node.exponent}"
    if node.is_integral():
        return "a base of zero, infinity or NaN"
    return f"a base of zero, infinity or NaN, and a negative one to the power of {node.exponent}"


def _integer_overflow(node: Node) -> str | None:
    if not node.is_kind("int", "uint") or not node.second_is_kind("int", "uint"):
        return None
    if node.values is None:
        return f"a power that {node.named} does not hold"
    if node.values.dtype.kind not in "iu" or not (node.values > 1).any():
        return None
    return f"{node.named} to the power of {node.exponent}"


def _integer_base(node: Node) -> str | None:
    if not node.is_kind("int", "uint") or not node.second_is_kind("int", "float"):
        return None
    if node.values is None:
        floats = node.second_is_kind("float")
        return f"{node.named} to a power that is {'not an integer, or ' if floats else ''}below 0"
    if node.values.dtype.kind in "iu" and not (node.values < 0).any():
        return None
    return f"{node.named} to the power of {node.exponent}"


def _other(attribute: str, default: object, other: object) -> Where:
    def where(node: Node) -> str | None:
        value = node.attributes.get(attribute, default)
        return None if value in (default, other) else f"{attribute}={value}"

    return where


def _axis_alone(node: Node) -> str | None:
    axis = node.attributes.get("axis")
    alone = axis is not None and not node.attributes.get("broadcast", 0)
    return f"axis={axis} without broadcast=1" if alone else None


def _axis_of_one(node: Node) -> str | None:
    axis = node.attributes.get("axis")
    placed = axis is not None and node.attributes.get("broadcast", 0)
    return f"axis={axis} and a Y of {node.y}" if placed and node.may_have_one_slope() else None


def _negative_axis(node: Node) -> str | None:
    axis = node.attributes.get("axis")
    return f"axis={axis}" if isinstance(axis, int) and axis < 0 else None


def _differing_shapes(node: Node) -> str | None:
    if node.attributes.get("broadcast", 0) or node.y is None:
        return None
    x, y = node.x.shape, node.y.shape
    known = x is not None and y is not None and None not in (*x, *y)
    return None if known and x == y else f"{node.x} and {node.y} without broadcast=1"


# --- PRelu ---------------------------------------------------------------------------------------


def _prelu_zero_and_nan(node: Node) -> str | None:
    return "an X of zero or NaN" if node.is_kind("float") else None


def _prelu_integer(node: Node) -> str | None:
    copied = not node.is_kind("uint") and node.holds_only(0, 1)
    return f"products in {node.named}" if node.is_kind("int", "uint") and not copied else None


def _slope(may_be: Callable[[tuple[Dim, ...]], bool]) -> Where:
    """Describe a slope whose shape may meet a condition. One of an unknown rank may."""

    def where(node: Node) -> str | None:
        if node.y is None or (node.y.shape is not None and not may_be(node.y.shape)):
            return None
        return f"a slope of {node.y}"

    return where


def _higher_slope(node: Node) -> str | None:
    if node.y is None:
        return None
    if node.y.shape is None:
        return "a slope whose rank is not known"
    if node.x.shape is None:
        return "an X whose rank is not known" if node.y.shape else None
    return f"a slope of {node.y}" if len(node.y.shape) > len(node.x.shape) else None


# --- OpenVINO and DirectML -----------------------------------------------------------------------


def _narrow_types(node: Node) -> str | None:
    least = 16 if node.is_kind("float") else 8
    usual = node.x.type in TYPES and TYPES[str(node.x.type)].bits >= least
    return None if usual else f"operands in {node.named}"


def _negative_base(node: Node) -> str | None:
    if not (node.is_kind("float", "int") or node.scales) or not node.second_is_kind("float"):
        return None
    if node.values is None:
        return "a negative base to a power that is not an integer"
    return None if node.is_integral() else f"a negative base to the power of {node.exponent}"


def _not_float32(node: Node) -> str | None:
    numbers = [node.attributes.get("Exponent"), *(node.attributes.get("ScaleBias") or ())]
    with np.errstate(over="ignore"):
        rounded = [n for n in numbers if n is not None and float(np.float32(n)) != n and n == n]
    return f"{number(rounded[0])} is not a float32" if rounded else None


class Question(NamedTuple):
    """The nodes that a question concerns.

    Attributes:
        where: describes how the question concerns a node; None if it does not.
        of_case: the part of a case that ``hu.check`` then does not judge. ``all``: nothing is judged.
            ``refusal``: only an output is judged. Empty: at most some elements are not judged.
        judged: whether a case is judged anyway, because every reading of the document gives the same result.
    """

    where: Where
    of_case: Literal["", "all", "refusal"] = ""
    judged: Callable[[Node], bool] = lambda node: False

    def concerns(self, case: Node, much: str) -> bool:
        """Return whether this part of a case, as in ``of_case``, is open."""
        return self.of_case == much and self.where(case) is not None and not self.judged(case)


def _shape(tensor: Tensor | None) -> tuple[Dim, ...]:
    """Return the shape of an operand of a case. It is empty without an operand."""
    return (tensor and tensor.shape) or ()


def _is_integer(node: Node, attribute: str) -> bool:
    """Return whether an attribute is an integer. Another type makes a case invalid anyway."""
    return isinstance(node.attributes.get(attribute), int)


def _added(node: Node) -> tuple[Dim, ...]:
    """Return the leading dims that a slope of higher rank has in addition to X's."""
    return _shape(node.y)[: len(_shape(node.y)) - len(_shape(node.x))]


QUESTIONS: Mapping[str, Question] = {
    "rounding": Question(_rounding("powers", "to the power of", 0, 1)),
    "special-values": Question(_special_values),
    "nan": Question(lambda n: "every NaN" if n.is_kind("float") and not n.holds_only(0) else None),
    "integer-overflow": Question(_integer_overflow),
    "integer-base": Question(_integer_base),
    "environment": Question(lambda n: "every result"),
    "prelu-zero-and-nan": Question(_prelu_zero_and_nan),
    "prelu-rounding": Question(_rounding("products", "times", 0, 1, -1)),
    "prelu-integer-overflow": Question(_prelu_integer),
    # Without broadcast=1 an axis belongs to the next question.
    "negative-axis": Question(_negative_axis, "all", lambda n: n.attributes.get("broadcast") != 1),
    "axis-without-broadcast": Question(_axis_alone, "all", lambda node: not _is_integer(node, "axis")),
    "axis-of-one-element": Question(_axis_of_one, "all", lambda node: not _is_integer(node, "axis")),
    "shapes-without-broadcast": Question(_differing_shapes, "all"),
    "other-broadcast": Question(
        _other("broadcast", 0, 1), "all", lambda node: not _is_integer(node, "broadcast")
    ),
    # The channels of an X of rank 2 are its last dim: every reading is the same.
    "slope-of-rank-1": Question(
        _slope(lambda shape: len(shape) == 1 and shape != (1,)),
        "all",
        lambda node: len(_shape(node.x)) == 2 and _shape(node.x)[1:] == _shape(node.y),
    ),
    # A slope of X's shape needs no broadcasting.
    "slope-of-rank-2": Question(
        _slope(lambda shape: len(shape) > 1),
        "all",
        lambda node: node.may_have_one_slope() or _shape(node.x) == _shape(node.y),
    ),
    "slope-of-one-element": Question(
        lambda n: f"a slope of {n.y}" if n.may_have_one_slope() else None,
        "all",
        lambda n: len(_shape(n.y)) == 1,
    ),
    "output-shape": Question(lambda n: f"an X of {n.x}"),
    "slope-of-higher-rank": Question(_higher_slope, "all", lambda node: set(_added(node)) != {1}),
    "other-auto-broadcast": Question(
        _other("auto_broadcast", "numpy", "none"),
        "all",
        lambda node: node.attributes["auto_broadcast"] not in ("explicit", "pdpd"),
    ),
    "supported-types": Question(_narrow_types, "refusal"),
    "differing-sizes": Question(
        lambda n: f"{n.x} and {n.y}" if n.y is not None and n.x.shape != n.y.shape else None, "all"
    ),
    "negative-base": Question(_negative_base),
    "scale-bias-rounding": Question(
        lambda n: "ScaleBias is given" if n.scales and n.is_kind("float") else None
    ),
    "scale-bias-of-integers": Question(
        lambda n: f"ScaleBias is given with {n.named}" if n.scales and n.is_kind("int", "uint") else None,
        "all",
    ),
    "exponent-not-float32": Question(_not_float32),
    "prelu-nan": Question(_prelu_zero_and_nan),
    "draft-special-values": Question(_special_values),
    "negative-exponent": Question(_integer_base),
}
"""By the question's key."""
