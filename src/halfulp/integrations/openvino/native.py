"""Which nodes stay the CPU plugin's own: those that it computes exactly, and without a call into Python.

A PReLU by constant slopes, and a Power by the exponent -1, 0, 1 or 2, is one operation of IEEE 754 at most. In f32 the
plugin's code for them does just that, and works within the loops of their neighbours, which may lie in memory as only
the plugin knows. Whether that is so in the version installed, on this processor, is found out by a trial.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import openvino as ov

from halfulp.integrations.openvino.operators import Array, array_of, dims
from halfulp.operators import op

_EXPONENTS = (-1.0, 0.0, 1.0, 2.0)

_SIGNS = np.array([-1, 1], np.float32)

_SIZES = (2, 16, 5, 7)  # of the trial's tensor: batch, channels, and two that no vector's length divides


def varying(model: ov.Model) -> frozenset[str]:
    """Return the names of the nodes that depend on the values of an input: the others the plugin may fold."""
    names: set[str] = set()
    for node in model.get_ordered_ops():
        sources = node.input_values()
        known = node.get_type_name() in ("Constant", "ShapeOf")
        if not known and (not sources or any(source.get_node().get_name() in names for source in sources)):
            names.add(node.get_name())
    return frozenset(names)


def is_exact(node: Any) -> bool:
    """Return whether the CPU plugin computes a Power-1 or PReLU-1 in f32 as exactly as ours; False if that is unknown.

    Args:
        node: one that depends on an input's values, of a model that is compiled with ``INFERENCE_PRECISION_HINT`` f32.
    """
    if any(end.get_element_type() != ov.Type.f32 for end in node.inputs()):
        return False
    constant = node.input_value(1).get_node()
    x = dims(node.get_input_partial_shape(0))
    if constant.get_type_name() != "Constant" or x is None:
        return False
    values = array_of(constant)
    if node.get_type_name() == "Power":
        # The exponent broadcasts to the base, not the other way round.
        same_shape = values.size == 1 and values.ndim <= len(x)
        return same_shape and values.item() in _EXPONENTS and _passes_trial("Power")
    tiny = np.finfo(np.float32).tiny  # the plugin takes smaller slopes for zero
    sound = np.isfinite(values) & ((np.abs(values) >= tiny) | (values == 0))
    if not (sound.all() and _is_by_channel(values.shape, x)):
        return False
    return _passes_trial("PRelu", 0 if (values >= 0).all() else -2)


def _is_by_channel(slope: tuple[int, ...], x: tuple[int | None, ...]) -> bool:
    """Return whether one slope is for all, or one for each channel, in whichever way the shape is read.

    A slope of rank 1 goes to the channels where their number is its length, and else to the last dim.
    """
    if int(np.prod(slope)) == 1:
        return len(slope) <= len(x)
    if len(x) < 2 or x[1] is None:
        return False
    channels = (x[1],)
    return slope in (channels, (*channels, *[1] * (len(x) - 2)), (1, *channels, *[1] * (len(x) - 2)))


@cache
def _passes_trial(operator: str, least_slope: float = 0) -> bool:
    """Return whether the plugin has the bits of ours: alone, merged into a convolution, and before a sum.

    On processors without AVX-512 a negative slope costs a zero its sign.
    """
    numbers = np.random.default_rng(1)
    data = np.exp2(numbers.uniform(-149, 128, _SIZES)).astype(np.float32) * numbers.choice(_SIGNS, _SIZES)
    special = data.copy()
    special.flat[::9] = np.resize(
        np.array([0, -0.0, np.inf, -np.inf, np.nan], np.float32), special.flat[::9].size
    )
    channels = _SIZES[1]
    identity = np.eye(channels, dtype=np.float32).reshape(channels, channels, 1, 1)
    x = ov.opset13.parameter(list(_SIZES), np.float32)
    finite = ov.opset13.parameter(
        list(_SIZES), np.float32
    )  # for a convolution, whose sums take the sign of a zero

    if operator == "Power":
        exact, node = op("openvino.Power-1"), ov.opset13.power
        seconds = [np.full(1, exponent, np.float32) for exponent in _EXPONENTS]
    else:
        exact, node = op("openvino.PReLU-1"), ov.opset13.prelu
        shapes = [(1,), (channels,), (channels, 1, 1)]
        seconds = [numbers.uniform(least_slope, 2, shape).astype(np.float32) for shape in shapes]
    addend = np.float32(0.1)
    outputs, expected = [], []
    for second in seconds:
        convolved = ov.opset13.convolution(finite, identity, [1, 1], [0, 0], [0, 0], [1, 1])
        outputs += [node(x, second), node(convolved, second), ov.opset13.add(node(x, second), addend)]
        right = exact(special, second)
        expected += [right, exact(data + np.float32(0), second), right + addend]
    try:
        compiled = ov.Core().compile_model(
            ov.Model(outputs, [x, finite]), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
        )
        answers = compiled([special, data])
    except RuntimeError:
        return False
    return all(_equal(answers[i], right) for i, right in enumerate(expected))


def _equal(got: Array, expected: Array) -> bool:
    """Return whether bits are equal, but for the payload of a NaN, which is the plugin's own."""
    numbers = ~np.isnan(expected)
    same_numbers = np.array_equal(got[numbers].view(np.uint32), expected[numbers].view(np.uint32))
    return same_numbers and bool(np.isnan(got[~numbers]).all())
