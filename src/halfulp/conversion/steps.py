"""Operators from one opset to the next.

Pow and PRelu have steps here, and so have a few others that the onnx package's version converter lacks or gets wrong. A
step is named by the operator and the versions on both sides, as ``("Pow", 7, 6)``. It adds equivalent nodes of the
opset on the other side, or raises NoExactForm.

If the operator's specification differs only in its types, the node is kept unchanged. Any other node is
converted by the onnx package's version converter, alone, in a model of its own: converting a whole model
would lose functions, metadata and everything else that the converter's representation lacks. The last resort
is the operator's function body in the onnx package.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

from halfulp.conversion import powers, prelus
from halfulp.conversion.editor import (
    Editor,
    NoExactForm,
    inherit,
    is_one,
    legacy_form,
    legacy_operand,
    remade,
    settle,
)
from halfulp.conversion.norms import VARIANCES
from halfulp.conversion.rules import apply_first, rewrite
from halfulp.conversion.walk import Walk
from halfulp.errors import printable
from halfulp.models.graph import Value
from halfulp.models.onnx.checks import port_at, ports, schema_in_force
from halfulp.models.onnx.infer import ValueInfo, held_tensor, inferred
from halfulp.models.onnx.inline import inlined, rename
from halfulp.models.onnx.tensors import TensorReader, declaration, declared, enum_of
from halfulp.models.onnx.walk import attributes_of, every_node, plain_domain, subgraphs
from halfulp.specs.tensor import format_shape

Step = Callable[[NodeProto, Editor], None]

_BROADCASTING = ("Pow", "Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Equal", "Less", "Greater")
"""The operators that had ``axis`` and ``broadcast`` before opset 7."""

_SOFTMAXES = ("Softmax", "LogSoftmax", "Hardmax")
_FLOATS = ("float16", "float32", "float64")


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
    new = remade(node)
    settle(new, ["float32"], edit, why="Pow takes no bfloat16 before opset 15")
    return edit.keep(new)


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
        if not apply_first(powers.PRODUCTS, node, edit):
            raise NoExactForm(
                f"Pow takes no {x} as base before opset 12; a constant exponent alone, an integer from 1 to"
                f" {powers.MOST_OF_INTEGERS}, can be said otherwise, as a product"
            )
        return None
    if x == y:
        return edit.keep(node)
    new = remade(node)
    if settle(new, [x], edit):
        return edit.keep(new)
    lacks = f"every {y}; a power in a wider type would be rounded twice"
    if edit.tensor(node.input[1]) is not None:
        lacks = "the constant's value"
    if (x, y) == ("float32", "float64"):
        lacks += "; --target openvino casts it, rounded"
    raise _before(edit, f"the exponent has the base's type, and {x} does not hold {lacks}")


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
    if edit.type_of(node.input[0]) in _FLOATS or not apply_first(prelus.BEFORE_9, node, edit):
        edit.keep(node)


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


# --- the others ----------------------------------------------------------------------------------


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
    if [attribute.name for attribute in node.attribute] in (["value"], ["sparse_value"]):
        return edit.keep(node)
    if (tensor := held_tensor(node)) is None:
        raise _before(edit, "a Constant holds a tensor only, and this one is not a tensor")
    edit.add("Constant", [], output=node.output[0], like=node, value=tensor)
    return None


def _attribute(node: NodeProto, name: str, default: Any) -> Any:
    return attributes_of(node).get(name, default)


def _before(edit: Editor, lacks: str) -> NoExactForm:
    return NoExactForm(f"before opset {edit.opset + 1} {lacks}")


def _same(node: NodeProto, edit: Editor) -> None:
    """Add a node unchanged, if the older opset takes its types."""
    check_types(node, edit)
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


@_step(14, 13, "Reshape")
def _reshape_14_13(node: NodeProto, edit: Editor) -> None:
    """With allowzero, which torch writes everywhere, a 0 in the shape is a size; without it, a 0 copies a dim of X."""
    asked, x = edit.array(node.input[1]), edit.value(node.input[0]).shape
    if _attribute(node, "allowzero", 0) and asked is not None and (asked == 0).any():
        raise NoExactForm("its attribute allowzero came with opset 14, and its shape holds a 0")
    if (
        _attribute(node, "allowzero", 0)
        and asked is None
        and not (x and all(isinstance(n, int) and n for n in x))
    ):
        edit.note("loses allowzero, which came with opset 14", "an X without elements may get other dims")
    _same(remade(node, None, {"allowzero"}), edit)


@_step(18, 17, "Split")
def _split_18_17(node: NodeProto, edit: Editor) -> None:
    """Equal parts, the last one shorter, get their sizes."""
    if len(node.input) > 1 and node.input[1]:
        return edit.keep(node)
    shape, axis = edit.value(node.input[0]).shape or (), _attribute(node, "axis", 0)
    size = shape[axis] if -len(shape) <= axis < len(shape) else None
    if not isinstance(size, int):
        raise _before(edit, "the sizes of Split's parts are given, and the dim's size is not known")
    chunk = -(-size // len(node.output))
    sizes = [min(chunk, max(size - chunk * part, 0)) for part in range(len(node.output))]
    new = remade(node, node.input[:1], {"num_outputs"})
    new.input.append(edit.constant(np.array(sizes, np.int64), "split"))
    return edit.keep(new)


@_step(13, 12, "ReduceSum")
def _reduce_sum_13_12(node: NodeProto, edit: Editor) -> None:
    """Without noop_with_empty_axes, if there are axes."""
    axes = edit.array([*node.input, ""][1])
    drop = {"noop_with_empty_axes"} if axes is not None and axes.size else ()
    new = remade(node, drop=drop)
    if not stays(new, edit.opset + 1, edit):
        through_onnx(new, edit.opset + 1, edit)


@_step(10, 11, "Resize")
def _resize_10_11(node: NodeProto, edit: Editor) -> None:
    """A coordinate is divided by the scale, which is not the default any more, as the onnx package has it."""
    said = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    roi = edit.constant(np.zeros(0, np.float32), "roi")
    edit.keep(remade(node, [node.input[0], roi, node.input[1]], **said))


@_step(13, 12, "Resize")
def _resize_13_12(node: NodeProto, edit: Editor) -> None:
    """An absent input becomes an empty one."""
    new = remade(node, [*node.input, "", ""][: max(3, len(node.input))])
    for index in (1, 2):
        new.input[index] = new.input[index] or edit.constant(np.zeros(0, np.float32), "none")
    _same(new, edit)


@_step(11, 10, "Clip")
def _clip_11_10(node: NodeProto, edit: Editor) -> None:
    """Bounds become attributes. An absent one becomes the type's greatest number, as the older default is float32's."""
    kind = edit.type_of(node.input[0])
    if kind not in _FLOATS:
        raise NoExactForm(f"Clip takes no {kind} before opset 11")
    limits = np.finfo(kind)
    bounds = {"min": float(limits.min), "max": float(limits.max)}
    for place, name in enumerate(node.input[1:]):
        array = edit.array(name) if name else np.array(bounds[("min", "max")[place]])
        if array is None or array.size != 1:
            raise _before(edit, f"Clip says {name!r} in an attribute, and it is not a constant number")
        bounds[("min", "max")[place]] = float(array.reshape(-1)[0])
    if not all(abs(bound) <= np.finfo("f").max and bound == np.float32(bound) for bound in bounds.values()):
        raise _before(edit, "Clip has its bounds as float32, which does not hold them")
    _same(remade(node, node.input[:1], (), **bounds), edit)


@_step(20, 19, "GridSample")
def _grid_sample_20_19(node: NodeProto, edit: Editor) -> None:
    """Two of its modes have other names, and it takes images only."""
    if len(edit.value(node.input[0]).shape or ()) != 4:
        raise _before(edit, "GridSample takes inputs of rank 4 only")
    mode = _attribute(node, "mode", b"linear")
    _same(remade(node, mode={b"linear": b"bilinear", b"cubic": b"bicubic"}.get(mode, mode)), edit)


@_step(13, 12, "QuantizeLinear", "DequantizeLinear")
def _quantize_13_12(node: NodeProto, edit: Editor) -> None:
    """One scale for all: a scale along an axis came with opset 13."""
    if edit.value(node.input[1]).shape != ():
        raise _before(edit, f"{node.op_type} has one scale for all, and its own may be along an axis")
    _same(remade(node, None, {"axis"}), edit)


@_step(12, 13, "Hardmax")
def _hardmax_12_13(node: NodeProto, edit: Editor) -> None:
    """Until opset 12 it applies to all dims from its axis on, which the onnx package's converter ignores."""
    axis, rank = _attribute(node, "axis", 1), len(edit.value(node.input[0]).shape or ())
    if axis not in (-1, rank - 1):
        raise NoExactForm("since opset 13 Hardmax goes along one dim, not along all from its axis on")
    edit.keep(remade(node, axis=-1))


@_step(13, 12, *_SOFTMAXES)
def _softmax_13_12(node: NodeProto, edit: Editor) -> None:
    """It applies to one axis; in older opsets, to all dims from that axis on."""
    axis, x = _attribute(node, "axis", -1), edit.value(node.input[0])
    if axis != -1 and not x.shape:
        raise _before(edit, f"{node.op_type} goes along all dims from its axis on, and the rank is not known")
    rank = len(x.shape or ())
    if axis == -1 or axis % rank == rank - 1:
        return _same(remade(node, axis=axis), edit)
    edit.note(
        f"X's dims {axis % rank} and {rank - 1} are exchanged around it, for it goes along the last one"
    )
    check_types(node, edit)
    return _exchanged(remade(node, node.input[:1], axis=-1), axis % rank, rank - 1, edit)


@_step(8, 9, "BatchNormalization")
def _batch_normalization_8_9(node: NodeProto, edit: Editor) -> None:
    """Its numbers are those of channels. MXNet's exporter writes spatial=0 beside these, too."""
    if not _attribute(node, "spatial", 1) and len(edit.value(node.input[1]).shape or ()) != 1:
        raise NoExactForm(
            "since opset 9 BatchNormalization has numbers of channels only, and spatial=0 means others"
        )
    edit.keep(remade(node, None, {"spatial"}))


@_step(11, 10, "Gemm")
def _gemm_11_10(node: NodeProto, edit: Editor) -> None:
    """C is required there. Adding -0 leaves every number unchanged."""
    if len(node.input) < 3 or not node.input[2]:
        zero = edit.constant(np.full(1, -0.0, edit.type_of(node.input[0])), "zero")
        node = remade(node, [*node.input[:2], zero], beta=1.0)
    _same(node, edit)


# --- unchanged -------------------------------------------------------------------------------------

_MOVERS = ("CastLike", "CenterCropPad", "GreaterOrEqual", "LessOrEqual", "SequenceMap")
"""Operators whose function bodies round nothing, or round as their kernels do."""

_ROUNDS = "a kernel that a runtime has for it may round otherwise"
_OVERFLOWS = f"infinite where Exp(X) is, for X above 88.7 (in float16 above 11), and {_ROUNDS}"
_SMALL = 4096  # the elements of a constant that the converter may want to look at
_IR_VERSION = 8
_CONVERTER: Any = onnx.version_converter.C  # type: ignore[attr-defined]

# Operators whose later specification only adds types, or attributes whose defaults mean the older behaviour,
# and describes the rest more fully, such as crossing bounds or an empty set.
_REWORDED = {
    (name, since)
    for since, names in {
        6: "PRelu",
        9: "PRelu",
        10: "AveragePool MaxPool",
        11: "Loop LpPool MaxUnpool",
        12: "ArgMax ArgMin GatherND Pow",
        13: (
            "Abs ArgMax ArgMin Cast Ceil Clip DepthToSpace Floor Gather GatherElements GatherND Gemm "
            "Loop LRN MeanVarianceNormalization Mod NegativeLogLikelihoodLoss ReduceL1 ReduceL2 "
            "ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare "
            "Pad Pow Slice SoftmaxCrossEntropyLoss"
        ),
        14: "BatchNormalization Reshape",
        15: "BatchNormalization Pow",
        16: "Loop PRelu",
        18: "LpPool",
        19: "DequantizeLinear QuantizeLinear",
        21: "DequantizeLinear QuantizeLinear",
    }.items()
    for name in names.split()
}

_REDUCED = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
_OPTIONAL = {("ReduceSum", 13): 1, ("Squeeze", 13): 1, ("Pad", 18): 3}
_OPTIONAL |= {(f"Reduce{name}", 18): 1 for name in _REDUCED}
"""The number of inputs before the one that a version added: a node without this one is written as before."""

_FLOAT32_HOLDS = {None, "float32", "float16", "bfloat16", "int16", "int8", "uint16", "uint8"}
"""The types whose values, and those not known, a function body may cast to float32."""

_VERSION_NOTE = re.compile(r"\(Opset \d+ change\): Extend supported types[^.]*\.")


def stays(node: NodeProto, opset: int, edit: Editor) -> bool:
    """Add a node unchanged if its operator's specification is the same in ``edit.opset``; tell whether it is."""
    optional = _OPTIONAL.get((node.op_type, opset), 0)
    if edit.opset < opset and optional and not any(node.input[optional:]):
        node = remade(node, node.input[:optional])
    elif not says_the_same(node.op_type, opset, edit.opset):
        return False
    if edit.opset < opset:
        check_types(node, edit)
    edit.keep(node)
    return True


@lru_cache(maxsize=4096)
def changes(op_type: str, opset: int, to: int) -> bool:
    """Tell whether an operator has another version in the next opset. A runtime's own operator has none."""
    old, new = schema_in_force("", op_type, opset), schema_in_force("", op_type, to)
    return old is not None and (new is None or old.since_version != new.since_version)


@lru_cache(maxsize=4096)
def says_the_same(op_type: str, opset: int, to: int) -> bool:
    old, new = (schema_in_force("", op_type, version) for version in (opset, to))
    if old is None or new is None or old.deprecated or new.deprecated:
        return False
    return (op_type, max(opset, to)) in _REWORDED or (
        _signature(op_type, opset) == _signature(op_type, to)
        and _words(old.doc) == _words(new.doc)
        # A description may allow a negative axis, say.
        and all(
            _words(a.description) == _words(new.attributes[name].description)
            for name, a in old.attributes.items()
        )
    )


def trimmed(node: NodeProto, opset: int, to: int) -> NodeProto:
    """Return a node without the attributes that its operator does not have in another opset, if they are defaults."""
    useless = []
    for attribute in node.attribute:
        defaults = _defaults(node.op_type, opset)
        is_gone = attribute.name in defaults and attribute.name not in _defaults(node.op_type, to)
        if is_gone and not attribute.ref_attr_name and _is_default(attribute, defaults[attribute.name]):
            useless.append(attribute.name)
    return remade(node, drop=useless) if useless else node


def _is_default(attribute: AttributeProto, default: object) -> bool:
    value = onnx.helper.get_attribute_value(attribute)
    if default is None and attribute.name == "dilations":  # the schemas say this in words
        return set(value) <= {1}
    return bool(default is not None and value == default)


def check_values(node: NodeProto, opset: int, to: int) -> None:
    """Raise NoExactForm where an attribute has a value that the document of an older opset does not name."""
    newer, older = (schema_in_force("", node.op_type, version) for version in (opset, to))
    for attribute in node.attribute if newer is not None and older is not None and to < opset else ():
        value, name = attribute.s.decode(errors="replace"), attribute.name
        texts = [
            each.attributes[name].description for each in (newer, older) if each and name in each.attributes
        ]
        if value and len(texts) == 2 and value in texts[0] and value not in texts[1]:
            raise NoExactForm(f"{node.op_type} has no {name} {value} before opset {opset}")


def check_attributes(node: NodeProto, opset: int) -> None:
    """Raise NoExactForm where a node has an attribute that its operator does not have in an opset."""
    for attribute in node.attribute:
        if attribute.name not in _defaults(node.op_type, opset) and not plain_domain(node.domain):
            raise NoExactForm(f"{node.op_type} has no attribute {attribute.name} in opset {opset}")


@lru_cache(maxsize=4096)
def _defaults(op_type: str, opset: int) -> Mapping[str, object]:
    """Return the default of each attribute of an operator, None where the schema has none."""
    schema = schema_in_force("", op_type, opset)
    return {
        name: onnx.helper.get_attribute_value(attribute.default_value)
        if attribute.default_value.name
        else None
        for name, attribute in (schema.attributes if schema is not None else {}).items()
    }


@lru_cache(maxsize=4096)
def _signature(op_type: str, opset: int) -> object:
    schema = schema_in_force("", op_type, opset)
    assert schema is not None
    variables = {constraint.type_param_str for constraint in schema.type_constraints}
    order: dict[str, int] = {}  # type variables by position, because their names change

    def port(formal: onnx.defs.OpSchema.FormalParameter) -> object:
        kind = formal.type_str
        place = str(order.setdefault(kind, len(order))) if kind in variables else kind
        return place, formal.option, formal.is_homogeneous, formal.min_arity

    attributes = {
        name: (attribute.type, attribute.required, attribute.default_value.SerializeToString())
        for name, attribute in schema.attributes.items()
    }
    return [*map(port, schema.inputs)], [*map(port, schema.outputs)], attributes


def _words(text: str | None) -> list[str]:
    return _VERSION_NOTE.sub("", text or "").split()


def check_types(node: NodeProto, edit: Editor) -> None:
    """Raise NoExactForm where a node has a type that its operator does not take in ``edit.opset``, below its own."""
    here, newer = ports(node.op_type, edit.opset), ports(node.op_type, edit.opset + 1)
    assert here is not None
    assert newer is not None
    equal: dict[str, set[str | None]] = defaultdict(set)
    for names, formals in ((node.input, here.inputs), (node.output, here.outputs)):
        for index, name in enumerate(names):
            formal = port_at(formals, index)
            if not name or formal.type_str not in here.allowed:
                continue
            allowed, value, spelled = here.allowed[formal.type_str], edit.value(name), None
            alike = [port for port in (*newer.inputs, *newer.outputs) if port.name == formal.name]
            fits = all(allowed >= newer.allowed.get(port.type_str, frozenset()) for port in alike)
            if value.kind not in ("tensor", "undeclared"):
                spelled, fits = f"{value.kind}(...)", any(kind.startswith(value.kind) for kind in allowed)
            elif value.kind == "tensor" and value.type is not None:
                spelled = f"tensor({TensorProto.DataType.Name(enum_of(value.type)).lower()})"
                fits = spelled in allowed
            if formal.is_homogeneous:
                equal[formal.type_str].add(spelled)
            if not fits and spelled is not None:
                raise NoExactForm(f"{node.op_type} takes no {spelled} in opset {edit.opset}")
            if not fits:
                raise NoExactForm(
                    f"{node.op_type} takes fewer types in opset {edit.opset}, and that of {name!r} is not known"
                )
    if _signature(node.op_type, edit.opset) == _signature(node.op_type, edit.opset + 1):
        return
    for kinds in equal.values():
        if len(kinds) > 1:
            told = ", ".join(sorted(kind or "a type that is not known" for kind in kinds))
            raise NoExactForm(f"{node.op_type} takes operands of one type in opset {edit.opset}, not {told}")


# --- through the onnx package ---------------------------------------------------------------------


def through_onnx(node: NodeProto, opset: int, edit: Editor) -> None:
    alone = _model_of(node, opset, edit)
    graph = ModelProto.FromString(_converted(node.op_type, alone.SerializeToString(), edit.opset)).graph
    _splice(graph, node, edit.opset, edit, Editor.keep)
    if made := [new.op_type for new in graph.node if new.op_type not in (node.op_type, "Constant")]:
        edit.note(
            f"by the onnx package's converter, to opset {edit.opset}: {', '.join(made)} beside {node.op_type}"
        )
    elif len(graph.node[0].input) != len(node.input) or _names(graph.node[0]) != _names(node):
        edit.note(f"by the onnx package's converter, from opset {opset} to {edit.opset}")


@lru_cache
def bodies() -> dict[str, list[int]]:
    """Return the opsets from which on the onnx package has function bodies of operators, by their names."""
    found = defaultdict[str, set[int]](set)
    for schema in onnx.defs.get_all_schemas_with_history():
        if not plain_domain(schema.domain):
            each: Any = schema  # the package's stubs lack attributes
            found[each.name].update(
                each.function_opset_versions, each.context_dependent_function_opset_versions
            )
    return {name: sorted(versions) for name, versions in found.items() if versions}


def by_body(node: NodeProto, opset: int, edit: Editor, move: Callable[[Editor, NodeProto], None]) -> bool:
    """Add the onnx package's function body of a node's operator; tell whether there is one.

    ``move`` adds a node of ``opset`` in the form that it has in ``edit.opset``, or raises NoExactForm.
    """
    schema: Any = schema_in_force("", node.op_type, opset)  # the package's stubs lack attributes
    by_types = set(schema.context_dependent_function_opset_versions)
    version = max((v for v in bodies().get(node.op_type, ()) if v <= opset), default=None)
    if version is None:
        return False
    alone = _model_of(node, opset, edit)
    (call,) = alone.graph.node
    defaults = (each.default_value for name, each in schema.attributes.items() if name not in _names(call))
    call.attribute.extend([default for default in defaults if default.name])
    types = (_info(name, name, edit).type if name else TypeProto() for name in node.input)
    kinds = [kind.SerializeToString() for kind in types]
    data = b""
    try:
        if version in by_types:
            data = schema.get_context_dependent_function_with_opset_version(
                version, call.SerializeToString(), kinds
            )
        elif version in schema.function_opset_versions:
            data = schema.get_function_with_opset_version(version)
    except ValueError:  # of types that it does not look at
        return False
    function = FunctionProto.FromString(data)
    if version not in by_types and edit.value(node.input[0]).type not in _FLOAT32_HOLDS:
        for each in function.node:
            for attribute in each.attribute:
                if each.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                    attribute.i = TensorProto.DOUBLE
    x = edit.value(node.input[0]).shape or ()
    flattened = {each.input[0] for each in function.node if each.op_type == "Flatten"}
    for formal, name in zip(function.input[1:], node.input[1:], strict=False):
        shape = edit.value(name).shape or ()
        if formal in flattened and len(shape) > 1 and shape != x[-len(shape) :]:
            raise NoExactForm(f"its function body flattens {name!r}, which broadcasts")
    inner = [each for outer in function.node for _, graph in subgraphs(outer) for each in every_node(graph)]
    if (
        not function.node
        or any(changes(n.op_type, v, v + 1) for n in every_node(function) for v in range(version, opset))
        or any(changes(each.op_type, opset, edit.opset) for each in inner)  # these are not converted
    ):
        return False
    call.domain = function.domain = "halfulp.body"
    function.opset_import[0].version = opset
    alone.opset_import.append(onnx.helper.make_opsetid(call.domain, 1))
    alone.functions.append(function)
    what = f"becomes the function body of {node.op_type}, which came with opset {opset}"
    kinds_inside = {each.op_type for each in function.node}
    overflows = {"Exp", "Log"} <= kinds_inside and "ReduceMax" not in kinds_inside
    differs = _OVERFLOWS if overflows else _ROUNDS
    edit.note(what, None if node.op_type in _MOVERS else differs)
    edit.start(node, None)  # changes to the body's own nodes are not reported
    inner_model = inlined(alone, node.op_type)
    rewrite(Walk(inner_model, node.op_type, None), VARIANCES)
    body = inner_model.graph
    _fold(body, opset)
    _splice(body, node, opset, edit, move)
    return True


def _fold(graph: GraphProto, opset: int) -> None:
    """Store the results of constants and known shapes instead of their nodes, and leave out casts that do nothing.

    Small runtimes lack some of these.
    """
    if any(map(subgraphs, graph.node)):
        return
    types = {info.name: declared(info, "") for info in (*graph.input, *graph.output)}
    types |= _types_of(graph, opset)
    known = ValueInfo(types, TensorReader("", None))
    known.add_constants(graph)
    read = {info.name for info in graph.output}
    made = {name for node in graph.node for name in node.output}
    for node in [each for each in graph.node if each.op_type in ("Cast", "CastLike")]:
        node.CopyFrom(known.as_cast(node))
        kept, gone = node.input[0], node.output[0]
        is_same = known.value(kept).type is not None and known.value(kept).type == known.value(gone).type
        if is_same and (gone not in read or kept in made):
            kept, gone = (gone, kept) if gone in read else (kept, gone)
            graph.node.remove(node)
            for each in graph.node:
                each.input[:] = [kept if name == gone else name for name in each.input]
                each.output[:] = [kept if name == gone else name for name in each.output]
    for node in reversed([*graph.node]):
        held = known.tensor(node.output[0]) if node.op_type != "Constant" and len(node.output) == 1 else None
        if held is not None:
            node.CopyFrom(onnx.helper.make_node("Constant", [], node.output, value=held))
        if read.isdisjoint(node.output):
            graph.node.remove(node)
        else:
            read.update(node.input)


def _splice(
    graph: GraphProto, node: NodeProto, opset: int, edit: Editor, add: Callable[[Editor, NodeProto], None]
) -> None:
    """Add the nodes of the graph of a model of the node alone, under names of the node's graph."""
    original = {f"i{index}": name for index, name in enumerate(node.input) if name}
    original |= {f"o{index}": name for index, name in enumerate(node.output) if name}
    bodies = {a.name: a.g for a in node.attribute if a.type == AttributeProto.GRAPH}
    types = _types_of(graph, opset)
    for tensor in graph.initializer:
        if tensor.name not in original:
            original[tensor.name] = edit.constant_tensor(tensor, "constant")
    kinds = [new.op_type for new in graph.node]
    heir = kinds.index(node.op_type) if node.op_type in kinds else len(kinds) - 1
    for place, new in enumerate(graph.node):
        for name in filter(None, new.output):
            if name not in original:
                original[name] = edit.new_name(new.op_type.lower())
                edit.value_info.types[original[name]] = types.get(name, Value(name))
        new.input[:] = [name and original[name] for name in new.input]
        new.output[:] = [name and original[name] for name in new.output]
        new.ClearField("name")
        if place == heir:
            inherit(new, node)
        for attribute in new.attribute:
            if attribute.name in bodies:
                attribute.g.CopyFrom(bodies[attribute.name])
            elif attribute.type == AttributeProto.GRAPH:
                rename(attribute.g, {**original, "": ""}, edit.new_name("body") + "/")
        add(edit, new)


def _names(node: NodeProto) -> set[str]:
    return {attribute.name for attribute in node.attribute}


def _model_of(node: NodeProto, opset: int, edit: Editor) -> ModelProto:
    """Return a model of the node alone, under names that don't depend on its own."""
    alone = deepcopy(node)
    alone.ClearField("name"), alone.ClearField("doc_string"), alone.ClearField("domain")
    del alone.metadata_props[:]
    graph = GraphProto(name="alone")
    short: dict[str, str] = {}
    for index, name in enumerate(node.input):
        if not name:
            continue
        alone.input[index] = short.setdefault(name, f"i{index}")
        if short[name] != f"i{index}":
            continue
        tensor = edit.tensor(name, or_default=True)
        is_small = tensor is not None and math.prod(tensor.dims) <= _SMALL
        if is_small and (array := edit.array(name, or_default=True)) is not None:
            stored = onnx.numpy_helper.from_array(array, short[name])
            if array.dtype == np.int64:  # older versions of the converter take raw data for no elements
                stored = onnx.helper.make_tensor(short[name], TensorProto.INT64, array.shape, array.ravel())
            graph.initializer.append(stored)
        else:
            graph.input.append(_info(short[name], name, edit))
    for index, name in enumerate(node.output):
        if name:
            alone.output[index] = f"o{index}"
            graph.output.append(_info(f"o{index}", name, edit))
    for attribute in alone.attribute:
        if attribute.type == AttributeProto.GRAPH:
            attribute.g.CopyFrom(GraphProto(name="body"))  # put back afterwards
    graph.node.append(alone)
    return onnx.helper.make_model(
        graph, ir_version=_IR_VERSION, opset_imports=[onnx.helper.make_opsetid("", opset)]
    )


@lru_cache(maxsize=1024)
def _converted(op_type: str, model: bytes, to: int) -> bytes:
    """Return the model in another opset; cached, because setting up the converter takes longer than the conversion."""
    try:
        return bytes(_CONVERTER.convert_version(model, to))
    except (RuntimeError, ValueError, _CONVERTER.ConvertError, onnx.shape_inference.InferenceError) as error:
        text = " ".join(str(error).split())
        has_none = "No Adapter" in text or "No Previous Version" in text
        reason = "" if has_none else f": {printable(text.rpartition('failed: ')[2] or text)}"
        raise NoExactForm(
            f"the onnx package does not convert {op_type} to opset {to}{reason}; the exporter may write it, such as"
            f" torch.onnx.export(..., opset_version={to})"
        ) from None


def _types_of(graph: GraphProto, opset: int) -> dict[str, Value]:
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    return {info.name: declared(info, "") for info in inferred(model).graph.value_info}


def _info(short: str, name: str, edit: Editor) -> onnx.ValueInfoProto:
    value = edit.value(name)
    return declaration(short, value.type if value.kind == "tensor" else None, value.shape)
