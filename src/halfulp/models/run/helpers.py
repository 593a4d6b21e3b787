"""The operators of ONNX around Pow and PRelu.

This module evaluates Constant, Identity, Cast, CastLike, Less, Mul, Add, Where, Reshape and Unsqueeze in every version
that ONNX has had, the normalizations and softmaxes that the onnx package gets wrong, and control flow: If, Loop, Scan
and SequenceMap. The package's evaluator would evaluate the Pow and PRelu nodes inside control flow, and lacks Scan-8,
directions, axes other than 0, and loops with no iterations.

The onnx package's ReferenceEvaluator evaluates all others, one node at a time. It cannot evaluate whole models, because
it does not use replaced operators inside a model's functions, does not name nodes in its errors, and keeps every
intermediate alive.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import NodeProto
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


# --- where the onnx package's results are wrong ------------------------------------------------------


def _lrn(node: Node, inputs: list[Any]) -> Any:
    """The package normalizes as many channels as there are samples in the batch, and leaves the others."""
    (x,) = inputs
    given = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0, **node.attributes}
    size = given["size"]
    if x.ndim < 2 or size < 1 or not x.size:
        raise NotOurs
    before, after = (size - 1) // 2, size // 2
    squares = [
        (x[:, max(0, c - before) : c + after + 1] ** 2).sum(axis=1, dtype=x.dtype) for c in range(x.shape[1])
    ]
    return x / (given["bias"] + given["alpha"] / size * np.stack(squares, axis=1)) ** given["beta"]


def _lp_normalization(node: Node, inputs: list[Any]) -> Any:
    """With p=1 the package adds the elements with their signs."""
    (x,) = inputs
    if node.attributes.get("p", 2) != 1 or not -x.ndim <= node.attributes.get("axis", -1) < x.ndim:
        raise NotOurs
    norm = np.abs(x).sum(axis=node.attributes.get("axis", -1), keepdims=True, dtype=x.dtype)
    return np.where(norm == 0, x.dtype.type(0), x / norm)


def _batch_normalization(node: Node, inputs: list[Any]) -> Any:
    """In opsets 9 to 13 the package also counts the data's own mean and variance; it has no opset 7."""
    x, *rows = inputs
    if not 7 <= node.opset < 14 or len(node.outputs) > 1 or any(row.shape != x.shape[1:2] for row in rows):
        raise NotOurs
    scale, bias, mean, variance = (row.reshape(-1, *[1] * (x.ndim - 2)) for row in rows)
    return (x - mean) / np.sqrt(variance + node.attributes.get("epsilon", 1e-5)) * scale + bias


def _softmax(node: Node, inputs: list[Any]) -> Any:
    """Before opset 13 the dims from the axis on are one. The logarithm of a small probability is not -inf."""
    (x,) = inputs
    axis = node.attributes.get("axis", 1 if node.opset < 13 else -1)
    if not x.size or not -x.ndim <= axis < x.ndim:
        raise NotOurs
    flat = x if node.opset >= 13 else x.reshape(math.prod(x.shape[: axis % x.ndim]), -1)
    axis = axis if node.opset >= 13 else 1
    if node.type == "Hardmax":
        result = np.zeros_like(flat)
        np.put_along_axis(result, flat.argmax(axis, keepdims=True), 1, axis)
    else:
        below = flat - flat.max(axis, keepdims=True)
        total = np.exp(below).sum(axis, keepdims=True, dtype=x.dtype)
        result = below - np.log(total) if node.type == "LogSoftmax" else np.exp(below) / total
    return result.reshape(x.shape)


def _global_lp_pool(node: Node, inputs: list[Any]) -> Any:
    """The package lacks it."""
    (x,) = inputs
    p = node.attributes.get("p", 2)
    if node.opset < 2 or x.ndim < 2 or p < 1:
        raise NotOurs
    sums = (np.abs(x) ** p).sum(axis=tuple(range(2, x.ndim)), keepdims=True, dtype=x.dtype)
    return sums if p == 1 else sums ** x.dtype.type(1 / p)


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
    "LRN": _lrn,
    "GlobalLpPool": _global_lp_pool,
    "LpNormalization": _lp_normalization,
    "BatchNormalization": _batch_normalization,
    "Hardmax": _softmax,
    "LogSoftmax": _softmax,
    "Softmax": _softmax,
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
    stacked = [_stack([row[i] for row in scanned], 0, value) for i, value in enumerate(declared)]
    return (carried + stacked)[: len(node.outputs)]


def _scan(node: Node, inputs: list[Any], run: RunGraph) -> list[Any]:
    return _scan_once(node, inputs, run) if node.opset >= 9 else _scan_batches(node, inputs, run)


def _scan_inputs(node: Node, inputs: list[Any]) -> int:
    scans = int(node.attributes["num_scan_inputs"])
    if not 0 < scans <= len(inputs):
        raise HalfulpError("num_scan_inputs must be a number of the inputs", got=scans)
    return scans


def _scan_once(node: Node, inputs: list[Any], run: RunGraph, length: int | None = None) -> list[Any]:
    body: Graph = node.attributes["body"]
    count = _scan_inputs(node, inputs)
    states, scans = inputs[:-count], inputs[-count:]
    results = body.outputs[len(states) :]
    given = node.attributes.get
    axes = given("scan_input_axes", [0] * count)
    backward = given("scan_input_directions", given("directions", [0] * count))  # the latter in Scan-8
    output_axes = given("scan_output_axes", [0] * len(results))
    output_backward = given("scan_output_directions", [0] * len(results))
    if not all(isinstance(scan, np.ndarray) for scan in scans):
        raise HalfulpError("a scan input is not a tensor")
    if not (
        len(body.inputs) == len(states) + len(scans)
        and len(axes) == len(backward) == count
        and len(output_axes) == len(output_backward) == len(results)
        and len(body.outputs) >= len(states)
    ):
        raise HalfulpError("the body's inputs and outputs, or the axes, don't match the node's")
    if any(not -scan.ndim <= axis < scan.ndim for scan, axis in zip(scans, axes, strict=True)):
        raise HalfulpError("a scan input has no such axis", got=list(axes))
    lengths = {scan.shape[axis] for scan, axis in zip(scans, axes, strict=True)}
    if length is None:
        if len(lengths) != 1:
            raise HalfulpError("the scan inputs differ in length", got=sorted(lengths))
        (length,) = lengths
    rows = [np.moveaxis(scan, axis, 0) for scan, axis in zip(scans, axes, strict=True)]
    scanned: list[list[Any]] = []
    for step in range(length):
        slices = [row[length - 1 - step if back else step] for row, back in zip(rows, backward, strict=True)]
        outputs = run(body, [*states, *map(np.asarray, slices)])
        states = outputs[: len(states)]
        scanned.append(outputs[len(states) :])
    stacked = [
        _stack([row[i] for row in (reversed(scanned) if back else scanned)], axis, value)
        for i, (axis, back, value) in enumerate(zip(output_axes, output_backward, results, strict=True))
    ]
    return states + stacked


def _scan_batches(node: Node, inputs: list[Any], run: RunGraph) -> list[Any]:
    """Scan-8, with a leading batch axis on every value, and a length for each sequence."""
    lengths, *values = inputs
    body: Graph = node.attributes["body"]
    results = len(body.outputs) - (len(values) - _scan_inputs(node, values))
    if not all(isinstance(value, np.ndarray) and value.ndim for value in values):
        raise HalfulpError("an input has no batch axis")
    count = values[0].shape[0]
    if any(value.shape[0] != count for value in values):
        raise HalfulpError("the inputs differ in the size of their batch axis")
    if lengths is not None and (not isinstance(lengths, np.ndarray) or lengths.shape != (count,)):
        raise HalfulpError("sequence_lens must hold one length for each batch")
    longest = values[-1].shape[1] if values[-1].ndim > 1 else 0
    batches = []
    for batch in range(count):
        own = [np.asarray(value[batch]) for value in values]
        length = longest if lengths is None else min(max(int(lengths[batch]), 0), longest)
        outputs = _scan_once(node, own, run, length)
        states = outputs[: len(outputs) - results]
        # The elements past the end of a shorter sequence are zero.
        padded = [
            np.pad(out, [(0, longest - out.shape[0]), *[(0, 0)] * (out.ndim - 1)])
            for out in outputs[len(states) :]
        ]
        batches.append(states + padded)
    if not batches:
        raise UnsupportedError("a Scan over no batches at all")
    return [_stack([batch[i] for batch in batches], 0, value) for i, value in enumerate(body.outputs)]


def _sequence_map(node: Node, inputs: list[Any], run: RunGraph) -> list[Any]:
    body: Graph = node.attributes["body"]
    first, *others = inputs
    if not isinstance(first, list):
        raise HalfulpError("input_sequence is not a sequence")
    if any(isinstance(other, list) and len(other) != len(first) for other in others):
        raise HalfulpError("the sequences differ in length")
    rows = [
        run(body, [first[index], *(other[index] if isinstance(other, list) else other for other in others)])
        for index in range(len(first))
    ]
    return [[row[index] for row in rows] for index in range(len(node.outputs))]


def _one(value: Any, kind: str, what: str) -> Any:
    if not isinstance(value, np.ndarray) or value.size != 1 or value.dtype != kind:
        raise HalfulpError(f"{what} must be one {kind}")
    return value.item()


def _stack(values: list[Array], axis: int, declared: Any) -> Array:
    if values:
        if not all(isinstance(value, np.ndarray) for value in values):
            raise HalfulpError(f"output {declared.name!r} of the body is not a tensor")
        if len({(value.shape, value.dtype) for value in values}) > 1:
            raise HalfulpError(f"output {declared.name!r} of the body changes its type or shape")
        if not -values[0].ndim - 1 <= axis <= values[0].ndim:
            raise HalfulpError(f"output {declared.name!r} of the body has no axis {axis}")
        return np.stack(values, axis)
    if declared.type is None or declared.shape is None:
        raise UnsupportedError(f"no iteration, and the body does not declare its output {declared.name!r}")
    shape = [dim if isinstance(dim, int) else 0 for dim in declared.shape]
    shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 0)
    return np.empty(shape, dtype_named(declared.type))


CONTROL: Mapping[str, Callable[[Node, list[Any], RunGraph], list[Any]]] = {
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
    "SequenceMap": _sequence_map,
}
"""The functions by operator. Each takes the node, its inputs, and a function that evaluates a subgraph."""


# --- the onnx package's evaluator ---------------------------------------------------------------------

# The evaluator has only the versions of opset 7 and later of these, without axis and broadcast.
_LEGACY_BROADCAST = {"Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Equal", "Less", "Greater"}


_RESPELLED = {"RoiAlign", "Scatter", "Upsample", "Resize", "MaxPool", "QuantizeLinear"}


def _respelled(node: Node, inputs: dict[str, Any]) -> tuple[NodeProto, int]:
    """Return a node as a version spells it that the package evaluates rightly, and the opset; inputs are added."""
    spelled, opset, given = NodeProto(), node.opset, node.attributes
    spelled.CopyFrom(node.source)

    def put(**attributes: Any) -> None:
        kept = [attribute for attribute in spelled.attribute if attribute.name not in attributes]
        made = (
            onnx.helper.make_attribute(name, value) for name, value in attributes.items() if value is not None
        )
        del spelled.attribute[:]
        spelled.attribute.extend([*kept, *made])

    match node.type:
        case "RoiAlign" if opset < 16:
            put(coordinate_transformation_mode="output_half_pixel")
            opset = 16
        case "Scatter":
            spelled.op_type = "ScatterElements"
        case "Upsample" | "Resize" if 7 <= opset <= 10:
            if "scales" in given:
                spelled.input.append("scales of " + spelled.input[0])
                inputs[spelled.input[1]] = np.array(given["scales"], np.float32)
            elif (
                len(inputs) > 1
                and given.get("mode", "nearest") == "nearest"
                and inputs[node.inputs[1]].min() < 1
            ):
                message = f"opset {opset} does not say which element {node.type} takes where it shrinks"
                raise UnsupportedError(message, expected="opset 11, or the engine onnxruntime")
            spelled.op_type, opset = "Resize", 13
            spelled.input.insert(1, "")
            put(scales=None, coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        case "MaxPool" if len(node.outputs) == 1 and not given.get("ceil_mode", 0):
            _pad_for_maximum(inputs, node)
            put(auto_pad=None, pads=None)
        case "QuantizeLinear":
            _limit_steps(inputs, node)
    return spelled, opset


def _pad_for_maximum(inputs: dict[str, Any], node: Node) -> None:
    """Pad the input of a MaxPool; where pads differ, the package takes too few or other windows."""
    x, kernel = inputs[node.inputs[0]], node.attributes["kernel_shape"]
    ones = [1] * len(kernel)
    strides, dilations = (node.attributes.get(name, ones) for name in ("strides", "dilations"))
    same, given = node.attributes.get("auto_pad", "NOTSET"), node.attributes.get("pads", [0, 0] * len(kernel))
    pads = [(0, 0), (0, 0)]
    for axis, length in enumerate(kernel):
        if same in ("SAME_LOWER", "SAME_UPPER"):
            size, stride, dilation = x.shape[2 + axis], strides[axis], dilations[axis]
            total = max(0, (math.ceil(size / stride) - 1) * stride + (length - 1) * dilation + 1 - size)
            less, more = total // 2, total - total // 2
            pads.append((less, more) if same == "SAME_UPPER" else (more, less))
        else:
            pads.append((given[axis], given[len(kernel) + axis]))
    least = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -math.inf
    inputs[node.inputs[0]] = np.pad(x, pads, constant_values=least)


def _limit_steps(inputs: dict[str, Any], node: Node) -> None:
    """Limit the input of a QuantizeLinear to 2^17 steps; the package counts them in int32, which has to suffice."""
    x, scale, *zeros = (inputs[name] for name in node.inputs if name)
    if x.dtype.kind == "i" or (zeros and "int" not in zeros[0].dtype.name):
        return
    axis, block = node.attributes.get("axis", 1), node.attributes.get("block_size", 0)
    if block:
        scale = np.repeat(scale, block, axis).take(range(x.shape[axis]), axis)
    elif scale.size > 1:
        scale = scale.reshape([-1 if each == axis % x.ndim else 1 for each in range(x.ndim)])
    steps = 2.0**17 if x.dtype != np.float16 else 65440.0  # their number is a float16, too
    largest = float(ml_dtypes.finfo(x.dtype).max)  # type: ignore[no-untyped-call]
    limit = np.minimum(np.abs(scale.astype(np.float64)) * steps, largest)
    inputs[node.inputs[0]] = np.clip(x, -limit, limit).astype(x.dtype)


class Fallback:
    """Evaluates the foreign nodes of one model. A node's evaluator is made once for given types and ranks."""

    def __init__(self) -> None:
        self._prepared: dict[tuple[Node, bytes, tuple[Any, ...]], ReferenceEvaluator] = {}

    def __call__(self, node: Node, inputs: list[Any]) -> list[Any]:
        """Return the outputs of a node without subgraphs. Absent optional inputs are None."""
        inputs = list(inputs)
        if node.opset < 7 and node.domain == "" and node.type in _LEGACY_BROADCAST:
            inputs[1] = broadcast_legacy(inputs[0], inputs[1], node.attributes)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                named = {name: value for name, value in zip(node.inputs, inputs, strict=True) if name}
                evaluate = self._evaluator(node, named)
                outputs = evaluate.run([name for name in node.outputs if name], named)
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
        present = iter(outputs)
        return [next(present) if name else None for name in node.outputs]

    def _evaluator(self, node: Node, inputs: dict[str, Any]) -> ReferenceEvaluator:
        spelled, opset, own = node.source, node.opset, b""
        if (
            node.domain == "" and schema_in_force("", node.type, opset) is None
        ):  # a tool wrote it before its opset
            opset = version_of(node.source, opset) or opset
        if node.domain == "" and node.type in _RESPELLED:
            spelled, opset = _respelled(node, inputs)
            own = spelled.SerializeToString()
        kinds = ((v.dtype.name, v.ndim) if isinstance(v, np.ndarray) else type(v) for v in inputs.values())
        key = node, own, tuple(kinds)
        if key not in self._prepared:
            # If an operator of another domain is a function, its body may need ONNX's own operators.
            opsets = {"": onnx.defs.onnx_opset_version(), node.domain: opset}
            dropped = {"consumed_inputs"} if node.domain == "" and node.opset < 7 else set()
            if dropped and node.type in _LEGACY_BROADCAST:
                dropped |= {"axis", "broadcast"}
                opsets[""] = 7
            kept = (attribute for attribute in spelled.attribute if attribute.name not in dropped)
            self._prepared[key] = evaluator(with_attributes(spelled, kept), inputs, opsets)
        return self._prepared[key]


def _line(error: BaseException) -> str:
    """Return the error's first line."""
    return printable((str(error).strip() or type(error).__name__).splitlines()[0])
