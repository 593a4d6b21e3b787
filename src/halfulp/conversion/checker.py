"""The onnx package's checker on a converted model: which node it refuses, and why."""

from __future__ import annotations

import re
from typing import NamedTuple

import onnx
from onnx import ModelProto, TensorProto

from halfulp.conversion.editor import Change
from halfulp.errors import printable
from halfulp.models.onnx.checks import label, schema_in_force

_NUMBERED = re.compile(r"(?:node name|Name|name): halfulp#(\d+)\b")
_LONGEST = 200


class Refusal(NamedTuple):
    """Why the checker refuses a model, and the node that it names: how messages name it, and its operator."""

    reason: str
    node: str | None = None
    op_type: str = ""


def refusal(model: ModelProto) -> Refusal | None:
    """Return why the checker refuses a model, None if it accepts it."""
    if _message(_without_data(model)) is None:
        return None
    numbered = ModelProto()
    numbered.CopyFrom(_without_data(model))
    for index, node in enumerate(numbered.graph.node):
        node.name = f"halfulp#{index}"  # messages name few nodes that have no name
    message = _message(numbered) or ""
    reason = message.partition("==> Context")[0].rpartition("[ShapeInferenceError] ")[2]
    reason = printable(" ".join(reason.split()), _LONGEST)
    found = _NUMBERED.search(message)
    if found is None:
        return Refusal(reason)
    index = int(found[1])
    node = model.graph.node[index]
    return Refusal(reason.replace(found[0], f"name: {node.name}"), label(node, index, ""), node.op_type)


def same_version(op_type: str, opset: int) -> tuple[int, int] | None:
    """Return the first and the last opset in which an operator has the version of this one."""
    schema = schema_in_force("", op_type, opset)
    if schema is None:
        return None
    last = opset
    while last < onnx.defs.onnx_opset_version():
        newer = schema_in_force("", op_type, last + 1)
        if newer is None or newer.since_version != schema.since_version:
            break
        last += 1
    return schema.since_version, last


def correct_scalars(model: ModelProto, file: str) -> list[Change]:
    """Declare the rank of outputs that a model declares as scalars though they are not; return what was done."""
    scalars = [
        info
        for info in model.graph.output
        if info.type.HasField("tensor_type")
        and info.type.tensor_type.HasField("shape")
        and not info.type.tensor_type.shape.dim
    ]
    if not scalars:
        return []
    bare = ModelProto()
    bare.CopyFrom(_without_data(model))
    for info in bare.graph.output:
        if info.name in {scalar.name for scalar in scalars}:
            info.type.tensor_type.ClearField("shape")
    try:
        inferred = onnx.shape_inference.infer_shapes(bare)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        return []
    shapes = {info.name: info.type.tensor_type.shape for info in inferred.graph.output}
    changes = []
    for info in scalars:
        shape = shapes[info.name]
        if shape.dim:
            info.type.tensor_type.shape.CopyFrom(shape)
            said = f"output {printable(info.name)!r}, declared as a scalar, is declared with its rank"
            changes.append(Change(file, f"{said}, {len(shape.dim)}"))
    return changes


def _message(model: ModelProto) -> str | None:
    try:
        onnx.checker.check_model(model, full_check=True)
    except (
        onnx.checker.ValidationError,
        onnx.shape_inference.InferenceError,
        ValueError,
        RuntimeError,
    ) as error:
        return str(error)
    return None


def _without_data(model: ModelProto) -> ModelProto:
    """Return a model whose external tensors are inputs: the checker would look for their files here."""
    external = [t for t in model.graph.initializer if t.data_location == TensorProto.EXTERNAL]
    if not external:
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    inputs = {info.name for info in copy.graph.input}
    names = {tensor.name for tensor in external}
    for index in reversed(range(len(copy.graph.initializer))):
        if copy.graph.initializer[index].name in names:
            del copy.graph.initializer[index]
    for tensor in external:
        if tensor.name not in inputs:
            info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            copy.graph.input.append(info)
    return copy
