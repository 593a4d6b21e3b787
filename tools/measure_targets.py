"""Make the files of src/halfulp/measured/ from documents that ``halfulp check --json`` has written.

    halfulp check onnxruntime --json onnxruntime.json
    python tools/measure_targets.py onnxruntime.json
    python tools/measure_targets.py --again onnxruntime

A file has the data that ``halfulp audit`` needs about one version of a runtime: the verdict for each operator version
and input types, and the worst difference and an example for each group of cases that was not exact. This program also
measures with the runtime:

- powers with constant exponents, which are the most common in models, one exponent at a time. If columns (bases whose
  last dim is 1) are worse, they are recorded too, since a runtime may compute each element of such a base by itself;
- PRelu with slopes of one kind, if not all are right;
- whether the bits of hard cases depend on the other elements;
- whether a case that broadcasts is wrong although its elements by themselves are right;
- whether a half is rounded between two nodes;
- whether PRelu with a negative slope changes the sign of a zero, which the document leaves open.

``--again`` measures everything except surroundings again, with the installed version, for an existing file. The file
keeps the worse of both results, since two samples or processors may show different errors.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import halfulp as hu
from halfulp.conformance import accuracy
from halfulp.conformance.case import Case
from halfulp.conformance.cases.values import Random, bases, hard_pairs, joined, pow_values, specials
from halfulp.conformance.check import Examiner
from halfulp.conformance.document import Document, Result
from halfulp.conformance.judge import VERDICTS
from halfulp.conformance.targets import find
from halfulp.conversion.float32 import HALVES
from halfulp.measured import SCHEMA, SILENT, Group, example_of, kind_of_slope, one_line, row_of
from halfulp.types import TYPES

FOLDER = Path(__file__).parents[1] / "src/halfulp/measured"

# The package whose version is the target's, if its name differs.
_PACKAGES = {"openvino-native": "openvino", "onnx-reference": "onnx", "onnx-converter": "onnx"}

_BASES = 30_000  # enough to show errors of powf, which misrounds one power in 1,600
# A runtime may multiply for whole exponents. Then errors grow with the exponent.
_WHOLE = (0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, -1, -2, -3, -8, -32)
_FLOATS = (*_WHOLE, 0.5, 1.5, 2.5, 0.25, 1 / 3, -0.5)

_SLOPES = (0.25, -0.5, 0.1, -0.01, 1e-3, 1e-4, 1 / 3, 0.9, -0.0, 1, -1, 2, -1.5, 10, 999, 5000, -1e4)
_STEPS = (0, 1, 2, 3, 7, 100, -1, -2, -3, 2000, -2000)  # slopes of integers; they wrap around in int8

_FRONT_ENDS = {"openvino-native": "openvino"}  # the target that reads the same network from an ONNX file

_PIECE = 7  # shorter than the vectors of float32


def main() -> None:
    """Read documents, measure constant exponents, and write a file for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("documents", nargs="*", type=Path, help="documents of halfulp check --json")
    parser.add_argument("--again", action="append", default=[], metavar="TARGET", help="a measured target")
    parser.add_argument("-o", "--output", type=Path, default=FOLDER, help="the folder to write to")
    arguments = parser.parse_args()
    for path in arguments.documents:
        read = json.loads(path.read_text(encoding="utf-8"))
        for document in read if isinstance(read, list) else [read]:
            made = measured(document)
            target = made["target"]
            print(summary(document, target["version"]))
            _write(made, arguments.output / f"{target['name']}-{target['version']}.json")
    for name in arguments.again:
        _again(name, arguments.output)


def _write(made: dict[str, Any], path: Path) -> None:
    path.write_text(text(made), encoding="utf-8")
    print(f"{path}: {len(made['rows'])} rows, {path.stat().st_size} bytes", file=sys.stderr)


def _again(name: str, folder: Path) -> None:
    """Repeat the measurements that need no document."""
    with Examiner(find(name)) as examiner:
        version = examiner.versions[_PACKAGES.get(name, name)].partition("+")[0]
        path = folder / f"{name}-{version}.json"
        made = json.loads(path.read_text(encoding="utf-8"))
        _narrow(made["rows"], examiner)
        vectors = dict(exponents(made["rows"], examiner))
        columns = dict(exponents(made["rows"], examiner, column=True))
        for types, found in vectors.items():
            known = made["constants"].setdefault(",".join(types), {})
            known.update({key: entry for key, entry in found.items() if _worse(entry, known.get(key))})
        made["columns"] = _worse_columns(columns, made["constants"])
    made["halves"] = halves(name)
    made["zero_signs"] = sorted({*made.get("zero_signs", ()), *zero_signs(name)})
    _write(made, path)


def _narrow(rows: list[dict[str, Any]], examiner: Examiner) -> None:
    """Add the results for slopes of each kind to the rows, and remove errors that broadcasting does not cause."""
    for row in rows:
        groups = row.get("groups", {})
        if groups.get("broadcast", {}).get("verdict") == "wrong" and _is_wrong_alone(row, examiner):
            del groups["broadcast"]
        if ".PR" in row["operator"] and row["verdict"] not in ("refused", "unspecified"):
            _add_slopes(row, slopes(row["operator"], row["types"][0], examiner))


def _add_slopes(row: dict[str, Any], found: dict[str, Any]) -> None:
    """Add the results for slopes of each kind to a row, which keeps the worse ones, where they are not all exact."""
    known, groups = row.get("slopes", {}), {**row.get("groups", {})}
    groups.pop("broadcast", None)
    # On another processor a runtime may compute differently. Then the row is left as it is.
    if not known and any(_contradicts(found, group) for group in groups.values()):
        return
    worse = {kind: entry for kind, entry in found.items() if _worse(entry, known.get(kind))}
    row["slopes"] = {kind: worse.get(kind, known.get(kind)) for kind in {**found, **known}}
    worst = max(row["slopes"].values(), key=_order)
    if _order(worst) == _order(["exact"]):
        del row["slopes"]


def summary(document: Document, version: str) -> str:
    """Return a line of the table in docs/findings/README.md."""
    counts: dict[str, Any] = dict(document["summary"])
    columns = ("cases", "exact", "within", "wrong", "refused", "accepted", "rejected", "unspecified")
    cells = [f"{document['target']['name']} {version}", *(str(counts[column]) for column in columns)]
    return f"| {' | '.join(cells)} |"


def measured(document: Document) -> dict[str, Any]:
    """Return the part of a document that the file keeps."""
    name = document["target"]["name"]
    spec = find(name)
    versions = document["target"]["versions"]
    with Examiner(spec, document["run"]["ulp_limit"]) as examiner:
        if examiner.versions != versions:
            raise SystemExit(f"{name} is installed as {examiner.versions}, and was checked as {versions}")
        constants = {",".join(types): found for types, found in exponents(document["rows"], examiner)}
        columns = _worse_columns(dict(exponents(document["rows"], examiner, column=True)), constants)
        moved = dict(surroundings(document, examiner))
        rows = []
        for row in document["rows"]:
            members = [
                case
                for case in document["cases"]
                if (case["operator"], case["types"]) == (row["operator"], row["types"])
            ]
            types = tuple(row["types"])
            rows.append(row_of(row, members, document, moved.get(types, ())))
        _narrow(rows, examiner)
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
            "by_meaning": not spec.has_models,
        },
        "run": {key: run[key] for key in ("halfulp", "date", "mode", "machine", "python", "ulp_limit")},
        "accepts": sorted(accepts),
        "rows": rows,
        "constants": constants,
        "columns": columns,
        "halves": halves(name),
        "zero_signs": zero_signs(name),
    }


# --- constant exponents -----------------------------------------------------------------------------


def _powers(rows: Sequence[Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the newest power operator with each pair of types."""
    powers = [row for row in rows if row["operator"].startswith(("onnx.Pow-", "openvino.Power-"))]
    for row in powers:
        if row["operator"] == powers[-1]["operator"]:
            yield row["operator"], tuple(row["types"])


def exponents(
    rows: Sequence[Any], examiner: Examiner, *, column: bool = False
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yield the results of constant exponents, on a vector or a column, for each pair of types of the newest power."""
    for operator, types in _powers(rows):
        cases = _cases(operator, types, column)
        results = examiner.examine(cases.values())
        # Types that are refused with some exponents may be supported with others.
        if all(result.entry["verdict"] in ("refused", "unspecified") for result in results):
            continue
        found = {key: _entry(result) for key, result in zip(cases, results, strict=True)}
        for key, case in cases.items():
            if not column and _one_float(types) and found[key][0] in ("within", "wrong"):
                x = bases(types[0], Random(case.id), _PIECE * 60)
                pieces = examiner.examine(
                    accuracy.pieces(f"{case.id} in pieces", operator, x, case.inputs[1])
                )
                if any(piece.same is False for piece in pieces):
                    found[key].append("position")
        yield types, found


def _one_float(types: tuple[str, ...]) -> bool:
    return len(set(types)) == 1 and TYPES[types[0]].kind == "float"


def _cases(operator: str, types: tuple[str, ...], column: bool) -> dict[str, Case]:
    """Return a case for each exponent, by the exponent rounded to its type."""
    x_type, y_type = types
    x = np.concatenate([specials(x_type), bases(x_type, Random(f"{operator}/{x_type}"), _BASES)])
    if column:
        x = x[:, np.newaxis]
    row = TYPES[y_type]
    cases = {}
    for number in _FLOATS if row.kind == "float" else _WHOLE:
        if number < 0 and row.kind == "uint":
            continue
        y = np.array(number).astype(row.dtype)
        key = repr(float(y.astype(np.float64))).removesuffix(".0")
        id = f"{operator}/{x_type},{y_type}/values/constant {key}"
        cases[key] = Case(id, operator, "values", (x, y), constants=frozenset({1}))
    return cases


def _order(entry: list[Any]) -> tuple[int, float]:
    return _severity(entry[0]), (entry[1] if len(entry) > 1 else 0) or 0


def _worse(entry: list[Any], known: list[Any] | None) -> bool:
    """Tell whether an entry is worse than another one."""
    return known is None or _order(entry) > _order(known)


def _worse_columns(
    columns: dict[tuple[str, ...], dict[str, Any]], constants: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the results of columns that are worse than the same power of a vector."""
    found = {}
    for types, entries in columns.items():
        known = constants.get(",".join(types), {})
        worse = {key: entry for key, entry in entries.items() if key in known and _worse(entry, known[key])}
        if worse:
            found[",".join(types)] = worse
    return found


def _entry(result: Result) -> list[Any]:
    """Return the verdict, and of a result that is not exact the maximum difference, an example and the grade."""
    found = result.entry
    entry: list[Any] = [found["verdict"]]
    if found["verdict"] not in SILENT:
        example = one_line(found["message"])
        if found["example"] is not None:
            example = example_of(found["operator"], found["example"])
        entry += [found["max_ulp"], example, found["grade"]]
    return entry


# --- slopes and broadcasting --------------------------------------------------------------------------


def slopes(operator: str, type: str, examiner: Examiner) -> dict[str, Any]:
    """Return the results of PRelu with slopes of each kind, for all X together."""
    row = TYPES[type]
    x = np.concatenate([specials(type), bases(type, Random(f"{operator}/{type}"), 2000)])
    every = [*_SLOPES, *np.asarray(specials(type)).astype(np.float64)] if row.kind == "float" else _STEPS
    cases: dict[str, list[Case]] = {}
    with np.errstate(over="ignore", invalid="ignore"):
        for number in every:
            slope = np.array([number]).astype(row.dtype)
            if number < 0 and row.kind == "uint":
                continue
            of_kind = cases.setdefault(kind_of_slope(float(slope[0])), [])
            id = f"{operator}/{type},{type}/values/slope {len(of_kind)} of {number!r}"
            of_kind.append(Case(id, operator, "values", (x, slope), constants=frozenset({1})))
    return {kind: max(map(_entry, examiner.examine(members)), key=_order) for kind, members in cases.items()}


def _contradicts(found: dict[str, Any], group: dict[str, Any]) -> bool:
    """Tell whether the example of a group is worse than the result measured for slopes of its kind."""
    operands = Group("", group["verdict"], example=group.get("example")).operands
    if operands is None or group.get("shapes"):
        return False
    return _severity(group["verdict"]) > _severity(found[kind_of_slope(float(operands[1]))][0])


def _severity(verdict: str) -> int:
    return 0 if verdict in SILENT else VERDICTS.index(verdict)


def _is_wrong_alone(row: dict[str, Any], examiner: Examiner) -> bool:
    """Tell whether the example of a case that broadcasts is wrong without broadcasting too."""
    group = Group("broadcast", "wrong", example=row["groups"]["broadcast"].get("example"))
    if group.operands is None:
        return False
    arrays = [
        np.full(_PIECE * 9, float(operand)).astype(TYPES[type].dtype)
        for operand, type in zip(group.operands, row["types"], strict=True)
    ]
    id = f"{row['operator']}/{','.join(row['types'])}/values/alone"
    (result,) = examiner.examine([Case(id, row["operator"], "values", (arrays[0], arrays[1]))])
    return bool(result.entry["verdict"] == "wrong")


# --- halves, and the signs of zeros -----------------------------------------------------------------------


def halves(name: str) -> list[str]:
    """Return the types of halves that a runtime does not round between two nodes of a network."""
    random = Random("halves")
    numbers = [random.uniform(low, high, 1000) for low, high in ((1, 2), (0, 0.1), (1.5, 1.5))]
    nodes = "difference = Sub (x, y)  z = Pow (difference, p)"
    differ = _differing(name, HALVES, nodes, numbers, lambda x, y, p: hu.pow(x - y, p))
    return [
        kind for kind, share in differ.items() if share > 0.01
    ]  # fewer differ by the runtime's own errors


def zero_signs(name: str) -> list[str]:
    """Return the types of floats in which PRelu with a negative slope changes the sign of a zero."""
    numbers = [np.resize([0.0, -0.0], 1000), np.full(1000, -0.5)]
    kinds = ("float64", "float32", *HALVES)
    differ = _differing(name, kinds, "z = PRelu (x, y)", numbers, hu.prelu)
    return sorted(kind for kind, share in differ.items() if share)


def _differing(
    name: str, kinds: Sequence[str], nodes: str, numbers: Sequence[Any], exact: Callable[..., Any]
) -> dict[str, float]:
    """Return by type the share of the results of a network of x, y and p that are not the exact ones."""
    spec = find(_FRONT_ENDS.get(name, name))
    if not spec.has_models:
        return {}  # a library of functions has no networks
    target, differ = spec.open(1), {}
    for kind in kinds:
        row = TYPES[kind]
        inputs = dict(zip("xyp", (each.astype(row.dtype) for each in numbers), strict=False))
        declared = ", ".join(f"{row.onnx}[1000] {each}" for each in inputs)
        model = onnx.parser.parse_model(
            f"""<ir_version: 8, opset_import: ["": 16]> g ({declared}) => ({row.onnx}[1000] z) {{ {nodes} }}"""
        )
        try:
            (z,) = target.run(model, inputs)
        except Exception:  # the runtime does not support the type
            continue
        right = exact(*inputs.values())
        differ[kind] = float(((z != right) | (np.signbit(z) != np.signbit(right))).mean())
    return differ


# --- surroundings -------------------------------------------------------------------------------------


def surroundings(document: Document, examiner: Examiner) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Yield, for the floating types of the newest power, the surroundings on which the bits of hard cases depend."""
    for operator, types in _powers(document["rows"]):
        if _one_float(types):
            kind = types[0]
            random = Random(f"{operator}/{kind}")
            pairs = joined(hard_pairs(kind, kind), pow_values(kind, kind, random, 500))
            yield types, accuracy.surroundings(examiner, operator, kind, pairs)


# --- writing ----------------------------------------------------------------------------------------


def text(document: dict[str, Any]) -> str:
    """Return a document as JSON with a line for each row, so that two versions can be compared."""
    rest = ("rows", "constants", "columns", "halves", "zero_signs")
    head = {key: value for key, value in document.items() if key not in rest}
    start = json.dumps(head, indent=1).removesuffix("\n}")
    rows = ",\n".join(f"  {_compact(row)}" for row in document["rows"])
    constants = ",\n".join(
        f'  "{types}": {_compact(found)}' for types, found in document["constants"].items()
    )
    end = ",\n ".join(f'"{key}": {_compact(document[key])}' for key in rest[2:])
    return f'{start},\n "rows": [\n{rows}\n ],\n "constants": {{\n{constants}\n }},\n {end}\n}}\n'


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    main()
