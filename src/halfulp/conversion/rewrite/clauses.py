"""The clauses of each Pow and PRelu of a model, before anything runs: whatever it is fed."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from pathlib import Path

import onnx
from onnx import FunctionProto, ModelProto, NodeProto

from halfulp.conversion.rewrite.editor import Change, Editor
from halfulp.conversion.rewrite.value_info import ValueInfo, default_opset
from halfulp.conversion.rewrite.walk import Walk
from halfulp.errors import SpecError
from halfulp.models.graph import agree, describe
from halfulp.models.onnx.nodes import SUPPORTED_OPS
from halfulp.specs import in_force
from halfulp.specs.tensor import Shape, TensorType


def check_clauses(model: ModelProto, file: str, folder: Path | None) -> list[Change]:
    """Refuse a model of which a Pow or PRelu breaks a clause of its own version, in subgraphs and functions, too.

        Args:
            model: one that the front end accepts. Its nodes may be replaced by equal ones, and functions that nothing
                calls are left out, which is returned.
            file: its name in messages.
            folder: where its external data lies.

        Raises:
            ModelError: a node breaks a clause, by the types and shapes that are declared or inferred.

    one shape; halfulp spec onnx.Pow-15 shows what is allowed
              X: float32[3]   Y: float32[2]
    """
    walk = Walk(model, file, folder)
    for owner in walk.owners:
        own = default_opset(owner.opset_import) if isinstance(owner, FunctionProto) else None
        opset = own or default_opset(model.opset_import) or 1

        def check(node: NodeProto, edit: Editor, opset: int = opset) -> None:
            check_node(node, opset, edit.value_info)
            edit.keep(node)

        walk.rewrite(owner, opset, lambda node: node.op_type in SUPPORTED_OPS, check, f"opset {opset}")
    return walk.changes


def check_node(node: NodeProto, opset: int, value_info: ValueInfo, *, output: bool = True) -> None:
    """Refuse a Pow or PRelu that breaks a clause of its own version, whatever it is fed.

    Args:
        node: the node.
        opset: the version of ONNX's own operators that is in force.
        value_info: what is known of its operands.
        output: whether what is known of its output is compared, too.

    Raises:
        SpecError: with the clause.
    """
    if any(attribute.ref_attr_name for attribute in node.attribute):
        return
    operands = tuple(map(value_info.value, (*node.input, node.output[0] if output else "")))
    given = ((a.name, onnx.helper.get_attribute_value(a)) for a in node.attribute)
    attributes = tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in given)
    _check(node.op_type, opset, tuple((each.type, each.shape) for each in operands), attributes)


@lru_cache(maxsize=4096)  # the nodes of a large model are of few kinds
def _check(
    op_type: str,
    opset: int,
    operands: tuple[tuple[str | None, Shape], ...],
    attributes: tuple[tuple[str, Hashable], ...],
) -> None:
    *inputs, (output, shape) = operands
    types = [TensorType(type, of_input) for type, of_input in inputs if type is not None]
    if len(types) < len(inputs):
        return
    row = in_force("onnx", op_type, opset)
    try:
        result = row.infer(*types, **dict(attributes))
        if output not in (None, result.type) or not agree(shape, result.shape):
            got = describe(output, shape)
            raise row.error(
                "output", f"{row.outputs[0].name} is declared otherwise", expected=result, got=got
            )
    except SpecError as error:
        shown = dict(error.shown)
        message = f"{error.message}; halfulp spec {row.id} shows what is allowed"
        raise SpecError(error.clause, message, **shown) from None
