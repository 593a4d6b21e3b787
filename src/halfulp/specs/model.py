"""A row and its parts: OpVersion, ports, attributes, clauses, and the checks that all rows share.

A row is data: ports, types, attributes, the broadcasting rule, limits, clauses. Each check has a name. The error of a
failed check names the clause that lists the check under ``enforces``.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from inspect import cleandoc
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from halfulp.errors import SpecError, UnsupportedError, count_of
from halfulp.specs.broadcast import Mismatch, Rule
from halfulp.types import TYPES, TensorType, tensor_type, to_odd, type_name

if TYPE_CHECKING:
    from onnx import FunctionProto

Kernel = Literal["pow", "pow_directml", "prelu"]

MOST_ELEMENTS = 2**32 - 1  # of a tensor whose rank is bounded


class Port(NamedTuple):
    """An input or an output: its name, its type variable, and the document's text."""

    name: str
    type: str
    text: str


class Attribute(NamedTuple):
    """An attribute: its name and type in the document, default, allowed values and text."""

    name: str
    type: str
    text: str
    default: Any = None  # not set, or required
    required: bool = False
    values: tuple[Any, ...] = ()


class Clause(NamedTuple):
    """A numbered rule of the document, and the checks that enforce it; without any, the arithmetic follows it."""

    id: str
    text: str
    enforces: tuple[str, ...] = ()


class Unspecified(NamedTuple):
    """A question that the document leaves open, halfulp's choice, and the rule of the numeric contract behind it."""

    key: str  # for programs, the same in all rows with the question; the rest is for people
    rule: str | None
    question: str
    choice: str


class Example(NamedTuple):
    """An example of the document: types and shapes, and values if it has them."""

    name: str
    inputs: tuple[TensorType, ...]
    output: TensorType
    attributes: Mapping[str, Any] = MappingProxyType({})
    values: tuple[Any, ...] = ()
    result: Any = None


class Plan(NamedTuple):
    """The plan of calls with the same types, shapes and attributes."""

    output: TensorType
    # In which Y is viewed, so that NumPy's broadcasting of X and Y gives the output's shape.
    y_shape: tuple[int, ...]


@dataclass(frozen=True, eq=False, repr=False)
class OpVersion:
    """One version of one operator, as in its document. ``halfulp.pages`` shows it."""

    id: str  # such as "onnx.Pow-13", whose parts are the next three
    standard: str = field(init=False)
    name: str = field(init=False)
    version: str = field(init=False)
    since_version: str = field(init=False)  # the version as the document names it
    summary: str  # the operator in a sentence
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    type_variables: Mapping[str, tuple[str, ...]]  # the names of the types that each allows
    broadcasting: Rule
    clauses: tuple[Clause, ...]  # the document's rules, numbered C1, C2, ...
    unspecified: tuple[Unspecified, ...]  # the questions that it leaves open, with halfulp's choices
    source: str  # the public address of the document
    kernel: Kernel  # the arithmetic that computes it
    attributes: tuple[Attribute, ...] = ()
    support_level: str | None = None  # these three as in the document; None if the standard lacks it
    function: bool | None = None
    shape_inference: bool | None = None
    ranks: tuple[int, int] | None = None  # the least and the greatest, if bounded; sizes are then 1 or more
    body: str | None = None  # the function body in ONNX's text format, if the operator is a function
    examples: tuple[Example, ...] = ()

    def __post_init__(self) -> None:
        standard, name, version = re.split("[.-]", self.id)
        since = {"openvino": "opset", "directml": "DML_FEATURE_LEVEL_"}.get(standard, "") + version
        vars(self).update(standard=standard, name=name, version=version, since_version=since)
        vars(self).update(type_variables=MappingProxyType(dict(self.type_variables)))

    @property
    def format(self) -> str:
        """The format of models that have such nodes; a node of SONNX is one of ONNX."""
        return "onnx" if self.standard == "sonnx" else self.standard

    def infer(self, /, *inputs: Any, **attributes: Any) -> TensorType:
        """Return the output's type and shape from those of the inputs.

        Args:
            *inputs: for each input a pair (type, shape) or an array. A dim may be a symbol (a str)
                or unknown (None); a shape of None has unknown rank.
            **attributes: as in a call.

        Raises:
            SpecError: the document does not allow them, whatever the unknown dims are.
        """
        operands = tuple(map(tensor_type, inputs))
        values = self.check_attributes(attributes)
        if len(operands) != len(self.inputs):
            message = f"{self.name} takes {count_of(len(self.inputs), 'input')}"
            expected = ", ".join(port.name for port in self.inputs)
            raise self.error("inputs", message, expected=expected, got=count_of(len(operands), "input"))
        bound = self._bind_types(operands)
        if self.ranks is not None:
            self._check_sizes(*self.ranks, operands)
        shape = operands[0].shape
        if len(operands) == 2:
            try:
                shape = self.broadcasting.infer(shape, operands[1].shape, values)
            except Mismatch as mismatch:
                given = {a.name: values[a.name] for a in self.attributes if values[a.name] != a.default}
                message = mismatch.message.format(x=self.inputs[0].name, y=self.inputs[1].name)
                raise self._breach(mismatch.check, message, operands, **given) from None
        return TensorType(bound[self.outputs[0].type], shape)

    def plan(self, /, *operands: TensorType, **attributes: Any) -> Plan:
        """Return the plan of a call with these operands, whose dims are all known; raises SpecError."""
        output = self.infer(*operands, **attributes)
        for operand in operands:
            if operand.shape is None or not all(isinstance(dim, int) for dim in operand.shape):
                raise ValueError(f"a plan needs known dims, got {operand}")
        x, *y = (operand.shape for operand in operands)
        values = self.check_attributes(attributes)
        return Plan(output, self.broadcasting.arrange(x, *y, values) if y else ())  # type: ignore[arg-type, call-arg]

    def function_body(self) -> FunctionProto:
        """Return the body of an operator that is a function; raises UnsupportedError if the document has none."""
        if self.body is None:
            raise UnsupportedError(f"{self.id} has no function body: its document defines none")
        import onnx.parser  # lazily: the rows must load without it

        return onnx.parser.parse_function(self.body)

    def check_attributes(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes with defaults, and values in their one form; raises SpecError if one is not allowed."""
        known = {attribute.name for attribute in self.attributes}
        for name in attributes:
            if name not in known:
                expected = ", ".join(a.name for a in self.attributes) or "no attributes"
                raise self.error("unknown attribute", f"no attribute {name}", expected=expected, got=name)
        return {a.name: self._attribute_value(a, attributes) for a in self.attributes}

    def error(self, check: str, message: str, **shown: object) -> SpecError:
        """Return the SpecError of a failed check, citing the clause that enforces it.

        Checks: ``inputs``, ``output``, ``shape``, ``equal shapes``, ``1-dim expansion``, ``rank``,
        ``size``, ``unknown attribute``, ``attribute NAME``, ``type VARIABLE``.
        """
        return SpecError(f"{self.id}.{self.clause(check).id}", message, **shown)

    def clause(self, check: str) -> Clause:
        """Return the clause that a check enforces."""
        return next(clause for clause in self.clauses if check in clause.enforces)

    def _bind_types(self, operands: tuple[TensorType, ...]) -> dict[str, str]:
        bound: dict[str, str] = {}
        for port, operand in zip(self.inputs, operands, strict=True):
            check, allowed = f"type {port.type}", self.type_variables[port.type]
            if operand.type not in allowed:
                message = f"{port.name} must have a type that {port.type} allows"
                raise self._breach(check, message, operands, expected=", ".join(allowed), got=operand.type)
            if bound.setdefault(port.type, operand.type) != operand.type:
                names = " and ".join(p.name for p in self.inputs if p.type == port.type)
                raise self._breach(check, f"{names} must have the same type", operands)
        return bound

    def _check_sizes(self, least: int, most: int, operands: tuple[TensorType, ...]) -> None:
        for port, operand in zip(self.inputs, operands, strict=True):
            if operand.shape is None:
                continue
            rank = len(operand.shape)
            if not least <= rank <= most:
                message = f"{port.name} has an unsupported number of dimensions"
                expected = f"{least}" if least == most else f"{least} to {most}"
                raise self._breach("rank", message, operands, expected=expected, got=rank)
            sizes = [dim for dim in operand.shape if isinstance(dim, int)]
            if 0 in sizes:
                raise self._breach("size", f"no size of {port.name} may be 0", operands)
            if math.prod(sizes) > MOST_ELEMENTS:
                message, expected = f"{port.name} has too many elements", f"at most {MOST_ELEMENTS}"
                raise self._breach("size", message, operands, expected=expected, got=math.prod(sizes))

    def _attribute_value(self, attribute: Attribute, given: Mapping[str, Any]) -> Any:
        check, value = f"attribute {attribute.name}", given.get(attribute.name, attribute.default)
        if value is None and attribute.default is None:
            if not attribute.required:
                return None
            if attribute.name not in given:
                raise self.error(check, f"{attribute.name} is required", expected=attribute.type)
        checker, expected = CHECKERS[attribute.type]
        try:
            if isinstance(value, str | bytes) != (attribute.type == "string"):
                raise TypeError
            value = checker(value)
        except (TypeError, ValueError, OverflowError):
            fault = "of the wrong type"
        else:
            if not attribute.values or value in attribute.values:
                return value
            fault, expected = "that is not allowed", " or ".join(map(repr, attribute.values))
        message = f"{attribute.name} has a value {fault}"
        raise self.error(check, message, expected=expected, got=repr(value)[:80])

    def _breach(self, check: str, message: str, operands: Iterable[TensorType], **shown: object) -> SpecError:
        named = {port.name: operand for port, operand in zip(self.inputs, operands, strict=True)}
        return self.error(check, message, **named, **shown)

    def __repr__(self) -> str:
        return f"<{self.id}>"


def example(name: str, *shapes: tuple[int, ...], **attributes: str | int) -> Example:
    """Return an example of float32: the shapes of the inputs and the output."""
    *inputs, output = (TensorType("float32", shape) for shape in shapes)
    return Example(name, tuple(inputs), output, attributes)


def later(before: OpVersion, version: str, text: str = "", **changes: Any) -> OpVersion:
    """Return a later version of an operator: the previous one with the changes of its document.

    A clause of ``text`` replaces the previous one with its id. With ``clauses=()`` the clauses begin anew.
    """
    described = read(text, changes.pop("clauses", before.clauses)) if text else {}
    id = f"{before.standard}.{before.name}-{version}"
    source = re.sub(f"-{before.version}$", f"-{version}", before.source)  # of ONNX
    return replace(before, id=id, source=source, **changes, **described)


def _attribute(name: str, type: str, required: Any, default: Any, values: str | None, text: str) -> Attribute:
    parse: Any = int if type == "INT" else str
    allowed = tuple(map(parse, (values or "").split()))
    return Attribute(name, type, text, default and parse(default), bool(required), allowed)


def _clause(id: str, text: str, checks: str) -> Clause:
    return Clause(id, text, tuple(re.findall(r"\w[^],]*", checks)))


# Of each item in the text of a row: the field, the notation, and what makes it of the notation's parts.
_ITEMS: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    ("inputs", r"input (\w+) \((\w+)\): (.+)", Port),
    ("outputs", r"output (\w+) \((\w+)\): (.+)", Port),
    ("attributes", r"attribute (\w+) \((\w+)(?:, (required)|, (\w+) of ([\w ]+))?\): (.+)", _attribute),
    ("clauses", r"(C\d+) (.+?)((?: \[.+\])?)", _clause),
    ("unspecified", r"([a-z0-9-]+)(?: \((N\d)\))?: (.+) Choice: (.+)", Unspecified),
)


def read(text: str, before: tuple[Clause, ...] = ()) -> dict[str, Any]:
    """Read the fields of a row from a text with a paragraph for each item. Further lines of a paragraph are indented.

    An item is the summary, if it is the first, or one of these::

        input NAME (TYPE VARIABLE): TEXT            or output, of a port
        attribute NAME (TYPE): TEXT                 or (TYPE, required), or (TYPE, DEFAULT of VALUES)
        C1 TEXT [CHECK, ...]                        of a clause; it replaces the one with its id in ``before``
        KEY (RULE): QUESTION Choice: CHOICE         of an open question; there may be no rule
        open KEY ...                                of open questions in SHARED
    """
    summary: dict[str, Any] = {}
    fields: dict[str, dict[str, Any]] = {"clauses": {clause.id: clause for clause in before}}
    for number, paragraph in enumerate(re.split(r"\n(?! )", cleandoc(text))):
        line = " ".join(paragraph.split())
        if line.startswith("open "):
            keys = line.split()[1:]
            fields.setdefault("unspecified", {}).update(zip(keys, map(SHARED.__getitem__, keys), strict=True))
            continue
        for name, notation, make in _ITEMS:
            if match := re.fullmatch(notation, line):
                fields.setdefault(name, {})[match[1]] = make(*match.groups())
                break
        else:
            if number > 0:
                raise ValueError(f"no item of a row: {paragraph}")
            summary["summary"] = line
    return summary | {name: tuple(items.values()) for name, items in fields.items() if items}


# --- the types that attributes have in the documents ---------------------------------------------


class ScaleBias(NamedTuple):
    """DirectML's DML_SCALE_BIAS: two FLOATs."""

    Scale: float
    Bias: float


def _float(value: Any) -> float:
    """Return a number rounded once to float32, as a Python float."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number or (isinstance(value, np.generic) and type_name(value.dtype) in TYPES)):
        raise TypeError
    if isinstance(value, int | np.integer):
        value = to_odd(np.float64(int(value)), int(value))  # which float32 rounds as it would the integer
    with np.errstate(over="ignore"):
        rounded = float(np.float32(value))
    if math.isinf(rounded) and not math.isinf(value):
        raise OverflowError
    return rounded


def _scale_bias(value: Any) -> ScaleBias:
    scale, bias = ScaleBias(**value) if isinstance(value, Mapping) else value
    return ScaleBias(_float(scale), _float(bias))


# For each type a function that returns a value in its one form, or raises an error; and what it takes, in words. Only
# that of a string is given one.
CHECKERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "INT": (operator.index, "an INT"),
    "INTS": (lambda value: tuple(map(operator.index, value)), "INTS: a sequence of integers"),
    "string": (str.__str__, "a string"),  # not bytes
    "FLOAT": (_float, "a FLOAT: a number within the range of float32"),
    "DML_SCALE_BIAS": (
        _scale_bias,
        "a pair (Scale, Bias) of FLOATs, a mapping with the keys Scale and Bias, or None",
    ),
}

# --- the questions that several rows share, with halfulp's choices -------------------------------
#
# N1 to N9 are rules of the numeric contract, which every row follows.

SHARED: dict[str, Unspecified] = {
    question.key: question
    for question in read("""
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
        differing-sizes: Operands of differing sizes that a stride of 0 would fit together.
            Choice: An error, as Sizes must be equal; give an array that is broadcast already.
        negative-base (N9): How far the NaN for a negative base reaches.
            Choice: It holds for every base below 0, -1 and -infinity included, and an infinite exponent is not
            integral; -0 is not below 0.
        scale-bias-rounding (N6): The rounding of x * scale + bias.
            Choice: One rounding to float32 (a fused multiply-add); the power of that float32 base is rounded once
            to the output's type.
        scale-bias-of-integers (N6): ScaleBias with an integer InputTensor.
            Choice: x * scale + bias with one rounding to float64; its power is truncated toward zero and
            saturated.
        exponent-not-float32: An Exponent or a ScaleBias that is not a float32 value.
            Choice: It is rounded once to float32, to nearest; a finite number that would overflow is an error.
        prelu-nan (N5): A NaN in the input.
            Choice: x < 0 decides, not x >= 0: a NaN passes through bit for bit, and so do +0 and -0; a product
            that is NaN is the canonical quiet NaN.
    """)["unspecified"]
}
