"""The verdict on a runtime's answer to a case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case, operands_at
from halfulp.conformance.floats import codes, is_float, is_nan, ranks
from halfulp.conformance.unspecified import UnspecifiedOutput, unspecified
from halfulp.errors import HalfulpError
from halfulp.specs.tensor import TensorType
from halfulp.types import type_name

Verdict = Literal[
    "rejected", "unspecified", "exact", "within", "wrong", "refused", "accepted", "crashed", "hung"
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""From best to worst: the worst one of a row's cases is the row's.

An invalid case's: ``rejected`` (right) and ``accepted``. ``unspecified``: the document leaves it all open.
``exact``; ``within``: all differences are small; ``wrong``; ``refused``, ``crashed``, ``hung``: no result.
"""

FAULTS = ("wrong", "refused", "accepted", "crashed", "hung")
"""The verdicts that are a runtime's fault."""

HISTOGRAM = ("0", "1", "2", "3-4", "5-16", ">16", "special")


class Outcome(NamedTuple):
    """A run without a result: what happened, and the first line of the runtime's message."""

    kind: Literal["refused", "crashed", "hung"]
    message: str


@dataclass(frozen=True)
class Judgement:
    """The comparison of one case's results with the right ones.

    Attributes:
        verdict: one of VERDICTS.
        elements: how many were judged; those that the document leaves open are not.
        wrong: how many of them are special values gone wrong, or farther off than the limit.
        max_ulp: the greatest distance from the right result, in representable values (of integers: in units); None
            where nothing could be compared.
        histogram: how many elements lie how far off; ``special`` counts infinities, NaNs and signs of zeros gone wrong.
        example: the element that is farthest off: its index, its operands, what was expected and got.
        unspecified: how many elements the document leaves open.
        message: one line: a refusal's reason, a wrong type or shape, which open question this is about.
    """

    verdict: Verdict
    elements: int = 0
    wrong: int = 0
    max_ulp: float | None = None
    histogram: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(HISTOGRAM, 0))
    example: Mapping[str, Any] | None = None
    unspecified: int = 0
    message: str | None = None


def judge(
    case: Case,
    expected: Array | HalfulpError,
    got: Array | Outcome,
    ulp_limit: float = 4,
    *,
    strict: bool = False,
) -> Judgement:
    """Judge a runtime's answer to a case.

    Args:
        case: the case.
        expected: the right result, of ``expected(case)``; in an invalid case the error, or anything.
        got: the runtime's output, or what happened instead.
        ulp_limit: up to how many representable values a floating result may be off and still be ``within``.
        strict: judge open elements too, against halfulp's choice.
    """
    open_ = None if strict else unspecified(case)
    if isinstance(got, Outcome):
        return _without_result(case, got, open_)
    if case.clause is not None or not isinstance(expected, np.ndarray):
        return _accepted(case, open_)
    if open_ is not None and open_.whole:
        return Judgement("unspecified", unspecified=expected.size, message=open_.question)
    got = np.asarray(got)
    if type_name(got.dtype) != type_name(expected.dtype) or got.shape != expected.shape:
        wanted, given = (TensorType(type_name(a.dtype), a.shape) for a in (expected, got))
        return Judgement(
            "wrong", expected.size, expected.size, message=f"the output is {given}, not {wanted}"
        )
    return _compare(case, expected, got, ulp_limit, open_)


def _without_result(case: Case, outcome: Outcome, open_: UnspecifiedOutput | None) -> Judgement:
    message = outcome.message.strip().split("\n")[0]
    if outcome.kind != "refused":
        return Judgement(outcome.kind, message=message)
    if case.clause is not None:
        return Judgement("rejected", message=message)
    if open_ is not None and (open_.refusal or bool(open_.elements.all())):
        return Judgement("unspecified", unspecified=int(open_.elements.size), message=message)
    return Judgement("refused", message=message)


def _accepted(case: Case, open_: UnspecifiedOutput | None) -> Judgement:
    if open_ is not None and open_.whole:
        return Judgement("unspecified", message=f"accepted; {open_.question}")
    return Judgement("accepted", message=f"{case.clause} must refuse it")


@np.errstate(invalid="ignore")  # signalling NaNs
def distances(expected: Array, got: Array) -> tuple[Array, Array]:
    """Return how many representable values each element is off, and which are special values gone wrong.

    Special is: a NaN where a number should be or the other way round, an infinity likewise, a zero of the wrong sign.
    Every NaN equals every other. Distances are uint64, and 0 where special.
    """
    a, b = ranks(expected), ranks(got)
    steps = np.maximum(a, b) - np.minimum(a, b)
    special = np.zeros(expected.shape, bool)
    if is_float(expected):
        nan_a, nan_b = is_nan(expected), is_nan(got)
        infinite = np.isinf(expected) != np.isinf(got)
        other_infinity = np.isinf(expected) & np.isinf(got) & (steps != 0)
        zero_sign = (expected == 0) & (got == 0) & (steps != 0)
        special = (nan_a != nan_b) | (~(nan_a | nan_b) & (infinite | other_infinity | zero_sign))
        steps = np.where(special | nan_a, np.uint64(0), steps)
    return steps, special


def verdicts(case: Case, expected: Array, got: Array, ulp_limit: float = 4, *, strict: bool = False) -> Array:
    """Return the verdict on each element, as an array of str: ``exact``, ``within``, ``wrong`` or ``unspecified``."""
    steps, special = distances(expected, got)
    open_ = None if strict else unspecified(case)
    special = _forgiven(special, expected, got, open_)
    found = np.full(expected.shape, "exact", "<U11")
    found[steps > 0] = "within" if is_float(expected) else "wrong"
    found[special | (steps > ulp_limit)] = "wrong"
    if open_ is not None:
        found[np.broadcast_to(open_.whole | open_.elements, found.shape)] = "unspecified"
    return found


@np.errstate(invalid="ignore")
def _forgiven(special: Array, expected: Array, got: Array, open_: UnspecifiedOutput | None) -> Array:
    """The special values gone wrong, without signs of zeros that the document leaves open."""
    if open_ is None or open_.whole:
        return special
    return np.asarray(special & ~(open_.zero_signs & (expected == 0) & (got == 0)))


def _compare(
    case: Case, expected: Array, got: Array, ulp_limit: float, open_: UnspecifiedOutput | None
) -> Judgement:
    steps, special = distances(expected, got)
    special = _forgiven(special, expected, got, open_)
    judged = np.ones(expected.shape, bool) if open_ is None else ~open_.elements
    left_open = int(expected.size - judged.sum())
    steps, special = np.where(judged, steps, np.uint64(0)), special & judged
    if left_open and left_open == expected.size:
        assert open_ is not None
        return Judgement("unspecified", unspecified=left_open, message=open_.question)
    limit = ulp_limit if is_float(expected) else 0
    wrong = int((special | (steps > limit)).sum())
    greatest = int(steps.max(initial=0))
    different = special.any() or greatest > 0
    return Judgement(
        verdict="wrong" if wrong else "within" if different else "exact",
        elements=int(judged.sum()),
        wrong=wrong,
        max_ulp=greatest,
        histogram=_histogram(steps[judged], special[judged]),
        example=_example(case, expected, got, steps, special) if different else None,
        unspecified=left_open,
    )


def _histogram(steps: Array, special: Array) -> dict[str, int]:
    steps = steps[~special]
    edges = np.searchsorted(np.array([1, 2, 3, 5, 17], np.uint64), steps, side="right")
    counts = [*np.bincount(edges.ravel(), minlength=6).tolist(), int(special.sum())]
    return dict(zip(HISTOGRAM, counts, strict=True))


def _example(case: Case, expected: Array, got: Array, steps: Array, special: Array) -> dict[str, Any]:
    """The first element that is farthest off; a special value gone wrong is farther than any number."""
    flat = int(special.argmax() if special.any() else steps.argmax())
    index = tuple(int(i) for i in np.unravel_index(flat, expected.shape))
    return {
        "index": list(index),
        "inputs": [shown(element) for element in operands_at(case, index)],
        "expected": shown(expected[index]),
        "got": shown(got[index]),
        "ulp": None if special[index] else int(steps[index]),
    }


def shown(element: Any) -> dict[str, str]:
    """Return an element as JSON has it: the shortest decimal that gives it back, and its bits."""
    array = np.asarray(element)
    width = 2 * array.dtype.itemsize
    return {"value": decimal(array), "bits": f"0x{int(codes(array)):0{width}x}"}


def decimal(element: Any) -> str:
    """Return the shortest decimal that gives an element back in its type."""
    array = np.asarray(element)
    if not is_float(array):
        return str(int(array))
    number = float(array)
    if not np.isfinite(number):
        return str(number)
    for digits in range(1, 18):
        text = f"{number:.{digits}g}"
        with np.errstate(all="ignore"):
            if np.float64(text).astype(array.dtype) == array:
                return text
    return repr(number)
