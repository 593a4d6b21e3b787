"""Pow and PRelu, and the few others that are ours, from one opset to the next: up and down.

A step is named by the operator and the versions on both sides, as ``("Pow", 7, 6)``. It adds what says
the same in the opset on the other side, or raises NoExactForm. A step that is not listed here is the
onnx package's business (:mod:`halfulp.conversion.fallback`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto

from halfulp.conversion.editor import Editor, NoExactForm, inherit
from halfulp.conversion.operands import BROADCASTING, exactly_as, holds, is_one, products, to_legacy, to_numpy
from halfulp.models.graph import Value
from halfulp.models.onnx.infer import held_tensor

Step = Callable[[NodeProto, Editor], None]

_FLOATS = ("float16", "float32", "float64")
_MOST_PRODUCT = 64  # an integer to a constant power up to this becomes products


def _as_it_is(node: NodeProto, edit: Editor) -> None:
    edit.keep(node)


# --- Pow ------------------------------------------------------------------------------------------


def _pow_15_14(node: NodeProto, edit: Editor) -> None:
    """An exponent in bfloat16 becomes one in float32, which holds its every value."""
    if _type(node, 1, edit) != "bfloat16":
        return edit.keep(node)
    edit.note("the exponent is cast from bfloat16 to float32, exactly: Pow takes no bfloat16 before opset 15")
    return edit.keep(_with_input(node, 1, edit.cast(node.input[1], "float32")))


def _pow_13_12(node: NodeProto, edit: Editor) -> None:
    if _type(node, 0, edit) == "bfloat16":
        raise NoExactForm(
            "Pow has no bfloat16 before opset 13, and a power in a wider type would be rounded twice"
        )
    edit.keep(node)


def _pow_12_11(node: NodeProto, edit: Editor) -> None:
    """Base and exponent get one type."""
    x, y = _type(node, 0, edit), _type(node, 1, edit)
    if x not in _FLOATS:
        return _integer_pow(node, edit)
    if x == y:
        return edit.keep(node)
    array = edit.value_info.array(node.input[1])
    if array is not None:
        held = exactly_as(array, x)
        if held is None:
            raise NoExactForm(
                f"before opset 12 the exponent has the base's type, and {x} does not hold the constant's value"
            )
        edit.note(f"the exponent, a constant in {y}, is stored in {x}, exactly")
        return edit.keep(_with_input(node, 1, edit.constant(held, "exponent")))
    if not holds(x, y):
        raise NoExactForm(
            f"before opset 12 the exponent has the base's type, and {x} does not hold every {y};"
            " a power in a wider type would be rounded twice"
        )
    edit.note(f"the exponent is cast from {y} to {x}, exactly")
    return edit.keep(_with_input(node, 1, edit.cast(node.input[1], x)))


def _integer_pow(node: NodeProto, edit: Editor) -> None:
    """An integer base: a product wraps around as the power does."""
    kind, rank = _type(node, 0, edit), len(edit.value_info.value(node.input[0]).shape or ())
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
    products(node, power, edit)


# --- PRelu ----------------------------------------------------------------------------------------


def _drop_consumed(node: NodeProto, edit: Editor) -> None:
    new = NodeProto()
    new.CopyFrom(node)
    kept = [attribute for attribute in node.attribute if attribute.name != "consumed_inputs"]
    del new.attribute[:]
    new.attribute.extend(kept)
    edit.keep(new)


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
        edit.note(
            f"the slope, of shape {_shape(slope)}, gets the shape {_shape(edit.value_info.value(name))}"
        )
    edit.keep(_with_input(node, 1, name))


def _prelu_7_6(node: NodeProto, edit: Editor) -> None:
    """The slope becomes one element, or one for each channel; X is turned round for it if need be."""
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
            f"the slope of shape {_shape(slope)} stays",
            "the document of PRelu-6 leaves slopes of rank 2 and more open; here they are broadcast as in 7",
        )
        return edit.keep(node)
    flat = edit.squeeze(node.input[1], [axis for axis in range(len(slope.shape)) if lead + axis != varied[0]])
    if varied == [1]:
        if flat != node.input[1]:
            edit.note(f"the slope, of shape {_shape(slope)}, becomes one of rank 1: per channel")
        return edit.keep(_with_input(node, 1, flat))
    if len(x.shape) == 1:
        edit.note("X gets a dim of 1, so that its own dim is the channels'")
        row = edit.unsqueeze(node.input[0], [0])
        middle = edit.add("PRelu", [row, flat], edit.value_info.value(row), like=node)
        edit.squeeze(middle, [0], output=node.output[0])
        return None
    order = list(range(len(x.shape)))
    order[1], order[varied[0]] = order[varied[0]], order[1]
    turned = Value("", x.type, tuple(x.shape[axis] for axis in order))
    edit.note(f"X's dims 1 and {varied[0]} are exchanged around it, for the slope is per channel in opset 6")
    middle = edit.add("Transpose", [node.input[0]], turned, perm=order)
    middle = edit.add("PRelu", [middle, flat], turned, like=node)
    edit.add("Transpose", [middle], output=node.output[0], perm=order)
    return None


def _prelu_9_8(node: NodeProto, edit: Editor) -> None:
    """An integer PRelu: x + (x < 0) * (slope * x - x), which wraps around to the same."""
    kind = _type(node, 0, edit)
    if kind in _FLOATS:
        return edit.keep(node)
    x = edit.value_info.value(node.input[0])
    if kind.startswith("uint"):
        edit.note(f"{kind} is never below 0: X as it is")
        edit.add("Identity", [node.input[0]], output=node.output[0], like=node)
        return None
    edit.note(f"PRelu takes no {kind} before opset 9: x + (x < 0) * (slope * x - x), which is the same")
    real = edit.cast(node.input[0], "float64")  # whose sign is x's
    zero = edit.constant(np.zeros((), np.float64), "zero")
    below = edit.cast(edit.add("Less", [real, zero], Value("", "bool", x.shape)), kind)
    product = edit.add("Mul", [node.input[0], node.input[1]], x)
    rise = edit.add("Sub", [product, node.input[0]], x)
    taken = edit.add("Mul", [rise, below], x)
    edit.add("Add", [node.input[0], taken], output=node.output[0], like=node)
    return None


def _prelu_16_15(node: NodeProto, edit: Editor) -> None:
    """In bfloat16: through float64, which holds every product of two bfloat16 exactly."""
    if _type(node, 0, edit) != "bfloat16":
        return edit.keep(node)
    edit.note(
        "PRelu takes no bfloat16 before opset 16: cast to float64 and back, rounded once",
        "a NaN in X comes out as a NaN, but its payload may not",
    )
    x, slope = (edit.cast(name, "float64") for name in node.input)
    wide = edit.add("PRelu", [x, slope], edit.value_info.value(x), like=node)
    edit.cast(wide, "bfloat16", output=node.output[0])
    return None


# --- the others -----------------------------------------------------------------------------------


def _cast_5_6(node: NodeProto, edit: Editor) -> None:
    new = NodeProto()
    new.CopyFrom(node)
    for attribute in new.attribute:
        if attribute.name == "to":
            number = TensorProto.DataType.Value(attribute.s.decode())
            attribute.CopyFrom(onnx.helper.make_attribute("to", number))
    edit.keep(new)


def _cast_6_5(node: NodeProto, edit: Editor) -> None:
    new = NodeProto()
    new.CopyFrom(node)
    for attribute in new.attribute:
        if attribute.name == "to":
            attribute.CopyFrom(onnx.helper.make_attribute("to", TensorProto.DataType.Name(attribute.i)))
    edit.keep(new)


def _constant_12_11(node: NodeProto, edit: Editor) -> None:
    """A number or a list of them becomes a tensor."""
    tensor = held_tensor(node)
    if node.attribute[0].name not in ("value", "sparse_value"):
        if tensor is None:
            raise NoExactForm("before opset 12 a Constant holds a tensor only, and this one is no tensor")
        new = onnx.helper.make_node("Constant", [], list(node.output), value=tensor)
        inherit(new, node)
        return edit.keep(new)
    return edit.keep(node)


def _constant_9_8(node: NodeProto, edit: Editor) -> None:
    """What is not of floats becomes an initializer."""
    tensor = held_tensor(node)
    if tensor is None or edit.value_info.value(node.output[0]).type in _FLOATS:
        return edit.keep(node)
    if not isinstance(edit.owner, GraphProto):
        raise NoExactForm("before opset 9 a Constant holds floats only, and a function has no initializers")
    edit.constant_tensor(tensor, "", name=node.output[0])
    return None


def _hardmax_12_13(node: NodeProto, edit: Editor) -> None:
    """It goes along all dims from its axis on; since opset 13, along one."""
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


# --- what they share ------------------------------------------------------------------------------


def _type(node: NodeProto, index: int, edit: Editor) -> str:
    kind = edit.value_info.value(node.input[index]).type
    if kind is None:
        raise NoExactForm(f"the type of its input {node.input[index]!r} is not known")
    return kind


def _with_input(node: NodeProto, index: int, name: str) -> NodeProto:
    new = NodeProto()
    new.CopyFrom(node)
    new.input[index] = name
    return new


def _shape(value: Value) -> str:
    return "?" if value.shape is None else str([dim or "?" for dim in value.shape])


STEPS: Mapping[tuple[str, int, int], Step] = {
    **{(name, 6, 7): to_numpy for name in BROADCASTING},
    **{(name, 7, 6): to_legacy for name in BROADCASTING},
    ("Pow", 11, 12): _as_it_is,
    ("Pow", 12, 13): _as_it_is,
    ("Pow", 14, 15): _as_it_is,
    ("Pow", 15, 14): _pow_15_14,
    ("Pow", 13, 12): _pow_13_12,
    ("Pow", 12, 11): _pow_12_11,
    ("PRelu", 5, 6): _drop_consumed,
    ("PRelu", 6, 5): _as_it_is,
    ("PRelu", 6, 7): _prelu_6_7,
    ("PRelu", 7, 6): _prelu_7_6,
    ("PRelu", 8, 9): _as_it_is,
    ("PRelu", 9, 8): _prelu_9_8,
    ("PRelu", 15, 16): _as_it_is,
    ("PRelu", 16, 15): _prelu_16_15,
    ("Cast", 5, 6): _cast_5_6,
    ("Cast", 6, 5): _cast_6_5,
    ("Hardmax", 12, 13): _hardmax_12_13,
    ("Constant", 12, 11): _constant_12_11,
    ("Constant", 9, 8): _constant_9_8,
}
"""By operator, the opset that the node is of, and the one that it goes to."""
