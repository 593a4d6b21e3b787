"""The parts of ONNX models that runtimes take for norms, and whether they are such."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto

from halfulp.models.onnx import Onnx
from halfulp.models.onnx.infer import Scope, scalar
from halfulp.models.onnx.walk import attributes_of, plain_domain, readers_of
from halfulp.types import Shape

Nodes = list[NodeProto]
_SQUARES = "ONNX Runtime makes it part of a LayerNormalization, whose power is x^2"
_OTHER = "it becomes part of a norm, which is (x - mean) / root or x / root, of the shape of x"
_DIMS = "it becomes part of a norm whose means keep their dims"
_ROOTS = {"Div": [0.5], "Reciprocal": [0.5], "Mul": [-0.5]}  # the exponents before these nodes
_SINCE = 17  # the first opset with LayerNormalization


def fused(scope: Scope) -> Iterator[tuple[NodeProto, str, str]]:
    """Yield the powers of parts that a runtime takes for a norm: the node, the runtime, and why it is another function.

    ONNX Runtime's LayerNorm heeds neither the exponent nor keepdims. Its RMSNorm and OpenVINO's norms heed the first.
    The reason is empty if it is that norm, and OpenVINO's such parts are not given.
    """
    nodes = scope.owner.node
    if all(node.op_type != "ReduceMean" for node in nodes):  # as in most, however long
        return
    makers, readers = {name: node for node in nodes for name in node.output}, readers_of(nodes)
    for square in (node for node in nodes if node.op_type in ("Pow", "Mul") and len(node.input) == 2):
        path = [square]  # and those that follow it, while each is the only one that reads the one before it
        while len(path) < 7 and path[-1].output and len(ahead := readers[path[-1].output[0]]) == 1:
            path += ahead
        kinds = [plain_domain(node.domain) + node.op_type for node in path]
        is_norm = kinds[1:3] == ["ReduceMean", "Add"] and kinds[4:]
        if is_norm and _exponent(path[3], scope) in _ROOTS.get(kinds[4], ()):
            reasons = _reasons(path, makers, scope).items()
            yield from ((node, *reason) for node in path[:4] if node.op_type == "Pow" for reason in reasons)


def _exponent(node: NodeProto, known: Scope) -> float | None:
    """Return the exponent of a power, a product or a root; None if it is not known, or the node is another."""
    if node.op_type == "Pow" and len(node.input) == 2:
        return scalar(node.input[1], known)
    return {"Mul": 2.0, "Sqrt": 0.5}.get(node.op_type)


def _centred(path: Nodes, makers: Mapping[str, NodeProto]) -> tuple[NodeProto, Nodes]:
    """Return the node that a norm squares, and its means: that of squares, and the one that is subtracted, if any."""
    square = path[0]
    made = (makers[name] for name in square.input if name in makers)
    centred = next((node for node in made if node.op_type != "Constant"), square)
    if centred.op_type == "Cast":
        centred = makers.get(centred.input[0], square)
    sides = [*centred.input] if centred.op_type == "Sub" else []
    means = [makers[side] for side in sides if side in makers and makers[side].op_type == "ReduceMean"]
    return centred, path[1:2] + [mean for mean in means if mean.input[0] in sides]


def _reasons(path: Nodes, makers: Mapping[str, NodeProto], known: Scope) -> dict[str, str]:
    """Return, by runtime, why the norm that it sees in these nodes is another function; empty if it is that norm."""
    centred, means = _centred(path, makers)
    is_last, loses_dims = zip(*(_at_last(mean, known) for mean in means), strict=True)
    if not all(is_last):
        return {}
    kinds, base = [node.op_type for node in path], path[0].input[0]
    x, square = (known.value(name).shape for name in (base, path[0].output[0]))
    has_new_dims = x is not None and square is not None and len(x) < len(square)
    is_square = _exponent(path[0], known) == 2
    reasons, is_layer_norm, scale = {}, len(means) == 2, _enlarging(path, known)
    is_centred = is_layer_norm and base in path[4].input
    if is_square and (any(loses_dims) if is_centred else loses_dims[0] and {"Sqrt", "Mul"} & {*kinds[3:5]}):
        reasons["openvino"] = _DIMS
    elif is_square and not is_layer_norm and (has_new_dims or (scale is not None and {*scale[:-1]} <= {1})):
        reasons["openvino"] = _OTHER
    by_layer_norm = _in_onnxruntime(path, centred, means, known)
    if by_layer_norm or (by_layer_norm is not None and is_square):
        loses = any(loses_dims) if by_layer_norm else loses_dims[0]
        mean_and_root = {means[-1].output[0], path[3].output[0]}
        is_turned = by_layer_norm and not mean_and_root.isdisjoint((centred.input[0], path[4].input[0]))
        is_other = any((is_turned, has_new_dims, len(scale or ()) == 1))
        reasons["onnxruntime"] = _SQUARES if not is_square else _OTHER if is_other else _DIMS * loses
    return reasons


def _in_onnxruntime(path: Nodes, centred: NodeProto, means: Nodes, known: Scope) -> bool | None:
    """Whether ONNX Runtime's LayerNorm takes these nodes, and no RMSNorm; None if neither does."""
    kinds, base = [node.op_type for node in path], path[0].input[0]
    is_scaled = any(node.op_type == "Mul" and base not in node.input for node in path[5:])
    is_divided = not {base, *centred.output}.isdisjoint(path[4].input)
    is_root = [kinds[0], *kinds[3:5]] == ["Pow", "Sqrt", "Div"]
    type = known.value(base).type  # None in functions
    if not all((is_root, is_scaled, is_divided, type in ("float16", "float32", None))):
        return None
    return len(means) == 2 and "Add" in kinds[5:] and (type != "float16" or known.opset >= _SINCE)


def _enlarging(path: Nodes, known: Scope) -> Shape:
    """Return the shape of a scale that gives a norm more dims than its base or a longer last dim, if there is one."""
    base = known.value(path[0].input[0]).shape
    for before, node in pairwise(path[4:]):
        result = known.value([*node.output, ""][0]).shape
        is_longer = base and result and (len(result) > len(base) or base[-1] == 1 != result[-1])
        if node.op_type == "Mul" and is_longer:
            other = next((name for name in node.input if name not in before.output), "")
            return known.value(other).shape
    return None


def _at_last(mean: NodeProto, known: Scope) -> tuple[bool, bool]:
    """Return whether a ReduceMean is over last dims, and whether it loses them, so that others are in their place."""
    attributes, shape = attributes_of(mean), known.value(mean.output[0]).shape
    axes = attributes.get("axes") if len(mean.input) < 2 else known.array(mean.input[1])
    rank = len(known.value(mean.input[0]).shape or ())
    last = sorted(int(axis) - rank * (axis >= 0) for axis in np.ravel([] if axes is None else axes))
    loses = not attributes.get("keepdims", 1) and (shape is None or any(dim != 1 for dim in shape))
    return [] != last == [*range(-len(last), 0)], loses


def fused_by_onnxruntime(model: ModelProto, folder: Path | None = None) -> dict[str, bool]:
    """Return whether parts that ONNX Runtime takes for norms are such, by the names of their powers in messages."""
    scopes = Onnx(model, "", folder, ask="none").scopes()
    parts = ((scope.label(part[0]), part) for scope in scopes for part in fused(scope))
    return {name: not reason for name, (_, runtime, reason) in parts if runtime == "onnxruntime"}
