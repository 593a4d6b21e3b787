"""IREE: a module of one ONNX operator, compiled for the CPU of this machine."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.targets import NotOfferedError
from halfulp.conformance.targets.models import ModelTarget, Prepared

_TYPES = {
    1: "f32",
    2: "ui8",
    3: "si8",
    4: "ui16",
    5: "si16",
    6: "si32",
    7: "si64",
    10: "f16",
    12: "ui32",
}
_TYPES |= {13: "ui64", 16: "bf16"}


class Iree(ModelTarget):
    """Compiles the node as IREE's importer writes it, and runs it on one thread."""

    packages = ("iree-base-compiler", "iree-base-runtime")

    def __init__(self, threads: int, argument: str) -> None:
        self._compiler: Any = import_module("iree.compiler")
        self._runtime: Any = import_module("iree.runtime")
        self._compile = lru_cache(16)(self._compiled)

    def run(self, prepared: Prepared) -> list[Array]:
        graph = prepared.model.graph
        (node,) = graph.node
        if graph.initializer or node.attribute:
            raise NotOfferedError("constants and attributes are not written here")
        types = [_type(value) for value in (*graph.input, *graph.output)]
        arguments = ", ".join(f"%a{place}: {text}" for place, text in enumerate(types[:-1]))
        names = ", ".join(f"%a{place}" for place in range(len(types) - 1))
        opset = prepared.model.opset_import[0].version
        main = self._compile(
            f"module @module {{ func.func @main({arguments}) -> {types[-1]} attributes {{"
            f"torch.onnx_meta.ir_version = 8 : si64, torch.onnx_meta.opset_version = {opset} : si64}} {{"
            f' %0 = torch.operator "onnx.{node.op_type}"({names}) : ({", ".join(types[:-1])}) -> {types[-1]}'
            f" return %0 : {types[-1]} }} }}"
        )
        return [np.asarray(main(*prepared.inputs.values()))]

    def _compiled(self, text: str) -> Any:
        program = self._compiler.compile_str(
            text,
            target_backends=["llvm-cpu"],
            input_type="onnx",
            extra_args=["--iree-llvmcpu-target-cpu=host"],
        )
        context = self._runtime.SystemContext(config=self._runtime.Config("local-sync"))
        context.add_vm_module(self._runtime.VmModule.copy_buffer(context.instance, program))
        return context.modules.module["main"]


def _type(value: Any) -> str:
    tensor = value.type.tensor_type
    dims = ",".join(str(dim.dim_value) if dim.HasField("dim_value") else "?" for dim in tensor.shape.dim)
    if tensor.elem_type not in _TYPES:
        raise NotOfferedError("IREE takes no such type, and demotes float64 to float32")
    return f"!torch.vtensor<[{dims}],{_TYPES[tensor.elem_type]}>"
