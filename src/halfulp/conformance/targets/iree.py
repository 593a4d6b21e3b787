"""IREE: a module of one ONNX operator, as its importer writes it, compiled for this CPU, on one thread."""

from functools import lru_cache
from typing import Any

import iree.compiler
import iree.runtime
import numpy as np

TYPES = {1: "f32", 2: "ui8", 3: "si8", 4: "ui16", 5: "si16", 6: "si32", 7: "si64", 10: "f16", 12: "ui32"}
TYPES |= {13: "ui64", 16: "bf16"}


def run_model(model: Any, inputs: list[Any], device: str = "CPU") -> list[Any]:
    (node,) = model.graph.node
    if model.graph.initializer or node.attribute:
        raise NotImplementedError("constants and attributes are not written here")
    *types, result = map(type_of, (*model.graph.input, *model.graph.output))
    arguments = ", ".join(f"%a{place}: {text}" for place, text in enumerate(types))
    names = ", ".join(f"%a{place}" for place in range(len(types)))
    opset = model.opset_import[0].version
    main = compiled(
        f"module @module {{ func.func @main({arguments}) -> {result} attributes {{"
        f"torch.onnx_meta.ir_version = 8 : si64, torch.onnx_meta.opset_version = {opset} : si64}} {{"
        f' %0 = torch.operator "onnx.{node.op_type}"({names}) : ({", ".join(types)}) -> {result}'
        f" return %0 : {result} }} }}"
    )
    return [np.asarray(main(*inputs))]


@lru_cache(16)
def compiled(text: str) -> Any:
    program = iree.compiler.compile_str(
        text,
        target_backends=["llvm-cpu"],
        input_type="onnx",
        extra_args=["--iree-llvmcpu-target-cpu=host"],
    )
    context = iree.runtime.SystemContext(config=iree.runtime.Config("local-sync"))
    context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, program))
    return context.modules.module["main"]


def type_of(value: Any) -> str:
    tensor = value.type.tensor_type
    dims = ",".join(str(dim.dim_value) if dim.HasField("dim_value") else "?" for dim in tensor.shape.dim)
    if tensor.elem_type not in TYPES:
        raise NotImplementedError("IREE takes no such type, and demotes float64 to float32")
    return f"!torch.vtensor<[{dims}],{TYPES[tensor.elem_type]}>"
