"""Nodes whose inputs are constants: what they always give, where that is small and no runtime rounds it otherwise."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import prod
from typing import cast

import numpy as np
import onnx
from onnx import NodeProto
from onnx.reference import ReferenceEvaluator

from halfulp.models.graph import Array
from halfulp.models.onnx.walk import plain_domain

_MOST = 4096  # elements of a result
_NEWEST = 21
_AXES_AS_ATTRIBUTE = 11

# Each moves values, or rounds an exact result once. ConstantOfShape, Expand and Reshape may claim any size.
_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Max", "Min")
_OPERATORS = {
    *_ARITHMETIC,
    *(
        "Abs",
        "Cast",
        "CastLike",
        "Ceil",
        "Concat",
        "ConstantOfShape",
        "DequantizeLinear",
        "Expand",
        "Flatten",
        "Floor",
        "Gather",
    ),
    *("Identity", "Neg", "QuantizeLinear", "Reciprocal", "Reshape", "Slice", "Sqrt", "Squeeze", "Transpose"),
    *("Unsqueeze", "Where"),
}
# With these a node is of an opset before 7, and says another thing.
_OLD_ATTRIBUTES = {"axis": _ARITHMETIC, "broadcast": _ARITHMETIC, "shape": ("Reshape",)}


def is_foldable(node: NodeProto) -> bool:
    """Tell whether a node gives a constant where its inputs are constants."""
    if plain_domain(node.domain) or node.op_type not in _OPERATORS or len(node.output) != 1:
        return False
    for attribute in node.attribute:
        if attribute.ref_attr_name or node.op_type in _OLD_ATTRIBUTES.get(attribute.name, ()):
            return False
        if attribute.name == "to" and attribute.type != onnx.AttributeProto.INT:  # Cast before opset 6
            return False
    return True


def folded(node: NodeProto, inputs: Sequence[Array | None]) -> Array | None:
    """Return what a foldable node gives for constant inputs; None where it is too large, or the node is broken.

    Args:
        node: one that :func:`is_foldable` accepts.
        inputs: the constants, None for an input that is absent.
    """
    if _size(node, inputs) > _MOST:
        return None
    if node.op_type == "Identity":
        return inputs[0]
    given = {name: array for name, array in zip(node.input, inputs, strict=True) if array is not None}
    infos = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in given.items()
    ]
    old = any(attribute.name in ("axes", "starts") for attribute in node.attribute)
    graph = onnx.helper.make_graph([node], "constant", infos, [onnx.ValueInfoProto(name=node.output[0])])
    imports = [onnx.helper.make_opsetid("", _AXES_AS_ATTRIBUTE if old else _NEWEST)]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            evaluator = ReferenceEvaluator(onnx.helper.make_model(graph, opset_imports=imports))
            (result,) = cast("list[object]", evaluator.run(None, given))
    except Exception:  # the evaluator checks little, and fails wherever NumPy does
        return None
    return result if isinstance(result, np.ndarray) and result.size <= _MOST else None


def _size(node: NodeProto, inputs: Sequence[Array | None]) -> int:
    """Return how many elements a node gives at most."""
    arrays = [array for array in inputs if array is not None]
    if node.op_type in ("ConstantOfShape", "Expand"):
        shape = arrays[-1] if arrays else np.zeros(0, np.int64)
        wanted = prod(int(dim) for dim in shape.reshape(-1)[:64]) if shape.dtype.kind == "i" else _MOST + 1
        return max(abs(wanted), arrays[0].size if node.op_type == "Expand" and arrays else 1)
    if node.op_type in (*_ARITHMETIC, "Where"):
        return prod(array.size for array in arrays)
    return max(sum(array.size for array in arrays), 1)
