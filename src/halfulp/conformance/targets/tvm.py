"""TVM: Relax's importer of ONNX, compiled by LLVM for the CPU."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from halfulp.conformance.targets.models import ModelTarget, Prepared


class Tvm(ModelTarget):
    """Imports and compiles the model, and runs it once."""

    packages = ("apache-tvm",)

    def __init__(self, threads: int, argument: str) -> None:
        self._tvm: Any = import_module("tvm")
        self._relax: Any = import_module("tvm.relax")
        self._from_onnx: Any = import_module("tvm.relax.frontend.onnx").from_onnx
        self._compiled: dict[bytes, Any] = {}

    def run(self, prepared: Prepared) -> list[Any]:
        key = prepared.model.SerializeToString()
        if key not in self._compiled:
            module = self._relax.transform.LegalizeOps()(
                self._from_onnx(prepared.model, keep_params_in_input=False)
            )
            executable = self._tvm.compile(module, target="llvm")
            self._compiled = {key: self._relax.VirtualMachine(executable, self._tvm.cpu())}
        output = self._compiled[key]["main"](*map(self._tvm.runtime.tensor, prepared.inputs.values()))
        return [output.numpy() if hasattr(output, "numpy") else output[0].numpy()]
