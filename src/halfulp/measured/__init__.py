"""Measurements of runtimes: a JSON file for each version beside this one, and their reader.

``tools/measure_targets.py`` makes them from documents of ``halfulp check --json``.
"""

import json
import math
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

SCHEMA = "halfulp.measured/1"
CHECK_SCHEMA = "halfulp.check/1"
_FOLDER = Path(__file__).parent

_EXAMPLE = re.compile(r"\(?(?P<x>[^()^ ]+)\)?(\^| with slope )(?P<y>[^ ]+) gives ")


def kind_of_slope(slope: float) -> str:
    """Return the kind of a slope, by its size: kinds are measured apart."""
    size = abs(slope)
    if special := {0: "zero", 1: "one", math.inf: "infinite"}.get(size):
        return special
    if math.isnan(size):
        return "nan"
    if size < 1:
        return "tiny" if size < 2**-13 else "fraction"
    return "number" if size <= 2**10 else "huge"


@dataclass(frozen=True)
class Group:
    """The results of the cases of one group, where some of them were not exact."""

    name: str  # as cases have it, such as "special"
    verdict: str  # that of its worst case
    max_ulp: float | None = None  # the greatest difference; None where no difference could be measured
    example: str | None = None  # the worst element, or the runtime's message, in one line
    grade: str | None = None  # of a fault: one of GRADES; None where that was not measured
    differs: str | None = None  # for a constant exponent: "position" where the bits depend on the position
    wrong: int = 0  # the number of elements that were wrong
    # For broadcasting, of each case that was wrong: the operands' shapes, and the names of the attributes.
    shapes: tuple[tuple[tuple[tuple[int, ...], ...], tuple[str, ...]], ...] = ()

    @property
    def operands(self) -> tuple[str, str] | None:
        """Return X and the exponent or slope of the example, as it spells them; None if it shows no element."""
        match = None if self.example is None else _EXAMPLE.match(self.example)
        return None if match is None else (match["x"], match["y"])


@dataclass(frozen=True)
class Row:
    """The results of a runtime for an operator version and input types."""

    verdict: str  # that of the worst case
    max_ulp: float | None = None
    message: str | None = None  # the runtime's, where it refuses these types altogether
    groups: tuple[Group, ...] = ()  # those that were not exact
    differs: tuple[str, ...] = ()  # the surroundings of an operand on which the bits of its result depend
    # Powers to one constant exponent, all bases together, measured with the newest version.
    constants: Mapping[float, Group] = field(default_factory=dict)
    # The same where the base's last dim is 1 and that is worse: a runtime may take its elements one by one.
    columns: Mapping[float, Group] = field(default_factory=dict)
    slopes: Mapping[str, Group] = field(default_factory=dict)  # by kind; empty where they were not measured


@dataclass(frozen=True)
class Measured:
    """The measurement of one version of a runtime."""

    target: str
    version: str
    date: str  # of the measurement, as in ISO 8601
    mode: str  # "quick" or "full"
    rows: Mapping[tuple[str, tuple[str, ...]], Row]  # by operator version and input types
    accepts: frozenset[str]  # the clauses that it lets invalid models break
    # Whether it is an array library, which has no versions of operators: its rows are those of the newest.
    by_meaning: bool = False
    # The types that it computes in float32 without a rounding between two nodes.
    halves: frozenset[str] = frozenset()
    # Those in which PRelu with a negative slope changes the sign of a zero, on some processor.
    zero_signs: frozenset[str] = frozenset()


def available() -> dict[str, tuple[str, ...]]:
    """Return the versions that were measured, by runtime, oldest first."""
    return {name: tuple(versions) for name, versions in _files().items()}


@cache
def nearest(target: str, version: str | None = None) -> Measured | None:
    """Return the measurement of a version of a runtime, of the newest one if not given, or else of the nearest one.

    The nearest is the newest that is not newer than the one asked for, and the oldest measured where all are newer.
    """
    if (files := _files().get(target)) is None:
        return None
    older = [measured for measured in files if version is None or order(measured) <= order(version)]
    path = files[older[-1] if older else next(iter(files))]
    return from_json(json.loads(path.read_text(encoding="utf-8")))


def loads(text: str) -> list[Measured]:
    """Return the measurements in a document of ``halfulp check --json``; raises ValueError if it is not one."""
    try:
        document_or_list = json.loads(text)
        documents = document_or_list if isinstance(document_or_list, list) else [document_or_list]
        if any(document["schema"] != CHECK_SCHEMA for document in documents):
            raise ValueError(f"not {CHECK_SCHEMA}")
        return [from_json(measurement(document)) for document in documents]
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not {CHECK_SCHEMA}: {error!r}"[:100]) from None


def order(version: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts versions."""
    release, _, rest = re.sub(r"[^\d.].*", r" \g<0>", version.partition("+")[0]).partition(" ")
    parts = tuple((int(part or 0), "") for part in release.split("."))
    return (*parts, (-1, rest) if rest else (0, ""))  # a release candidate comes before its release


@cache
def _files() -> dict[str, dict[str, Path]]:
    """Return the files by runtime and version, oldest first."""
    files = defaultdict[str, dict[str, Path]](dict)
    names = (path.stem.rpartition("-")[::2] for path in _FOLDER.glob("*.json"))
    for target, version in sorted(names, key=lambda name: (name[0], order(name[1]))):
        files[target][version] = _FOLDER / f"{target}-{version}.json"
    return {**files}


def from_json(document: Mapping[str, Any]) -> Measured:
    """Return the measurement that a file holds; raises ValueError if it is of another schema."""
    if document.get("schema") != SCHEMA:
        raise ValueError(f"not {SCHEMA}: {document.get('schema')!r}")
    target, run = document["target"], document["run"]
    rows = {}
    for row in document["rows"]:
        types = ",".join(row["types"]) if ".Pow" in row["operator"] else ""
        powers = (document.get(name, {}).get(types, {}).items() for name in ("constants", "columns"))
        constants, columns = ({float(y): Group("constant", *group) for y, group in each} for each in powers)
        groups = tuple(_group(name, **group) for name, group in row.get("groups", {}).items())
        slopes = {kind: Group("constant", *group) for kind, group in row.get("slopes", {}).items()}
        facts = row["verdict"], row.get("max_ulp"), row.get("message"), groups, tuple(row.get("differs", ()))
        rows[row["operator"], tuple(row["types"])] = Row(*facts, constants, columns, slopes)
    accepts, halves, signs = (frozenset(document.get(n, ())) for n in ("accepts", "halves", "zero_signs"))
    of_run = target["name"], target["version"], run["date"], run["mode"]
    return Measured(*of_run, rows, accepts, target.get("by_meaning", False), halves, signs)


def _group(name: str, *, shapes: Sequence[Any] = (), **rest: Any) -> Group:
    cases = ((tuple(map(tuple, of_case)), tuple(names)) for of_case, names in shapes)
    return Group(name, shapes=tuple(cases), **rest)


# --- the measurement in a document of halfulp check --json, without constants and slopes ------------

SILENT = ("exact", "rejected", "unspecified")
# As in halfulp.conformance, from the least to the gravest.
VERDICTS = ("rejected", "unspecified", "exact", "within", "wrong", "refused", "accepted", "crashed", "hung")
ASPECTS = ("position", "length", "threads", "scalar exponent", "constant folding")
GRADES = ("support", "reproducibility", "zero-signs", "subnormals", "exponents", "nan", "edges", "ordinary")


def measurement(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a measurement in the form of the files beside this one; raises KeyError where the document is broken."""
    members: dict[tuple[str, ...], list[Any]] = {}
    for case in document["cases"]:
        members.setdefault((case["operator"], *case["types"]), []).append(case)
    name, versions, rows = document["target"]["name"], document["target"]["versions"], document["rows"]
    version, _, _ = str(versions.get(name) or next(iter(versions.values()), "as measured")).partition("+")
    ids = {row["operator"] for row in rows}
    by_meaning = len(ids) == len({id.rpartition("-")[0] for id in ids})
    return {
        "schema": SCHEMA,
        "target": {"name": name, "version": version, "by_meaning": by_meaning},
        "run": document["run"],
        "accepts": [case["clause"] for case in document["cases"] if case["verdict"] == "accepted"],
        "rows": [row_of(row, members.get((row["operator"], *row["types"]), []), document) for row in rows],
    }


def row_of(
    row: Mapping[str, Any], cases: Sequence[Any], document: Mapping[str, Any], moved: Collection[str] = ()
) -> dict[str, Any]:
    """Return a row with its results that are not exact, by group."""
    result = {name: row[name] for name in ("operator", "types", "verdict", "max_ulp")}
    if set(row["cases"]) <= {"refused", "unspecified"}:
        return result | {"message": one_line(row["message"])}
    groups: dict[str, dict[str, Any]] = {}
    for case in cases:
        if case["verdict"] not in SILENT and case["group"] not in ("invalid", "reproducibility"):
            _add(groups.setdefault(case["group"], {"verdict": "exact", "max_ulp": None, "wrong": 0}), case)
    if groups:
        result["groups"] = groups
    differs = {*moved} if ".Pow" in row["operator"] else set()
    key = row["operator"], row["types"], "differs"
    entries = document["reproducibility"]
    differs |= {e["aspect"] for e in entries if (e["operator"], e["types"], e["verdict"]) == key}
    if differs:
        result["differs"] = [aspect for aspect in ASPECTS if aspect in differs]
    return result


def _add(group: dict[str, Any], case: Mapping[str, Any]) -> None:
    if (grade := case.get("grade")) is not None:
        group["grade"] = max(group.get("grade", grade), grade, key=GRADES.index)
    ulps = [ulp for ulp in (group["max_ulp"], case["max_ulp"]) if ulp is not None]
    rank, highest = ((VERDICTS.index(part["verdict"]), part["max_ulp"] or 0) for part in (case, group))
    if rank > highest:
        group["verdict"] = case["verdict"]
        shown, message = case["example"], one_line(case["message"])
        group["example"] = message if shown is None else example_of(case["operator"], shown)
    group["max_ulp"] = max(ulps, default=None)
    group["wrong"] += case["wrong"]
    if case["group"] == "broadcast" and case["verdict"] != "within":
        group.setdefault("shapes", []).append([case["shapes"], sorted(case["attributes"])])


def example_of(operator: str, example: Mapping[str, Any]) -> str:
    inputs = [number["value"] for number in example["inputs"]]
    if "Pow" in operator and len(inputs) == 2:
        base = f"({inputs[0]})" if inputs[0].startswith("-") else inputs[0]
        expression = f"{base}^{inputs[1]}"
    else:
        expression = " with slope ".join(inputs)
    return f"{expression} gives {example['got']['value']}, not {example['expected']['value']}"


def one_line(message: str | None) -> str | None:
    return None if message is None else " ".join(message.split())[:160]
