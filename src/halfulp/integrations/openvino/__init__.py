"""OpenVINO with exact Power and PReLU: halfulp's operators replace these nodes of a model, for the CPU plugin.

``replace`` keeps nodes that the plugin computes exactly, and those of f64, i64 and u64, computed in f32 and i32.

The plugin holds f16, and on some processors bf16, in f32, which loses only the payload of a NaN. A mark prevents that
for inputs of the model that only halfulp's operators read.
"""

import warnings
from collections.abc import Set
from functools import cache
from typing import Any

import numpy as np
import openvino as ov
from openvino.utils import replace_node

from halfulp.errors import HalfulpError, within
from halfulp.integrations.openvino import operators
from halfulp.integrations.openvino.operators import OPERATORS, build
from halfulp.operators import op
from halfulp.types import same_bits

__all__ = ["OPERATORS", "build", "replace"]
__dir__ = __all__.copy

_OURS = dict(zip(("Power", "PRelu"), OPERATORS, strict=True))


def replace(model: ov.Model, *, every_node: bool = False) -> ov.Model:
    """Put halfulp's Power and PReLU into an ``openvino.Model``, in place; compile it for the CPU, in f32.

    Args:
        model: read from any format, or built. Each Power-1 and PReLU-1 that the CPU plugin does not compute exactly
            becomes halfulp's, also in the bodies of If, Loop and TensorIterator.
        every_node: also replace the nodes that the plugin computes exactly in f32.

    Returns:
        The same model. The inference raises an error if a tensor reaches halfulp's operators in a type that can't hold
        the declared values, as on other devices.

    Warns:
        UserWarning: nodes stay OpenVINO's own, each with the reason: the CPU plugin computes f64 in f32, and i64 and
            u64 in i32. Powers of sizes, which i32 holds, are not named.

    Raises:
        ModelError: a node breaks a clause of its operator's version.

    Example:
        >>> from openvino import opset13
        >>> x = opset13.parameter([2], np.float32)
        >>> model = replace(ov.Model([opset13.power(x, np.float32(2.5))], [x]))
        >>> ov.Core().compile_model(model, "CPU")([np.array([4, 0.3], np.float32)])[0]
        array([32.        ,  0.04929503], dtype=float32)
    """
    if not isinstance(model, ov.Model):
        message = "replace takes an openvino.Model; openvino.Core().read_model(FILE) returns that of a file"
        raise HalfulpError(message, got=repr(model)[:80])
    if sentences := put_into(model, every_node=every_node):
        warnings.warn("\n".join(sentences), stacklevel=2)
    return model


def put_into(model: ov.Model, *, every_node: bool = False) -> list[str]:
    """Replace nodes as :func:`replace` does, and return a sentence for each node that stays OpenVINO's own."""
    sentences = _replace(model, every_node)
    members = {node.get_name() for node in model.get_ordered_ops()}
    for parameter in model.get_parameters():
        is_half = operators.type_of(parameter.output(0)) in ("f16", "bf16")
        if is_half and _mark() is not None and _stays_ours(parameter.output(0), members):
            parameter.set_rt_info(_mark(), _MARK)
    return sentences


def _replace(model: ov.Model, every_node: bool) -> list[str]:
    """Replace the nodes of a model and of its bodies, and return a sentence for each that stays OpenVINO's own."""
    sentences: list[str] = []
    varying = _varying(model)
    for node in model.get_ordered_ops():
        for body in operators.bodies(node):
            sentences += _replace(body, every_node)
        if node.get_type_name() == "ReduceMean" and not node.get_attributes()["keep_dims"]:
            _keep_dims_in_norm(node)
        if node.get_type_name() in _OURS and node.get_type_info().version_id == "opset1":
            varies = node.get_name() in varying
            # The plugin folds all other nodes, with other code.
            if every_node or not varies or not _is_exact(node) or _is_enlarged(node):
                sentences += _substitute(node, varies)
    return sentences


def _keep_dims_in_norm(mean: Any) -> None:
    """Write a ReduceMean that is of squares, or is subtracted, as one that keeps its dims, and a Squeeze."""
    # The plugin would take the norm around it for one whose means keep their dims.
    readers = {end.get_node().get_type_name() for end in mean.output(0).get_target_inputs()}
    if mean.input_value(0).get_node().get_type_name() in ("Power", "Multiply") or "Subtract" in readers:
        kept = ov.opset13.reduce_mean(mean.input_value(0), mean.input_value(1), True)
        squeezed = ov.opset13.squeeze(kept, mean.input_value(1))
        squeezed.set_friendly_name(mean.get_friendly_name())
        replace_node(mean, squeezed)


def _is_enlarged(power: Any) -> bool:
    """Return whether a product in the norm around a power has another shape, which the plugin's norm loses."""
    node, shape = power, power.get_output_partial_shape(0)
    for _ in range(6):  # a norm has no more nodes behind its power
        if len(ends := node.output(0).get_target_inputs()) != 1:
            break
        (end,) = ends
        node = end.get_node()
        if node.get_type_name() == "Multiply" and node.get_output_partial_shape(0) != shape:
            return True
        if node.get_type_name() not in _IN_NORM:
            break
    return False


_IN_NORM = ("ReduceMean", "Add", "Sqrt", "Power", "Divide", "Multiply")


def _stays_ours(output: Any, members: Set[str]) -> bool:
    """Return whether only halfulp's operators and outputs of the model read a tensor and the results."""
    # Other readers would combine the tensor with tensors in f32.
    for end in output.get_target_inputs():
        node = end.get_node()
        if node.get_name() not in members or node.get_type_name() == "Result":
            continue
        # The result's type is the first operand's.
        if not operators.is_ours(node) or (end.get_index() == 0 and not _stays_ours(node.output(0), members)):
            return False
    return True


def _substitute(node: Any, varies: bool) -> list[str]:
    """Replace a node, or return the sentence why it stays OpenVINO's own. Powers of sizes have none."""
    types = [operators.type_of(end) for end in (*node.inputs(), *node.outputs())]
    label = f"{node.get_friendly_name()!r} ({node.get_type_name()})"
    own = f"{label} stays OpenVINO's own"
    if unknown := [kind for kind in types if kind not in operators.ROWS]:
        return [f"{own}: halfulp has no type {unknown[0]}"]
    if wide := [kind for kind in types if kind in operators.WIDE]:
        is_size = operators.WIDE[wide[0]] == "i32" and not varies
        return [] if is_size else [f"{own}: the CPU plugin computes {wide[0]} in {operators.WIDE[wide[0]]}"]
    operands, attributes = node.input_values(), {"operands": ",".join(types[:2])}
    if (rule := node.get_attributes().get("auto_broadcast")) is not None:
        attributes["auto_broadcast"] = str(rule)
    with within(None, label):
        ours = _OURS[node.get_type_name()](operands, **attributes)
    ours = operators.in_cpp(type(ours).__name__, operands, attributes) or ours
    ours.set_friendly_name(node.get_friendly_name())
    replace_node(node, ours)
    return []


# Inputs that keep their type. The plugin respects an attribute that keeps a node's types, called a mark here. Python
# can't create one, but reading a model that has it gives one to copy.

_MARK = "DisablePrecisionConversion_0"

_CARRIER = """<net name="carrier" version="11">
  <layers>
    <layer id="0" name="x" type="Parameter" version="opset1"><data shape="1" element_type="f32"/>
      <rt_info><attribute name="DisablePrecisionConversion" version="0" value="dynamic:dynamic"/></rt_info>
      <output><port id="0" precision="FP32"><dim>1</dim></port></output></layer>
    <layer id="1" name="y" type="Result" version="opset1">
      <input><port id="0" precision="FP32"><dim>1</dim></port></input></layer>
  </layers>
  <edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges>
</net>"""


@cache
def _mark() -> Any:
    """Return the attribute, or None if this version lacks it."""
    (x,) = operators.core().read_model(_CARRIER.encode(), b"").get_parameters()
    info = x.get_rt_info()
    return info[_MARK] if _MARK in list(info.keys()) else None


# Nodes that the plugin computes exactly, and without a call into Python, stay the plugin's own.
#
# A PReLU with constant slopes, and a Power with the exponent -1, 0, 1 or 2, is at most one operation of IEEE 754. In
# f32 the plugin computes just that, within the loops of neighbouring nodes and in a layout of its own. A trial tests
# whether that is so in the installed version, on this processor.

_EXPONENTS = (-1.0, 0.0, 1.0, 2.0)

# Of the trial's tensor: batch, channels, and two that are no multiples of a vector's length.
_SIZES = (2, 16, 5, 7)


def _varying(model: ov.Model) -> set[str]:
    """Return the names of the nodes that depend on an input's values. The plugin may fold the others."""
    names: set[str] = set()
    for node in model.get_ordered_ops():
        sources = node.input_values()
        is_known = node.get_type_name() in ("Constant", "ShapeOf")
        if not is_known and (not sources or any(source.get_node().get_name() in names for source in sources)):
            names.add(node.get_name())
    return names


def _is_exact(node: Any) -> bool:
    """Return whether the CPU plugin computes a node with halfulp's bits, in f32; False if that is unknown.

    The node must depend on an input's values, in a model that is compiled with ``INFERENCE_PRECISION_HINT`` f32.
    """
    constant = node.input_value(1).get_node()
    x = operators.dims(node.get_input_partial_shape(0))
    is_f32 = {operators.type_of(end) for end in node.inputs()} == {"f32"}
    if not is_f32 or constant.get_type_name() != "Constant" or x is None:
        return False
    values = operators.array_of(constant)
    if node.get_type_name() == "Power":
        # The exponent broadcasts to the base, not the other way round.
        same_shape = values.size == 1 and values.ndim <= len(x)
        return same_shape and values.item() in _EXPONENTS and _passes_trial("Power")
    tiny = np.finfo(np.float32).tiny  # the plugin treats smaller slopes as zero
    are_plain = (np.isfinite(values) & ((np.abs(values) >= tiny) | (values == 0))).all()
    least = 0 if (values >= 0).all() else -2
    return bool(are_plain) and _is_by_channel(values.shape, x) and _passes_trial("PRelu", least)


def _is_by_channel(slope: tuple[int, ...], x: tuple[int | None, ...]) -> bool:
    """Return whether there is one slope for all elements, or one for each channel by every reading of the shape."""
    # A slope of rank 1 is applied to the channels if their number is its length, and else to the last dim.
    if int(np.prod(slope)) == 1:
        return len(slope) <= len(x)
    behind = [1] * (len(x) - 2)
    return len(x) > 1 and slope in ((x[1],), (x[1], *behind), (1, x[1], *behind))


@cache
def _passes_trial(operator: str, least_slope: float = 0) -> bool:
    """Return whether the plugin has halfulp's bits: for the node alone, fused with a convolution, and before a sum."""
    numbers = np.random.default_rng(1)
    signs = numbers.choice(np.array([-1, 1], np.float32), _SIZES)
    data = np.exp2(numbers.uniform(-149, 128, _SIZES)).astype(np.float32) * signs
    special = data.copy()
    special.flat[::9] = np.resize([0, -0.0, np.inf, -np.inf, np.nan], special.flat[::9].size)
    channels = _SIZES[1]
    identity = np.eye(channels, dtype=np.float32).reshape(channels, channels, 1, 1)
    # The second is for a convolution, whose sums do not keep the sign of a zero.
    x, finite = (ov.opset13.parameter(list(_SIZES), np.float32) for _ in range(2))
    if operator == "Power":
        exact, node = op("openvino.Power-1"), ov.opset13.power
        seconds = [np.full(1, exponent, np.float32) for exponent in _EXPONENTS]
    else:
        exact, node = op("openvino.PReLU-1"), ov.opset13.prelu
        shapes = (1,), (channels,), (channels, 1, 1)
        # On processors without AVX-512, zeros lose their sign with a negative slope.
        seconds = [numbers.uniform(least_slope, 2, shape).astype(np.float32) for shape in shapes]
    addend = np.float32(0.1)
    outputs, expected = [], []
    for second in seconds:
        convolved = ov.opset13.convolution(finite, identity, [1, 1], [0, 0], [0, 0], [1, 1])
        outputs += [node(x, second), node(convolved, second), ov.opset13.add(node(x, second), addend)]
        right = exact(special, second)
        expected += [right, exact(data + np.float32(0), second), right + addend]
    try:
        hint = {"INFERENCE_PRECISION_HINT": "f32"}
        answers = operators.core().compile_model(ov.Model(outputs, [x, finite]), "CPU", hint)([special, data])
    except RuntimeError:
        return False
    return all(same_bits(answers[i], right).all() for i, right in enumerate(expected))
