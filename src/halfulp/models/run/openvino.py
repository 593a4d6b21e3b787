"""The layers of OpenVINO's IR that halfulp evaluates itself: Power and PReLU by their rows, and plumbing beside them.

:mod:`halfulp.integrations.ir` reads a file. OpenVINO's reader has checked types, shapes and attributes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from halfulp.errors import HalfulpError
from halfulp.models.graph import Array, Node, reshape, reshaped, unsqueezed
from halfulp.models.memory import guard_memory
from halfulp.models.run.cast import cast
from halfulp.models.run.inputs import dtype_named
from halfulp.operators import op
from halfulp.specs.broadcast import AUTO, Mismatch
from halfulp.specs.tensor import Shape, tensor_type

_NUMPY: Mapping[str, Callable[..., Any]] = {
    "Multiply": np.multiply,
    "Add": np.add,
    "Less": np.less,
    "Select": np.where,
}

LAYERS = ("Power", "PReLU", "Convert", "Reshape", "Unsqueeze", *_NUMPY)
"""The layers by type. All are of opset1."""


@dataclass(frozen=True)
class Origin:
    """The ``source`` of a graph: the ``openvino.Model``, and the ``openvino.Output`` of each value by its name."""

    model: Any
    ends: Mapping[str, Any]

    def check_ranges(self, values: Mapping[str, Any]) -> None:
        """Refuse an input if a dim is outside the range that the file declares."""
        for name, value in values.items():
            declared = self.ends[name].get_partial_shape()
            if not declared.compatible(type(declared)(list(value.shape))):
                message = f"input {name!r} has a dim that is out of range"
                raise HalfulpError(message, expected=str(declared), got=list(value.shape))


def foreign(nodes: Iterable[Node]) -> list[str]:
    """Return the labels of the layers that halfulp does not evaluate."""

    def is_known(node: Node) -> bool:
        is_plain = node.opset == 1 and node.attributes.get("auto_broadcast") != "pdpd"
        return node.type in LAYERS and (is_plain or node.type == "Power")

    return [node.label for node in nodes if node.standard == "openvino" and not is_known(node)]


def evaluate(node: Node, inputs: Sequence[Array]) -> Array:
    """Return the output of a layer in :data:`LAYERS`."""
    x = inputs[0]
    match node.type:
        case "Power" | "PReLU":
            operator = op(node.operator)
            shape = operator.infer(*inputs, **node.attributes).shape
            _guard(shape, inputs, x.itemsize)
            return np.asarray(operator(*inputs, **node.attributes))
        case "Convert":
            if x.dtype.name == "float8_e8m0fnu":
                x = x.astype(np.float32)  # float32 holds all its values, powers of two
            with np.errstate(all="ignore"):
                # As in OpenVINO, a value that is too large for a float8 does not become its largest number.
                return np.asarray(cast(x, dtype_named(node.attributes["destination_type"]), saturate=False))
        case "Reshape":
            return reshaped(x, reshape(x.shape, _numbers(inputs[1]), copies=node.attributes["special_zero"]))
        case "Unsqueeze":
            return reshaped(x, unsqueezed(x.shape, _numbers(inputs[1])))
    shape = x.shape
    try:
        for operand in inputs[1:]:
            shape = AUTO.infer(shape, operand.shape, node.attributes)
    except Mismatch:
        shapes = " and ".join(str(tensor_type(operand)) for operand in inputs)
        raise HalfulpError(f"the inputs of {node.type} can't be broadcast", got=shapes) from None
    _guard(shape, inputs, inputs[-1].itemsize)
    with np.errstate(all="ignore"):
        return np.asarray(_NUMPY[node.type](*inputs))


def _numbers(values: Array) -> list[int]:
    return [int(value) for value in values.reshape(-1)]


def _guard(shape: Shape, inputs: Sequence[Array], itemsize: int) -> None:
    """Refuse an output that is larger than every input if it does not fit in memory."""
    sizes = tuple(dim for dim in shape or () if isinstance(dim, int))  # all of them: the operands are known
    if math.prod(sizes) > max(value.size for value in inputs):
        guard_memory(sizes, itemsize, "its output")
