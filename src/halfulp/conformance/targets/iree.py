"""IREE: a module of one ONNX operator, by IREE's importer, compiled for this CPU, on one thread."""

from functools import lru_cache
from typing import Any

import iree.compiler
import iree.runtime
import numpy as np
import onnx
from iree.compiler import ir
from iree.compiler.extras import onnx_importer


def run_model(model: Any, inputs: list[Any], device: str = "CPU") -> list[Any]:
    values = *model.graph.input, *model.graph.output
    if {value.type.tensor_type.elem_type for value in values} & {onnx.TensorProto.DOUBLE}:
        raise NotImplementedError("IREE demotes float64 to float32")
    return [np.asarray(compiled(model.SerializeToString())(*inputs))]


@lru_cache(16)
def compiled(model: bytes) -> Any:
    info = onnx_importer.ModelInfo(onnx.load_from_string(model))
    with ir.Context():
        module = info.create_module().operation
        onnx_importer.NodeImporter.define_function(info.main_graph, module).import_all()
        text = str(module)
    program = iree.compiler.compile_str(
        text,
        target_backends=["llvm-cpu"],
        input_type="onnx",
        extra_args=["--iree-llvmcpu-target-cpu=host"],
    )
    context = iree.runtime.SystemContext(config=iree.runtime.Config("local-sync"))
    context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, program))
    return context.modules.module[info.main_graph.graph_proto.name]
