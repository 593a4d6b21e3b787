"""ONNX's operators: Pow and PRelu by halfulp, the others by the onnx package's evaluator.

This module replaces or adapts the evaluator's operators where they differ from the documents. The evaluator broadcasts
as since opset 7, casts to small floats by way of float32, sums float16 in float16, refuses a ``stash_type`` of 16 bits,
and concatenates the tensors that a Loop's body scans.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, TensorProto, TypeProto, helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpFunction, OpRun
from onnx.reference.ops.op_cast import cast_to

from halfulp.errors import HalfulpError, UnsupportedError, printable
from halfulp.models.graph import Array, Graph, Node, Value, type_name
from halfulp.models.memory import guard_memory
from halfulp.models.onnx.checks import port_at, ports, version_of
from halfulp.models.onnx.tensors import dtype_of, enum_of
from halfulp.models.onnx.walk import SUPPORTED_OPS, with_attributes
from halfulp.models.run.cast import can_cast, cast
from halfulp.models.run.inputs import dtype_named
from halfulp.operators import op
from halfulp.specs.broadcast import LEGACY_AXIS, Mismatch

Scope = MutableMapping[str, Any]
EvaluateGraph = Callable[[Graph, Scope], list[Any]]
"""Evaluates a graph. Its inputs, and the values around it, are given by name."""

# fmt: off
PLUMBING = frozenset({
    "Add", "Cast", "CastLike", "Constant", "Identity", "If", "Less", "Loop", "Mul", "Reshape", "Unsqueeze", "Where",
})
"""The operators that a model may have beside Pow and PRelu so that it runs without ONNX Runtime."""

# Before opset 7, these have the attributes axis and broadcast.
_LEGACY = frozenset({"Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Equal", "Less", "Greater"})
_NUMPY_SINCE = 7

# The evaluator computes these in the type of the operands. In 16 bits, the sums inside overflow, or stop growing.
_SUMS = frozenset({
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceProd", "ReduceSum",
    "ReduceSumSquare", "BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization",
    "LpNormalization", "LRN", "MeanVarianceNormalization", "RMSNormalization", "AveragePool", "GlobalAveragePool",
    "LpPool", "CumProd", "CumSum", "Mean", "Sum", "CausalConvWithState", "Conv", "ConvTranspose", "DeformConv",
    "Einsum", "Gemm", "MatMul", "Det", "Attention", "LinearAttention", "GRU", "LSTM", "RNN", "Col2Im", "GridSample",
    "Resize", "RoiAlign", "LogSoftmax", "NegativeLogLikelihoodLoss", "Softmax", "SoftmaxCrossEntropyLoss", "Softplus",
})
# fmt: on


class Operators:
    """The operators of one run. An operator of the evaluator is made once for each node."""

    def __init__(self, evaluate_graph: EvaluateGraph) -> None:
        self._evaluate_graph = evaluate_graph
        self._made: dict[Node, OpRun] = {}

    def __call__(self, node: Node, inputs: Sequence[Any], scope: Scope) -> Sequence[Any]:
        """Return the outputs of a node; its subgraphs may read the values of ``scope``.

        Raises:
            UnsupportedError: the onnx package does not have the operator.
            HalfulpError: it fails on these operands.
        """
        try:
            return self._evaluate(node, inputs, scope)
        except (MemoryError, HalfulpError):
            raise
        except NotImplementedError as error:
            message = f"the onnx package does not evaluate {node.operator}: {_line(error)}"
            raise UnsupportedError(message, expected="the engine onnxruntime, if it has it") from error
        except Exception as error:
            # Any exception may occur: the evaluator checks little, and fails where NumPy fails.
            message = f"the onnx package fails on {node.operator}: {_line(error.__cause__ or error)}"
            raise HalfulpError(message, expected="the engine onnxruntime, if the model is right") from error

    def _evaluate(self, node: Node, inputs: Sequence[Any], scope: Scope) -> Sequence[Any]:
        if node.domain:
            return self._outputs(node, inputs, scope)
        if node.type == "Loop":
            return _loop(
                node, inputs, lambda graph, values: self._evaluate_graph(graph, ChainMap(values, scope))
            )
        if node.type in _LEGACY and node.opset < _NUMPY_SINCE:
            inputs = inputs[0], _arranged(inputs[0], inputs[1], node.attributes)
        if node.type in _LEGACY or node.type == "Where":
            guard_broadcast(inputs)
        is_wide = node.type in _SUMS
        halves = (np.float16, ml_dtypes.bfloat16)
        short = [is_wide and isinstance(x, np.ndarray) and x.dtype.type in halves for x in inputs]
        given = [x.astype(np.float32) if is_short else x for x, is_short in zip(inputs, short, strict=True)]
        outputs = [_OWN[node.type](node, *given)] if node.type in _OWN else self._outputs(node, given, scope)
        return _narrowed(node, inputs, outputs) if is_wide else outputs

    def _outputs(self, node: Node, inputs: Sequence[Any], scope: Scope) -> Sequence[Any]:
        operator = self._made.get(node) or self._operator(node, inputs)
        if not isinstance(operator, OpFunction):  # its body is for the types of these inputs
            self._made[node] = operator
        context = {"context": scope} if operator.need_context() else {}
        outputs: Sequence[Any] = operator.run(*inputs, **context)  # type: ignore[no-untyped-call]
        return outputs

    def _operator(self, node: Node, inputs: Sequence[Any]) -> OpRun:
        dropped = {"stash_type", "consumed_inputs"}
        opset = node.opset
        if not node.domain and ports(node.type, opset) is None:  # a tool wrote it before its opset
            opset = version_of(node.source, opset) or opset
        if node.type in _LEGACY and opset < _NUMPY_SINCE:
            opset, dropped = _NUMPY_SINCE, dropped | {"axis", "broadcast"}
        spelled = with_attributes(node.source, (a for a in node.source.attribute if a.name not in dropped))
        for name, value in node.attributes.items():
            if isinstance(value, Graph):
                spelled.attribute.add(name=name, type=AttributeProto.GRAPH, g=GraphProto(name=name))
        evaluator = _evaluator(node.domain, opset)
        parameters = {
            "log": lambda *_: None,
            "opsets": evaluator.opsets,
            "new_ops": {},
            "verbose": 0,
            "existing_functions": {},
            "evaluator_cls": lambda graph, **_: _Body(node.attributes[graph.name], self._evaluate_graph),
        }
        types: Any = map(_type, inputs)  # read only if the operator is a function
        operator: OpRun = evaluator._load_impl(spelled, types)(spelled, parameters)
        return operator


@cache
def _evaluator(domain: str, opset: int) -> ReferenceEvaluator:
    # If an operator of another domain is a function, its body may need ONNX's own operators.
    return ReferenceEvaluator(GraphProto(), {"": onnx.defs.onnx_opset_version(), domain: opset})


@dataclass(frozen=True)
class _Body:
    """A subgraph, as the evaluator's operators expect it."""

    graph: Graph
    evaluate: EvaluateGraph
    has_linked_attribute = False

    @property
    def input_names(self) -> list[str]:
        return [value.name for value in self.graph.inputs]

    @property
    def output_names(self) -> list[str]:
        return [value.name for value in self.graph.outputs]

    def run(self, _: None, values: Scope, attributes: None = None) -> list[Any]:
        return self.evaluate(self.graph, values)


def _type(value: Any) -> TypeProto:
    """Return the type of an operand; an empty one if it is absent or not a tensor."""
    if not isinstance(value, np.ndarray):
        return TypeProto()
    return helper.make_tensor_type_proto(enum_of(type_name(value.dtype)), value.shape)


def _line(error: BaseException) -> str:
    return printable((str(error).strip() or type(error).__name__).splitlines()[0])


def _narrowed(node: Node, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """Return outputs in the types that the schema gives them for these inputs, and for a ``stash_type``."""
    row = ports(node.type, node.opset)
    if row is None:
        return [*outputs]
    arrays = [(index, value) for index, value in enumerate(inputs) if isinstance(value, np.ndarray)]
    types = {port_at(row.inputs, index).type_str: value.dtype for index, value in arrays}
    stash = dtype_of(node.attributes.get("stash_type", TensorProto.FLOAT))
    kinds = [types.get(port_at(row.outputs, index).type_str, stash) for index in range(len(outputs))]
    return [
        value.astype(kind, copy=False) if value.dtype.kind == "f" else value
        for value, kind in zip(outputs, kinds, strict=True)
    ]


def guard_broadcast(inputs: Sequence[Array]) -> None:
    """Refuse operands whose shapes don't fit together, or whose result does not fit in memory."""
    try:
        shape = np.broadcast_shapes(*(value.shape for value in inputs))
    except ValueError:
        shapes = [list(value.shape) for value in inputs]
        raise HalfulpError("its inputs can't be broadcast to one shape", got=shapes) from None
    guard_memory(shape, inputs[-1].itemsize, "its output")


def _arranged(x: Array, y: Array, attributes: Mapping[str, Any]) -> Array:
    """Reshape y so that it broadcasts with x by the rules of ``axis`` and ``broadcast``."""
    # The document says "1-dim expansion doesn't work yet", but exporters of that time relied on it.
    # An unknown dim matches any dim.
    known = tuple(None if dim == 1 and attributes.get("broadcast", 0) else dim for dim in y.shape)
    try:
        LEGACY_AXIS.infer(x.shape, known, attributes)
        return y.reshape(LEGACY_AXIS.arrange(x.shape, y.shape, attributes))
    except Mismatch as error:
        message = error.message.format(x="the first input", y="the second")
        raise HalfulpError(message, got=f"{list(x.shape)} and {list(y.shape)}") from None


# --- operators that replace the evaluator's ---------------------------------------------------------


def power(node: Node, *operands: Any) -> Array:
    if any(not isinstance(value, np.ndarray) for value in operands):
        raise HalfulpError("an operand is missing, or not a tensor")
    operator = op(node.operator)
    sizes = operator.infer(*operands, **node.attributes).shape or ()
    guard_memory(tuple(int(size or 0) for size in sizes), operands[0].itemsize, "its output")
    return np.asarray(operator(*operands, **node.attributes))


def _constant(node: Node) -> Any:
    given = [name for name in node.attributes if name.startswith(("value", "sparse_value"))]
    if len(given) != 1:
        raise HalfulpError("Constant takes one of its attributes", got=", ".join(given) or "none")
    types = {"float": np.float32, "floats": np.float32, "int": np.int64, "ints": np.int64}
    kind, value = given[0].partition("value_")[2], node.attributes[given[0]]
    return np.asarray(value, types.get(kind, object)) if kind else value


def _cast(node: Node, x: Array, like: Array | None = None) -> Array:
    to = node.attributes.get("to")
    try:
        # Version 1 spells the type.
        named = TensorProto.DataType.Value(to) if isinstance(to, str) else to
        target = dtype_of(named) if like is None else like.dtype
    except (KeyError, ValueError):
        raise HalfulpError("Cast does not know the type", got=to) from None
    saturate = bool(node.attributes.get("saturate", 1))
    if can_cast(x.dtype, target):
        return cast(x, target, saturate=saturate)
    number, mode = enum_of(type_name(target)), node.attributes.get("round_mode", "up")
    return np.asarray(cast_to(x, number, saturate, mode))  # type: ignore[arg-type]


def reshaped(x: Array, shape: Any, *, copies: bool) -> Array:
    """Return an array in another shape. If ``copies`` is set, a 0 stands for the dim at the same axis."""
    dims = np.array(shape, np.int64).reshape(-1)  # exporters also write a scalar
    if copies:
        copied = np.flatnonzero(dims == 0)
        dims[copied] = np.array(x.shape, np.int64)[copied]
    return np.reshape(x, dims.tolist())


def unsqueezed(x: Array, axes: Any) -> Array:
    """Return an array with 1-dims inserted at some axes of the result."""
    return np.expand_dims(x, tuple(np.ravel(axes).tolist()))


def _lp_normalization(node: Node, x: Array) -> Array:
    # The evaluator sums X itself, not its magnitudes, if p is 1.
    length = np.linalg.norm(x, node.attributes.get("p", 2), node.attributes.get("axis", -1), keepdims=True)
    return np.asarray(np.divide(x, length, out=np.zeros_like(x), where=length != 0))


_OWN: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(SUPPORTED_OPS, power),
    "Constant": _constant,
    "Cast": _cast,
    "CastLike": _cast,
    # In version 1, the shape is an attribute; before version 13, the axes are one.
    "Reshape": lambda node, x, *shape: reshaped(
        x, *(shape or [node.attributes["shape"]]), copies=not node.attributes.get("allowzero", 0)
    ),
    "Unsqueeze": lambda node, x, *axes: unsqueezed(x, *(axes or [node.attributes["axes"]])),
    "LpNormalization": _lp_normalization,
    "Softplus": lambda node, x: np.logaddexp(x, x.dtype.type(0)),  # the evaluator's exponential overflows
}
"""The functions by operator. Each takes the node and its inputs, and returns the one output."""


def _loop(node: Node, inputs: Sequence[Any], evaluate: EvaluateGraph) -> list[Any]:
    body: Graph = node.attributes["body"]
    limit, condition, *carried = [*inputs, None, None][: max(2, len(inputs))]
    if len(body.inputs) != len(carried) + 2 or len(body.outputs) <= len(carried):
        raise HalfulpError("the body's inputs and outputs don't match the node's")
    last = None if limit is None else limit.item()
    goes_on = True if condition is None else condition.item()
    scanned: list[list[Any]] = []
    while goes_on and (last is None or len(scanned) < last):
        values = [np.array(len(scanned), np.int64), np.array(goes_on), *carried]
        outputs = evaluate(body, {i.name: value for i, value in zip(body.inputs, values, strict=True)})
        goes_on, carried = outputs[0].item(), outputs[1 : 1 + len(carried)]
        scanned.append(outputs[1 + len(carried) :])
    if scanned:
        return carried + [np.stack(arrays) for arrays in zip(*scanned, strict=True)]
    return carried + [_none_of(value) for value in body.outputs[1 + len(carried) :]]


def _none_of(declared: Value) -> Array:
    """Return the scanned output of a Loop without iterations, as far as the body declares it."""
    if declared.type is None or declared.shape is None:
        raise UnsupportedError(f"no iteration, and the body does not declare its output {declared.name!r}")
    shape = [dim if isinstance(dim, int) else 0 for dim in declared.shape]
    return np.empty([0, *shape], dtype_named(declared.type))
