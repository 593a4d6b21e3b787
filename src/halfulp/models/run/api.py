"""Run a model node by node, for :mod:`halfulp.running` if no other engine runs it.

Pow and PRelu are halfulp's, in the version of the model's own opset. The other operators of ONNX are those of the onnx
package's evaluator. It does not run the graphs themselves, because it keeps every intermediate value and does not name
nodes in its errors. This module replaces or adapts its operators where they differ from the documents: the evaluator
broadcasts as since opset 7, casts to small floats by way of float32, sums float16 in float16, refuses a ``stash_type``
of 16 bits, and concatenates the tensors that a Loop's body scans.

The layers of OpenVINO's IR are Power and PReLU by their rows, and plumbing beside them. :mod:`halfulp.integrations.ir`
reads a file. OpenVINO's reader has checked types, shapes and attributes.
"""

import math
import time
import warnings
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import zip_longest
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpFunction, OpRun
from onnx.reference.ops.op_cast import cast_to

from halfulp.errors import REPAIR, HalfulpError, UnsupportedError, printable, within
from halfulp.models.graph import Array, Graph, Model, Node, Value, guard_memory, listed
from halfulp.models.onnx.checks import port_at, ports, version_of
from halfulp.models.onnx.tensors import dtype_of, enum_of
from halfulp.models.onnx.walk import SUPPORTED_OPS, with_attributes
from halfulp.models.run.cast import can_cast, cast
from halfulp.models.run.inputs import bind, check, dtype_named
from halfulp.models.run.report import Engine, NodeRun, RunReport, lost, show, vacuous
from halfulp.operators import op
from halfulp.specs import ids
from halfulp.specs.broadcast import LEGACY_AXIS, Mismatch
from halfulp.types import tensor_type, type_name

Values = Mapping[str, Any]
Scope = MutableMapping[str, Any]
Watch = Callable[[Node, list[Any], list[Any]], None]  # receives a node, its operands and its results


class Outputs(dict[str, Any]):
    """A model's outputs by name, and the ``inputs`` of the run. An output with further names is found by each."""

    def __init__(self, values: Values, declared: Sequence[Value], inputs: Values) -> None:
        super().__init__(values)
        self.inputs = dict(inputs)
        self._names = {alias: value.name for value in reversed(declared) for alias in value.aliases}

    def __missing__(self, name: str) -> Any:
        return self[self._names[name]]

    @property
    def vacuous(self) -> dict[str, str]:
        """The outputs that verify nothing, by name, with the reason: all NaN, infinite or equal, or empty."""
        return vacuous(self)


def run(model: Model, inputs: Values) -> Outputs:
    """Return a model's outputs by name. Arguments and errors are those of :func:`run_with_report`."""
    return run_with_report(model, inputs)[0]


def run_with_report(model: Model, inputs: Values, *, watch: Watch | None = None) -> tuple[Outputs, RunReport]:
    """Return a model's outputs by name, and the engine and the time of each node, whose evaluations ``watch`` receives.

    An input with an initializer of its name may be left out.

    Raises:
        ModelError: the model is broken or unsafe, or an input or a result contradicts its declaration, or a node's
            operands break a clause of its operator (then ``.clause`` is set).
        UnsupportedError: an operator that this module cannot evaluate.
    """
    graph = model.graph
    if unsupported := foreign(graph.nodes):
        message = f"{model.file}: has layers that halfulp lacks; the engine 'auto' runs them in openvino"
        raise UnsupportedError(message, expected=", ".join(LAYERS), got=listed(unsupported))
    evaluation = Evaluation(model, watch)
    values = bind(model, inputs)
    if isinstance(graph.source, Origin):
        with within(model.file):
            graph.source.check_ranges(values)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # an overflow is a result
        outputs = evaluation.graph(graph, values)
    names = (declared.name for declared in graph.outputs)
    owned = dict(zip(names, _owned(outputs, values.values()), strict=True))
    report = RunReport([*evaluation.rows.values()], evaluation.lost)
    return Outputs(owned, graph.outputs, inputs), report


def _owned(outputs: Iterable[Any], inputs: Iterable[Any]) -> Iterator[Any]:
    """Yield the outputs. The caller owns each: it shares no memory with an input, the model or another output."""
    arrays = [value for value in inputs if isinstance(value, np.ndarray)]
    for value in outputs:
        if isinstance(value, np.ndarray):
            if not value.flags.writeable or any(np.may_share_memory(value, other) for other in arrays):
                value = value.copy()
            arrays.append(value)
        yield value


# --- the evaluation of a graph ----------------------------------------------------------------------

# fmt: off
PLUMBING = frozenset({
    "Add", "Cast", "CastLike", "Constant", "Identity", "If", "Less", "Loop", "Mul", "Reshape", "Unsqueeze", "Where",
})
"""The operators that a model may have beside Pow and PRelu so that it runs without ONNX Runtime."""

# Before opset 7, these have the attributes axis and broadcast, except Where, which came later.
_BROADCASTS = {"Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Equal", "Less", "Greater", "Where"}

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

_OPERATORS = frozenset(ids())


class Evaluation:
    """One run of a model. An operator of the evaluator is made once for each node."""

    def __init__(self, model: Model, watch: Watch | None) -> None:
        self.rows: dict[Node, NodeRun] = {}  # in the order of the first call
        self.lost: dict[str, tuple[int, int]] = {}  # as a report has it
        self._watch, self._file = watch, model.file
        self._made: dict[Node, OpRun] = {}
        self._inner = 0.0  # time spent in subgraphs and function bodies of the current node

    def graph(self, graph: Graph, outer: Scope) -> list[Any]:
        """Evaluate a graph's nodes in order, dropping values after their last reader; ``outer`` has its inputs, too."""
        inputs = {value.name: outer[value.name] for value in graph.inputs}
        scope = ChainMap({**graph.constants, **inputs}, outer)
        for node, dead in zip(graph.nodes, graph.dead_after, strict=True):
            arguments = [scope[name] if name else None for name in node.inputs]
            with within(self._file, node.label):
                outputs = self._timed(node, arguments, scope)
                named = {name: value for name, value in zip(node.outputs, outputs, strict=False) if name}
                for name in filter(graph.declared.__contains__, named):
                    check(named[name], graph.declared[name], f"its output {name!r}", REPAIR)
            scope.update(named)
            del arguments, outputs, named
            for name in dead:
                scope.maps[0].pop(name, None)
        return [scope[value.name] for value in graph.outputs]

    def _timed(self, node: Node, inputs: list[Any], scope: Scope) -> list[Any]:
        around, self._inner = self._inner, 0.0
        start = time.perf_counter()
        outputs = [*self.outputs(node, inputs, scope)]
        if len(outputs) < len(node.outputs):
            message = "the node names more outputs than there are"
            raise HalfulpError(message, expected=len(outputs), got=len(node.outputs))
        elapsed = time.perf_counter() - start
        is_own = node.standard == "openvino" or node.operator in _OPERATORS
        engine: Engine = "halfulp" if is_own or node.function is not None else "onnx reference"
        row = self.rows.setdefault(node, NodeRun(node.label, node.operator, engine))
        row.inputs, row.outputs = tuple(map(show, inputs)), tuple(map(show, outputs))
        row.seconds += elapsed - self._inner
        row.calls += 1
        if node.operator in _OPERATORS and (count := lost(inputs, outputs[0])):
            before, size = self.lost.get(node.label, (0, 0))
            self.lost[node.label] = before + count, size + outputs[0].size
        if self._watch is not None:
            self._watch(node, inputs, outputs)
        self._inner = around + elapsed
        return outputs

    def outputs(self, node: Node, inputs: Sequence[Any], scope: Scope) -> Sequence[Any]:
        """Return the outputs of a node; its subgraphs may read the values of ``scope``."""
        if node.function is not None:
            names = (value.name for value in node.function.inputs)
            return self.graph(node.function, dict(zip_longest(names, inputs)))
        if node.standard == "openvino":
            return [LAYERS[node.type](node, *inputs)]
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
        kind = "" if node.domain else node.type
        if kind in _BROADCASTS:
            inputs = _arranged(node, inputs)
        given = [*map(_widened, inputs)] if kind in _SUMS else inputs
        outputs: Sequence[Any]
        if kind in _OWN:
            outputs = [_OWN[kind](node, *given)]
        elif kind == "Loop":
            outputs = self._loop(node, given, scope)
        else:
            operator = self._made.get(node) or self._operator(node, given)
            if not isinstance(operator, OpFunction):  # its body is for the types of these inputs
                self._made[node] = operator
            context = {"context": scope} if operator.need_context() else {}
            outputs = operator.run(*given, **context)  # type: ignore[no-untyped-call]
        return _narrowed(node, inputs, outputs) if kind in _SUMS else outputs

    def _loop(self, node: Node, inputs: Sequence[Any], scope: Scope) -> list[Any]:
        body: Graph = node.attributes["body"]
        limit, condition, *carried = [*inputs, None, None][: max(2, len(inputs))]
        if len(body.inputs) != len(carried) + 2 or len(body.outputs) <= len(carried):
            raise HalfulpError("the body's inputs and outputs don't match the node's")
        last = math.inf if limit is None else limit.item()
        goes_on = True if condition is None else condition.item()
        scanned: list[list[Any]] = []
        while goes_on and len(scanned) < last:
            values = [np.array(len(scanned), np.int64), np.array(goes_on), *carried]
            named = dict(zip((value.name for value in body.inputs), values, strict=True))
            outputs = self.graph(body, ChainMap(named, scope))
            goes_on, carried = outputs[0].item(), outputs[1 : 1 + len(carried)]
            scanned.append(outputs[1 + len(carried) :])
        if not scanned:
            return carried + [*map(_none_of, body.outputs[1 + len(carried) :])]
        return carried + [np.stack(arrays) for arrays in zip(*scanned, strict=True)]

    def _operator(self, node: Node, inputs: Sequence[Any]) -> OpRun:
        dropped = {"stash_type", "consumed_inputs"}
        opset = version_of(node.source, node.opset) or node.opset  # a tool may write it before its opset
        if node.type == "BatchNormalization" and opset >= 7 and len(node.outputs) == 1:
            opset = max(opset, 15)  # the evaluator's older ones average over the batch
            dropped |= {"spatial"} if node.attributes.get("spatial", 1) else set()
        spelled = with_attributes(node.source, (a for a in node.source.attribute if a.name not in dropped))
        for name, value in node.attributes.items():
            if isinstance(value, Graph):
                spelled.attribute.add(name=name, type=AttributeProto.GRAPH, g=GraphProto(name=name))
        evaluator = _evaluator(node.domain, opset)
        parameters: Any = {"opsets": evaluator.opsets, "new_ops": {}, "existing_functions": {}, "verbose": 0}
        parameters["log"] = lambda *_: None
        parameters["evaluator_cls"] = lambda graph, **_: self._body(node.attributes[graph.name])
        # Read only if the operator is a function.
        types: Any = (helper.make_tensor_type_proto(enum_of(type_name(v.dtype)), v.shape) for v in inputs)
        operator: OpRun = evaluator._load_impl(spelled, types)(spelled, parameters)
        return operator

    def _body(self, graph: Graph) -> SimpleNamespace:
        """Return a subgraph, as the evaluator's operators expect it; its Scan passes numbers that are no arrays."""
        inputs, outputs = ([value.name for value in values] for values in (graph.inputs, graph.outputs))

        def run(_: None, values: Scope, attributes: object = None) -> list[Any]:
            numbers = [name for name in inputs if isinstance(values[name], np.generic)]
            return self.graph(graph, ChainMap({name: np.asarray(values[name]) for name in numbers}, values))

        return SimpleNamespace(has_linked_attribute=False, input_names=inputs, output_names=outputs, run=run)


@cache
def _evaluator(domain: str, opset: int) -> ReferenceEvaluator:
    # If an operator of another domain is a function, its body may need ONNX's own operators.
    return ReferenceEvaluator(GraphProto(), {"": onnx.defs.onnx_opset_version(), domain: opset})


def _line(error: BaseException) -> str:
    return printable((str(error).strip() or type(error).__name__).splitlines()[0])


def _widened(value: Any) -> Any:
    is_half = isinstance(value, np.ndarray) and value.dtype.type in (np.float16, ml_dtypes.bfloat16)
    return value.astype(np.float32) if is_half else value


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


def _guard_broadcast(inputs: Sequence[Array]) -> None:
    """Refuse operands whose shapes don't fit together, or whose result does not fit in memory."""
    try:
        shape = np.broadcast_shapes(*(value.shape for value in inputs))
    except ValueError:
        shapes = [list(value.shape) for value in inputs]
        raise HalfulpError("its inputs can't be broadcast to one shape", got=shapes) from None
    guard_memory(shape, inputs[-1].itemsize, "its output")


def _arranged(node: Node, inputs: Sequence[Array]) -> Sequence[Array]:
    """Return operands that broadcast as NumPy's do, before opset 7 by the rules of ``axis`` and ``broadcast``."""
    if node.opset < 7 and node.type != "Where":
        x, y = inputs
        # The document says "1-dim expansion doesn't work yet", but exporters of that time relied on it.
        # An unknown dim matches any dim.
        known = tuple(None if dim == 1 and node.attributes.get("broadcast", 0) else dim for dim in y.shape)
        try:
            LEGACY_AXIS.infer(x.shape, known, node.attributes)
            inputs = x, y.reshape(LEGACY_AXIS.arrange(x.shape, y.shape, node.attributes))
        except Mismatch as error:
            message = error.message.format(x="the first input", y="the second")
            raise HalfulpError(message, got=f"{list(x.shape)} and {list(y.shape)}") from None
    _guard_broadcast(inputs)
    return inputs


# --- operators that replace the evaluator's ---------------------------------------------------------


def power(node: Node, *operands: Any) -> Array:
    """Return the output of a Pow or PRelu of any standard."""
    if any(not isinstance(value, np.ndarray) for value in operands):
        raise HalfulpError("an operand is missing, or not a tensor")
    operator = op(node.operator)
    shape: Any = operator.infer(*operands, **node.attributes).shape
    guard_memory(shape, operands[0].itemsize, "its output")
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
    return np.asarray(cast_to(x, number, saturate, mode), target)  # type: ignore[arg-type]


def _reshaped(node: Node, x: Array, *shape: Array) -> Array:
    """Return an array in another shape, of ONNX or OpenVINO, where a 0 may stand for the dim at the same axis."""
    attributes = node.attributes  # in version 1, the shape is one
    dims = np.array(shape or attributes["shape"], np.int64).reshape(-1)  # exporters also write a scalar
    if attributes.get("special_zero", not attributes.get("allowzero", 0)):
        copied = np.flatnonzero(dims == 0)
        dims[copied] = np.array(x.shape, np.int64)[copied]
    return np.reshape(x, dims.tolist())


def _unsqueezed(node: Node, x: Array, *axes: Array) -> Array:
    """Return an array with 1-dims inserted at some axes of the result, which are an attribute before version 13."""
    return np.expand_dims(x, tuple(np.ravel(axes or node.attributes["axes"]).tolist()))


def _lp_normalization(node: Node, x: Array) -> Array:
    # The evaluator sums X itself, not its magnitudes, if p is 1.
    length = np.linalg.norm(x, node.attributes.get("p", 2), node.attributes.get("axis", -1), keepdims=True)
    return np.asarray(np.divide(x, length, out=np.zeros_like(x), where=length != 0))


def _of_classes(node: Node, x: Array) -> Array:
    """Return the output of Softmax, LogSoftmax or Hardmax."""
    # Before version 13, the dims from the axis on are one. The evaluator has only the later version.
    is_matrix, shape = node.opset < 13, x.shape
    axis = node.attributes.get("axis", 1 if is_matrix else -1)
    if x.size == 0:
        return x
    if is_matrix:
        x, axis = x.reshape(math.prod(shape[:axis]), -1), 1
    if node.type == "Hardmax":
        result = np.zeros_like(x)
        np.put_along_axis(result, np.expand_dims(x.argmax(axis), axis), 1, axis)
    else:
        shifted = x - x.max(axis, keepdims=True)
        powers = np.exp(shifted)
        total = powers.sum(axis, keepdims=True)
        result = shifted - np.log(total) if node.type == "LogSoftmax" else powers / total
    return np.asarray(result.reshape(shape))


def _lrn(node: Node, x: Array) -> Array:
    given = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0, **node.attributes}
    size = given["size"]
    around = [(0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (x.ndim - 2)]
    sums = np.lib.stride_tricks.sliding_window_view(np.pad(x * x, around), size, axis=1).sum(-1)
    return np.asarray(x / (given["bias"] + given["alpha"] / size * sums) ** given["beta"], x.dtype)


_OWN: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(SUPPORTED_OPS, power),
    "Constant": _constant,
    **dict.fromkeys(("Cast", "CastLike"), _cast),
    "Reshape": _reshaped,
    "Unsqueeze": _unsqueezed,
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _of_classes),
    "LRN": _lrn,  # the evaluator takes only as many channels as there are images
    "LpNormalization": _lp_normalization,
    "Softplus": lambda node, x: np.logaddexp(x, x.dtype.type(0)),  # the evaluator's exponential overflows
}
"""The functions by operator. Each takes the node and its inputs, and returns the one output."""


def _none_of(declared: Value) -> Array:
    """Return the scanned output of a Loop without iterations, as far as the body declares it."""
    if declared.type is None or declared.shape is None:
        raise UnsupportedError(f"no iteration, and the body does not declare its output {declared.name!r}")
    shape = [dim if isinstance(dim, int) else 0 for dim in declared.shape]
    return np.empty([0, *shape], dtype_named(declared.type))


# --- the layers of OpenVINO's IR --------------------------------------------------------------------


@dataclass(frozen=True)
class Origin:
    """The ``source`` of a graph: the ``openvino.Model``, and the ``openvino.Output`` of each value by its name."""

    model: Any
    ends: Mapping[str, Any]

    def check_ranges(self, values: Values) -> None:
        """Refuse an input if a dim is outside the range that the file declares."""
        for name, value in values.items():
            declared = self.ends[name].get_partial_shape()
            if not declared.compatible(type(declared)(list(value.shape))):
                message = f"input {name!r} has a dim that is out of range"
                raise HalfulpError(message, expected=str(declared), got=list(value.shape))


def foreign(nodes: Iterable[Node]) -> list[str]:
    """Return the labels of the layers that halfulp does not evaluate."""
    layers = (node for node in nodes if node.standard == "openvino" and node.type != "Power")
    return [n.label for n in layers if n.type not in LAYERS or n.attributes.get("auto_broadcast") == "pdpd"]


def _convert(node: Node, x: Array) -> Array:
    if x.dtype.name == "float8_e8m0fnu":
        x = x.astype(np.float32)  # float32 holds all its values, powers of two
    # As in OpenVINO, a value that is too large for a float8 does not become its largest number.
    return cast(x, dtype_named(node.attributes["destination_type"]), saturate=False)


def _by_numpy(function: Callable[..., Any], node: Node, *inputs: Array) -> Array:
    shapes = {value.shape for value in inputs}
    if node.attributes.get("auto_broadcast") == "none" and len(shapes) > 1:
        got = " and ".join(str(tensor_type(value)) for value in inputs)
        raise HalfulpError(f"the inputs of {node.type} can't be broadcast", got=got)
    _guard_broadcast(inputs)
    return np.asarray(function(*inputs))


LAYERS: Mapping[str, Callable[..., Array]] = {
    **dict.fromkeys(("Power", "PReLU"), power),
    "Convert": _convert,
    "Reshape": _reshaped,
    "Unsqueeze": _unsqueezed,
    "Multiply": partial(_by_numpy, np.multiply),
    "Add": partial(_by_numpy, np.add),
    "Less": partial(_by_numpy, np.less),
    "Select": partial(_by_numpy, np.where),
}
"""The layers by type. Each takes the node and its inputs. All are of opset1."""
