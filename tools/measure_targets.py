"""Make the files of src/halfulp/measured/ from what ``halfulp check --json`` has written.

    halfulp check onnxruntime --json onnxruntime.json
    python tools/measure_targets.py onnxruntime.json

A file holds what ``halfulp audit`` needs to know of one version of a runtime: for each operator version and input
types the verdict, and of each group of cases that was not exact the worst difference and an example. Two things are
measured here, with the runtime: powers to constant exponents, which is what models mostly hold, one exponent at a
time; and whether the bits of hard cases depend on their surroundings.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import ASPECTS, Case
from halfulp.conformance.cases.generators.hard import hard_pairs
from halfulp.conformance.cases.generators.pairs import bases, joined, pow_values
from halfulp.conformance.cases.generators.random import Random
from halfulp.conformance.cases.generators.special import specials
from halfulp.conformance.runner.examine import Examiner, Options, Result
from halfulp.conformance.runner.targets import find
from halfulp.conformance.schema import CaseEntry, Document, Example, load
from halfulp.conformance.verdict.judge import VERDICTS
from halfulp.measured.reader import SCHEMA
from halfulp.types import TYPES

FOLDER = Path(__file__).parents[1] / "src/halfulp/measured"

# Whose version a target's is, where the two are not of one name.
_PACKAGES = {"openvino-native": "openvino", "onnx-reference": "onnx", "onnx-converter": "onnx"}

_FLOATS = (0, 1, 2, 3, 4, 0.5, 1.5, 2.5, 0.25, 1 / 3, -0.5, -1, -2)
_INTEGERS = (0, 1, 2, 3, 4, 5, 8, -1, -2)

_PIECE = 7  # shorter than the vectors of float32
_ELEMENTS = 1001

_SILENT = ("exact", "rejected", "unspecified")


def main() -> None:
    """Read documents, measure constant exponents, and write a file for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("documents", nargs="+", type=Path, help="what halfulp check --json has written")
    parser.add_argument("-o", "--output", type=Path, default=FOLDER, help="the folder to write to")
    arguments = parser.parse_args()
    for path in arguments.documents:
        for document in load(path):
            made = measured(document)
            target = made["target"]
            written = arguments.output / f"{target['name']}-{target['version']}.json"
            written.write_text(text(made), encoding="utf-8")
            print(summary(document, target["version"]))
            print(f"{written}: {len(made['rows'])} rows, {written.stat().st_size} bytes", file=sys.stderr)


def summary(document: Document, version: str) -> str:
    """Return a line of the table in docs/findings/README.md."""
    counts: dict[str, Any] = dict(document["summary"])
    columns = ("cases", "exact", "within", "wrong", "refused", "accepted", "rejected", "unspecified")
    cells = [f"{document['target']['name']} {version}", *(str(counts[column]) for column in columns)]
    return f"| {' | '.join(cells)} |"


def measured(document: Document) -> dict[str, Any]:
    """Return what is kept of a document."""
    name = document["target"]["name"]
    spec = find(name)
    versions = document["target"]["versions"]
    with Examiner(spec, Options(document["run"]["ulp_limit"])) as examiner:
        if examiner.versions != versions:
            raise SystemExit(f"{name} is installed as {examiner.versions}, and was checked as {versions}")
        constants = dict(exponents(document, examiner))
        moved = dict(surroundings(document, examiner))
    rows = []
    for row in document["rows"]:
        members = [
            case
            for case in document["cases"]
            if (case["operator"], case["types"]) == (row["operator"], row["types"])
        ]
        types = tuple(row["types"])
        rows.append(_row(dict(row), members, document, moved.get(types, set())))
    accepts = {
        case["clause"] for case in document["cases"] if case["verdict"] == "accepted" and case["clause"]
    }
    run = document["run"]
    return {
        "schema": SCHEMA,
        "target": {
            "name": name,
            "version": versions[_PACKAGES.get(name, name)].partition("+")[0],
            "versions": versions,
            "by_meaning": spec.newest,
        },
        "run": {key: run[key] for key in ("halfulp", "date", "mode", "machine", "python", "ulp_limit")},
        "accepts": sorted(accepts),
        "rows": rows,
        "constants": {",".join(types): found for types, found in constants.items()},
    }


def _row(
    row: dict[str, Any],
    cases: list[CaseEntry],
    document: Document,
    moved: set[str],
) -> dict[str, Any]:
    """Return a row with what is not exact in it, group by group."""
    made: dict[str, Any] = {"operator": row["operator"], "types": row["types"], "verdict": row["verdict"]}
    made["max_ulp"] = row["max_ulp"]
    if all(verdict in ("refused", "unspecified") for verdict in row["cases"]):
        return made | {"message": _line(row["message"])}
    groups: dict[str, dict[str, Any]] = {}
    for case in cases:
        if case["verdict"] in _SILENT or case["group"] in ("invalid", "reproducibility"):
            continue
        group = groups.setdefault(case["group"], {"verdict": "exact", "max_ulp": None, "wrong": 0})
        _add(group, case)
    is_power = ".Pow" in row["operator"]
    differs = {
        str(entry["aspect"])
        for entry in document["reproducibility"]
        if (entry["operator"], entry["types"], entry["verdict"]) == (row["operator"], row["types"], "differs")
    } | (moved if is_power else set())
    made |= {"groups": groups} if groups else {}
    return made | ({"differs": [aspect for aspect in ASPECTS if aspect in differs]} if differs else {})


def _add(group: dict[str, Any], case: CaseEntry) -> None:
    ulps = [ulp for ulp in (group["max_ulp"], case["max_ulp"]) if ulp is not None]
    worse = VERDICTS.index(case["verdict"]) > VERDICTS.index(group["verdict"])
    larger = case["verdict"] == group["verdict"] and (case["max_ulp"] or 0) > (group["max_ulp"] or 0)
    if worse or larger:
        group["verdict"] = case["verdict"]
        example = _line(case["message"])
        if case["example"] is not None:
            example = _example(case["operator"], case["example"])
        if example is not None:
            group["example"] = example
    group["max_ulp"] = max(ulps, default=None)
    group["wrong"] += case["wrong"]
    if case["group"] == "broadcast" and case["verdict"] != "within":
        group.setdefault("shapes", []).append([case["shapes"], sorted(case["attributes"])])


def _example(operator: str, example: Example) -> str:
    inputs = [number["value"] for number in example["inputs"]]
    if "Pow" in operator and len(inputs) == 2:
        base = f"({inputs[0]})" if inputs[0].startswith("-") else inputs[0]
        what = f"{base}^{inputs[1]}"
    else:
        what = " with slope ".join(inputs)
    return f"{what} gives {example['got']['value']}, not {example['expected']['value']}"


def _line(message: str | None) -> str | None:
    return None if message is None else " ".join(message.split())[:160]


# --- constant exponents -----------------------------------------------------------------------------


def _powers(document: Document) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Give the newest power operator with each pair of types."""
    powers = [row for row in document["rows"] if row["operator"].startswith(("onnx.Pow-", "openvino.Power-"))]
    for row in powers:
        if row["operator"] == powers[-1]["operator"]:
            yield row["operator"], tuple(row["types"])


def exponents(document: Document, examiner: Examiner) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Give for each pair of types of the newest power what powers to constants came to."""
    for operator, types in _powers(document):
        cases = _cases(operator, types)
        results = examiner.examine(cases.values())
        # Types that are refused because of some exponents may be taken with others.
        if all(result.judgement.verdict in ("refused", "unspecified") for result in results):
            continue
        found = {key: _entry(result) for key, result in zip(cases, results, strict=True)}
        for key, case in cases.items():
            if _one_float(types) and found[key][0] in ("within", "wrong"):
                x = bases(types[0], Random(case.id), _PIECE * 60)
                pieces = examiner.examine(_pieces(f"{case.id} in pieces", operator, x, case.inputs[1]))
                if any(piece.repetition is not None and piece.repetition.same is False for piece in pieces):
                    found[key].append("position")
        yield types, found


def _one_float(types: tuple[str, ...]) -> bool:
    return len(set(types)) == 1 and TYPES[types[0]].kind == "float"


def _cases(operator: str, types: tuple[str, ...]) -> dict[str, Case]:
    """Return a case for each exponent, by the exponent as it is in its type."""
    x_type, y_type = types
    x = np.concatenate([specials(x_type), bases(x_type, Random(f"{operator}/{x_type}"), 2000)])
    row = TYPES[y_type]
    cases = {}
    for number in _FLOATS if row.kind == "float" else _INTEGERS:
        if number < 0 and row.kind == "uint":
            continue
        y = np.array(number).astype(row.dtype)
        key = repr(float(y.astype(np.float64))).removesuffix(".0")
        id = f"{operator}/{x_type},{y_type}/values/constant {key}"
        cases[key] = Case(id, operator, "values", (x, y), constants=frozenset({1}))
    return cases


def _entry(result: Result) -> list[Any]:
    """Return the verdict; the greatest difference and an example where there is one."""
    found = result.judgement
    entry: list[Any] = [found.verdict]
    if found.verdict not in _SILENT:
        example = _line(found.message)
        if found.example is not None:
            example = _example(result.operator, found.example)  # type: ignore[arg-type]
        entry += [found.max_ulp, example]
    return entry


# --- surroundings -------------------------------------------------------------------------------------


def surroundings(document: Document, examiner: Examiner) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Give for the floating types of the newest power on what the bits of hard cases depend.

    Of hard cases every other one is rounded the other way by code that is a little less exact, so that a few show
    whether a runtime's vectors and what is left over at their end compute alike.
    """
    for operator, types in _powers(document):
        if not _one_float(types):
            continue
        kind = types[0]
        pairs = joined(hard_pairs(kind, kind), pow_values(kind, kind, Random(f"{operator}/{kind}"), 500))
        x, y = (array[:_ELEMENTS] for array in pairs)
        id = f"{operator}/{','.join(types)}/reproducibility/whole"
        cases = [*_pieces(id, operator, x, y), *_scalars(operator, types, x)]
        repetitions = [result.repetition for result in examiner.examine(cases)]
        yield types, {found.aspect for found in repetitions if found is not None and found.same is False}


def _pieces(id: str, operator: str, x: Array, y: Array) -> Iterator[Case]:
    """Give a case, and then the same elements in many short ones; a scalar y is a constant."""
    constants = frozenset() if y.ndim else frozenset({1})
    yield Case(id, operator, "reproducibility", (x, y), constants=constants)
    for start in range(0, x.size, _PIECE):
        places = np.arange(start, min(start + _PIECE, x.size))
        yield Case(
            f"{id} {start}",
            operator,
            "reproducibility",
            (x[places], y[places] if y.ndim else y),
            constants=constants,
            aspect="position",
            compared_with=id,
            positions=places,
        )


def _scalars(operator: str, types: tuple[str, ...], x: Array) -> Iterator[Case]:
    for number in (2, 3, 0.5, -1):
        y = np.array(number).astype(x.dtype)
        id = f"{operator}/{','.join(types)}/reproducibility/filled {number:g}"
        yield Case(id, operator, "reproducibility", (x, np.full(x.shape, y)))
        yield Case(
            f"{id} once", operator, "reproducibility", (x, y), aspect="scalar exponent", compared_with=id
        )


# --- writing ----------------------------------------------------------------------------------------


def text(document: dict[str, Any]) -> str:
    """Return a document as JSON with a line for each row, so that two versions can be compared."""
    head = {key: value for key, value in document.items() if key not in ("rows", "constants")}
    start = json.dumps(head, indent=1).removesuffix("\n}")
    rows = ",\n".join(f"  {_compact(row)}" for row in document["rows"])
    constants = ",\n".join(
        f'  "{types}": {_compact(found)}' for types, found in document["constants"].items()
    )
    return f'{start},\n "rows": [\n{rows}\n ],\n "constants": {{\n{constants}\n }}\n}}\n'


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    main()
