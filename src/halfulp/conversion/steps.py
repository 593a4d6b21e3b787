"""Operators from one opset to the next: Pow and PRelu, and others that the onnx package can't convert.

A step is named by the operator and the versions on both sides, as ``("Pow", 7, 6)``. It adds equivalent nodes
of the opset on the other side, or raises NoExactForm. A constant input that is an attribute in the older
opset becomes that attribute. Defaults, and indices that count from the end of an axis, are written out in
full. Steps that are not listed here are left to the onnx package (:mod:`halfulp.conversion.fallback`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper

from halfulp.conversion import fallback
from halfulp.conversion.editor import (
    BROADCASTING,
    Editor,
    NoExactForm,
    follow,
    inherit,
    is_one,
    recipe,
    remade,
    to_legacy,
    to_numpy,
)
from halfulp.models.graph import Array, Value
from halfulp.models.onnx.infer import held_tensor
from halfulp.specs.tensor import format_shape

Step = Callable[[NodeProto, Editor], None]

_FLOATS = ("float16", "float32", "float64")
_MOST_PRODUCT = 64  # an integer to a constant power up to this becomes products


def _as_it_is(node: NodeProto, edit: Editor) -> None:
    edit.keep(node)


# --- Pow ------------------------------------------------------------------------------------------


def _pow_15_14(node: NodeProto, edit: Editor) -> None:
    """An exponent in bfloat16 becomes one in float32, which holds its every value."""
    if edit.type_of(node.input[1]) != "bfloat16":
        return edit.keep(node)
    edit.note("the exponent is cast from bfloat16 to float32, exactly: Pow takes no bfloat16 before opset 15")
    return edit.keep(_with_second(node, edit.cast(node.input[1], "float32")))


def _pow_13_12(node: NodeProto, edit: Editor) -> None:
    if edit.type_of(node.input[0]) == "bfloat16":
        raise NoExactForm(
            "Pow has no bfloat16 before opset 13, and a power in a wider type would be rounded twice"
        )
    edit.keep(node)


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
    is_constant = edit.value_info.tensor(node.input[1]) is not None
    lacks = (
        "the constant's value"
        if is_constant
        else f"every {y}; a power in a wider type would be rounded twice"
    )
    raise NoExactForm(f"before opset 12 the exponent has the base's type, and {x} does not hold {lacks}")


def _integer_pow(node: NodeProto, edit: Editor) -> None:
    """An integer base: a product wraps around as the power does."""
    kind, rank = edit.type_of(node.input[0]), len(edit.value_info.value(node.input[0]).shape or ())
    exponent = edit.value_info.array(node.input[1])
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


def _drop_consumed(node: NodeProto, edit: Editor) -> None:
    edit.keep(remade(node, None, {"consumed_inputs"}))


def _prelu_6_7(node: NodeProto, edit: Editor) -> None:
    """The slope gets the shape that NumPy's rules broadcast along the channels."""
    x, slope = (edit.value_info.value(name) for name in node.input)
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
        shape = format_shape(edit.value_info.value(name).shape)
        edit.note(f"the slope, of shape {format_shape(slope.shape)}, gets the shape {shape}")
    edit.keep(_with_second(node, name))


def _prelu_7_6(node: NodeProto, edit: Editor) -> None:
    """The slope becomes one element, or one per channel. If necessary, X is transposed for it."""
    x, slope = (edit.value_info.value(name) for name in node.input)
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
        return edit.keep(_with_second(node, flat))
    if len(x.shape) == 1:
        edit.note("X gets a dim of 1, so that its own dim is the channels'")
        row = edit.unsqueeze(node.input[0], [0])
        middle = edit.add("PRelu", [row, flat], edit.value_info.value(row), like=node)
        edit.squeeze(middle, [0], output=node.output[0])
        return None
    edit.note(f"X's dims 1 and {varied[0]} are exchanged around it, for the slope is per channel in opset 6")
    return _exchanged(_with_second(node, flat), 1, varied[0], edit)


def _exchanged(node: NodeProto, a: int, b: int, edit: Editor) -> None:
    """Add a node between two Transposes that exchange two dims of X."""
    x = edit.value_info.value(node.input[0])
    order = list(range(len(x.shape or ())))
    order[a], order[b] = order[b], order[a]
    turned = Value("", x.type, tuple((x.shape or ())[axis] for axis in order))
    node.input[0] = edit.add("Transpose", [node.input[0]], turned, perm=order)
    output, node.output[0] = node.output[0], edit.new_name("turned")
    edit.value_info.types[node.output[0]] = turned
    edit.keep(node)
    edit.add("Transpose", [node.output[0]], output=output, perm=order)


def _prelu_9_8(node: NodeProto, edit: Editor) -> None:
    """An integer PRelu: x + (x < 0) * (slope * x - x), which wraps around to the same."""
    kind = edit.type_of(node.input[0])
    if kind in _FLOATS:
        return edit.keep(node)
    x = edit.value_info.value(node.input[0])
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


def _prelu_16_15(node: NodeProto, edit: Editor) -> None:
    """In bfloat16: through float64, which holds every product of two bfloat16 exactly."""
    if edit.type_of(node.input[0]) != "bfloat16":
        return edit.keep(node)
    edit.note(
        "PRelu takes no bfloat16 before opset 16: cast to float64 and back, rounded once",
        "a NaN in X comes out as a NaN, but its payload may not",
    )
    return edit.keep_cast(
        remade(node, [edit.cast(name, "float64") for name in node.input]), "float64", "bfloat16"
    )


# --- the others -----------------------------------------------------------------------------------


def _cast(node: NodeProto, edit: Editor) -> None:
    """The result type is a name until opset 5, and a number from opset 6 on."""
    (to,) = (attribute for attribute in node.attribute if attribute.name == "to")
    kinds = TensorProto.DataType
    edit.keep(remade(node, to=kinds.Name(to.i) if edit.opset < 6 else kinds.Value(to.s.decode())))


def _constant_12_11(node: NodeProto, edit: Editor) -> None:
    """A number or a list of them becomes a tensor."""
    tensor = held_tensor(node)
    if [attribute.name for attribute in node.attribute] not in (["value"], ["sparse_value"]):
        if tensor is None:
            raise NoExactForm("before opset 12 a Constant holds a tensor only, and this one is not a tensor")
        new = onnx.helper.make_node("Constant", [], list(node.output), value=tensor)
        inherit(new, node)
        return edit.keep(new)
    return edit.keep(node)


def _constant_9_8(node: NodeProto, edit: Editor) -> None:
    """A Constant of another type than a float becomes an initializer."""
    tensor = held_tensor(node)
    if tensor is None or edit.value_info.value(node.output[0]).type in _FLOATS:
        return edit.keep(node)
    if not isinstance(edit.owner, GraphProto):
        raise NoExactForm("before opset 9 a Constant holds floats only, and a function has no initializers")
    edit.constant_tensor(tensor, "", name=node.output[0])
    return None


def _hardmax_12_13(node: NodeProto, edit: Editor) -> None:
    """Until opset 12 it applies to all dims from its axis on; since opset 13, to one."""
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1)
    shape = edit.value_info.value(node.input[0]).shape
    if axis == -1 or (shape is not None and axis == len(shape) - 1):
        new = onnx.helper.make_node("Hardmax", list(node.input), list(node.output), axis=axis)
        inherit(new, node)
        return edit.keep(new)
    edit.note("X is flattened before it and gets its shape back after it")
    dims = edit.add("Shape", [node.input[0]])
    flat = edit.add("Flatten", [node.input[0]], axis=axis)
    middle = edit.add("Hardmax", [flat], like=node, axis=-1)
    edit.add("Reshape", [middle, dims], output=node.output[0])
    return None


# --- shared helpers -------------------------------------------------------------------------------


def _with_second(node: NodeProto, name: str) -> NodeProto:
    return remade(node, [node.input[0], name])


# --- others, one opset down -----------------------------------------------------------------------


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
_SOFTMAXES = ("Softmax", "LogSoftmax", "Hardmax")


def _attribute(node: NodeProto, name: str, default: Any) -> Any:
    found = [helper.get_attribute_value(a) for a in node.attribute if a.name == name]
    return found[0] if found else default


def _constant(node: NodeProto, index: int, edit: Editor, default: Array | None = None) -> Array:
    """Return the constant that an input is, or the default where it is absent.

    Raises:
        NoExactForm: it is known only when the model runs.
    """
    if len(node.input) <= index or not node.input[index]:
        if default is None:
            raise NoExactForm(f"its input {index} is absent")
        return default
    array = edit.value_info.array(node.input[index])
    if array is None:
        raise NoExactForm(
            f"before opset {edit.opset + 1} {node.op_type} says {node.input[index]!r} in an attribute,"
            " and it is not a constant"
        )
    return array


def _axes(axes: Array, name: str, edit: Editor) -> list[int]:
    """Return axes counted from the first dim of a value; raises NoExactForm where its rank is needed and not known."""
    if (axes >= 0).all():
        return [int(axis) for axis in axes]
    shape = edit.value_info.value(name).shape
    if shape is None:
        raise NoExactForm(
            f"before opset {edit.opset + 1} axes count from the first dim, and the rank of {name!r} is not known"
        )
    return [int(axis) % len(shape) for axis in axes]


def _same(node: NodeProto, edit: Editor) -> None:
    """Add a node unchanged, if the older opset takes its types."""
    fallback.check_types(node, edit)
    edit.keep(node)


def _shape_15_14(node: NodeProto, edit: Editor) -> None:
    start, end = _attribute(node, "start", 0), _attribute(node, "end", None)
    whole = remade(node, node.input[:1], {"start", "end"})
    if start == 0 and end is None:
        return edit.keep(whole)
    edit.note("start and end become a Slice behind it")
    whole.output[0] = edit.new_name("shape")
    edit.value_info.types[whole.output[0]] = Value(whole.output[0], "int64", (None,))
    edit.keep(whole)
    last = np.iinfo(np.int64).max if end is None else end
    bounds = [edit.constant(np.array([bound], np.int64), "bound") for bound in (start, last)]
    edit.add("Slice", [whole.output[0], *bounds], output=node.output[0])
    return None


def _pad_19_18(node: NodeProto, edit: Editor) -> None:
    if _attribute(node, "mode", b"constant") == b"wrap":
        raise NoExactForm("Pad does not wrap before opset 19")
    _same(node, edit)


def _pad_18_17(node: NodeProto, edit: Editor) -> None:
    """Pads along some axes become pads along all; those of the other axes are 0."""
    if len(node.input) < 4 or not node.input[3]:
        return edit.keep(remade(node, node.input[:3]))
    axes = _axes(_constant(node, 3, edit), node.input[0], edit)
    shape = edit.value_info.value(node.input[0]).shape
    if shape is None:
        raise NoExactForm(f"pads for all dims take the rank of {node.input[0]!r}, which is not known")
    given = _constant(node, 1, edit)
    pads = np.zeros((2, len(shape)), np.int64)
    pads[:, axes] = given.reshape(2, -1)
    edit.note("pads along some axes become pads along all")
    new = remade(node, node.input[:3])
    new.input[1] = edit.constant(pads.reshape(-1), "pads")
    return edit.keep(new)


def _pad_11_10(node: NodeProto, edit: Editor) -> None:
    pads = [int(pad) for pad in _constant(node, 1, edit)]
    value = float(_constant(node, 2, edit, np.zeros((), np.float32)).reshape(-1)[0])
    if value != np.float32(value):
        raise NoExactForm("before opset 11 Pad has its value as a float32, which does not hold it")
    _same(remade(node, node.input[:1], pads=pads, value=value), edit)


def _split_18_17(node: NodeProto, edit: Editor) -> None:
    """Equal parts, the last one shorter, get their sizes."""
    if len(node.input) > 1 and node.input[1]:
        return edit.keep(node)
    new = remade(node, node.input[:1], {"num_outputs"})
    (axis,) = _axes(np.array([_attribute(node, "axis", 0)]), node.input[0], edit)
    shape = edit.value_info.value(node.input[0]).shape
    size = None if shape is None else shape[axis]
    if not isinstance(size, int):
        raise NoExactForm("before opset 18 the sizes of its parts are given, and the dim's size is not known")
    parts = len(node.output)
    chunk = -(-size // parts)
    sizes = [min(chunk, max(size - chunk * part, 0)) for part in range(parts)]
    new.input.append(edit.constant(np.array(sizes, np.int64), "split"))
    return edit.keep(new)


def _squeeze_11_10(node: NodeProto, edit: Editor) -> None:
    """Squeeze, Unsqueeze and reductions count all axes from the first dim."""
    axes = _attribute(node, "axes", None)
    if not axes:
        return edit.keep(node)
    counted = node.output[0] if node.op_type == "Unsqueeze" else node.input[0]
    new = remade(node, node.input[:1], axes=_axes(np.array(axes), counted, edit))
    return _same(new, edit)


def _axis_11_10(node: NodeProto, edit: Editor) -> None:
    new, axis = node, _attribute(node, "axis", None)
    if axis is not None:
        (axis,) = _axes(np.array([axis]), node.input[0], edit)
        new = remade(node, axis=axis)
    _same(new, edit)


def _gather_11_10(node: NodeProto, edit: Editor) -> None:
    """An index does not count from the end before opset 11."""
    indices = edit.value_info.array(node.input[1])
    if indices is None:
        raise NoExactForm("before opset 11 Gather takes no negative index, and these are not constants")
    new = remade(node)
    if (indices < 0).any():
        (axis,) = _axes(np.array([_attribute(node, "axis", 0)]), node.input[0], edit)
        shape = edit.value_info.value(node.input[0]).shape
        size = None if shape is None else shape[axis]
        if not isinstance(size, int):
            raise NoExactForm(
                "before opset 11 Gather takes no negative index, and the dim's size is not known"
            )
        new.input[1] = edit.constant(np.where(indices < 0, indices + size, indices), "indices")
    _axis_11_10(new, edit)


def _reshape_14_13(node: NodeProto, edit: Editor) -> None:
    """With allowzero, a 0 in the shape is a size; without it, a 0 copies a dim of X."""
    if _attribute(node, "allowzero", 0):
        asked = edit.value_info.array(node.input[1])
        if asked is not None and (asked == 0).any():
            raise NoExactForm("its attribute allowzero came with opset 14, and its shape holds a 0")
        x, y = (edit.value_info.value(name).shape for name in (node.input[0], node.output[0]))
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


def _slice_11_10(node: NodeProto, edit: Editor) -> None:
    """Axes count from the first dim, steps go forward."""
    if (_constant(node, 4, edit, np.ones(1, np.int64)) < 1).any():
        raise NoExactForm("before opset 11 Slice goes forward only")
    new = remade(node)
    if len(node.input) > 3 and node.input[3]:
        given = _constant(node, 3, edit)
        new.input[3] = edit.constant(np.array(_axes(given, node.input[0], edit), given.dtype), "axes")
    _same(new, edit)


def _slice_10_9(node: NodeProto, edit: Editor) -> None:
    starts, ends = (_constant(node, index, edit) for index in (1, 2))
    axes = _constant(node, 3, edit, np.arange(starts.size))
    if (_constant(node, 4, edit, np.ones(1, np.int64)) != 1).any():
        raise NoExactForm("Slice has no steps before opset 10")
    lists: dict[str, Any] = {
        name: [int(v) for v in array] for name, array in (("starts", starts), ("ends", ends), ("axes", axes))
    }
    _same(remade(node, node.input[:1], **lists), edit)


def _clip_11_10(node: NodeProto, edit: Editor) -> None:
    """An absent bound becomes the type's greatest number, because the older default is float32's."""
    kind = edit.value_info.value(node.input[0]).type
    if kind not in ("float16", "float32", "float64"):
        raise NoExactForm(f"Clip takes no {kind or 'type that is not known'} before opset 11")
    limits = np.finfo(kind)
    least, greatest = (
        float(_constant(node, index, edit, np.asarray(default)).reshape(-1)[0])
        for index, default in ((1, limits.min), (2, limits.max))
    )
    if any(
        abs(bound) > np.finfo(np.float32).max or bound != np.float32(bound) for bound in (least, greatest)
    ):
        raise NoExactForm("before opset 11 Clip has its bounds as float32, which does not hold them")
    _same(remade(node, node.input[:1], min=least, max=greatest), edit)


def _quantize_13_12(node: NodeProto, edit: Editor) -> None:
    """One scale for all: a scale along an axis came with opset 13."""
    if edit.value_info.value(node.input[1]).shape != ():
        raise NoExactForm(
            f"before opset 13 {node.op_type} has one scale for all, and its own may be along an axis"
        )
    _same(remade(node, None, {"axis"}), edit)


def _reduce(node: NodeProto, edit: Editor) -> None:
    """Without noop_with_empty_axes, where that is 0 or there are axes."""
    if _attribute(node, "noop_with_empty_axes", 0) and not _constant(node, 1, edit, np.zeros(0)).size:
        raise NoExactForm(f"its noop_with_empty_axes came with opset {edit.opset + 1}, and it has no axes")
    new = remade(node, None, {"noop_with_empty_axes"})
    if not fallback.stays(new, edit.opset + 1, edit):
        fallback.through_onnx(new, edit.opset + 1, edit)


def _softmax_13_12(node: NodeProto, edit: Editor) -> None:
    """It applies to one axis; in older opsets, to all dims from that axis on."""
    axis, x = _attribute(node, "axis", -1), edit.value_info.value(node.input[0])
    if axis != -1 and not x.shape:
        raise NoExactForm(
            f"before opset 13 {node.op_type} goes along all dims from its axis on, and the rank is not known"
        )
    rank = len(x.shape or ())
    if axis == -1 or axis % rank == rank - 1:
        return _same(remade(node, node.input[:1], axis=axis), edit)
    edit.note(
        f"X's dims {axis % rank} and {rank - 1} are exchanged around it, for it goes along the last one"
    )
    fallback.check_types(node, edit)
    return _exchanged(remade(node, node.input[:1], axis=-1), axis % rank, rank - 1, edit)


def _batch_normalization_14_13(node: NodeProto, edit: Editor) -> None:
    """Outside of training it has one output, and its meaning is the same."""
    if _attribute(node, "training_mode", 0) or any(node.output[1:]):
        raise NoExactForm("before opset 14 BatchNormalization has no training_mode")
    new = remade(node, None, {"training_mode"})
    del new.output[1:]
    _same(new, edit)


def _grid_sample_20_19(node: NodeProto, edit: Editor) -> None:
    """Two of its modes have other names, and it takes images only."""
    shape = edit.value_info.value(node.input[0]).shape
    if shape is None or len(shape) != 4:
        raise NoExactForm("before opset 20 GridSample takes inputs of rank 4 only")
    mode = _attribute(node, "mode", b"linear")
    renamed = {b"linear": b"bilinear", b"cubic": b"bicubic"}.get(mode, mode)
    _same(remade(node, mode=renamed), edit)


def _roi_align_16_15(node: NodeProto, edit: Editor) -> None:
    if _attribute(node, "coordinate_transformation_mode", b"half_pixel") != b"output_half_pixel":
        raise NoExactForm("before opset 16 RoiAlign has output_half_pixel as its only mode")
    _same(remade(node, None, {"coordinate_transformation_mode"}), edit)


def _gemm_11_10(node: NodeProto, edit: Editor) -> None:
    """C is required there. Adding -0 leaves every number unchanged."""
    new = node
    if len(node.input) < 3 or not node.input[2]:
        kind = edit.type_of(node.input[0])
        new = remade(node, node.input[:2], beta=1.0)
        new.input.append(edit.constant(np.full(1, -0.0, kind), "zero"))
    _same(new, edit)


def _dropout_12_11(node: NodeProto, edit: Editor) -> None:
    if _constant(node, 2, edit, np.zeros(1)).any():
        raise NoExactForm("before opset 12 a model says from outside whether Dropout trains")
    ratio = float(_constant(node, 1, edit, np.array(0.5)).reshape(-1)[0])
    _same(remade(node, node.input[:1], {"seed"}, ratio=ratio), edit)


def _depth_to_space_11_10(node: NodeProto, edit: Editor) -> None:
    """It has only the mode DCR: for CRD the channels are reordered first."""
    new = remade(node, node.input[:1], {"mode"})
    if _attribute(node, "mode", b"DCR") == b"CRD":
        x = edit.value_info.value(node.input[0])
        channels, block = (x.shape or (None, None))[1], _attribute(node, "blocksize", 1)
        if not isinstance(channels, int):
            raise NoExactForm(
                "before opset 11 DepthToSpace has no mode CRD, and the number of channels is not known"
            )
        order = np.arange(channels).reshape(-1, block * block).T.reshape(-1)
        edit.note("its mode CRD becomes another order of X's channels")
        new.input[0] = edit.add("Gather", [node.input[0], edit.constant(order, "order")], x, axis=1)
    _same(new, edit)


def _resize_13_12(node: NodeProto, edit: Editor) -> None:
    """An absent input becomes an empty one."""
    new = remade(node)
    new.input.extend([""] * (3 - len(node.input)))
    for index in (1, 2):
        new.input[index] = new.input[index] or edit.constant(np.zeros(0, np.float32), "none")
    _same(new, edit)


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
            raise NoExactForm(f"before opset 11 Resize has no {name} {given.decode()}, only {only.decode()}")
    if mode == b"cubic":
        raise NoExactForm("before opset 11 Resize has no mode cubic")
    scales = node.input[2]
    if len(node.input) > 3 and node.input[3]:
        sizes, shape = _constant(node, 3, edit), edit.value_info.value(node.input[0]).shape
        dims = [dim for dim in shape or () if isinstance(dim, int) and dim]
        if len(dims) < len(sizes) or (sizes % dims).any():
            raise NoExactForm(
                "before opset 11 Resize goes by scales, and its sizes are not multiples of X's dims"
            )
        scales = edit.constant((sizes // dims).astype(np.float32), "scales")
    new = remade(node, node.input[:1], {*said, "cubic_coeff_a", "exclude_outside", "extrapolation_value"})
    new.input.append(scales)
    _same(new, edit)


def _resize_10_9(node: NodeProto, edit: Editor) -> None:
    """Upsample is equivalent for scales of at least 1."""
    if (_constant(node, 1, edit) < 1).any():
        raise NoExactForm("before opset 10 Resize does not exist, and Upsample makes nothing smaller")
    new = remade(node, node.input[:2])
    new.op_type = "Upsample"
    edit.note("becomes Upsample")
    _same(new, edit)


def _topk_11_10(node: NodeProto, edit: Editor) -> None:
    if not _attribute(node, "largest", 1):
        raise NoExactForm("before opset 11 TopK takes the largest only")
    _axis_11_10(remade(node, node.input[:2], {"largest", "sorted"}), edit)


def _topk_10_9(node: NodeProto, edit: Editor) -> None:
    _same(remade(node, node.input[:1], k=int(_constant(node, 1, edit).reshape(-1)[0])), edit)


def _steps() -> Iterator[tuple[tuple[str, int, int], Step]]:
    yield ("Shape", 15, 14), _shape_15_14
    yield ("Reshape", 14, 13), _reshape_14_13
    yield ("Pad", 19, 18), _pad_19_18
    yield ("Pad", 18, 17), _pad_18_17
    yield ("Pad", 11, 10), _pad_11_10
    yield ("Split", 18, 17), _split_18_17
    yield ("ReduceSum", 13, 12), _reduce
    for name in _REDUCTIONS:
        yield (f"Reduce{name}", 18, 17), _reduce
    for name in ("Squeeze", "Unsqueeze"):
        yield (name, 11, 10), _squeeze_11_10
    for name in ("ArgMax", "ArgMin", "Concat", "Compress", "Flatten", "Split", *_SOFTMAXES):
        yield (name, 11, 10), _axis_11_10
    for name in (*_REDUCTIONS, "Sum"):
        yield (f"Reduce{name}", 11, 10), _squeeze_11_10
    for name in _SOFTMAXES:
        yield (name, 13, 12), _softmax_13_12
    yield ("Gather", 11, 10), _gather_11_10
    yield ("Slice", 11, 10), _slice_11_10
    yield ("Slice", 10, 9), _slice_10_9
    yield ("Clip", 11, 10), _clip_11_10
    for name in ("QuantizeLinear", "DequantizeLinear"):
        yield (name, 13, 12), _quantize_13_12
        for opset in (21, 19):
            yield (name, opset, opset - 1), _same
    for name, opset in (("AveragePool", 10), ("Loop", 13), ("Loop", 16), ("MaxPool", 10), ("Pad", 13)):
        yield (name, opset, opset - 1), _same
    yield ("BatchNormalization", 14, 13), _batch_normalization_14_13
    yield ("GridSample", 20, 19), _grid_sample_20_19
    yield ("RoiAlign", 16, 15), _roi_align_16_15
    yield ("Resize", 13, 12), _resize_13_12
    yield ("Resize", 11, 10), _resize_11_10
    yield ("Resize", 10, 9), _resize_10_9
    yield ("Dropout", 12, 11), _dropout_12_11
    yield ("Gemm", 11, 10), _gemm_11_10
    yield ("DepthToSpace", 11, 10), _depth_to_space_11_10
    yield ("TopK", 11, 10), _topk_11_10
    yield ("TopK", 10, 9), _topk_10_9


STEPS: Mapping[tuple[str, int, int], Step] = {
    **{(name, 6, 7): to_numpy for name in BROADCASTING},
    **{(name, 7, 6): to_legacy for name in BROADCASTING},
    **{("Pow", before, after): _as_it_is for before, after in ((11, 12), (12, 13), (14, 15))},
    ("Pow", 15, 14): _pow_15_14,
    ("Pow", 13, 12): _pow_13_12,
    ("Pow", 12, 11): _pow_12_11,
    **{("PRelu", before, after): _as_it_is for before, after in ((6, 5), (8, 9), (15, 16))},
    ("PRelu", 5, 6): _drop_consumed,
    ("PRelu", 6, 7): _prelu_6_7,
    ("PRelu", 7, 6): _prelu_7_6,
    ("PRelu", 9, 8): _prelu_9_8,
    ("PRelu", 16, 15): _prelu_16_15,
    ("Cast", 5, 6): _cast,
    ("Cast", 6, 5): _cast,
    ("Hardmax", 12, 13): _hardmax_12_13,
    ("Constant", 12, 11): _constant_12_11,
    ("Constant", 9, 8): _constant_9_8,
    **dict(_steps()),
}
"""The steps by operator, the node's version, and the version that it is converted to."""
