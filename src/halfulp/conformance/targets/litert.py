"""LiteRT (TensorFlow Lite): a model of one POW or PRELU, with the default kernels."""

from __future__ import annotations

import warnings
from functools import lru_cache
from importlib import import_module
from typing import Any

from halfulp._interop import Array
from halfulp.conformance.targets import NotOfferedError
from halfulp.conformance.targets.arrays import Prepared, _Library

_TYPES = {"float32": "FLOAT32", "int32": "INT32"}


class LiteRt(_Library):
    """Builds the flatbuffer, and runs it in an interpreter on the CPU."""

    packages = ("ai-edge-litert",)

    def __init__(self, threads: int, argument: str) -> None:
        warnings.simplefilter("ignore")
        self._threads = threads
        self._schema: Any = import_module("ai_edge_litert.schema_py_generated")
        self._interpreter: Any = import_module("ai_edge_litert.interpreter").Interpreter
        self._flatbuffers: Any = import_module("flatbuffers")
        self._model = lru_cache(16)(self._built)

    def run(self, prepared: Prepared) -> list[Array]:
        x, y = prepared.x, prepared.y
        if prepared.is_prelu and (x.dtype != "float32" or (y.ndim >= x.ndim > 0 and y.shape[0] != 1)):
            raise NotOfferedError("PRELU is of float32, with a slope for all of dim 0")
        if prepared.is_prelu and x.ndim:
            y = y.reshape((1,) * (x.ndim - 1 - y.ndim) + y.shape[-(x.ndim - 1) :] if x.ndim > 1 else y.shape)
        shapes = (x.shape, y.shape, (x * y).shape)
        code = "PRELU" if prepared.is_prelu else "POW"
        interpreter = self._interpreter(
            model_content=self._model(code, shapes, _TYPES[x.dtype.name]), num_threads=self._threads
        )
        interpreter.allocate_tensors()
        for detail, operand in zip(interpreter.get_input_details(), (x, y), strict=True):
            interpreter.set_tensor(detail["index"], operand)
        interpreter.invoke()
        return [interpreter.get_tensor(interpreter.get_output_details()[0]["index"])]

    def _built(self, code: str, shapes: tuple[tuple[int, ...], ...], kind: str) -> bytes:
        schema = self._schema
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
        builder = self._flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())
