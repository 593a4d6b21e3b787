"""Operators that are not ours, through the onnx package's ReferenceEvaluator, a node at a time.

A node at a time, because the evaluator passes neither replaced operators into a model's functions
nor the names of the nodes into its errors, and keeps every intermediate alive.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto
from onnx.reference import ReferenceEvaluator

from halfulp.errors import HalfulpError, UnsupportedError, printable
from halfulp.models.graph import Node, type_name
from halfulp.models.run.helpers import broadcast_legacy

# The evaluator knows the versions of opset 7 and later of these, which lack axis and broadcast.
_LEGACY_BROADCAST = {"Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Equal", "Less", "Greater"}


class Fallback:
    """Evaluates the foreign nodes of one model; a node's evaluator is made once for given types and ranks."""

    def __init__(self) -> None:
        self._prepared: dict[tuple[Node, tuple[str, ...]], ReferenceEvaluator] = {}

    def __call__(self, node: Node, inputs: list[Any]) -> list[Any]:
        """Return the node's outputs.

        Args:
            node: without subgraphs.
            inputs: arrays, lists for sequences, None for an optional input that is absent.

        Raises:
            UnsupportedError: the onnx package has no implementation.
            HalfulpError: its implementation refuses the inputs.
        """
        inputs = list(inputs)
        if node.opset < 7 and node.domain == "" and node.type in _LEGACY_BROADCAST:
            inputs[1] = broadcast_legacy(inputs[0], inputs[1], node.attributes)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                evaluator = self._evaluator(node, inputs)
                named = {name: value for name, value in zip(node.inputs, inputs, strict=True) if name}
                outputs = evaluator.run([name for name in node.outputs if name], named)
        except (MemoryError, HalfulpError):
            raise
        except NotImplementedError as error:
            raise UnsupportedError(
                f"the onnx package does not evaluate {node.operator}: {_line(error)}"
            ) from error
        except Exception as error:
            # Any error at all: the evaluator checks little, and fails wherever NumPy does.
            cause = error.__cause__ or error
            raise HalfulpError(f"the onnx package fails on {node.operator}: {_line(cause)}") from error
        present = iter(outputs)
        return [next(present) if name else None for name in node.outputs]

    def _evaluator(self, node: Node, inputs: list[Any]) -> ReferenceEvaluator:
        key = node, tuple(_kind(value) for value in inputs)
        if key not in self._prepared:
            self._prepared[key] = ReferenceEvaluator(_model_of(node, inputs))
        return self._prepared[key]


def _model_of(node: Node, inputs: list[Any]) -> onnx.ModelProto:
    """Return a model of the node alone, its inputs of the types and ranks they have in this run."""
    source = NodeProto()
    source.CopyFrom(node.source)
    opset = node.opset
    if node.domain == "" and opset < 7:
        legacy = {"consumed_inputs"}
        if node.type in _LEGACY_BROADCAST:
            legacy |= {"axis", "broadcast"}
            opset = 7
        kept = [attribute for attribute in source.attribute if attribute.name not in legacy]
        del source.attribute[:]
        source.attribute.extend(kept)
    infos: list[onnx.ValueInfoProto] = []
    for name, value in zip(node.inputs, inputs, strict=True):
        if not name or name in {info.name for info in infos}:
            continue
        if isinstance(value, np.ndarray):
            number = (
                onnx.TensorProto.STRING
                if type_name(value.dtype) == "string"
                else onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
            )
            infos.append(onnx.helper.make_tensor_value_info(name, number, [None] * value.ndim))
        else:
            infos.append(onnx.helper.make_empty_tensor_value_info(name))
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.outputs if name]
    graph = onnx.helper.make_graph([source], "node", infos, outputs)
    imports = [onnx.helper.make_opsetid(node.domain, opset)]
    if node.domain:
        # The body of an operator that is a function may need ONNX's own operators.
        imports.append(onnx.helper.make_opsetid("", onnx.defs.onnx_opset_version()))
    return onnx.helper.make_model(graph, opset_imports=imports)


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype.name} of rank {value.ndim}"
    return type(value).__name__


def _line(error: BaseException) -> str:
    """Return the error's first line."""
    return printable((str(error).strip() or type(error).__name__).splitlines()[0])
