"""The JSON document of one target, ``halfulp.check/1``: its parts as types, and its reader.

docs/formats/check.md describes it for people.
"""

from __future__ import annotations

import functools
import json
import types
import typing
from pathlib import Path
from typing import Any, Literal, TypedDict, cast

from halfulp.conformance.case import Aspect, Group, Mode
from halfulp.conformance.judge import FAULTS, HISTOGRAM, Verdict
from halfulp.errors import HalfulpError
from halfulp.models.files import read_text

SCHEMA = "halfulp.check/1"

_LARGEST = 1 << 28
_NAMES: dict[Any, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "an integer >= 0",
    float: "a number",
    types.NoneType: "null",
}


class Number(TypedDict):
    """An element: the shortest decimal that gives it back in its type, and its bits."""

    value: str
    bits: str


class Example(TypedDict):
    """The element of a case that is farthest off; ``ulp`` is null where it is a special value gone wrong."""

    index: list[int]
    inputs: list[Number]
    expected: Number
    got: Number
    ulp: float | None


class CaseEntry(TypedDict):
    """A case with a verdict other than exact and rejected."""

    id: str
    operator: str
    types: list[str]
    group: Group
    shapes: list[list[int]]
    attributes: dict[str, Any]
    constants: list[int]
    clause: str | None
    verdict: Verdict
    elements: int
    wrong: int
    max_ulp: float | None
    example: Example | None
    message: str | None
    confirmed: str | None
    allowed: bool


class RowEntry(TypedDict):
    """All valid cases of an operator version and input types together."""

    operator: str
    types: list[str]
    verdict: Verdict
    cases: dict[str, int]
    elements: int
    misrounded: int
    max_ulp: float | None
    histogram: dict[str, int]
    worst: str | None
    message: str | None


class Cell(TypedDict):
    """A pair of special values."""

    x: str
    y: str
    expected: str
    got: str
    verdict: Verdict


class SpecialEntry(TypedDict):
    """The special-value grid of an operator version and input types."""

    operator: str
    types: list[str]
    grid: list[Cell]


class Difference(TypedDict):
    """An element whose bits were others when it was computed again: which case shows it, and both results."""

    case: str
    index: list[int]
    inputs: list[Number]
    first: Number
    again: Number


class ReproducibilityEntry(TypedDict):
    """Whether other surroundings change the bits of an operator version's results."""

    operator: str
    types: list[str]
    aspect: Aspect
    verdict: Literal["same", "differs", "not tested"]
    example: Difference | None
    allowed: bool


class TargetEntry(TypedDict):
    """The runtime that was checked."""

    name: str
    versions: dict[str, str]


class Selection(TypedDict):
    """The selection that the run was narrowed to; an empty list is everything."""

    operators: list[str]
    versions: list[str]
    types: list[str]


class Run(TypedDict):
    """The circumstances of the check: the part of the document that may change though the results don't."""

    halfulp: str
    date: str
    mode: Mode
    selection: Selection
    machine: str
    python: str
    ulp_limit: float
    seconds: float


class Summary(TypedDict):
    """How many cases have which verdict, how many findings are allowed, and how many entries differ."""

    cases: int
    exact: int
    within: int
    wrong: int
    refused: int
    accepted: int
    rejected: int
    crashed: int
    hung: int
    unspecified: int
    allowed: int
    not_reproducible: int


class Document(TypedDict):
    """The document of one target, as ``halfulp check --json`` writes it."""

    schema: str
    target: TargetEntry
    run: Run
    summary: Summary
    rows: list[RowEntry]
    specials: list[SpecialEntry]
    reproducibility: list[ReproducibilityEntry]
    cases: list[CaseEntry]


def faults(document: Document) -> int:
    """Return how many findings are the runtime's fault, and not allowed."""
    cases = sum(case["verdict"] in FAULTS and not case["allowed"] for case in document["cases"])
    return cases + sum(e["verdict"] == "differs" and not e["allowed"] for e in document["reproducibility"])


def dumps(documents: list[Document]) -> str:
    """Return the text of a file: one document as itself, several as a list.

    A line holds one entry, so that two files differ in the lines of what differs.
    """
    texts = [_text(document) for document in documents]
    return texts[0] + "\n" if len(texts) == 1 else "[\n" + ",\n".join(texts) + "\n]\n"


def _text(document: Document) -> str:
    parts = []
    for key, value in document.items():
        if isinstance(value, list):
            lines = ",\n".join(f"  {_line(item)}" for item in value)
            parts.append(f"{json.dumps(key)}: [\n{lines}\n]" if lines else f"{json.dumps(key)}: []")
        else:
            parts.append(f"{json.dumps(key)}: {_line(value)}")
    return "{\n" + ",\n".join(parts) + "\n}"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def load(path: Path | str) -> list[Document]:
    """Read a file that ``halfulp check --json`` wrote.

    Raises:
        HalfulpError: it can't be read, or isn't such a document; the error names the place.
    """
    return loads(read_text(Path(path), _LARGEST), str(path))


def loads(text: str, file: str = "<text>") -> list[Document]:
    """Return the documents in a text; raises HalfulpError as :func:`load` does."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HalfulpError(f"{file}: not JSON: {str(error)[:100]}") from None
    documents = found if isinstance(found, list) else [found]
    for document in documents:
        schema = document.get("schema") if isinstance(document, dict) else document
        if schema != SCHEMA:
            raise HalfulpError(
                f"{file}: no document of {SCHEMA}",
                expected=f'"schema": "{SCHEMA}"',
                got=repr(schema)[:80],
            )
        problem = _problem(document, Document, "")
        if problem:
            raise HalfulpError(f"{file}: a broken document of {SCHEMA}: {problem}")
        for number, row in enumerate(document["rows"]):
            if tuple(row["histogram"]) != HISTOGRAM:
                raise HalfulpError(f"{file}: a broken document of {SCHEMA}: rows[{number}].histogram")
    return cast(list[Document], documents)


def _problem(value: Any, kind: Any, where: str) -> str | None:
    """Return the place where a value is not of a kind, with the kind expected there; None if it is."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        try:
            _line(value)
        except (ValueError, RecursionError):
            return f"{where} must be JSON: no infinity, and no NaN"
        return None
    if typing.is_typeddict(kind):
        if not isinstance(value, dict):
            return f"{where or 'it'} must be an object"
        fields = _fields(kind)
        if value.keys() != fields.keys():
            strange = sorted(value.keys() ^ fields.keys())
            return f"{where or 'it'} must have {', '.join(fields)}; see {strange[0]!r}"
        return _first(_problem(value[name], fields[name], f"{where}.{name}".lstrip(".")) for name in fields)
    if origin is Literal:
        if isinstance(value, str) and value in arguments:
            return None
        return f"{where} must be {', '.join(arguments[:-1])} or {arguments[-1]}"
    if origin is types.UnionType:
        found = [_problem(value, argument, where) for argument in arguments]
        return None if None in found else found[0]
    if origin in (list, dict):
        if not isinstance(value, origin):
            return f"{where} must be {_NAMES[origin]}"
        items = enumerate(value) if isinstance(value, list) else value.items()
        return _first(_problem(item, arguments[-1], f"{where}[{key!r}]") for key, item in items)
    if kind in (int, float):
        fits = _is_number(value, int | kind) and (kind is float or value >= 0)
    else:
        fits = isinstance(value, kind)
    return None if fits else f"{where} must be {_NAMES[kind]}"


@functools.cache
def _fields(kind: type) -> dict[str, Any]:
    """Return the fields of a TypedDict; evaluating them costs more than checking an object does."""
    return typing.get_type_hints(kind)


def _is_number(value: Any, kinds: Any) -> bool:
    return (
        isinstance(value, kinds)
        and not isinstance(value, bool)
        and abs(value) != float("inf")
        and value == value
    )


def _first(problems: Any) -> str | None:
    return next((problem for problem in problems if problem is not None), None)
