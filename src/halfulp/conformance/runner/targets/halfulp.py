"""halfulp itself: ONNX models through its backend, the operators of other standards by their ids.

It is judged by the slow exact oracle, not by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import halfulp as hu
import halfulp.backend
from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.runner.targets.onnx_model import Prepared, prepare
from halfulp.types import TYPES


class Target:
    """Runs the model with ``halfulp.backend``, or calls the operator."""

    def __init__(self, threads: int, argument: str) -> None:
        """The number of threads comes from the environment."""

    def versions(self) -> dict[str, str]:
        """Return halfulp's version."""
        try:
            return {"halfulp": hu.__version__}
        except ModuleNotFoundError:
            return {"halfulp": "(source tree)"}

    def prepare(self, case: Case) -> Prepared | Case:
        """Return the model and its inputs, or the case where ONNX has no such operator."""
        return prepare(case) if case.operator.startswith("onnx.") else case

    def run(self, prepared: Any) -> list[Array]:
        """Return the outputs."""
        if isinstance(prepared, Prepared):
            return list(halfulp.backend.run_model(prepared.model, prepared.inputs))
        out = None
        if prepared.declared is not None:
            out = np.empty(prepared.declared.shape, TYPES[prepared.declared.type].dtype)
        return [hu.op(prepared.operator)(*prepared.inputs, out=out, **prepared.attributes)]
