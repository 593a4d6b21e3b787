"""The onnx package's own backend cases, without its making all cases of all operators first, which takes 10 s."""

import importlib
import re
import unittest.mock
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx.backend.test
from onnx.backend.test import loader
from onnx.backend.test.case import node

import halfulp.backend


def _node_cases() -> list[Any]:
    """Import the modules whose cases are named for Pow and PRelu: an import makes a module's cases."""
    for path in sorted(Path(node.__file__).parent.rglob("*.py")):
        if re.search(r"""["']test_(pow|prelu)""", path.read_text("utf-8")):
            parts = path.relative_to(Path(node.__file__).parent).with_suffix("").parts
            importlib.import_module(".".join([node.__name__, *parts]))
    return list(node._NodeTestCases)


@contextmanager
def few_node_cases() -> Iterator[None]:
    """Let the package's loader know of no node cases but those of Pow and PRelu."""
    with warnings.catch_warnings(), unittest.mock.patch.object(loader, "load_node_model_tests", _node_cases):
        warnings.simplefilter("ignore")  # the package's own cases divide by zero while they are made
        yield


def backend_test(name: str) -> Any:
    """The package's runner for halfulp's backend, with the package's cases."""
    with few_node_cases():
        return onnx.backend.test.BackendTest(halfulp.backend, name)
