"""The common part of targets that take an ONNX model and arrays by name."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

import onnx

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.runner.onnx_model import model, model_inputs


class Prepared(NamedTuple):
    """A model and its inputs by name."""

    model: onnx.ModelProto
    inputs: dict[str, Array]


def prepare(case: Case) -> Prepared:
    """Return a case as a model and what to feed it: all inputs that are no initializers."""
    return Prepared(model(case), model_inputs(case))


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
