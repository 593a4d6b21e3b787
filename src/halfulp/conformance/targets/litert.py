"""LiteRT (TensorFlow Lite, 2.3 or later): a model of one POW or PRELU, with the default kernels or another resolver."""

from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

options: dict[str, Any] = {"num_threads": 1}


def set_threads(threads: int) -> None:
    options["num_threads"] = threads


def set_variant(resolver: str) -> None:
    options["experimental_op_resolver_type"] = OpResolverType[resolver.upper()]


def pow(x: Any, y: Any) -> Any:
    return run("POW", x, y)


def prelu(x: Any, slope: Any) -> Any:
    if x.dtype != "float32" or (slope.ndim >= x.ndim > 0 and slope.shape[0] != 1):
        raise NotImplementedError("PRELU is of float32, with a slope for all of dim 0")
    per_row = slope[0] if slope.ndim == x.ndim > 0 else slope
    return run("PRELU", x, np.broadcast_to(per_row, x.shape[1:]))


def run(code: str, x: Any, y: Any) -> Any:
    number = getattr(schema.BuiltinOperator, code)
    kind = getattr(schema.TensorType, x.dtype.name.upper())
    tensors = [schema.TensorT(list(array.shape), kind, name=b"t") for array in (x, y, x * y)]
    graph = schema.SubGraphT(tensors, [0, 1], [2], [schema.OperatorT(0, [0, 1], [2])])
    operator = schema.OperatorCodeT(number, version=1, builtinCode=number)
    builder = flatbuffers.Builder(1024)
    builder.Finish(schema.ModelT(3, [operator], [graph], buffers=[schema.BufferT()]).Pack(builder), b"TFL3")
    interpreter = Interpreter(model_content=bytes(builder.Output()), **options)
    interpreter.allocate_tensors()
    for place, operand in enumerate((x, y)):
        interpreter.set_tensor(place, operand)
    interpreter.invoke()
    return interpreter.get_tensor(2)
