"""LiteRT (TensorFlow Lite): a model of one POW or PRELU, with the default kernels or another resolver."""

from functools import cache
from typing import Any

import flatbuffers
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

options: dict[str, Any] = {"num_threads": 1}


def set_threads(threads: int) -> None:
    options["num_threads"] = threads


def set_variant(resolver: str) -> None:
    known = OpResolverType.__members__
    if resolver.upper() not in known:
        raise ValueError(f"no resolver {resolver}; there are {', '.join(known)}")
    options["experimental_op_resolver_type"] = known[resolver.upper()]


def pow(x: Any, y: Any) -> Any:
    return run("POW", x, y)


def prelu(x: Any, slope: Any) -> Any:
    if x.dtype != "float32" or (slope.ndim >= x.ndim > 0 and slope.shape[0] != 1):
        raise NotImplementedError("PRELU is of float32, with a slope for all of dim 0")
    if x.ndim > 1:
        slope = slope.reshape((1,) * (x.ndim - 1 - slope.ndim) + slope.shape[-(x.ndim - 1) :])
    return run("PRELU", x, slope)


def run(code: str, x: Any, y: Any) -> Any:
    content = model(code, (x.shape, y.shape, (x * y).shape), x.dtype.name.upper())
    interpreter = Interpreter(model_content=content, **options)
    interpreter.allocate_tensors()
    for detail, operand in zip(interpreter.get_input_details(), (x, y), strict=True):
        interpreter.set_tensor(detail["index"], operand)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


@cache
def model(code: str, shapes: tuple[tuple[int, ...], ...], kind: str) -> bytes:
    model, graph = schema.ModelT(), schema.SubGraphT()
    model.version, model.buffers, model.subgraphs = 3, [schema.BufferT()], [graph]
    operator, node = schema.OperatorCodeT(), schema.OperatorT()
    operator.builtinCode = operator.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, code)
    operator.version, model.operatorCodes = 1, [operator]
    graph.tensors = []
    for name, shape in zip("xyz", shapes, strict=True):
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.buffer = name.encode(), list(shape), 0
        tensor.type = getattr(schema.TensorType, kind)
        graph.tensors.append(tensor)
    node.opcodeIndex, node.inputs, node.outputs = 0, [0, 1], [2]
    graph.operators, graph.inputs, graph.outputs = [node], [0, 1], [2]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
