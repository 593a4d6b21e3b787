"""The IR version that goes with an opset: tools of an older opset read no newer one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto

from halfulp.conversion.editor import Change
from halfulp.models.onnx.walk import Owner, graphs

_TYPES_SINCE = {
    9: ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"),
    10: ("INT4", "UINT4"),
    11: ("FLOAT4E2M1",),
    12: ("FLOAT8E8M0",),
    13: ("INT2", "UINT2"),
}
"""By the IR version that they came with."""


def usual(opset: int) -> int:
    """Return the IR version of the first release of the onnx package that had an opset."""
    return min(int(row[1]) for row in onnx.helper.VERSION_TABLE if int(row[2]) >= opset)


def lower(model: ModelProto, opset: int, file: str) -> list[Change]:
    """Lower a model's IR version to that of an opset's tools, as far as its content allows; return what was done."""
    wanted, had = usual(opset), model.ir_version
    if had <= wanted:
        return []
    needed = dict(_needed(model))
    least = max([wanted, *needed])
    if least >= had:
        return [
            Change(file, f"IR version {had} stays: {needed[max(needed)]} came with IR version {max(needed)}")
        ]
    model.ir_version = least
    why = f"that of opset {opset}'s tools" if least == wanted else f"with which {needed[least]} came"
    return [Change(file, f"IR version {had} becomes {least}, {why}")]


def _needed(model: ModelProto) -> Iterator[tuple[int, str]]:
    """Give the IR versions that a model's content needs, each with that content."""
    owners = [owner for each in (model.graph, *model.functions) for _, owner in graphs(each)]
    for graph in owners:
        if isinstance(graph, GraphProto) and (
            {tensor.name for tensor in graph.initializer} - {info.name for info in graph.input}
        ):
            yield 4, "initializers that are no inputs"
    if model.functions:
        yield 8, "its functions"
    if any(function.overload for function in model.functions):
        yield 10, "overloads of its functions"
    since = {
        TensorProto.DataType.Value(name): (ir, name) for ir, names in _TYPES_SINCE.items() for name in names
    }
    for kind in set(_types(owners)) & since.keys():
        ir, name = since[kind]
        yield ir, f"the type {name.lower()}"


def _types(owners: Sequence[Owner]) -> Iterator[int]:
    for owner in owners:
        if isinstance(owner, GraphProto):
            yield from (tensor.data_type for tensor in owner.initializer)
            yield from (
                info.type.tensor_type.elem_type for info in (*owner.input, *owner.output, *owner.value_info)
            )
        for node in owner.node:
            for attribute in node.attribute:
                if attribute.type == AttributeProto.TENSOR:
                    yield attribute.t.data_type
                elif node.op_type == "Cast" and attribute.name == "to":
                    yield attribute.i
