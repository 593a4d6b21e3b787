"""The measurement of a runtime from a document of ``halfulp check --json``, without its constants and slopes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

CHECK_SCHEMA = "halfulp.check/1"
SILENT = ("exact", "rejected", "unspecified")
# As in halfulp.conformance, from the least to the gravest.
VERDICTS = ("rejected", "unspecified", "exact", "within", "wrong", "refused", "accepted", "crashed", "hung")
ASPECTS = ("position", "length", "threads", "scalar exponent", "constant folding")
GRADES = ("support", "reproducibility", "zero-signs", "subnormals", "exponents", "nan", "edges", "ordinary")


def measurement(document: Mapping[str, Any], schema: str) -> dict[str, Any]:
    """Return a measurement in the form of the files beside this one; raises KeyError where the document is broken."""
    members: dict[tuple[str, ...], list[Any]] = {}
    for case in document["cases"]:
        members.setdefault((case["operator"], *case["types"]), []).append(case)
    name, versions = document["target"]["name"], document["target"]["versions"]
    operators = {row["operator"].rpartition("-")[0] for row in document["rows"]}
    return {
        "schema": schema,
        "target": {
            "name": name,
            "version": str(versions.get(name) or next(iter(versions.values()), "as measured")).partition("+")[
                0
            ],
            "by_meaning": len(operators) == len({row["operator"] for row in document["rows"]}),
        },
        "run": document["run"],
        "accepts": [case["clause"] for case in document["cases"] if case["verdict"] == "accepted"],
        "rows": [
            row_of(row, members.get((row["operator"], *row["types"]), []), document)
            for row in document["rows"]
        ],
    }


def row_of(
    row: Mapping[str, Any], cases: Sequence[Any], document: Mapping[str, Any], moved: Collection[str] = ()
) -> dict[str, Any]:
    """Return a row with its results that are not exact, by group."""
    made: dict[str, Any] = {"operator": row["operator"], "types": row["types"], "verdict": row["verdict"]}
    made["max_ulp"] = row["max_ulp"]
    if all(verdict in ("refused", "unspecified") for verdict in row["cases"]):
        return made | {"message": one_line(row["message"])}
    groups: dict[str, dict[str, Any]] = {}
    for case in cases:
        if case["verdict"] in SILENT or case["group"] in ("invalid", "reproducibility"):
            continue
        group = groups.setdefault(case["group"], {"verdict": "exact", "max_ulp": None, "wrong": 0})
        _add(group, case)
    is_power = ".Pow" in row["operator"]
    differs = {
        str(entry["aspect"])
        for entry in document["reproducibility"]
        if (entry["operator"], entry["types"], entry["verdict"]) == (row["operator"], row["types"], "differs")
    } | ({*moved} if is_power else set())
    made |= {"groups": groups} if groups else {}
    return made | ({"differs": [aspect for aspect in ASPECTS if aspect in differs]} if differs else {})


def _add(group: dict[str, Any], case: Mapping[str, Any]) -> None:
    if (grade := case.get("grade")) is not None:
        group["grade"] = max(group.get("grade", grade), grade, key=GRADES.index)
    ulps = [ulp for ulp in (group["max_ulp"], case["max_ulp"]) if ulp is not None]
    worse = VERDICTS.index(case["verdict"]) > VERDICTS.index(group["verdict"])
    larger = case["verdict"] == group["verdict"] and (case["max_ulp"] or 0) > (group["max_ulp"] or 0)
    if worse or larger:
        group["verdict"] = case["verdict"]
        example = one_line(case["message"])
        if case["example"] is not None:
            example = example_of(case["operator"], case["example"])
        if example is not None:
            group["example"] = example
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
