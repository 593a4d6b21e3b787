"""Types and arrays as Python code."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Mapping
from keyword import iskeyword
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.floats import codes
from halfulp.conformance.verdict.judge import decimal
from halfulp.errors import printable
from halfulp.types import element_type

VARIABLES = ("x", "y", "extra")
"""What a program calls an operator's inputs; some invalid cases have one too many."""

_COMMENTED = 8
_LISTED = 256


def numpy_has(dtype: Any) -> bool:
    """Tell whether a type is one of NumPy's own."""
    return element_type(dtype).dtype.isbuiltin == 1


def only_numpys(case: Case) -> bool:
    """Tell whether all inputs have types of NumPy's own, so that any runtime takes the arrays as they are."""
    return all(numpy_has(array.dtype) for array in case.inputs)


def dtype(name: Any) -> str:
    """Return the expression for an element type."""
    return f"{'np' if numpy_has(name) else 'ml_dtypes'}.{element_type(name).name}"


def scalar(bits: int, name: Any) -> str:
    """Return the expression for one element of a type."""
    size = element_type(name).dtype.itemsize
    return f"np.array(0x{bits:0{2 * size}x}, np.uint{8 * size}).view({dtype(name)})"


def literal(array: Array) -> str:
    """Return the expression for an array, bit for bit, and a comment that says what it is.

    Of a large array of different values only a program can read the expression.
    """
    name, size = dtype(array.dtype), array.dtype.itemsize
    if array.size == 0:
        return f"np.zeros({array.shape}, {name})"
    if array.size > _LISTED and (codes(array) != codes(array).reshape(-1)[0]).any():
        data = base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes())).decode()
        text = f'np.frombuffer(zlib.decompress(base64.b64decode("{data}")), {name})'
        return f"{text}.reshape({array.shape})"
    values = array.reshape(-1)
    words = [f"0x{int(code):0{2 * size}x}" for code in codes(values[:_LISTED])]
    if len(set(words)) == 1:
        return f"np.full({array.shape}, {words[0]}, np.uint{8 * size}).view({name})  # {decimal(values[0])}"
    text = f"np.array([{', '.join(words)}], np.uint{8 * size}).view({name})"
    if array.ndim != 1:
        text += f".reshape({array.shape})"
    decimals = ", ".join(decimal(value) for value in values[:_COMMENTED])
    return f"{text}  # {decimals}{', ...' if array.size > _COMMENTED else ''}"


def keywords(attributes: Mapping[str, Any]) -> str:
    """Return the attributes as arguments after others."""
    named = {name: _value(value) for name, value in sorted(attributes.items())}
    if all(name.isidentifier() and not iskeyword(name) for name in named):
        return "".join(f", {name}={value}" for name, value in named.items())
    return ", **{" + ", ".join(f"{name!r}: {value}" for name, value in named.items()) + "}"


def _value(value: Any) -> str:
    return f"float({str(value)!r})" if isinstance(value, float) and not math.isfinite(value) else repr(value)


def filled(name: str, shape: tuple[int, ...], bits: int | None) -> Array:
    """Return an array of one value, given by its bits; of ones if not given."""
    kind = element_type(name).dtype
    if bits is None:
        return np.ones(shape).astype(kind)
    return np.full(shape, bits, f"u{kind.itemsize}").view(kind)


def one_line(text: str) -> str:
    """Return a text as one line of a comment: what a runtime says must not become code."""
    return printable(text, most=None, instead=" ")
