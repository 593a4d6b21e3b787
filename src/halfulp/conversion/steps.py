"""Operators from one opset to the next: Pow and PRelu, and others that the onnx package can't convert.

A step is named by the operator and the versions on both sides, as ``("Pow", 7, 6)``. It adds equivalent nodes
of the opset on the other side, or raises NoExactForm. A constant input that is an attribute in the older
opset becomes that attribute. Defaults, and indices that count from the end of an axis, are written out in
full. Steps that are not listed here are left to the onnx package (:mod:`halfulp.conversion.fallback`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper

from halfulp.conversion import fallback
from halfulp.conversion.editor import (
    Editor,
    NoExactForm,
    follow,
    is_one,
    legacy_form,
    legacy_operand,
    recipe,
    remade,
)
from halfulp.models.graph import Array, Value
from halfulp.models.onnx.infer import held_tensor
from halfulp.models.onnx.walk import attributes_of
from halfulp.models.run.inputs import dtype_named
from halfulp.specs.tensor import format_shape

Step = Callable[[NodeProto, Editor], None]

_BROADCASTING = ("Pow", "Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Equal", "Less", "Greater")
"""The operators that had ``axis`` and ``broadcast`` before opset 7."""

_REDUCTIONS = tuple(
    f"Reduce{of}" for of in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
)
_SOFTMAXES = ("Softmax", "LogSoftmax", "Hardmax")
_FLOATS = ("float16", "float32", "float64")
_MOST_PRODUCT = 64  # an integer to a constant power up to this becomes products


STEPS: dict[tuple[str, int, int], Step] = {}
"""The steps by operator, the node's version, and the version that it is converted to."""


def _step(before: int, after: int, *operators: str) -> Callable[[Step], Step]:
    """Make a function the step of operators from one version to another one."""

    def register(step: Step) -> Step:
        STEPS.update({(operator, before, after): step for operator in operators})
        return step

    return register


@_step(6, 7, *_BROADCASTING)
def _to_numpy(node: NodeProto, edit: Editor) -> None:
    """Add the node in the form of opset 7, with Y unsqueezed to the dims that ``axis`` gives."""
    attributes = {a.name: a.i for a in node.attribute if a.name in ("axis", "broadcast")}
    y = legacy_operand(node, attributes, edit)
    edit.keep(remade(node, [node.input[0], y], attributes))
    if y != node.input[1]:
        edit.note(f"Y is unsqueezed to {edit.value(y)}, where axis={attributes['axis']} puts it")


@_step(7, 6, *_BROADCASTING)
def _to_legacy(node: NodeProto, edit: Editor) -> None:
    """Add the node in the form of opset 6: shapes equal, or Y a contiguous run of X's dims."""
    x, y, attributes = legacy_form(node.input[0], node.input[1], edit)
    edit.keep(remade(node, [x, y], **attributes))
    if attributes:
        edit.note("broadcasts by " + " ".join(f"{name}={value}" for name, value in attributes.items()))


# --- Pow ------------------------------------------------------------------------------------------


@_step(15, 14, "Pow")
def _pow_15_14(node: NodeProto, edit: Editor) -> None:
    """An exponent in bfloat16 becomes one in float32, which holds its every value."""
    if edit.type_of(node.input[1]) != "bfloat16":
        return edit.keep(node)
    edit.note("the exponent is cast from bfloat16 to float32, exactly: Pow takes no bfloat16 before opset 15")
    return edit.keep(remade(node, [node.input[0], edit.cast(node.input[1], "float32")]))


@_step(13, 12, "Pow")
def _pow_13_12(node: NodeProto, edit: Editor) -> None:
    if edit.type_of(node.input[0]) == "bfloat16":
        raise NoExactForm(
            "Pow has no bfloat16 before opset 13, and a power in a wider type would be rounded twice"
        )
    edit.keep(node)


@_step(12, 11, "Pow")
def _pow_12_11(node: NodeProto, edit: Editor) -> None:
    """Base and exponent get one type."""
    x, y = edit.type_of(node.input[0]), edit.type_of(node.input[1])
    if x not in _FLOATS:
        return _integer_pow(node, edit)
    if x == y:
        return edit.keep(node)
    new = remade(node)
    if edit.retype(new, x):
        return edit.keep(new)
    lacks = f"every {y}; a power in a wider type would be rounded twice"
    if edit.tensor(node.input[1]) is not None:
        lacks = "the constant's value"
    if (x, y) == ("float32", "float64"):
        lacks += "; --target openvino casts it, rounded"
    raise _before(edit, f"the exponent has the base's type, and {x} does not hold {lacks}")


def _integer_pow(node: NodeProto, edit: Editor) -> None:
    """An integer base: a product wraps around as the power does."""
    kind, rank = edit.type_of(node.input[0]), len(edit.value(node.input[0]).shape or ())
    exponent = edit.array(node.input[1])
    power = 0
    if exponent is not None and exponent.size == 1 and exponent.ndim <= rank and exponent.dtype.kind in "iu":
        power = int(exponent.reshape(-1)[0])
    if not 1 <= power <= _MOST_PRODUCT:
        raise NoExactForm(
            f"Pow takes no {kind} as base before opset 12; a constant exponent alone, an integer from 1 to"
            f" {_MOST_PRODUCT}, can be said otherwise, as a product"
        )
    edit.note(f"{kind} to the power of {power} becomes a product, which wraps around as the power does")
    follow(recipe(power), node, edit)


# --- PRelu ----------------------------------------------------------------------------------------


@_step(5, 6, "PRelu")
def _drop_consumed(node: NodeProto, edit: Editor) -> None:
    edit.keep(remade(node, None, {"consumed_inputs"}))


@_step(6, 7, "PRelu")
def _prelu_6_7(node: NodeProto, edit: Editor) -> None:
    """The slope gets the shape that NumPy's rules broadcast along the channels."""
    x, slope = (edit.value(name) for name in node.input)
    name = node.input[1]
    if slope.shape is None:
        raise NoExactForm("a slope is per channel or not by its rank, which is not known")
    if is_one(slope):
        if len(slope.shape) > (0 if x.shape is None else len(x.shape)):
            name = edit.squeeze(name, range(len(slope.shape)))
    elif len(slope.shape) == 1:
        if x.shape is None:
            raise NoExactForm("a slope per channel needs the rank of X, which is not known")
        name = edit.unsqueeze(name, range(1, len(x.shape) - 1))
    if name != node.input[1]:
        shape = format_shape(edit.value(name).shape)
        edit.note(f"the slope, of shape {format_shape(slope.shape)}, gets the shape {shape}")
    edit.keep(remade(node, [node.input[0], name]))


@_step(7, 6, "PRelu")
def _prelu_7_6(node: NodeProto, edit: Editor) -> None:
    """The slope becomes one element, or one per channel. If necessary, X is transposed for it."""
    x, slope = (edit.value(name) for name in node.input)
    if slope.shape is None:
        raise NoExactForm("the form of a slope in opset 6 depends on its shape, which is not known")
    if is_one(slope):
        return edit.keep(node)
    if x.shape is None:
        raise NoExactForm("the form of a slope in opset 6 depends on the rank of X, which is not known")
    lead = len(x.shape) - len(slope.shape)
    varied = [lead + axis for axis, dim in enumerate(slope.shape) if dim != 1]
    if len(varied) > 1:
        edit.note(
            f"the slope of shape {format_shape(slope.shape)} stays",
            "the document of PRelu-6 leaves slopes of rank 2 and more open; here they are broadcast as in 7",
        )
        return edit.keep(node)
    flat = edit.squeeze(node.input[1], [axis for axis in range(len(slope.shape)) if lead + axis != varied[0]])
    if varied == [1]:
        if flat != node.input[1]:
            edit.note(f"the slope, of shape {format_shape(slope.shape)}, becomes one of rank 1: per channel")
        return edit.keep(remade(node, [node.input[0], flat]))
    if len(x.shape) == 1:
        edit.note("X gets a dim of 1, so that its own dim is the channels'")
        row = edit.unsqueeze(node.input[0], [0])
        middle = edit.add("PRelu", [row, flat], edit.value(row), like=node)
        edit.squeeze(middle, [0], output=node.output[0])
        return None
    edit.note(f"X's dims 1 and {varied[0]} are exchanged around it, for the slope is per channel in opset 6")
    return _exchanged(remade(node, [node.input[0], flat]), 1, varied[0], edit)


def _exchanged(node: NodeProto, a: int, b: int, edit: Editor) -> None:
    """Add a node between two Transposes that exchange two dims of X."""
    x = edit.value(node.input[0])
    shape = x.shape or ()
    order = [*range(len(shape))]
    order[a], order[b] = b, a
    turned = Value("", x.type, tuple(shape[axis] for axis in order))
    node.input[0] = edit.add("Transpose", [node.input[0]], turned, perm=order)
    output, node.output[0] = node.output[0], edit.new_name("turned", turned)
    edit.keep(node)
    edit.add("Transpose", [node.output[0]], output=output, perm=order)


@_step(9, 8, "PRelu")
def _prelu_9_8(node: NodeProto, edit: Editor) -> None:
    """An integer PRelu: x + (x < 0) * (slope * x - x), which wraps around to the same."""
    kind = edit.type_of(node.input[0])
    if kind in _FLOATS:
        return edit.keep(node)
    x = edit.value(node.input[0])
    if kind.startswith("uint"):
        edit.note(f"{kind} is never below 0: X is the result")
        edit.add("Identity", [node.input[0]], output=node.output[0], like=node)
        return None
    edit.note(f"PRelu takes no {kind} before opset 9: x + (x < 0) * (slope * x - x), which is the same")
    real = edit.cast(node.input[0], "float64")  # it has the sign of X
    zero = edit.constant(np.zeros((), np.float64), "zero")
    below = edit.cast(edit.add("Less", [real, zero], Value("", "bool", x.shape)), kind)
    product = edit.add("Mul", [node.input[0], node.input[1]], x)
    rise = edit.add("Sub", [product, node.input[0]], x)
    taken = edit.add("Mul", [rise, below], x)
    edit.add("Add", [node.input[0], taken], output=node.output[0], like=node)
    return None


@_step(16, 15, "PRelu")
def _prelu_16_15(node: NodeProto, edit: Editor) -> None:
    """In bfloat16: through float64, which holds every product of two bfloat16 exactly."""
    kind = edit.type_of(node.input[0])
    if kind != "bfloat16":
        if kind not in ("float32", "float16"):
            why = f"a runtime without a kernel for {kind}, such as ONNX Runtime, has no function body of PRelu there"
            edit.note(f"{why}; --target onnxruntime writes it in operators that it has", is_notice=True)
        return edit.keep(node)
    edit.note(
        "PRelu takes no bfloat16 before opset 16: cast to float64 and back, rounded once",
        "a NaN in X comes out as a NaN, but its payload may not",
    )
    return edit.keep_cast(
        remade(node, [edit.cast(name, "float64") for name in node.input]), "float64", "bfloat16"
    )


# --- the others -----------------------------------------------------------------------------------


@_step(5, 6, "Cast")
@_step(6, 5, "Cast")
def _cast(node: NodeProto, edit: Editor) -> None:
    """The result type is a name until opset 5, and a number from opset 6 on."""
    (to,) = (attribute for attribute in node.attribute if attribute.name == "to")
    kinds = TensorProto.DataType
    edit.keep(remade(node, to=kinds.Name(to.i) if edit.opset < 6 else kinds.Value(to.s.decode())))


@_step(12, 11, "Constant")
def _constant_12_11(node: NodeProto, edit: Editor) -> None:
    """A number or a list of them becomes a tensor."""
    tensor = held_tensor(node)
    if [attribute.name for attribute in node.attribute] in (["value"], ["sparse_value"]):
        return edit.keep(node)
    if tensor is None:
        raise _before(edit, "a Constant holds a tensor only, and this one is not a tensor")
    edit.add("Constant", [], output=node.output[0], like=node, value=tensor)
    return None


@_step(9, 8, "Constant")
def _constant_9_8(node: NodeProto, edit: Editor) -> None:
    """A Constant of another type than a float becomes an initializer."""
    tensor = held_tensor(node)
    if tensor is None or edit.value(node.output[0]).type in _FLOATS:
        return edit.keep(node)
    if not isinstance(edit.owner, GraphProto):
        raise _before(edit, "a Constant holds floats only, and a function has no initializers")
    edit.constant_tensor(tensor, "", name=node.output[0])
    return None


@_step(12, 13, "Hardmax")
def _hardmax_12_13(node: NodeProto, edit: Editor) -> None:
    """Until opset 12 it applies to all dims from its axis on; since opset 13, to one."""
    axis, shape = _attribute(node, "axis", 1), edit.value(node.input[0]).shape
    if axis == -1 or (shape is not None and axis == len(shape) - 1):
        edit.add("Hardmax", node.input, output=node.output[0], like=node, axis=axis)
        return
    edit.note("X is flattened before it and gets its shape back after it")
    dims = edit.add("Shape", [node.input[0]])
    flat = edit.add("Flatten", [node.input[0]], axis=axis)
    middle = edit.add("Hardmax", [flat], like=node, axis=-1)
    edit.add("Reshape", [middle, dims], output=node.output[0])


# --- others, one opset down -----------------------------------------------------------------------


def _attribute(node: NodeProto, name: str, default: Any) -> Any:
    return attributes_of(node).get(name, default)


def _constant(node: NodeProto, index: int, edit: Editor, default: Array | float | None = None) -> Array:
    """Return the constant that an input is, or the default where it is absent."""
    if len(node.input) <= index or not node.input[index]:
        if default is None:
            raise NoExactForm(f"its input {index} is absent")
        return np.asarray(default)
    array = edit.array(node.input[index])
    if array is None:
        raise _before(
            edit, f"{node.op_type} says {node.input[index]!r} in an attribute, and it is not a constant"
        )
    if array.ndim > 1:
        raise NoExactForm(f"its input {index} has {array.ndim} dims, not one")
    return array


def _before(edit: Editor, lacks: str) -> NoExactForm:
    return NoExactForm(f"before opset {edit.opset + 1} {lacks}")


def _number(node: NodeProto, index: int, edit: Editor, default: float | None = None) -> float:
    array = _constant(node, index, edit, default)
    if array.size != 1:
        raise NoExactForm(f"its input {index} has {array.size} elements, not one")
    return float(array.reshape(-1)[0])


def _in_float32(number: float) -> bool:
    return bool(abs(number) <= np.finfo(np.float32).max and number == np.float32(number))


def _axes(axes: Iterable[int], name: str, edit: Editor) -> list[int]:
    """Return axes counted from the first dim of a value; raises NoExactForm where its rank is needed and not known."""
    axes, shape = [int(axis) for axis in axes], edit.value(name).shape
    if shape is None and min(axes, default=0) < 0:
        raise _before(edit, f"axes count from the first dim, and the rank of {name!r} is not known")
    if shape is not None and not all(-len(shape) <= axis < len(shape) for axis in axes):
        raise NoExactForm(f"{name!r} has {len(shape)} dims, and no axes {axes}")
    return [axis if axis >= 0 else axis % len(shape or ()) for axis in axes]


def _size_of_dim(node: NodeProto, edit: Editor, why: str) -> int:
    """Return the size of X's dim that ``axis`` gives; raises NoExactForm with the reason where it is not known."""
    (axis,) = _axes([_attribute(node, "axis", 0)], node.input[0], edit)
    shape = edit.value(node.input[0]).shape
    size = None if shape is None else shape[axis]
    if not isinstance(size, int):
        raise _before(edit, f"{why}, and the dim's size is not known")
    return size


def _same(node: NodeProto, edit: Editor) -> None:
    """Add a node unchanged, if the older opset takes its types."""
    fallback.check_types(node, edit)
    edit.keep(node)


@_step(15, 14, "Shape")
def _shape_15_14(node: NodeProto, edit: Editor) -> None:
    start, end = _attribute(node, "start", 0), _attribute(node, "end", None)
    whole = remade(node, node.input[:1], {"start", "end"})
    if start == 0 and end is None:
        return edit.keep(whole)
    edit.note("start and end become a Slice behind it")
    whole.output[0] = edit.new_name("shape", Value("", "int64", (None,)))
    edit.keep(whole)
    last = np.iinfo(np.int64).max if end is None else end
    bounds = [edit.constant(np.array([bound], np.int64), "bound") for bound in (start, last)]
    edit.add("Slice", [whole.output[0], *bounds], output=node.output[0])
    return None


@_step(19, 18, "Pad")
def _pad_19_18(node: NodeProto, edit: Editor) -> None:
    if _attribute(node, "mode", b"constant") == b"wrap":
        raise NoExactForm("Pad does not wrap before opset 19")
    _same(node, edit)


@_step(18, 17, "Pad")
def _pad_18_17(node: NodeProto, edit: Editor) -> None:
    """Pads along some axes become pads along all; those of the other axes are 0."""
    if len(node.input) < 4 or not node.input[3]:
        return edit.keep(remade(node, node.input[:3]))
    axes = _axes(_constant(node, 3, edit).reshape(-1), node.input[0], edit)
    shape = edit.value(node.input[0]).shape
    if shape is None:
        raise NoExactForm(f"pads for all dims take the rank of {node.input[0]!r}, which is not known")
    given = _constant(node, 1, edit)
    if given.size != 2 * len(axes):
        raise NoExactForm(f"{len(axes)} axes have {2 * len(axes)} pads, not {given.size}")
    pads = np.zeros((2, len(shape)), np.int64)
    pads[:, axes] = given.reshape(2, -1)
    edit.note("pads along some axes become pads along all")
    new = remade(node, node.input[:3])
    new.input[1] = edit.constant(pads.reshape(-1), "pads")
    return edit.keep(new)


@_step(11, 10, "Pad")
def _pad_11_10(node: NodeProto, edit: Editor) -> None:
    pads = _constant(node, 1, edit).tolist()
    value = _number(node, 2, edit, 0)
    if value != np.float32(value):
        raise _before(edit, "Pad has its value as a float32, which does not hold it")
    _same(remade(node, node.input[:1], pads=pads, value=value), edit)


@_step(18, 17, "Split")
def _split_18_17(node: NodeProto, edit: Editor) -> None:
    """Equal parts, the last one shorter, get their sizes."""
    if len(node.input) > 1 and node.input[1]:
        return edit.keep(node)
    new = remade(node, node.input[:1], {"num_outputs"})
    size, parts = _size_of_dim(node, edit, "the sizes of its parts are given"), len(node.output)
    chunk = -(-size // parts)
    sizes = [min(chunk, max(size - chunk * part, 0)) for part in range(parts)]
    new.input.append(edit.constant(np.array(sizes, np.int64), "split"))
    return edit.keep(new)


@_step(11, 10, "Squeeze", "Unsqueeze", "ReduceSum", *_REDUCTIONS)
def _squeeze_11_10(node: NodeProto, edit: Editor) -> None:
    """Squeeze, Unsqueeze and reductions count all axes from the first dim."""
    axes = _attribute(node, "axes", None)
    if not axes:
        return edit.keep(node)
    counted = node.output[0] if node.op_type == "Unsqueeze" else node.input[0]
    return _same(remade(node, node.input[:1], axes=_axes(axes, counted, edit)), edit)


@_step(11, 10, "ArgMax", "ArgMin", "Concat", "Compress", "Flatten", "Split", *_SOFTMAXES)
def _axis_11_10(node: NodeProto, edit: Editor) -> None:
    axis = _attribute(node, "axis", None)
    if axis is not None:
        node = remade(node, axis=_axes([axis], node.input[0], edit)[0])
    _same(node, edit)


@_step(11, 10, "Gather")
def _gather_11_10(node: NodeProto, edit: Editor) -> None:
    """An index does not count from the end before opset 11."""
    indices = edit.array(node.input[1])
    if indices is None:
        raise _before(edit, "Gather takes no negative index, and these are not constants")
    new = remade(node)
    if (indices < 0).any():
        size = _size_of_dim(node, edit, "Gather takes no negative index")
        new.input[1] = edit.constant(np.where(indices < 0, indices + size, indices), "indices")
    _axis_11_10(new, edit)


@_step(14, 13, "Reshape")
def _reshape_14_13(node: NodeProto, edit: Editor) -> None:
    """With allowzero, a 0 in the shape is a size; without it, a 0 copies a dim of X."""
    if _attribute(node, "allowzero", 0):
        asked = edit.array(node.input[1])
        if asked is not None and (asked == 0).any():
            raise NoExactForm("its attribute allowzero came with opset 14, and its shape holds a 0")
        x, y = (edit.value(name).shape for name in (node.input[0], node.output[0]))
        copied = [
            dim if isinstance(dim, int) or dim in (x or ())[axis:][:1] else 0
            for axis, dim in enumerate(y or ())
        ]
        if (
            asked is None
            and not (copied and all(copied))
            and not (x and all(isinstance(dim, int) and dim for dim in x))
        ):
            edit.note("loses allowzero, which came with opset 14", "an X without elements may get other dims")
    edit.keep(remade(node, node.input[:2], {"allowzero"}))


@_step(11, 10, "Slice")
def _slice_11_10(node: NodeProto, edit: Editor) -> None:
    """Axes count from the first dim, steps go forward."""
    if (_constant(node, 4, edit, 1) < 1).any():
        raise _before(edit, "Slice goes forward only")
    new = remade(node)
    if len(node.input) > 3 and node.input[3]:
        given = _constant(node, 3, edit)
        new.input[3] = edit.constant(np.array(_axes(given, node.input[0], edit), given.dtype), "axes")
    _same(new, edit)


@_step(10, 9, "Slice")
def _slice_10_9(node: NodeProto, edit: Editor) -> None:
    starts, ends = (_constant(node, index, edit) for index in (1, 2))
    axes = _constant(node, 3, edit, np.arange(starts.size))
    if (_constant(node, 4, edit, 1) != 1).any():
        raise NoExactForm("Slice has no steps before opset 10")
    _same(remade(node, node.input[:1], starts=starts.tolist(), ends=ends.tolist(), axes=axes.tolist()), edit)


@_step(11, 10, "Clip")
def _clip_11_10(node: NodeProto, edit: Editor) -> None:
    """An absent bound becomes the type's greatest number, because the older default is float32's."""
    kind = edit.value(node.input[0]).type
    if kind not in _FLOATS:
        raise NoExactForm(f"Clip takes no {kind or 'type that is not known'} before opset 11")
    limits = np.finfo(kind)
    least, greatest = _number(node, 1, edit, float(limits.min)), _number(node, 2, edit, float(limits.max))
    if not (_in_float32(least) and _in_float32(greatest)):
        raise _before(edit, "Clip has its bounds as float32, which does not hold them")
    _same(remade(node, node.input[:1], min=least, max=greatest), edit)


@_step(13, 12, "QuantizeLinear", "DequantizeLinear")
def _quantize_13_12(node: NodeProto, edit: Editor) -> None:
    """One scale for all: a scale along an axis came with opset 13."""
    if edit.value(node.input[1]).shape != ():
        raise _before(edit, f"{node.op_type} has one scale for all, and its own may be along an axis")
    _same(remade(node, None, {"axis"}), edit)


@_step(13, 12, "ReduceSum")
@_step(18, 17, *_REDUCTIONS)
def _reduce(node: NodeProto, edit: Editor) -> None:
    """Without noop_with_empty_axes, where that is 0 or there are axes."""
    if _attribute(node, "noop_with_empty_axes", 0) and not _constant(node, 1, edit, np.zeros(0)).size:
        raise NoExactForm(f"its noop_with_empty_axes came with opset {edit.opset + 1}, and it has no axes")
    new = remade(node, [*filter(None, node.input)], {"noop_with_empty_axes"})
    if not fallback.stays(new, edit.opset + 1, edit):
        fallback.through_onnx(new, edit.opset + 1, edit)


@_step(13, 12, *_SOFTMAXES)
def _softmax_13_12(node: NodeProto, edit: Editor) -> None:
    """It applies to one axis; in older opsets, to all dims from that axis on."""
    axis, x = _attribute(node, "axis", -1), edit.value(node.input[0])
    if axis != -1 and not x.shape:
        raise _before(edit, f"{node.op_type} goes along all dims from its axis on, and the rank is not known")
    rank = len(x.shape or ())
    if axis == -1 or axis % rank == rank - 1:
        return _same(remade(node, node.input[:1], axis=axis), edit)
    edit.note(
        f"X's dims {axis % rank} and {rank - 1} are exchanged around it, for it goes along the last one"
    )
    fallback.check_types(node, edit)
    return _exchanged(remade(node, node.input[:1], axis=-1), axis % rank, rank - 1, edit)


@_step(8, 9, "BatchNormalization")
def _batch_normalization_8_9(node: NodeProto, edit: Editor) -> None:
    """Its numbers are those of channels. MXNet's exporter writes spatial=0 beside these, too."""
    if not _attribute(node, "spatial", 1) and len(edit.value(node.input[1]).shape or ()) != 1:
        raise NoExactForm(
            "since opset 9 BatchNormalization has numbers of channels only, and spatial=0 means others"
        )
    edit.keep(remade(node, None, {"spatial"}))


@_step(14, 13, "BatchNormalization")
def _batch_normalization_14_13(node: NodeProto, edit: Editor) -> None:
    """Outside of training it has one output, and its meaning is the same."""
    if _attribute(node, "training_mode", 0) or any(node.output[1:]):
        raise _before(edit, "BatchNormalization has no training_mode")
    new = remade(node, None, {"training_mode"})
    del new.output[1:]
    _same(new, edit)


@_step(14, 13, "Trilu")
def _trilu_14_13(node: NodeProto, edit: Editor) -> None:
    """Elements on one side of the diagonal j - i = k become 0."""
    x = node.input[0]
    fallback.check_types(helper.make_node("Where", ["", x, x], node.output), edit)
    is_upper, k = _attribute(node, "upper", 1), edit.constant(np.array(0), "k")
    if len(node.input) > 1 and node.input[1]:
        k = node.input[1]
    shape, least = edit.value(x).shape or (), edit.array(k)
    if len(shape) > 1 and all(isinstance(dim, int) for dim in shape[-2:]) and least is not None:
        part = np.triu if is_upper else np.tril
        outside = edit.constant(
            ~part(np.ones([int(str(dim)) for dim in shape[-2:]], bool), int(least)), "outside"
        )
    else:
        numbers = Value("", "int64")
        sizes = edit.add("Shape", [x], numbers)
        zero, one = edit.constant(np.array(0), "zero"), edit.constant(np.array(1), "one")
        lengths = (edit.constant(np.array(axis), "axis") for axis in (-2, -1))
        ends = [edit.add("Gather", [sizes, axis], numbers) for axis in lengths]
        rows, columns = (edit.add("Range", [zero, end, one], numbers) for end in ends)
        column = edit.add("Reshape", [rows, edit.constant(np.array([-1, 1]), "column")], numbers)
        distance = edit.add("Sub", [columns, column], numbers)
        outside = edit.add("Less", [distance, k] if is_upper else [k, distance], Value("", "bool"))
    none = edit.constant(np.zeros((), dtype_named(edit.type_of(x))), "none")
    edit.note("becomes a Where, with the places on one side of the diagonal")
    edit.add("Where", [outside, none, x], output=node.output[0], like=node)


@_step(20, 19, "GridSample")
def _grid_sample_20_19(node: NodeProto, edit: Editor) -> None:
    """Two of its modes have other names, and it takes images only."""
    shape = edit.value(node.input[0]).shape
    if shape is None or len(shape) != 4:
        raise _before(edit, "GridSample takes inputs of rank 4 only")
    mode = _attribute(node, "mode", b"linear")
    renamed = {b"linear": b"bilinear", b"cubic": b"bicubic"}.get(mode, mode)
    _same(remade(node, mode=renamed), edit)


@_step(16, 15, "RoiAlign")
def _roi_align_16_15(node: NodeProto, edit: Editor) -> None:
    if _attribute(node, "coordinate_transformation_mode", b"half_pixel") != b"output_half_pixel":
        raise _before(edit, "RoiAlign has output_half_pixel as its only mode")
    _same(remade(node, None, {"coordinate_transformation_mode"}), edit)


@_step(11, 10, "Gemm")
def _gemm_11_10(node: NodeProto, edit: Editor) -> None:
    """C is required there. Adding -0 leaves every number unchanged."""
    if len(node.input) < 3 or not node.input[2]:
        zero = edit.constant(np.full(1, -0.0, edit.type_of(node.input[0])), "zero")
        node = remade(node, [*node.input[:2], zero], beta=1.0)
    _same(node, edit)


@_step(12, 11, "Dropout")
def _dropout_12_11(node: NodeProto, edit: Editor) -> None:
    if _constant(node, 2, edit, 0).any():
        raise _before(edit, "a model says from outside whether Dropout trains")
    _same(remade(node, node.input[:1], {"seed"}, ratio=_number(node, 1, edit, 0.5)), edit)


@_step(11, 10, "DepthToSpace")
def _depth_to_space_11_10(node: NodeProto, edit: Editor) -> None:
    """It has only the mode DCR: for CRD the channels are reordered first."""
    new = remade(node, node.input[:1], {"mode"})
    if _attribute(node, "mode", b"DCR") == b"CRD":
        x = edit.value(node.input[0])
        channels, block = (x.shape or (None, None))[1], _attribute(node, "blocksize", 1)
        if not isinstance(channels, int):
            raise _before(edit, "DepthToSpace has no mode CRD, and the number of channels is not known")
        order = np.arange(channels).reshape(-1, block * block).T.reshape(-1)
        edit.note("its mode CRD becomes another order of X's channels")
        new.input[0] = edit.add("Gather", [node.input[0], edit.constant(order, "order")], x, axis=1)
    _same(new, edit)


@_step(13, 12, "Resize")
def _resize_13_12(node: NodeProto, edit: Editor) -> None:
    """An absent input becomes an empty one."""
    new = remade(node)
    new.input.extend([""] * (3 - len(node.input)))
    for index in (1, 2):
        new.input[index] = new.input[index] or edit.constant(np.zeros(0, np.float32), "none")
    _same(new, edit)


@_step(11, 10, "Resize")
def _resize_11_10(node: NodeProto, edit: Editor) -> None:
    """It takes scales, and divides a coordinate by the scale."""
    mode = _attribute(node, "mode", b"nearest")
    said = {
        "coordinate_transformation_mode": (b"half_pixel", b"asymmetric"),
        "nearest_mode": (b"round_prefer_floor", b"floor" if mode == b"nearest" else None),
    }
    for name, (default, only) in said.items():
        given = _attribute(node, name, default)
        if given != only and only is not None:
            raise _before(edit, f"Resize has no {name} {given.decode()}, only {only.decode()}")
    if mode == b"cubic":
        raise _before(edit, "Resize has no mode cubic")
    scales = node.input[2]
    if len(node.input) > 3 and node.input[3]:
        sizes, shape = _constant(node, 3, edit), edit.value(node.input[0]).shape
        dims = [dim for dim in shape or () if isinstance(dim, int) and dim]
        if len(dims) < len(sizes) or (sizes % dims).any():
            raise _before(edit, "Resize goes by scales, and its sizes are not multiples of X's dims")
        scales = edit.constant((sizes // dims).astype(np.float32), "scales")
    new = remade(node, node.input[:1], {*said, "cubic_coeff_a", "exclude_outside", "extrapolation_value"})
    new.input.append(scales)
    _same(new, edit)


@_step(10, 9, "Resize")
def _resize_10_9(node: NodeProto, edit: Editor) -> None:
    """Upsample is equivalent for scales of at least 1."""
    if (_constant(node, 1, edit) < 1).any():
        raise _before(edit, "Resize does not exist, and Upsample makes nothing smaller")
    new = remade(node, node.input[:2])
    new.op_type = "Upsample"
    edit.note("becomes Upsample")
    _same(new, edit)


@_step(11, 10, "TopK")
def _topk_11_10(node: NodeProto, edit: Editor) -> None:
    if not _attribute(node, "largest", 1):
        raise _before(edit, "TopK takes the largest only")
    _axis_11_10(remade(node, node.input[:2], {"largest", "sorted"}), edit)


@_step(10, 9, "TopK")
def _topk_10_9(node: NodeProto, edit: Editor) -> None:
    _same(remade(node, node.input[:1], k=int(_number(node, 1, edit))), edit)
