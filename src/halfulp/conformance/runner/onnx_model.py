"""A case as an ONNX model of one node."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import helper

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.errors import UnsupportedError
from halfulp.specs.tensor import Shape
from halfulp.types import element_type

_LEAST_IR = 4  # before it, an initializer was a graph input too, which could be fed


def model(case: Case, *, dynamic: bool = False) -> onnx.ModelProto:
    """Return the model of a case: the node in its version's own opset, with the operator's names of its inputs.

    An invalid case's model is as wrong as the case is; nothing checks it here.

    Args:
        case: of an ONNX operator.
        dynamic: declare symbolic dims, ``X_0`` and so on, instead of sizes.

    Raises:
        UnsupportedError: the operator is none of ONNX, or ONNX lacks an input's type.
    """
    row = case.row
    if row.standard != "onnx":
        raise UnsupportedError(f"{row.id} is no operator of ONNX")
    names = input_names(case)
    (output,) = row.outputs
    node = helper.make_node(row.name, names, [output.name], **case.attributes)
    named = list(zip(names, case.inputs, strict=True))
    graph = helper.make_graph(
        [node],
        row.name,
        [_value(name, a, dynamic) for i, (name, a) in enumerate(named) if i not in case.constants],
        [_output(case, output.name, dynamic)],
        [tensor(name, array) for i, (name, array) in enumerate(named) if i in case.constants],
    )
    opset = helper.make_opsetid("", int(row.version))
    ir_version = max(_LEAST_IR, helper.find_min_ir_version_for([opset]))
    return helper.make_model(
        graph, opset_imports=[opset], ir_version=ir_version, producer_name="halfulp", doc_string=case.id
    )


def input_names(case: Case) -> list[str]:
    """Return the names of a case's inputs, as the operator's document has them; beyond those, ``extra``."""
    names = [port.name for port in case.row.inputs]
    return [*names, "extra"][: len(case.inputs)]


def model_inputs(case: Case) -> dict[str, Array]:
    """Return what is fed: the inputs that are no constants, by name."""
    named = zip(input_names(case), case.inputs, strict=True)
    return {name: array for i, (name, array) in enumerate(named) if i not in case.constants}


def tensor(name: str, array: Array) -> onnx.TensorProto:
    """Return an array as a TensorProto."""
    return onnx.numpy_helper.from_array(array, name)


def _value(name: str, array: Array, dynamic: bool) -> onnx.ValueInfoProto:
    shape: Shape = _symbols(name, array.ndim) if dynamic else array.shape
    return helper.make_tensor_value_info(name, _enum(array.dtype), shape)


def _output(case: Case, name: str, dynamic: bool) -> onnx.ValueInfoProto:
    """Declare the output; of an invalid case, whose shape nobody knows, only the type and the rank."""
    if case.declared is not None:
        return helper.make_tensor_value_info(name, _enum(case.declared.type), case.declared.shape)
    shape: Shape
    if case.clause is not None:
        kind: Any = case.inputs[0].dtype
        shape = _symbols(name, max(array.ndim for array in case.inputs))
    else:
        kind, shape = case.row.infer(*case.inputs, **case.attributes)
        if dynamic:
            shape = _symbols(name, len(shape or ()))
    return helper.make_tensor_value_info(name, _enum(kind), shape)


def _symbols(name: str, rank: int) -> tuple[str, ...]:
    return tuple(f"{name}_{i}" for i in range(rank))


def _enum(dtype: object) -> int:
    row = element_type(dtype)
    if row.onnx_enum is None:
        raise UnsupportedError(f"ONNX has no type {row.name}")
    return row.onnx_enum
