"""TVM: Relax's importer of ONNX, compiled by LLVM for the CPU."""

from functools import lru_cache
from typing import Any

import onnx
import tvm
from tvm.relax.frontend.onnx import from_onnx


@lru_cache(1)
def compiled(model: bytes) -> Any:
    module = from_onnx(onnx.load_from_string(model), keep_params_in_input=False)
    executable = tvm.compile(tvm.relax.transform.LegalizeOps()(module), target="llvm")
    return tvm.relax.VirtualMachine(executable, tvm.cpu())


def run_model(model: Any, inputs: list[Any], device: str = "CPU") -> list[Any]:
    output = compiled(model.SerializeToString())["main"](*map(tvm.runtime.tensor, inputs))
    return [output.numpy() if hasattr(output, "numpy") else output[0].numpy()]
