"""The layers of OpenVINO's IR that halfulp evaluates itself: Power and PReLU by their rows, and plumbing beside them.

:mod:`halfulp.integrations.ir` reads a file. OpenVINO's reader has checked types, shapes and attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from halfulp.errors import HalfulpError
from halfulp.models.graph import Array, Node
from halfulp.models.run.cast import cast
from halfulp.models.run.inputs import dtype_named
from halfulp.models.run.operators import guard_broadcast, power, reshaped, unsqueezed
from halfulp.specs.tensor import tensor_type

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
            return power(node, *inputs)
        case "Convert":
            if x.dtype.name == "float8_e8m0fnu":
                x = x.astype(np.float32)  # float32 holds all its values, powers of two
            # As in OpenVINO, a value that is too large for a float8 does not become its largest number.
            return np.asarray(cast(x, dtype_named(node.attributes["destination_type"]), saturate=False))
        case "Reshape":
            return reshaped(x, inputs[1], copies=node.attributes["special_zero"])
        case "Unsqueeze":
            return unsqueezed(x, inputs[1])
    shapes = {value.shape for value in inputs}
    if node.attributes.get("auto_broadcast") == "none" and len(shapes) > 1:
        got = " and ".join(str(tensor_type(value)) for value in inputs)
        raise HalfulpError(f"the inputs of {node.type} can't be broadcast", got=got)
    guard_broadcast(inputs)
    return np.asarray(_NUMPY[node.type](*inputs))
