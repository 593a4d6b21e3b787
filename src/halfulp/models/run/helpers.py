"""The operators of ONNX around Pow and PRelu.

This module evaluates Constant, Identity, Cast, CastLike, Less, Mul, Add, Where, Reshape and Unsqueeze in every version
that ONNX has had, and If and Loop, whose bodies may have Pow and PRelu nodes.

The onnx package's ReferenceEvaluator evaluates all others, one node at a time. It cannot evaluate whole models, because
it does not use replaced operators inside a model's functions, does not name nodes in its errors, and keeps every
intermediate alive.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from halfulp.errors import HalfulpError, UnsupportedError, printable
from halfulp.models.graph import Array, Graph, Node, reshape, reshaped, type_name, unsqueezed
from halfulp.models.memory import guard_memory
from halfulp.models.onnx.checks import schema_in_force, version_of
from halfulp.models.onnx.infer import evaluator
from halfulp.models.onnx.tensors import dtype_of, enum_of
from halfulp.models.onnx.walk import with_attributes
from halfulp.models.run.cast import can_cast, cast
from halfulp.models.run.inputs import dtype_named
from halfulp.specs.broadcast import LEGACY_AXIS, Mismatch

Helper = Callable[[Node, list[Any]], Any]


class NotOurs(Exception):
    """Raised by a helper in the rare cases that the onnx package has to evaluate."""


def check_types(node: Node, inputs: Sequence[Any]) -> None:
    """Compare the inputs' types with the schema in force. Raises HalfulpError if they differ."""
    schema = schema_in_force(node.domain, node.type, node.opset)
    assert schema is not None  # the front end has checked this
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    bound: dict[str, str] = {}
    for port, value in zip(schema.inputs, inputs, strict=False):
        if value is None and port.option == onnx.defs.OpSchema.FormalParameterOption.Optional:
            continue
        if not isinstance(value, np.ndarray):
            if node.type == "Identity" and value is not None:
                continue  # for example the type of a sequence
            raise HalfulpError(f"its input {port.name} is missing, or not a tensor")
        got = f"tensor({onnx.TensorProto.DataType.Name(enum_of(type_name(value.dtype))).lower()})"
        if got not in allowed.get(port.type_str, [port.type_str]):
            raise HalfulpError(f"{node.operator} does not take {got} as {port.name}")
        if bound.setdefault(port.type_str, got) != got:
            message = f"{node.operator} takes one type for all inputs of type {port.type_str}"
            raise HalfulpError(message, expected=bound[port.type_str], got=f"{got} as {port.name}")


def broadcast_legacy(x: Array, y: Array, attributes: Mapping[str, Any]) -> Array:
    """Reshape y so that it broadcasts with x by the rules of ``axis`` and ``broadcast``.

    Before opset 7, Add, Sub, Mul, Div, Pow, And, Or, Xor, Equal, Less and Greater had these attributes.
    """
    # The document says "1-dim expansion doesn't work yet", but exporters of that time relied on it.
    # An unknown dim matches any dim.
    known = tuple(None if dim == 1 and attributes.get("broadcast", 0) else dim for dim in y.shape)
    try:
        LEGACY_AXIS.infer(x.shape, known, attributes)
        return y.reshape(LEGACY_AXIS.arrange(x.shape, y.shape, attributes))
    except Mismatch as error:
        message = error.message.format(x="the first input", y="the second")
        raise HalfulpError(message, got=f"{list(x.shape)} and {list(y.shape)}") from None


def _constant(node: Node, inputs: list[Any]) -> Any:
    given = [name for name in node.attributes if name.startswith(("value", "sparse_value"))]
    if len(given) != 1:
        raise HalfulpError("Constant takes one of its attributes", got=", ".join(given) or "none")
    value = node.attributes[given[0]]
    match given[0]:
        case "value_float" | "value_floats":
            return np.asarray(value, np.float32)
        case "value_int" | "value_ints":
            return np.asarray(value, np.int64)
        case "value_string" | "value_strings":
            return np.asarray(value, object)
    return value


def _cast(node: Node, inputs: list[Any]) -> Any:
    (x,) = inputs
    to = node.attributes["to"]
    try:
        # Version 1 spells the type.
        target = dtype_of(onnx.TensorProto.DataType.Value(to) if isinstance(to, str) else to)
    except (KeyError, ValueError):
        raise HalfulpError("Cast does not know the type", got=to) from None
    return _convert(x, target, node)


def _convert(x: Array, target: np.dtype[Any], node: Node) -> Array:
    if not can_cast(x.dtype, target):
        raise NotOurs
    return cast(x, target, saturate=bool(node.attributes.get("saturate", 1)))


def _broadcasting(function: Callable[..., Any]) -> Helper:
    def evaluate(node: Node, inputs: list[Any]) -> Any:
        if node.opset < 7:
            inputs = [inputs[0], broadcast_legacy(inputs[0], inputs[1], node.attributes)]
        try:
            shape = np.broadcast_shapes(*(array.shape for array in inputs))
        except ValueError:
            shapes = [list(array.shape) for array in inputs]
            raise HalfulpError("its inputs can't be broadcast to one shape", got=shapes) from None
        guard_memory(shape, 1 if function is np.less else inputs[-1].itemsize, "its output")
        return function(*inputs)

    return evaluate


def _reshape(node: Node, inputs: list[Any]) -> Any:
    x = inputs[0]
    asked = node.attributes.get("shape", []) if node.opset < 5 else _dims(inputs[1])
    copies = not node.attributes.get("allowzero", 0)
    if not copies and 0 in asked and -1 in asked:
        raise HalfulpError("shape may not hold both 0 and -1 where allowzero is 1", got=asked)
    return reshaped(x, reshape(x.shape, asked, copies=copies))


def _unsqueeze(node: Node, inputs: list[Any]) -> Any:
    x = inputs[0]
    axes = node.attributes["axes"] if node.opset < 13 else _dims(inputs[1])
    return reshaped(x, unsqueezed(x.shape, axes, from_end=node.opset >= 11))


def _dims(value: Array) -> list[int]:
    # The document requires rank 1, but exporters also write a scalar.
    if value.ndim > 1:
        raise HalfulpError("a list of dims must have rank 1", got=list(value.shape))
    return [int(dim) for dim in value.reshape(-1)]


HELPERS: Mapping[str, Helper] = {
    "Constant": _constant,
    "Identity": lambda node, inputs: inputs[0],
    "Cast": _cast,
    "CastLike": lambda node, inputs: _convert(inputs[0], inputs[1].dtype, node),
    "Less": _broadcasting(np.less),
    "Mul": _broadcasting(np.multiply),
    "Add": _broadcasting(np.add),
    "Where": _broadcasting(np.where),
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
}
"""The functions by operator. Each takes the node and its inputs, and returns the one output."""

# --- control flow; the caller evaluates the graphs ---------------------------------------------------

RunGraph = Callable[[Graph, Sequence[Any]], list[Any]]
"""Evaluates a subgraph on its inputs, in order; it sees the names around it."""


def _if(node: Node, inputs: list[Any], run: RunGraph) -> list[Any]:
    branch = "then_branch" if _one(inputs[0], "bool", "cond") else "else_branch"
    outputs = run(node.attributes[branch], [])
    if len(outputs) != len(node.outputs):
        message = f"{branch} has another number of outputs than the node"
        raise HalfulpError(message, expected=len(node.outputs), got=len(outputs))
    return outputs


def _loop(node: Node, inputs: list[Any], run: RunGraph) -> list[Any]:
    body: Graph = node.attributes["body"]
    limit, condition, *carried = [*inputs, None, None][: max(2, len(inputs))]
    if len(body.inputs) != len(carried) + 2 or len(body.outputs) <= len(carried):
        raise HalfulpError("the body's inputs and outputs don't match the node's")
    last = None if limit is None else _one(limit, "int64", "M")
    going = True if condition is None else _one(condition, "bool", "cond")
    scanned: list[list[Any]] = []
    while going and (last is None or len(scanned) < last):
        outputs = run(body, [np.array(len(scanned), np.int64), np.array(going), *carried])
        going = _one(outputs[0], "bool", "the body's condition")
        carried = outputs[1 : 1 + len(carried)]
        scanned.append(outputs[1 + len(carried) :])
    declared = body.outputs[1 + len(carried) :]
    stacked = [_stack([row[i] for row in scanned], value) for i, value in enumerate(declared)]
    return (carried + stacked)[: len(node.outputs)]


def _one(value: Any, kind: str, what: str) -> Any:
    if not isinstance(value, np.ndarray) or value.size != 1 or value.dtype != kind:
        raise HalfulpError(f"{what} must be one {kind}")
    return value.item()


def _stack(values: list[Array], declared: Any) -> Array:
    if values:
        if not all(isinstance(value, np.ndarray) for value in values):
            raise HalfulpError(f"output {declared.name!r} of the body is not a tensor")
        if len({(value.shape, value.dtype) for value in values}) > 1:
            raise HalfulpError(f"output {declared.name!r} of the body changes its type or shape")
        return np.stack(values)
    if declared.type is None or declared.shape is None:
        raise UnsupportedError(f"no iteration, and the body does not declare its output {declared.name!r}")
    shape = [dim if isinstance(dim, int) else 0 for dim in declared.shape]
    return np.empty([0, *shape], dtype_named(declared.type))


CONTROL: Mapping[str, Callable[[Node, list[Any], RunGraph], list[Any]]] = {"If": _if, "Loop": _loop}
"""The functions by operator. Each takes the node, its inputs, and a function that evaluates a subgraph."""


# --- the onnx package's evaluator ---------------------------------------------------------------------

# The evaluator has only the versions of opset 7 and later of these, without axis and broadcast.
_LEGACY_BROADCAST = {"Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Equal", "Less", "Greater"}
# The evaluator computes these in the type of X. The squares of |x| > 256 overflow in float16.
_NORMS = {f"{name}Normalization" for name in ("Layer", "RMS", "Instance", "Group", "MeanVariance")}


class Foreign:
    """Evaluates the foreign nodes of one model. Nodes of one operator, types and ranks share an evaluator."""

    def __init__(self) -> None:
        self._prepared: dict[tuple[Any, ...], ReferenceEvaluator] = {}

    def __call__(self, node: Node, inputs: list[Any]) -> list[Any]:
        """Return the outputs of a node without subgraphs. Absent optional inputs are None."""
        if node.type in _NORMS and not node.domain and inputs[0].dtype in (np.float16, ml_dtypes.bfloat16):
            outputs = self._run(
                node, [value if value is None else value.astype(np.float32) for value in inputs]
            )
            return [outputs[0].astype(inputs[0].dtype), *outputs[1:]]
        if node.opset < 7 and not node.domain and node.type in _LEGACY_BROADCAST:
            inputs = [inputs[0], broadcast_legacy(inputs[0], inputs[1], node.attributes)]
        return self._run(node, inputs)

    def _run(self, node: Node, inputs: list[Any]) -> list[Any]:
        named = {f"input{place}": value for place, value in enumerate(inputs) if value is not None}
        names = [f"output{place}" if name else "" for place, name in enumerate(node.outputs)]
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                outputs = iter(self._evaluator(node, named, names).run([*filter(None, names)], named))
        except (MemoryError, HalfulpError):
            raise
        except NotImplementedError as error:
            message = f"the onnx package does not evaluate {node.operator}: {_line(error)}"
            raise UnsupportedError(message, expected="the engine onnxruntime, if it has it") from error
        except Exception as error:
            # Any exception may occur: the evaluator checks little, and fails where NumPy fails.
            cause = error.__cause__ or error
            message = f"the onnx package fails on {node.operator}: {_line(cause)}"
            raise HalfulpError(message, expected="the engine onnxruntime, if the model is right") from error
        return [next(outputs) if name else None for name in names]

    def _evaluator(self, node: Node, inputs: dict[str, Any], outputs: list[str]) -> ReferenceEvaluator:
        opset, dropped = node.opset, set[str]()
        if (
            not node.domain and schema_in_force("", node.type, opset) is None
        ):  # a tool wrote it before its opset
            opset = version_of(node.source, opset) or opset
        if not node.domain and node.opset < 7:
            dropped.add("consumed_inputs")
            if node.type in _LEGACY_BROADCAST:
                dropped |= {"axis", "broadcast"}
                opset = 7
        spelled = with_attributes(node.source, (a for a in node.source.attribute if a.name not in dropped))
        spelled.name = ""
        names = (f"input{place}" for place in range(len(node.inputs)))
        spelled.input[:] = [name if name in inputs else "" for name in names]
        spelled.output[:] = outputs
        kinds = ((v.dtype.name, v.ndim) if isinstance(v, np.ndarray) else type(v) for v in inputs.values())
        key = spelled.SerializeToString(), opset, *kinds
        if key not in self._prepared:
            # If an operator of another domain is a function, its body may need ONNX's own operators.
            opsets = {"": onnx.defs.onnx_opset_version(), node.domain: opset}
            self._prepared[key] = evaluator(spelled, inputs, opsets)
        return self._prepared[key]


def _line(error: BaseException) -> str:
    """Return the error's first line."""
    return printable((str(error).strip() or type(error).__name__).splitlines()[0])
