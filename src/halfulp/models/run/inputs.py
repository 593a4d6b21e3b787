"""A model's inputs: checks of given inputs against the declarations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from halfulp._interop import as_array
from halfulp.errors import HalfulpError, ModelError, did_you_mean, within
from halfulp.models.graph import Model, Value
from halfulp.models.onnx.tensors import dtype_of, enum_of
from halfulp.models.run.cast import can_cast, cast
from halfulp.models.run.report import show


def bind(model: Model, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of every input by name: the given value, or else the initializer of that name.

    Raises:
        ModelError: a name is not an input's, an input is missing, a type or shape contradicts the declaration, or a
            symbol would have two sizes.
    """
    given = by_name(model.graph.inputs, inputs, model.file)
    symbols: dict[str, tuple[int, str]] = {}
    values: dict[str, Any] = {}
    with within(model.file):
        for declared in model.graph.inputs:
            name = declared.name
            if name in given:
                values[name] = as_value(given[name], declared)
            elif name in model.graph.constants or declared.kind == "optional":
                values[name] = model.graph.constants.get(name)
            else:
                message = f"no value is given for its input {name!r}: pass {{{name!r}: array}}"
                raise HalfulpError(message, expected=str(declared), got=", ".join(given) or "no inputs")
            check(values[name], declared, f"input {name!r}")
            _unify(values[name], declared, symbols)
    return values


def by_name(declared: Sequence[Value], inputs: Mapping[str, Any], file: str) -> dict[str, Any]:
    """Return the given values by the inputs' names. The caller may use aliases."""
    if not isinstance(inputs, Mapping):
        raise ModelError(
            "its inputs are fed as a dict of arrays by name", file=file, got=type(inputs).__name__
        )
    names = {value.name: [value.name] for value in declared}
    for value in declared:
        for alias in value.aliases:
            if [alias] != names.get(alias):  # a name takes precedence over an alias
                names.setdefault(alias, []).append(value.name)
    found: dict[str, Any] = {}
    for given, value in inputs.items():
        meant = names.get(given, [])
        if len(meant) != 1:
            if meant:
                raise ModelError(f"has several inputs called {given!r}", file=file, expected=", ".join(meant))
            suggestion = did_you_mean(str(given), [value.name for value in declared])
            raise ModelError(f"has no input {given!r}; {suggestion}", file=file)
        if meant[0] in found:
            raise ModelError(f"input {meant[0]!r} is given twice", file=file)
        found[meant[0]] = value
    return found


def as_value(fed: Any, declared: Value) -> Any:
    """Return a given value as an array in native byte order. A sequence is returned unchanged."""
    if declared.kind not in ("tensor", "undeclared") or fed is None:
        return fed
    what = f"input {declared.name!r}"
    try:
        array = as_array(fed)
    except HalfulpError as error:
        raise HalfulpError(f"{what}: {error.message}") from None
    if array.dtype.kind == "O" and declared.type not in (None, "string"):
        message = f"{what} is fed Python objects that NumPy makes no numbers of"
        raise HalfulpError(message, expected=str(declared))
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind == "U":
        array = array.astype(object)
    if isinstance(fed, int | float | list | tuple) and declared.type is not None:
        # Python's numbers have no element type. They get the declared type if they fit it.
        target = dtype_named(declared.type)
        if can_cast(array.dtype, target) and np.can_cast(array.dtype, np.float64, "same_kind"):
            with np.errstate(over="ignore"):  # too large: infinite, as in a Cast
                converted = cast(array, target)
            # Python compares numbers exactly. NumPy would convert one to the other's type.
            wide = np.uint64 if "uint" in target.name else np.int64
            if is_integral(target) and converted.astype(wide).tolist() != array.tolist():
                raise HalfulpError(f"the numbers fed as {what} don't fit its type", expected=declared.type)
            return converted
    return array


def is_integral(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iub" or "int" in dtype.name


def check(value: Any, declared: Value, what: str, run: str | None = None) -> None:
    """Refuse a value, which the error calls ``what``, without the type, rank and dims that the model declares.

    ``run`` is the command that helps where the type is another one.
    """
    if declared.kind in ("sequence", "map"):
        fits = isinstance(value, list if declared.kind == "sequence" else dict)
    else:
        fits = declared.kind != "tensor" or (isinstance(value, np.ndarray) and declared.fits(value))
    if not fits:
        is_of_type = not isinstance(value, np.ndarray) or value.dtype.name == declared.type
        shown = {"expected": str(declared), "got": show(value), "run": None if is_of_type else run}
        raise HalfulpError(f"{what} contradicts the model's declaration", **shown)


def _unify(value: Any, declared: Value, symbols: dict[str, tuple[int, str]]) -> None:
    sizes = value.shape if isinstance(value, np.ndarray) else ()
    for symbol, size in zip(declared.shape or (), sizes, strict=False):
        if not isinstance(symbol, str):
            continue
        bound, by = symbols.setdefault(symbol, (size, declared.name))
        if bound != size:
            message = f"input {declared.name!r} gives the dim {symbol!r} another size than {by!r} does"
            raise HalfulpError(message, expected=bound, got=size)


def needed(model: Model) -> list[Value]:
    """Return the required inputs: those without an initializer that are not optional."""
    inputs = (value for value in model.graph.inputs if value.name not in model.graph.constants)
    return [value for value in inputs if value.kind != "optional"]


@cache
def dtype_named(name: str) -> np.dtype[Any]:
    """Return the dtype for an element type's name, including ``string``."""
    return dtype_of(enum_of(name))
