"""The common part of targets that take an ONNX model and arrays by name."""

from __future__ import annotations

from typing import NamedTuple

import onnx

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.runner.onnx_model import model, model_inputs
from halfulp.installed import version_of


class Prepared(NamedTuple):
    """A model and its inputs by name."""

    model: onnx.ModelProto
    inputs: dict[str, Array]


def prepare(case: Case) -> Prepared:
    """Return a case as a model and what to feed it: all inputs that are no initializers."""
    return Prepared(model(case), model_inputs(case))


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found = {package: version_of(package) for package in packages}
    return {package: version for package, version in found.items() if version is not None}
