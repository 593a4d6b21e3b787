"""The changes that ``halfulp convert --target`` would make to one node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import ModelProto

from halfulp.auditing.node import Operand, Use
from halfulp.conversion.targets import for_target, known_targets
from halfulp.conversion.walk import Walk, check_clauses
from halfulp.errors import HalfulpError, printable
from halfulp.models.onnx.tensors import enum_of

_MOST = 1 << 16  # the most elements of a constant that the trial copies


@dataclass(frozen=True)
class Step:
    """One thing that a conversion does to a node, and how the result can still differ; None where it can't."""

    what: str
    differs: str | None = None

    def __str__(self) -> str:
        return self.what + (f" ({self.differs})" if self.differs else "")


@dataclass(frozen=True)
class Conversion:
    """The changes that a conversion makes to a node, in order; or the reason that it refuses the node.

    Attributes:
        steps: the changes; empty if the target takes the node unchanged.
        refused: why the node can't be converted; None if it can.
    """

    steps: tuple[Step, ...] = ()
    refused: str | None = None

    @property
    def needed(self) -> bool:
        """Whether the target requires changes to the node."""
        return self.refused is not None or any(step.what != "stays unchanged" for step in self.steps)


def conversion(use: Use, target: str) -> Conversion | None:
    """Return the changes that a target needs in a node of an ONNX model; None for any other node or target.

    The node is converted alone, in a model of its own, with the known types and shapes of its operands.
    """
    if target not in known_targets() or use.row.standard != "onnx":
        return None
    if use.types is None:
        return Conversion(refused="the type of an input is not known")
    name = "model"
    try:
        changes = for_target(check_clauses(Walk(_alone(use), name, None)), target)
    except HalfulpError as error:
        reason = error.message.partition(": no exact form in ")[2].partition(": ")[2] or error.message
        return Conversion(refused=printable(reason, most=None))
    return Conversion(tuple(Step(printable(change.what, most=None), change.differs) for change in changes))


def heeds_constants(use: Use, target: str) -> bool:
    """Tell whether the conversion of a node may depend on the values of its constants."""
    row = known_targets().get(target)
    return row is not None and (use.types is None or not row.takes(use.row.name, use.types))


def _alone(use: Use) -> ModelProto:
    """Return a model of the node alone."""
    inputs, initializers, names = [], [], []
    for index, operand in enumerate(use.inputs):
        name = f"i{index}"
        names.append(name)
        constant = operand.constant
        if constant is not None and constant.size <= _MOST:
            array = np.ascontiguousarray(constant).reshape(constant.shape)
            initializers.append(onnx.numpy_helper.from_array(array, name))
        else:
            inputs.append(_info(name, operand))
    attributes = {key: value for key, value in use.attributes.items() if value is not None}
    node = onnx.helper.make_node(use.row.name, names, ["o"], **attributes)
    output = _info("o", Operand("o", use.inputs[0].type, use.output.shape))
    graph = onnx.helper.make_graph([node], "alone", inputs, [output], initializers)
    imports = [onnx.helper.make_opsetid("", int(use.asked))]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)


def _info(name: str, operand: Operand) -> onnx.ValueInfoProto:
    assert operand.type is not None
    return onnx.helper.make_tensor_value_info(name, enum_of(operand.type), operand.shape)
