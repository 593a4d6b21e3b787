"""Documents of ``halfulp check`` as runtimes give them, made up but of the same kind and size; nothing is random.

They follow rules such as "no bfloat16", so that the page shows the patterns of real runtimes.
"""

from __future__ import annotations

import itertools
import zlib
from collections import Counter
from functools import cache
from typing import Any

from halfulp.conformance.report import page
from halfulp.specs import find, ids

Document = dict[str, Any]
Value = dict[str, str]

BUCKETS = ("0", "1", "2", "3-4", "5-16", ">16", "special")
SUMMARY = (
    *("cases", "exact", "within", "wrong", "refused", "accepted", "rejected", "crashed", "hung"),
    *("unspecified", "allowed", "not_reproducible"),
)
FLOATS = ("0", "-0", "1", "-1", "0.5", "2", "-3", "inf", "-inf", "nan")
INTEGERS = ("0", "1", "-1", "2", "3", "-2", "127", "-128")
UNSIGNED = ("0", "1", "2", "3", "255")

PROFILES: dict[str, dict[str, Any]] = {
    "onnxruntime": {
        "versions": {"onnx": "1.23.2", "onnxruntime": "1.31.1"},
        "refused": {
            "onnx.Pow-1",
            "onnx.PRelu-1",
            "onnx.PRelu-6",
            "bfloat16",
            "int8",
            "int16",
            "uint8",
            "uint16",
        },
        "inexact": {"float32", "float16"},
        "wrong": {"int64"},
    },
    "openvino": {
        "versions": {"onnx": "1.23.2", "openvino": "2026.4.1"},
        "refused": {"float8_e5m2"},
        "inexact": {"float32"},
        "wrong": {"float64", "int64", "uint64", "bfloat16"},
    },
    "torch": {
        "versions": {"torch": "2.13.0"},
        "refused": {"uint16", "uint32", "uint64"},
        "inexact": {"float32", "float64", "bfloat16"},
        "wrong": set(),
    },
    "halfulp": {"versions": {"halfulp": "0.1.0"}, "refused": set(), "inexact": set(), "wrong": set()},
}


def document(name: str, *, versions: dict[str, str] | None = None) -> Document:
    """Return the document of a target of ``PROFILES``."""
    profile = PROFILES[name]
    rows: list[Document] = []
    cases: list[Document] = []
    specials: list[Document] = []
    reproducibility: list[Document] = []
    for operator, types in _pairs():
        verdict, ulp = _verdict(profile, operator, types)
        found = list(_cases(operator, types, verdict, ulp))
        cases += found
        rows.append(_row(operator, types, verdict, ulp, found))
        if verdict != "refused":
            specials.append({"operator": operator, "types": list(types), "grid": list(_grid(types, verdict))})
            reproducibility += list(_reproducibility(operator, types, name))
    if name not in ("halfulp", "torch"):
        cases += list(_accepted())
    counts = Counter(case["verdict"] for case in cases)
    return {
        "schema": "halfulp.check/1",
        "target": {"name": name, "versions": dict(sorted((versions or profile["versions"]).items()))},
        "run": {
            "halfulp": "0.1.0",
            "date": "2026-11-20",
            "mode": "quick",
            "selection": {"operators": [], "versions": [], "types": []},
            "machine": "x86_64 AVX-512",
            "python": "3.11.7",
            "ulp_limit": 4,
            "seconds": 41.2,
        },
        "summary": dict.fromkeys(SUMMARY, 0)
        | dict(counts)
        | {
            "cases": 900 + len(cases),
            "exact": 860,
            "rejected": 40,
            "not_reproducible": sum(entry["verdict"] == "differs" for entry in reproducibility),
        },
        "rows": rows,
        "specials": specials,
        "reproducibility": reproducibility,
        "cases": cases,
    }


def documents(*names: str) -> list[Document]:
    """Return the documents of some targets, of all if none is named."""
    return [document(name) for name in names or PROFILES]


@cache
def whole_page() -> str:
    """The page of all targets."""
    return page.render(documents())


def narrowed(found: Document, *operators: str) -> Document:
    """Return what a document says of some operator versions."""
    parts = ("rows", "specials", "reproducibility", "cases")
    return found | {
        part: [entry for entry in found[part] if entry["operator"] in operators] for part in parts
    }


def value(text: str, dtype: str = "float32") -> Value:
    """Return a number as a document holds it: the shortest decimal and its bits."""
    import numpy as np

    from halfulp.types import element_type

    kind = element_type(dtype)
    array = np.asarray(float(text) if kind.kind == "float" else int(text)).astype(kind.dtype)
    digits = array.dtype.itemsize * 2
    return {"value": text, "bits": f"0x{int.from_bytes(array.tobytes(), 'little'):0{digits}x}"}


def _pairs() -> list[tuple[str, tuple[str, ...]]]:
    pairs = []
    for id in ids():
        op = find(id)
        if op.standard != "onnx":
            continue
        variables = dict.fromkeys(port.type for port in op.inputs)
        for names in itertools.product(*(op.type_variables[variable] for variable in variables)):
            types = dict(zip(variables, names, strict=True))
            pairs.append((id, tuple(types[port.type] for port in op.inputs)))
    return pairs


def _verdict(profile: Document, operator: str, types: tuple[str, ...]) -> tuple[str, float | None]:
    if {operator, *types} & profile["refused"]:
        return "refused", None
    if types[0] in profile["wrong"]:
        return "wrong", 4096.0 if types[0] in ("float64", "int64") else 12.0
    if types[0] in profile["inexact"]:
        return "within", 1.0 + zlib.crc32(f"{operator}{types}".encode()) % 3
    return "exact", 0.0


def _row(
    operator: str, types: tuple[str, ...], verdict: str, ulp: float | None, cases: list[Document]
) -> Document:
    spread = {
        "exact": (5000, 0, 0, 0, 0, 0, 0),
        "within": (4870, 120, 8, 2, 0, 0, 0),
        "wrong": (3900, 640, 160, 120, 90, 60, 30),
        "refused": (0,) * 7,
    }[verdict]
    return {
        "operator": operator,
        "types": list(types),
        "verdict": verdict,
        "cases": {"exact": 3, **Counter(case["verdict"] for case in cases)},
        "elements": sum(spread),
        "misrounded": sum(spread[1:]),
        "max_ulp": ulp,
        "histogram": dict(zip(BUCKETS, spread, strict=True)),
        "worst": cases[0]["id"] if cases else None,
        "message": cases[0]["message"] if verdict == "refused" else None,
    }


def _cases(operator: str, types: tuple[str, ...], verdict: str, ulp: float | None) -> list[Document]:
    name = f"{operator}/{','.join(types)}"
    if verdict == "exact":
        return []
    if verdict == "refused":
        message = f"NOT_IMPLEMENTED : Could not find an implementation for {operator.split('.')[1]} node"
        return [_case(f"{name}/values/0", "refused", message=message)]
    inputs = [value("3", types[0]), value("2", types[1])]
    floating = "float" in types[0]
    right = value("9" if "Pow" in operator else "3", types[0])
    got = value("9.5" if floating else "8", types[0])
    example = {"index": [17], "inputs": inputs, "expected": right, "got": got, "ulp": ulp}
    cases = [_case(f"{name}/values/0", verdict, example=example, max_ulp=ulp, elements=1000, wrong=126)]
    if verdict == "wrong":
        inputs = [value("-1", types[0]), value("3", types[1])]
        example = {
            "index": [0, 2],
            "inputs": inputs,
            "expected": value("-1", types[0]),
            "got": value("1", types[0]),
        }
        example["ulp"] = None
        cases.append(_case(f"{name}/special/0", "wrong", example=example, elements=144, wrong=2))
    return cases


def _accepted() -> list[Document]:
    return [
        _case(f"onnx.Pow-7/float32,float32/invalid/{number}", "accepted", clause="onnx.Pow-7.C2")
        for number in range(3)
    ]


def _case(
    id: str,
    verdict: str,
    *,
    elements: int = 1,
    wrong: int = 0,
    max_ulp: float | None = None,
    example: Document | None = None,
    message: str | None = None,
    clause: str | None = None,
) -> Document:
    operator, types, group, _ = id.split("/")
    return {
        "id": id,
        "operator": operator,
        "types": types.split(","),
        "group": group,
        "shapes": [[elements], [elements]] if group != "invalid" else [[2, 3], [4]],
        "attributes": {},
        "constants": [],
        "clause": clause,
        "verdict": verdict,
        "elements": elements,
        "wrong": wrong,
        "max_ulp": max_ulp,
        "grade": None,
        "special": 0,
        "example": example,
        "message": message,
        "confirmed": "MPFR" if example else None,
        "allowed": False,
    }


def _grid(types: tuple[str, ...], verdict: str) -> list[Document]:
    axes = [FLOATS if "float" in name else UNSIGNED if name.startswith("u") else INTEGERS for name in types]
    cells = []
    for x, y in itertools.product(*axes):
        right = "nan" if "nan" in (x, y) and y != "0" and x != "1" else "1" if y == "0" or x == "1" else "0"
        cell = {"x": x, "y": y, "expected": right, "got": right, "verdict": "exact"}
        if "float" not in types[0] and y.startswith("-"):
            cell |= {"verdict": "unspecified", "got": "-2147483648"}
        elif verdict == "wrong" and x in ("-1", "-0") and y in ("3", "inf"):
            cell |= {"verdict": "wrong", "got": "nan" if y == "inf" else "-1"}
        cells.append(cell)
    return cells


def _reproducibility(operator: str, types: tuple[str, ...], name: str) -> list[Document]:
    aspects = ("position", "length", "threads", "scalar exponent", "constant folding")
    found = []
    for aspect in aspects:
        differs = (name, aspect) in {
            ("torch", "position"),
            ("torch", "threads"),
            ("openvino", "constant folding"),
        }
        differs = differs and types[0] == "float32"
        example = None
        if differs:
            example = {
                "case": f"{operator}/{','.join(types)}/reproducibility/{aspect}",
                "index": [3],
                "inputs": [value("0.7"), value("2.5")],
                "first": value("0.40996"),
                "again": value("0.40997"),
            }
        verdict = "not tested" if aspect == "constant folding" and name == "torch" else "same"
        found.append(
            {
                "operator": operator,
                "types": list(types),
                "aspect": aspect,
                "verdict": "differs" if differs else verdict,
                "example": example,
                "allowed": False,
            }
        )
    return found
