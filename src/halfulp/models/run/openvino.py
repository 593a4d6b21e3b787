"""OpenVINO's operators: Power and PReLU by their rows, and the plumbing that stands around them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from halfulp.errors import ModelError, UnsupportedError
from halfulp.models.graph import Array, Model, Node, listed, reshaped
from halfulp.models.memory import guard_memory
from halfulp.models.openvino.builder import Origin
from halfulp.models.openvino.layers import allows
from halfulp.models.openvino.operators import OPERATORS, foreign, infer
from halfulp.models.run.cast import cast
from halfulp.models.run.inputs import dtype_named
from halfulp.operators import op
from halfulp.specs.tensor import tensor_type


def refuse_foreign(model: Model) -> None:
    """Raise UnsupportedError where a model of OpenVINO's has layers that are not ours; it names them."""
    unsupported = foreign(node for node in model.graph.nodes if node.standard == "openvino")
    if unsupported:
        raise UnsupportedError(
            f"{model.file}: has layers that are not ours",
            expected=", ".join(OPERATORS),
            got=listed(unsupported),
        )


def check_ranges(model: Model, values: Mapping[str, Any]) -> None:
    """Raise ModelError where a dim is outside the range that a file declares for it."""
    if not isinstance(model.graph.source, Origin):
        return
    for name, value in values.items():
        text = model.graph.source.values[name].shape
        if text is not None and not allows(text, value.shape):
            raise ModelError(
                f"input {name!r} has a dim that is out of range",
                file=model.file,
                expected=f"[{text}]",
                got=list(value.shape),
            )


def evaluate(node: Node, inputs: list[Array], file: str) -> Array:
    """Return the output of a node of an operator in :data:`halfulp.models.openvino.operators.OPERATORS`."""
    # With the operands in hand nothing is unknown.
    kind, shape = infer(node, [tensor_type(value) for value in inputs], inputs)
    assert shape is not None
    static = tuple(int(dim) for dim in shape)  # type: ignore[arg-type]
    if math.prod(static) > max(value.size for value in inputs):
        guard_memory(static, dtype_named(kind).itemsize, "its output", file, node.label)
    if node.type in ("Power", "PReLU"):
        return np.asarray(op(node.operator)(*inputs, **node.attributes))
    if node.type in ("Reshape", "Unsqueeze"):
        return reshaped(inputs[0], static)
    if node.type == "Convert":
        return _convert(inputs[0], dtype_named(kind))
    with np.errstate(all="ignore"):
        return np.asarray(_NUMPY[node.type](*inputs))


def _convert(x: Array, target: np.dtype[Any]) -> Array:
    if x.dtype.name == "float8_e8m0fnu":
        x = x.astype(np.float32)  # which holds every power of two that it has
    with np.errstate(all="ignore"):
        # As OpenVINO does: what is too large for a float8 does not become its largest number.
        return np.asarray(cast(x, target, saturate=False))


_NUMPY: Mapping[str, Callable[..., Any]] = {
    "Multiply": np.multiply,
    "Add": np.add,
    "Less": np.less,
    "Select": np.where,
}
