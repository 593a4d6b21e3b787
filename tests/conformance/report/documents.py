"""Documents of small checks: of an evaluator with faults, of runtimes with one fault each, and of a right one."""

import copy
from functools import cache
from typing import Any
from unittest.mock import patch

from halfulp.conformance.check import check_target, selection
from halfulp.conformance.report import render
from halfulp.conformance.targets import find

Document = dict[str, Any]

BOTH = ["float32", "int32"]
# The module of each target, the fault of tests.conformance.faulty, and the types that are checked.
TARGETS = {
    "reference": ("onnx-reference", "none", BOTH),
    "by place": ("tests.conformance.faulty", "depends_on_position", BOTH),
    "refusing": ("tests.conformance.faulty", "raises", ["int32"]),
    "right": ("halfulp.backend", "none", BOTH),
}


@cache
def _checked(name: str) -> Any:
    target, fault, types = TARGETS[name]
    chosen = selection(["onnx.Pow-7", "onnx.PRelu-9"], (), types)
    with patch.dict("os.environ", FAULTY=fault):
        return check_target(
            find(target), mode="quick", selection=chosen, time_limit=600.0, processes=1
        ).document


def document(name: str) -> Document:
    """Return the document of one of ``TARGETS``, called so."""
    found: Document = copy.deepcopy(_checked(name))
    found["target"]["name"] = name
    return found


def documents(*names: str) -> list[Document]:
    """Return the documents of some targets, of all if none is named."""
    return [document(name) for name in names or TARGETS]


@cache
def whole_page() -> str:
    """The page of all targets."""
    return render(documents())
