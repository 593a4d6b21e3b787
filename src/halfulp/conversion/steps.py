"""Operators from one opset to the next: Pow, PRelu, and others that the onnx package's converter lacks or gets wrong.

A step is named by the operator and the versions on both sides, as ``("Pow", 7, 6)``. It returns the node in the form of
the opset on the other side, or adds other nodes that compute the same, or raises NoExactForm.
"""

from collections.abc import Callable, Container
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto

from halfulp.conversion import spellings
from halfulp.conversion.editor import Editor, NoExactForm, exactly_as, from_legacy, remade, settle, to_legacy
from halfulp.conversion.rules import apply_first
from halfulp.models.graph import Value
from halfulp.models.onnx.infer import held_tensor
from halfulp.models.onnx.walk import attributes_of
from halfulp.types import format_shape

Step = Callable[[NodeProto, Editor], NodeProto | None]

_BROADCASTING = ("Pow", "Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Equal", "Less", "Greater")
"""The operators that had ``axis`` and ``broadcast`` before opset 7."""

_SOFTMAXES = ("Softmax", "LogSoftmax", "Hardmax")
_FLOATS = ("float16", "float32", "float64")
_KINDS = TensorProto.DataType
_TWICE = "a power in a wider type would be rounded twice"

STEPS: dict[tuple[str, int, int], Step] = {
    ("PRelu", 5, 6): lambda node, edit: remade(node, drop={"consumed_inputs"}),
    # The result type is a name until opset 5, and a number from opset 6 on.
    ("Cast", 5, 6): lambda node, edit: remade(node, to=_KINDS.Value(attributes_of(node)["to"].decode())),
    ("Cast", 6, 5): lambda node, edit: remade(node, to=_KINDS.Name(attributes_of(node)["to"])),
}
"""The steps by operator, the node's version, and the version that it is converted to."""


def _attribute(node: NodeProto, name: str, default: Any) -> Any:
    return attributes_of(node).get(name, default)


def step(before: int, after: int, *operators: str) -> Callable[[Step], Step]:
    """Make a function the step of operators from one version to another one."""

    def register(function: Step) -> Step:
        STEPS.update({(operator, before, after): function for operator in operators})
        return function

    return register


@step(6, 7, *_BROADCASTING)
def _to_numpy(node: NodeProto, edit: Editor) -> NodeProto | None:
    """Return the node in the form of opset 7, with Y unsqueezed to the dims that ``axis`` gives."""
    attributes = {a.name: a.i for a in node.attribute if a.name in ("axis", "broadcast")}
    y = from_legacy(node, attributes, edit)
    if y != node.input[1]:
        edit.note(f"Y is unsqueezed to {edit.value(y)}, where axis={attributes['axis']} puts it")
    return remade(node, [node.input[0], y], attributes)


@step(7, 6, *_BROADCASTING)
def _to_legacy(node: NodeProto, edit: Editor) -> NodeProto | None:
    """Return the node in the form of opset 6: shapes equal, or Y a contiguous run of X's dims."""
    x, y, attributes = to_legacy(node.input[0], node.input[1], edit)
    if attributes:
        edit.note("broadcasts by " + " ".join(f"{name}={value}" for name, value in attributes.items()))
    return remade(node, [x, y], **attributes)


@step(20, 21, "GroupNormalization")
@step(21, 20, "GroupNormalization")
def _group_normalization(node: NodeProto, edit: Editor) -> NodeProto | None:
    """Before opset 21, the scale and the bias have a number for each group, and then for each channel."""
    shape, groups = edit.value(node.input[0]).shape or (), _attribute(node, "num_groups", 0)
    channels = shape[1] if len(shape) > 1 else None
    numbers = [array for name in node.input[1:] if (array := edit.array(name)) is not None]
    is_known = isinstance(channels, int) and len(numbers) == len(node.input) - 1
    if edit.opset < 21 or not is_known or groups < 1 or channels % groups:
        raise NoExactForm("GroupNormalization has a scale per channel since opset 21, per group before")
    edit.note("its numbers of groups are written for each channel")
    repeated = (np.repeat(each, channels // groups) for each in numbers)
    return remade(node, [node.input[0], *(edit.constant(each, "of_channels") for each in repeated)])


# --- Pow ------------------------------------------------------------------------------------------


@step(15, 14, "Pow")
def _pow_15_14(node: NodeProto, edit: Editor) -> NodeProto | None:
    """An exponent in bfloat16 becomes one in float32, which holds its every value."""
    if edit.type_of(node.input[1]) != "bfloat16":
        return node
    new = remade(node)
    settle(new, ["float32"], edit, "Pow takes no bfloat16 before opset 15")
    return new


@step(13, 12, "Pow")
def _pow_13_12(node: NodeProto, edit: Editor) -> NodeProto | None:
    if edit.type_of(node.input[0]) == "bfloat16":
        raise NoExactForm(f"Pow has no bfloat16 before opset 13, and {_TWICE}")
    return node


@step(12, 11, "Pow")
def _pow_12_11(node: NodeProto, edit: Editor) -> NodeProto | None:
    """Base and exponent get one type."""
    x, y = edit.type_of(node.input[0]), edit.type_of(node.input[1])
    if x not in _FLOATS:
        if not apply_first(spellings.POW_OF_INTEGERS, node, edit):
            raise NoExactForm(
                f"Pow takes no {x} as base before opset 12; a constant exponent alone, an integer from 1 to"
                f" {spellings.MOST_OF_INTEGERS}, can be said otherwise, as a product"
            )
        return None
    if x == y:
        return node
    new = remade(node)
    if settle(new, [x], edit):
        return new
    lacks = f"every {y}; {_TWICE}" if edit.tensor(node.input[1]) is None else "the constant's value"
    if (x, y) == ("float32", "float64"):
        lacks += "; --target openvino casts it, rounded"
    raise _before(edit, f"the exponent has the base's type, and {x} does not hold {lacks}")


# --- PRelu ----------------------------------------------------------------------------------------


@step(6, 7, "PRelu")
def _prelu_6_7(node: NodeProto, edit: Editor) -> NodeProto | None:
    """The slope gets the shape that NumPy's rules broadcast along the channels."""
    x, name = edit.value(node.input[0]), node.input[1]
    slope = edit.shape_of(name, "a slope is per channel or not by its rank, which is not known")
    if {*slope} <= {1}:
        if len(slope) > len(x.shape or ()):
            name = edit.squeeze(name, range(len(slope)))
    elif len(slope) == 1:
        shape = edit.shape_of(node.input[0], "a slope per channel needs the rank of X, which is not known")
        name = edit.unsqueeze(name, range(1, len(shape) - 1))
    if name != node.input[1]:
        shaped = format_shape(edit.value(name).shape)
        edit.note(f"the slope, of shape {format_shape(slope)}, gets the shape {shaped}")
    return remade(node, [node.input[0], name])


@step(7, 6, "PRelu")
def _prelu_7_6(node: NodeProto, edit: Editor) -> NodeProto | None:
    """The slope becomes one element, or one per channel. If necessary, X is transposed for it."""
    why = "the form of a slope in opset 6 depends on {}, which is not known"
    slope = edit.shape_of(node.input[1], why.format("its shape"))
    if {*slope} <= {1}:
        return node
    x = edit.shape_of(node.input[0], why.format("the rank of X"))
    lead = len(x) - len(slope)
    varied = [lead + axis for axis, dim in enumerate(slope) if dim != 1]
    if len(varied) > 1:
        is_open = "the document of PRelu-6 leaves slopes of rank 2 and more open"
        differs = f"{is_open}; here they are broadcast as in 7"
        edit.note(f"the slope of shape {format_shape(slope)} stays", differs)
        return node
    flat = edit.squeeze(node.input[1], sorted({*range(len(slope))} - {varied[0] - lead}))
    if varied == [1]:
        if flat != node.input[1]:
            edit.note(f"the slope, of shape {format_shape(slope)}, becomes one of rank 1: per channel")
        return remade(node, [node.input[0], flat])
    if len(x) == 1:
        edit.note("X gets a dim of 1, so that its own dim is the channels'")
        row = edit.unsqueeze(node.input[0], [0])
        prelu = remade(node, [row, flat])
        prelu.output[0] = edit.new_name("prelu", edit.value(row))
        edit.keep(prelu)
        edit.squeeze(prelu.output[0], [0], output=node.output[0])
        return None
    why = "the slope is per channel in opset 6"
    return _exchanged(remade(node, [node.input[0], flat]), 1, varied[0], why, edit)


def _exchanged(node: NodeProto, a: int, b: int, why: str, edit: Editor) -> NodeProto | None:
    """Add a node between two Transposes that exchange two dims of X."""
    edit.note(f"X's dims {a} and {b} are exchanged around it, for {why}")
    shape = edit.shape_of(node.input[0], "")
    order = [*range(len(shape))]
    order[a], order[b] = b, a
    turned = Value("", edit.value(node.input[0]).type, tuple(shape[axis] for axis in order))
    node.input[0] = edit.add("Transpose", [node.input[0]], turned, perm=order)
    output, node.output[0] = node.output[0], edit.new_name("turned", turned)
    edit.keep(node)
    edit.add("Transpose", [node.output[0]], Value(output), perm=order)
    return None


@step(9, 8, "PRelu")
def _prelu_9_8(node: NodeProto, edit: Editor) -> NodeProto | None:
    is_int = edit.type_of(node.input[0]) not in _FLOATS
    return None if is_int and apply_first(spellings.PRELU_BEFORE_9, node, edit) else node


@step(16, 15, "PRelu")
def _prelu_16_15(node: NodeProto, edit: Editor) -> NodeProto | None:
    """In bfloat16: through float64, which holds every product of two bfloat16 exactly."""
    kind = edit.type_of(node.input[0])
    if kind != "bfloat16":
        if kind not in ("float32", "float16"):
            why = f"a runtime without a kernel for {kind}, such as ONNX Runtime, has no function body of PRelu there"
            edit.note(f"{why}; --target onnxruntime writes it in operators that it has", is_notice=True)
        return node
    differs = "a NaN in X comes out as a NaN, but its payload may not"
    edit.note("PRelu takes no bfloat16 before opset 16: cast to float64 and back, rounded once", differs)
    wide = remade(node, [edit.cast(name, "float64") for name in node.input])
    edit.keep_cast(wide, "float64", "bfloat16")
    return None


# --- the others ----------------------------------------------------------------------------------


@step(12, 11, "Constant")
def _constant_12_11(node: NodeProto, edit: Editor) -> NodeProto | None:
    """A number or a list of them becomes a tensor."""
    tensor = held_tensor(node)
    return node if tensor is None else remade(node, drop=attributes_of(node), value=tensor)


def _constants(node: NodeProto, edit: Editor, *names: str, numbers: Container[str] = ()) -> dict[str, Any]:
    """Return by these names a node's inputs after the first one, which are attributes in the other opset.

    Those of ``numbers`` are floats, the others lists.
    """
    held: dict[str, Any] = {}
    for name, given in zip(names, node.input[1:], strict=False):
        array, most = edit.array(given), 1 if name in numbers else np.inf
        if given and (array is None or not 0 < array.size <= most or array.dtype.kind == "O"):
            raise _before(edit, f"{node.op_type} says {given!r} in an attribute, and it is not a constant")
        if array is not None:
            held[name] = float(array.item()) if name in numbers else array.ravel().tolist()
    return held


def _before(edit: Editor, lacks: str) -> NoExactForm:
    return NoExactForm(f"before opset {edit.opset + 1} {lacks}")


@step(15, 14, "Shape")
def _shape_15_14(node: NodeProto, edit: Editor) -> NodeProto | None:
    start, end = _attribute(node, "start", 0), _attribute(node, "end", None)
    whole = remade(node, drop={"start", "end"})
    if start == 0 and end is None:
        return whole
    edit.note("start and end become a Slice behind it")
    whole.output[0] = edit.new_name("shape", Value("", "int64", (None,)))
    edit.keep(whole)
    last = np.iinfo(np.int64).max if end is None else end
    bounds = [edit.constant(np.array([bound], np.int64), "bound") for bound in (start, last)]
    edit.add("Slice", [whole.output[0], *bounds], Value(node.output[0]))
    return None


@step(14, 13, "Reshape")
def _reshape_14_13(node: NodeProto, edit: Editor) -> NodeProto | None:
    """With allowzero, which torch writes everywhere, a 0 in the shape is a size; without it, a 0 copies a dim of X."""
    asked, x = edit.array(node.input[1]), edit.value(node.input[0]).shape
    if _attribute(node, "allowzero", 0):
        if asked is not None and 0 in asked:
            raise NoExactForm("its attribute allowzero came with opset 14, and its shape holds a 0")
        if asked is None and not all(isinstance(n, int) and n for n in x or [0]):
            edit.note("loses allowzero, which came with opset 14", "an X without elements may get other dims")
    return remade(node, None, {"allowzero"})


@step(18, 17, "Split")
def _split_18_17(node: NodeProto, edit: Editor) -> NodeProto | None:
    """Equal parts, the last one shorter, get their sizes."""
    if any(node.input[1:]):
        return node
    shape, axis = edit.value(node.input[0]).shape or (), _attribute(node, "axis", 0)
    size = next(iter(shape[axis:]), None)
    if not isinstance(size, int):
        raise _before(edit, "the sizes of Split's parts are given, and the dim's size is not known")
    chunk = -(-size // len(node.output))
    sizes = [min(chunk, max(size - chunk * part, 0)) for part in range(len(node.output))]
    split = edit.constant(np.array(sizes, np.int64), "split")
    return remade(node, [node.input[0], split], {"num_outputs"})


@step(11, 10, "Gather", "Slice", "Split", "Squeeze")
def _indices_11_10(node: NodeProto, edit: Editor) -> NodeProto | None:
    """They stay where no index counts from the last one. Attributes with axes count from the first one already."""
    place = {"Gather": 1, "Slice": 3}.get(node.op_type, len(node.input))
    for name in filter(None, node.input[place : place + 1]):
        indices = edit.array(name)
        if indices is None or indices.dtype.kind not in "iu" or (indices < 0).any():
            raise _before(edit, f"{node.op_type} counts from the first one only, and {name!r} may be below 0")
    return node


@step(11, 10, "Pad")
def _pad_11_10(node: NodeProto, edit: Editor) -> NodeProto | None:
    constants = _constants(node, edit, "pads", "value", numbers={"value"})
    return remade(node, node.input[:1], **{**constants, "value": constants.get("value", 0.0)})


@step(10, 9, "Slice")
def _slice_10_9(node: NodeProto, edit: Editor) -> NodeProto | None:
    constants = _constants(node, edit, "starts", "ends", "axes", "steps")
    if {*constants.pop("steps", [1])} != {1}:
        raise _before(edit, "Slice has no steps")
    return remade(node, node.input[:1], **constants)


@step(10, 11, "Resize")
def _resize_10_11(node: NodeProto, edit: Editor) -> NodeProto | None:
    """A coordinate is divided by the scale, which is not the default any more, as the onnx package has it."""
    said = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    roi = edit.constant(np.zeros(0, np.float32), "roi")
    return remade(node, [node.input[0], roi, node.input[1]], **said)


@step(13, 12, "Resize")
def _resize_13_12(node: NodeProto, edit: Editor) -> NodeProto | None:
    """An absent input becomes an empty one."""
    new = remade(node, [*node.input, "", ""][: max(3, len(node.input))])
    for index in (1, 2):
        new.input[index] = new.input[index] or edit.constant(np.zeros(0, np.float32), "none")
    return new


@step(11, 10, "Clip")
def _clip_11_10(node: NodeProto, edit: Editor) -> NodeProto | None:
    """Bounds become attributes. An absent one becomes the type's greatest number, as the older default is float32's."""
    kind = edit.type_of(node.input[0])
    if kind not in _FLOATS:
        raise NoExactForm(f"Clip takes no {kind} before opset 11")
    bounds = {"min": float(np.finfo(kind).min), "max": float(np.finfo(kind).max)}
    bounds |= _constants(node, edit, *bounds, numbers=bounds)
    if exactly_as(np.array([*bounds.values()]), "float32") is None:
        raise _before(edit, "Clip has its bounds as float32, which does not hold them")
    return remade(node, node.input[:1], (), **bounds)


@step(20, 19, "GridSample")
def _grid_sample_20_19(node: NodeProto, edit: Editor) -> NodeProto | None:
    """Two of its modes have other names, and it takes images only."""
    if len(edit.value(node.input[0]).shape or ()) != 4:
        raise _before(edit, "GridSample takes inputs of rank 4 only")
    mode = _attribute(node, "mode", b"linear")
    return remade(node, mode={b"linear": b"bilinear", b"cubic": b"bicubic"}.get(mode, mode))


@step(13, 12, "QuantizeLinear", "DequantizeLinear")
def _quantize_13_12(node: NodeProto, edit: Editor) -> NodeProto | None:
    """One scale for all: a scale along an axis came with opset 13."""
    if edit.value(node.input[1]).shape != ():
        raise _before(edit, f"{node.op_type} has one scale for all, and its own may be along an axis")
    return remade(node, None, {"axis"})


@step(12, 13, "Hardmax")
def _hardmax_12_13(node: NodeProto, edit: Editor) -> NodeProto | None:
    """Until opset 12 it applies to all dims from its axis on, which the onnx package's converter ignores."""
    axis, rank = _attribute(node, "axis", 1), len(edit.value(node.input[0]).shape or ())
    if axis not in (-1, rank - 1):
        raise NoExactForm("since opset 13 Hardmax goes along one dim, not along all from its axis on")
    return remade(node, axis=-1)


@step(13, 12, *_SOFTMAXES)
def _softmax_13_12(node: NodeProto, edit: Editor) -> NodeProto | None:
    """It applies to one axis; in older opsets, to all dims from that axis on."""
    axis, shape = _attribute(node, "axis", -1), edit.value(node.input[0]).shape
    if axis in (-1, len(shape or ()) - 1):
        return remade(node, axis=axis)
    if not shape:
        raise _before(edit, f"{node.op_type} goes along all dims from its axis on, and the rank is not known")
    last = remade(node, node.input[:1], axis=-1)
    return _exchanged(last, axis % len(shape), len(shape) - 1, "it goes along the last one", edit)


@step(8, 9, "BatchNormalization")
def _batch_normalization_8_9(node: NodeProto, edit: Editor) -> NodeProto | None:
    """Its numbers are those of channels. MXNet's exporter writes spatial=0 beside these, too."""
    if not _attribute(node, "spatial", 1) and len(edit.value(node.input[1]).shape or ()) != 1:
        only = "BatchNormalization has numbers of channels only"
        raise NoExactForm(f"since opset 9 {only}, and spatial=0 means others")
    return remade(node, None, {"spatial"})


@step(11, 10, "Gemm")
def _gemm_11_10(node: NodeProto, edit: Editor) -> NodeProto | None:
    """C is required there. Adding -0 leaves every number unchanged."""
    if not any(node.input[2:]):
        zero = edit.constant(np.full(1, -0.0, edit.type_of(node.input[0])), "zero")
        node = remade(node, [*node.input[:2], zero], beta=1.0)
    return node
