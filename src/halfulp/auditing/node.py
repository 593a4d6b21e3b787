"""One Pow or PRelu node of a model, and the clauses that it breaks."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from halfulp.conversion.editor import SIGNIFICANT
from halfulp.conversion.walk import breaches as clauses_broken
from halfulp.conversion.walk import fits_only_if
from halfulp.errors import printable
from halfulp.models.graph import Array, Value, describe
from halfulp.models.onnx.infer import Scope
from halfulp.specs import OpVersion, find
from halfulp.specs.tensor import Shape

_SMALL = 1 << 12  # the most bytes of a constant that is compared by value


@dataclass(eq=False)
class Operand:
    """An input or an output, with the properties that are known before anything runs."""

    name: str  # as the file spells it; empty for an input that is absent
    type: str | None = None  # an element type's name; None where it is not known
    shape: Shape = None  # as graphs have it; None where not even the rank is known
    constant: Array | None = None  # the array that it always is, where the file holds it; not in a report
    text: str | None = field(init=False, default=None)  # the values of that array as tables show them

    def __post_init__(self) -> None:
        if self.constant is not None:
            self.text = self._describe(self.constant)

    def __str__(self) -> str:
        shown = describe(self.type, self.shape)
        return shown if self.text is None else f"{shown} = {self.text}"

    @cached_property
    def by_value(self) -> Hashable:
        """A key that constants of equal types, shapes and values share. Each large constant has its own."""
        array = self.constant
        if array is None:
            return None
        return array.dtype, array.shape, array.tobytes() if array.nbytes <= _SMALL else id(array)

    @cached_property
    def values(self) -> Array | None:
        """The distinct values of the constant, sorted: as integers, or as float64, which holds all others.

        None for texts and complex numbers, which no operand of a valid node has.
        """
        wide = None if self.constant is None else _wide(self.constant.dtype)
        if self.constant is None or wide is None:
            return None
        with np.errstate(invalid="ignore"):  # signalling NaNs count as NaNs
            numbers = self.constant.astype(wide, copy=False)
        return numbers.reshape(1) if numbers.size == 1 else np.asarray(np.unique(numbers))

    def holds(self, text: str) -> bool:
        """Tell whether a number, as an example spells it, is among the values of the constant."""
        assert self.constant is not None
        number = number_in(self.constant.dtype, text)
        is_equal = np.any(self.values == number)
        return bool(is_equal or (number != number and np.any(self.values != self.values)))

    def _describe(self, constant: Array) -> str:
        values = self.values
        if values is None:
            return "?"
        texts = [number(constant.dtype.type(value)) for value in values[:4]]
        if values.size > 4:
            return f"{values.size} values from {texts[0]} to {number(constant.dtype.type(values[-1]))}"
        return ", ".join(texts) or "no values"


def number(value: Any) -> str:
    """Return a number with the digits that distinguish it from its neighbours."""
    return str(value).removesuffix(".0")


@lru_cache
def _wide(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the type in which values of a type are compared; None for texts and complex numbers."""
    if dtype.kind in "OUSTc":
        return None
    return dtype if dtype.kind in "iu" else np.dtype(np.int64 if "int" in dtype.name else np.float64)


@lru_cache(maxsize=4096)
def number_in(dtype: np.dtype[Any], text: str) -> Any:
    """Return a number rounded to a type of floats, in the type for comparisons."""
    if _wide(dtype) != np.float64:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array(float(text)).astype(dtype).astype(np.float64)[()]


class Breach(NamedTuple):
    """A clause that a node breaks, and how."""

    clause: str
    message: str


@dataclass(eq=False)
class Use:
    """One Pow or PRelu node, and the results for it; in a report without the network around it."""

    label: str  # how messages name the node
    operator: str  # the id of the version in force
    asked: str  # the opset or feature level that puts it in force
    inputs: tuple[Operand, ...]
    output: Operand  # with the type and shape from the file or from inference
    attributes: Mapping[str, Any] = field(default_factory=dict)  # as the file spells them
    scope: Scope | None = None  # in an ONNX model: its graph or function, and the values that it can read
    number: int = 0  # its place there
    folded: Collection[str] = ()  # the values around it that nodes compute from constants alone
    is_alone: bool = True  # whether no other node makes or reads its operands and its result
    mistaken: Mapping[str, str] = field(default_factory=dict)  # by runtime: why it is another function there
    is_base_positive: bool = False  # whether the base is never below 0, and never -0
    breaks: tuple[Breach, ...] = ()  # the clauses that it breaks
    targets: tuple[Any, ...] = ()  # the statement about it for each target
    only_if: str | None = None  # the condition on an unknown shape under which it is valid, if any
    notices: tuple[str, ...] = ()  # remarks about a node that has no errors

    @property
    def is_prelu(self) -> bool:
        """Whether it is a PRelu, under any standard's name."""
        return "relu" in self.operator.lower()

    @property
    def where(self) -> str:
        """How messages name the body or function around it; empty for the main graph."""
        return self.scope.where if self.scope else ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its inputs and its output."""
        return (*(operand.name for operand in self.inputs), self.output.name)

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
    def slope(self) -> tuple[Shape, Shape] | None:
        """The shapes of X and of the slope of a PRelu that has both."""
        return (
            (self.inputs[0].shape, self.inputs[1].shape) if self.is_prelu and len(self.inputs) == 2 else None
        )

    @cached_property
    def is_folded(self) -> bool:
        """Whether all operands are constants or computed from constants, so that a runtime computes it beforehand."""
        return all(operand.constant is not None or operand.name in self.folded for operand in self.inputs)

    @cached_property
    def is_ordinary(self) -> bool:
        """Whether it is a power of constants that are normal numbers, and so are all results, by far."""
        x, y = self.inputs[0], self.second
        if self.is_prelu or x.type not in SIGNIFICANT or x.values is None or y.values is None:
            return False
        if x.constant is None or x.values.size * y.values.size > _SMALL:
            return False
        facts = ml_dtypes.finfo(x.constant.dtype)  # type: ignore[no-untyped-call]
        with np.errstate(all="ignore"):
            powers = np.power.outer(x.values, y.values.astype(np.float64))
        least, most = 16 * float(facts.smallest_normal), float(facts.max) / 16
        sizes = np.abs(np.concatenate([x.values, powers.ravel()]))
        return bool(((sizes >= least) & (sizes <= most)).all())

    @cached_property
    def kind(self) -> Hashable:
        """The properties, besides their constants' values, that two nodes must share to be judged alike."""
        operands = tuple([(each.type, each.shape, each.constant is None) for each in self.inputs])
        output = self.output.type, self.output.shape
        attributes = repr(sorted(self.attributes.items())) if self.attributes else ""
        place = self.is_folded, self.is_alone, self.is_base_positive, *self.mistaken.items()
        return self.operator, self.asked, operands, output, attributes, place

    @property
    def constants(self) -> Hashable:
        """The values of the constants; for a large constant, the array itself."""
        return tuple([each.by_value for each in self.inputs])

    @cached_property
    def types(self) -> tuple[str, ...] | None:
        """The inputs' types, where all are known."""
        types = tuple(operand.type for operand in self.inputs if operand.type is not None)
        return types if len(types) == len(self.inputs) else None

    @property
    def without_findings(self) -> str:
        """The outcome of a node without findings: valid where no runtime was judged."""
        verdicts = {said.verdict for said in self.targets} or {"valid"}
        return next((each for each in ("unknown", "wider", "valid") if each in verdicts), "right")

    def let_go(self) -> None:
        """Drop the network around the node and the arrays of its constants, which a report does not need."""
        self.scope = None
        for operand in (*self.inputs, self.output, self.second):
            operand.constant = None
            vars(operand).pop("values", None)


def breaches(use: Use) -> tuple[Breach, ...]:
    """Return all clauses that a node breaks for every choice of its unknown types and dims."""
    by_clause: dict[str, Breach] = {}
    *operands, output = [Value(each.name, each.type, each.shape) for each in (*use.inputs, use.output)]
    for error in clauses_broken(use.row, operands, output, use.attributes):
        shown = ", ".join(f"{name}: {value}" for name, value in error.shown.items())
        text = f"{error.message}; {shown}" if shown else error.message
        by_clause.setdefault(error.clause, Breach(error.clause, printable(text, most=None)))
    return tuple(by_clause.values())


def open_slope(use: Use) -> str | None:
    """Return the condition on an unknown shape under which a slope fits; None without a condition."""
    return None if use.slope is None else fits_only_if(use.row, *use.slope)


def shown(value: Any) -> str:
    """Return an attribute's value in one line."""
    return printable(str(value))
