"""The verdict on a runtime's answer to a case. Elements that the document leaves open are not judged.

Roundings are judged by the exact value, and special values by IEEE 754. A fault has a grade, by how ordinary the
operands are that show it. The end of this file says which cases and elements the open questions of a row concern.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from math import prod
from operator import mul
from typing import Any, NamedTuple

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case, broadcast, operands_of
from halfulp.operators import pow as exact_pow
from halfulp.types import TYPES, codes, float_type, integer_range, is_float, is_nan, ranks, tensor_type

VERDICTS = ("rejected", "unspecified", "exact", "within", "wrong", "refused", "accepted", "crashed", "hung")
"""From best to worst. A row has the worst verdict of its cases.

``rejected`` (right) and ``accepted`` are the verdicts on invalid cases. ``unspecified`` means that the document leaves
everything open, ``within`` that all differences are small. ``refused``, ``crashed`` and ``hung`` cases have no result.
"""

FAULTS = ("wrong", "refused", "accepted", "crashed", "hung")
"""The verdicts that are a runtime's fault."""
HISTOGRAM = ("0", "1", "2", "3-4", "5-16", ">16", "special")


class Outcome(NamedTuple):
    """A run without a result: the kind of its end, and the first line of the runtime's message."""

    kind: str  # refused, crashed, hung; wrong: no array of numbers, or several; not offered: it is not judged
    message: str


class UnspecifiedOutput(NamedTuple):
    """The parts of a case's output that its document leaves open."""

    elements: Array = np.zeros((), bool)  # for each whether it is open; of shape () where all are alike
    zero_signs: Array = np.zeros((), bool)  # for each element whether the sign of a zero is open
    whole: bool = False  # whether everything is open, even whether there is an output
    refusal: bool = False  # whether the case may be refused; an output is judged all the same
    question: str = ""  # of elements: "onnx.Pow-15.U4: An integer result ..."; empty if none is open

    @property
    def every_element(self) -> bool:
        """Whether there are elements, and all of them are open."""
        return bool(self.elements.size and self.elements.all())


DETERMINED = UnspecifiedOutput()


@dataclass(frozen=True)
class Judgement:
    """The comparison of one case's results with the right ones."""

    verdict: str  # one of VERDICTS
    elements: int = 0  # the number of judged elements; open ones are not judged
    wrong: int = 0  # the number of these that are special values gone wrong, or farther off than the limit
    # The greatest distance, in representable values (of integers: in units); None where nothing could be compared.
    max_ulp: float | None = None
    # The number of elements at each distance; special: infinities, NaNs and signs of zeros gone wrong.
    histogram: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(HISTOGRAM, 0))
    example: Mapping[str, Any] | None = None  # the element that is farthest off
    message: str | None = None  # one line: a refusal's reason, a wrong type or shape, or the open question
    grade: str | None = None  # of a fault: the worst of GRADES


def judge(case: Case, expected: Any, got: Array | Outcome, ulp_limit: float = 4) -> Judgement:
    """Judge a runtime's answer to a case: its output, or the outcome without one.

    ``expected`` is the right result; in an invalid case anything. Up to a distance of ``ulp_limit``
    representable values a floating result is ``within``.
    """
    open_ = unspecified(case)
    kind, message = got if isinstance(got, Outcome) else ("returned", "")
    message = message.strip().split("\n")[0]
    if kind in ("crashed", "hung"):
        return Judgement(kind, message=message, grade="ordinary")
    if case.clause is not None:
        if kind == "refused":
            return Judgement("rejected", message=message)
        if open_.whole:
            return Judgement("unspecified", message=f"accepted; {open_.question}")
        return Judgement("accepted", message=f"{case.clause} must refuse it", grade="support")
    if kind == "refused":
        if open_.refusal or open_.every_element:
            return Judgement("unspecified", message=message)
        return Judgement("refused", message=message, grade="support")
    if kind == "returned" and not open_.whole:
        wanted, given = tensor_type(expected), tensor_type(got)
        if wanted != given:
            kind, message = "wrong", f"the output is {given}, not {wanted}"
    if kind == "wrong":
        return Judgement("wrong", expected.size, expected.size, message=message, grade="ordinary")
    if open_.every_element:
        return Judgement("unspecified", message=open_.question)
    return _judge_elements(case, expected, np.asarray(got), open_, ulp_limit)


def _judge_elements(
    case: Case, expected: Array, got: Array, open_: UnspecifiedOutput, ulp_limit: float
) -> Judgement:
    steps, special = distances(expected, got, open_)
    judged = np.broadcast_to(~open_.elements, expected.shape)
    are_wrong = special | (steps > (ulp_limit if is_float(expected) else 0))
    grade, example, shown_ones = None, None, np.ones(expected.shape, bool)
    if are_wrong.any():
        grades = grades_of(operands_of(case), expected, got, is_power=case.row.kernel != "prelu")
        grade = max(np.unique(grades[are_wrong]).tolist(), key=gravity)
        shown_ones = are_wrong & (grades == grade)  # the example is of the worst grade
    if different := bool((special | (steps > 0)).any()):
        # A special value gone wrong is farther off than any number.
        flat = int((np.where(special, np.uint64(2**64 - 1), steps) * shown_ones).argmax())
        example = place_of(case, flat, expected.shape) | {
            "expected": shown(expected.flat[flat]),
            "got": shown(got.flat[flat]),
            "ulp": None if special.flat[flat] else int(steps.flat[flat]),
        }
    buckets = np.searchsorted(np.array([1, 2, 3, 5, 17], np.uint64), steps[judged & ~special], side="right")
    counts = [*np.bincount(buckets, minlength=6).tolist(), int(special[judged].sum())]
    histogram = dict(zip(HISTOGRAM, counts, strict=True))
    verdict = "wrong" if are_wrong.any() else "within" if different else "exact"
    elements, wrong, max_ulp = int(judged.sum()), int(are_wrong.sum()), int(steps.max(initial=0))
    return Judgement(verdict, elements, wrong, max_ulp, histogram, example, grade=grade)


def verdicts(case: Case, expected: Array, got: Array, ulp_limit: float = 4) -> Array:
    """Return the verdict on each element, as an array of str: ``exact``, ``within``, ``wrong`` or ``unspecified``."""
    open_ = unspecified(case)
    steps, special = distances(expected, got, open_)
    are_wrong = special | (steps > (ulp_limit if is_float(expected) else 0))
    return np.select([open_.elements, are_wrong, steps > 0], ["unspecified", "wrong", "within"], "exact")


@np.errstate(invalid="ignore")  # signalling NaNs
def distances(expected: Array, got: Array, open_: UnspecifiedOutput = DETERMINED) -> tuple[Array, Array]:
    """Return each element's distance in representable values, and which elements are special values gone wrong.

    Special values gone wrong are a NaN instead of a number, a number instead of a NaN, an infinity likewise, and a zero
    of the wrong sign. Every NaN equals every other. Distances are uint64, and 0 where an element is special or open.
    """
    a, b = ranks(expected), ranks(got)
    steps = np.maximum(a, b) - np.minimum(a, b)
    special = np.zeros(expected.shape, bool)
    if is_float(expected):
        nan_a, nan_b = is_nan(expected), is_nan(got)
        infinite = (np.isinf(expected) | np.isinf(got)) & (steps != 0)
        zeros = (expected == 0) & (got == 0)
        signs = zeros & (steps != 0) & ~open_.zero_signs
        special = (nan_a != nan_b) | (~(nan_a | nan_b) & (infinite | signs))
        steps = np.where(special | nan_a | zeros, np.uint64(0), steps)
    return np.where(open_.elements, np.uint64(0), steps), special & ~open_.elements


def place_of(case: Case, flat: int, shape: tuple[int, ...]) -> dict[str, Any]:
    """Return the index of an element of a case's output, and its operands, as a document has them."""
    index = tuple(int(i) for i in np.unravel_index(flat, shape))
    return {"index": list(index), "inputs": [shown(array[index]) for array in broadcast(case)]}


def shown(element: Any) -> dict[str, str]:
    """Return an element as JSON has it: the shortest decimal that gives it back, and its bits."""
    array = np.asarray(element)
    return {"value": decimal(array), "bits": f"0x{int(codes(array)):0{2 * array.itemsize}x}"}


def decimal(element: Any) -> str:
    """Return the shortest decimal that gives an element back in its type."""
    array = np.asarray(element)
    number = array.item()
    if not (is_float(array) and math.isfinite(number)):
        return str(number)
    texts = (f"{number:.{digits}g}" for digits in range(1, 18))  # 17 digits give every float64 back
    with np.errstate(all="ignore"):
        return next(text for text in texts if np.float64(text).astype(array.dtype) == array)


# --- grades of faults, by how ordinary the operands are that show them ----------------------------

GRADES = {
    "support": "valid models are refused, or invalid ones taken",
    "reproducibility": "only bits that depend on surroundings",
    "zero-signs": "only signs of zeros",
    "subnormals": "only subnormal numbers, for example flushed to zero",
    "exponents": "only exponents beyond 2^53",
    "nan": "only NaN operands or results",
    "edges": "zeros, infinities, and numbers near overflow or underflow",
    "ordinary": "ordinary values",
}
"""The grades of faults, the least first. A crash, a hang or an output of a wrong type has the grade ordinary."""

gravity = list(GRADES).index  # a key that sorts grades


def at_least(grade: str, least: str) -> bool:
    """Return whether a fault is as grave as a grade."""
    return gravity(grade) >= gravity(least)


@np.errstate(all="ignore")
def grades_of(operands: Sequence[Array], expected: Array, got: Array, *, is_power: bool) -> Array:
    """Return the grade of each element that is wrong, as an array of str; operands have the output's shape."""
    numbers = [array.astype(np.float64) for array in operands]
    floats = [(x, _ends(array)[0]) for array, x in zip(operands, numbers, strict=True) if is_float(array)]
    right, is_real = expected.astype(np.float64), is_float(expected)
    least, big = _ends(expected)
    grades = np.full(expected.shape, "ordinary", "<U15")
    grades[is_real & ((np.abs(right) >= big) | (np.abs(right) <= 2 * least))] = "edges"
    for number, _ in floats:
        grades[~np.isfinite(number) | (number == 0)] = "edges"
    if is_power:
        # Integers of 64 bits themselves are compared: the double nearest to 2^53 + 1 is 2^53.
        y = operands[-1] if operands[-1].dtype.kind in "iu" else numbers[-1]
        grades[np.isfinite(numbers[-1]) & ((y > 2**53) | (y < -(2**53)))] = "exponents"
    # A result that rounds up to the least normal number was subnormal before.
    grades[is_real & (right != 0) & (np.abs(right) <= least)] = "subnormals"
    for number in (*numbers, right):
        grades[np.isnan(number)] = "nan"
    for number, least_normal in floats:
        grades[(number != 0) & (np.abs(number) < least_normal)] = "subnormals"
    grades[is_real & (right == 0) & (got.astype(np.float64) == 0)] = "zero-signs"
    return grades


def _ends(array: Array) -> tuple[float, float]:
    """Return the least normal number and the largest power of two of a floating type; else 0 and infinity."""
    if not is_float(array):
        return 0.0, math.inf
    facts = float_type(array.dtype.name)
    return 2.0 ** (facts.least_exponent + facts.digits - 1), 2.0 ** (facts.greatest_exponent - 1)


# --- open questions of the documents ---------------------------------------------------------------

# The types that OpenVINO's plugins may lack.
_NARROW = {name for name, row in TYPES.items() if row.bits < (16 if row.kind == "float" else 8)}


@np.errstate(all="ignore")
def unspecified(case: Case) -> UnspecifiedOutput:
    """Return the parts of a case's output that its document leaves open."""
    asked = {
        entry.key: f"{case.row.id}.U{number}: {entry.question}"
        for number, entry in enumerate(case.row.unspecified, start=1)
    }
    if len(case.inputs) == len(case.row.inputs):
        for key in filter(WHOLE_CASES.__contains__, asked):
            if WHOLE_CASES[key](case, *(*case.shapes, ())[:2]):
                return UnspecifiedOutput(np.ones((), bool), whole=True, question=asked[key])
    if case.clause is not None:
        return DETERMINED
    x, y = operands_of(case)
    found = {asked[key]: ELEMENTS[key](case, x, y) for key in filter(ELEMENTS.__contains__, asked)}
    return UnspecifiedOutput(
        reduce(np.logical_or, found.values(), np.zeros(x.shape, bool)),
        zero_signs=(x == 0) & ("prelu-zero-and-nan" in asked),
        refusal="supported-types" in asked and case.types[0] in _NARROW,
        question=next((question for question, are_open in found.items() if np.any(are_open)), ""),
    )


def _is_placed(case: Case, *, with_broadcast: bool) -> bool:
    """Return whether a node has an axis, with or without broadcast. One of another type makes the case invalid."""
    has_axis = isinstance(case.attributes.get("axis"), int)
    return has_axis and bool(case.attributes.get("broadcast", 0)) == with_broadcast


WHOLE_CASES: Mapping[str, Callable[[Case, tuple[int, ...], tuple[int, ...]], bool]] = {
    "negative-axis": lambda case, x, y: _is_placed(case, with_broadcast=True) and case.attributes["axis"] < 0,
    "axis-without-broadcast": lambda case, x, y: _is_placed(case, with_broadcast=False),
    "axis-of-one-element": lambda case, x, y: _is_placed(case, with_broadcast=True) and prod(y) == 1,
    "shapes-without-broadcast": lambda case, x, y: not case.attributes.get("broadcast", 0) and x != y,
    "other-broadcast": lambda case, x, y: (
        isinstance(number := case.attributes.get("broadcast", 0), int) and number not in (0, 1)
    ),
    # The channels of an X of rank 2 are its last dim: every reading is the same.
    "slope-of-rank-1": lambda case, x, y: len(y) == 1 and y != (1,) and not (len(x) == 2 and x[1:] == y),
    # A slope of X's shape needs no broadcasting.
    "slope-of-rank-2": lambda case, x, y: len(y) > 1 and prod(y) != 1 and x != y,
    "slope-of-one-element": lambda case, x, y: prod(y) == 1 and len(y) != 1,
    "slope-of-higher-rank": lambda case, x, y: {*y[: len(y) - len(x)]} == {1} and len(y) > len(x),
    "other-auto-broadcast": lambda case, x, y: case.attributes.get("auto_broadcast") in ("explicit", "pdpd"),
    "differing-sizes": lambda case, x, y: x != y,
    "scale-bias-of-integers": lambda case, x, y: (
        case.attributes.get("ScaleBias") is not None and TYPES[case.types[0]].kind != "float"
    ),
}
"""The functions that tell by a case and its shapes whether nothing of it is judged, by the question's key."""


def _is_lost(x: Array, y: Array, function: Callable[[int, Any], int | None]) -> Array:
    """Return where the type of x does not hold a function of x and y, or there is no such integer."""
    least, largest = integer_range(x.dtype.name)
    numbers = map(function, x.ravel().tolist(), y.ravel().tolist())
    return np.array([n is None or not least <= n <= largest for n in numbers], bool).reshape(x.shape)


@lru_cache(1 << 12)  # cases repeat their operands
def integer_power(x: int, y: int | float) -> int | None:
    """Return x^y where that is an integer of at most 64 bits, or None."""
    if y == 0 or x == 1:
        return 1
    if math.isnan(y):
        return None
    if x == 0:
        return 0 if y > 0 else None
    if math.isinf(y):
        return 1 if x == -1 else 0 if y < 0 else None
    numerator, denominator = y.as_integer_ratio()
    # The root must be an integer: a square root for each factor 2 of the denominator.
    while denominator > 1 and (root := math.isqrt(abs(x))) ** 2 == x:
        x, denominator = root, denominator // 2
    is_large = numerator * (abs(x).bit_length() - 1) > 64
    if denominator > 1 or is_large or (y < 0 and abs(x) > 1):
        return None
    power = int(x ** abs(numerator))
    return power if abs(power) < 1 << 64 else None


def _beyond_the_range(case: Case, x: Array, y: Array) -> Any:
    """Return where a type without infinities, or without zero, lacks the result."""
    if not is_float(x) or (facts := float_type(x.dtype.name)).has_infinity:
        return False
    wide, wide_y = x.astype(np.float64), y.astype(np.float64)
    is_prelu = case.row.kernel == "prelu"
    real = np.where(wide < 0, wide * wide_y, wide) if is_prelu else np.asarray(exact_pow(wide, wide_y))
    beyond = ~(np.abs(real) < 2.0**facts.greatest_exponent * (1 - 2.0 ** -(facts.digits + 1)))
    return beyond if facts.has_zero else beyond | (real < 2.0**facts.least_exponent)


def _draft_special_values(case: Case, x: Array, y: Array) -> Any:
    """Return where the table of SONNX's draft contradicts IEEE 754."""
    if not is_float(x):
        return False
    to_infinity = np.isinf(y) & (x != 0) & (np.abs(x) <= 1)
    keeps_sign = np.signbit(x) & ((x == 0) | np.isinf(x)) & (np.abs(np.fmod(y, 2)) == 1)
    return to_infinity | keeps_sign | ((x == 1) & is_nan(y))


ELEMENTS: Mapping[str, Callable[[Case, Array, Array], Any]] = {
    "rounding": _beyond_the_range,
    "integer-overflow": lambda case, x, y: (
        not (is_float(x) or is_float(y)) and _is_lost(x, y, integer_power) & (y >= 0)
    ),
    "integer-base": lambda case, x, y: (
        not is_float(x) and _is_lost(x, y, integer_power) & (is_float(y) | (y < 0))
    ),
    "prelu-zero-and-nan": lambda case, x, y: is_nan(x),
    "prelu-rounding": _beyond_the_range,
    "prelu-integer-overflow": lambda case, x, y: not is_float(x) and _is_lost(x, y, mul) & (x < 0),
    "negative-base": lambda case, x, y: is_float(y) & (x < 0) & ((x == -1) | np.isinf(x) | np.isinf(y)),
    "prelu-nan": lambda case, x, y: is_nan(x),
    "draft-special-values": _draft_special_values,
    "negative-exponent": lambda case, x, y: not is_float(x) and y < 0,
}
"""The functions that return which elements of an output are open, by the question's key."""
