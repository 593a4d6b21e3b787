"""Operators: they compute a result from a row and operands. Only this module calls the core.

A call checks its operands against the row. The resulting plan is cached by types, shapes and attributes.
The call then views the operands as in the plan and passes them to the core.
"""

import decimal
import math
from collections.abc import Callable, Container, Hashable
from dataclasses import fields, replace
from functools import cache, cached_property, lru_cache, update_wrapper
from types import SimpleNamespace
from typing import Any, Literal, TypeAlias, TypeVar, overload

import numpy as np
from numpy import asarray, generic, ndarray  # looking them up in the module would take 10 % of a small call
from numpy.typing import NDArray

import halfulp._core as _core
import halfulp._interop as _interop
from halfulp._interop import Array, Number, Ufunc, as_array, exponent_array, is_number
from halfulp.errors import HalfulpError, SpecError, format_error
from halfulp.specs import OpVersion, Plan, ScaleBias, find, ids
from halfulp.specs.broadcast import NUMPY, UNIDIRECTIONAL
from halfulp.types import INTEGERS, TYPES, TensorType, integer_range, tensor_type, to_odd, type_name

for _row in TYPES.values():
    _core.register_type(_row.dtype.num, _row.name)
for _alias in ("longlong", "ulonglong", "int_", "uint"):  # own type numbers for the same C types
    _core.register_type(np.dtype(_alias).num, np.dtype(_alias).name)

_FLOAT64 = np.dtype(np.float64)
_KERNELS = {"pow": _core.POW, "pow_directml": _core.POW_DOMAIN_ERROR, "prelu": _core.PRELU}
_core.Function.__repr__ = lambda function: f"<halfulp.{function.__name__}>"  # type: ignore[attr-defined, method-assign]


def _bits(names: Container[str]) -> int:
    """Return a number with the bits of the types of some names, by their places in the table."""
    return sum(1 << place for place, name in enumerate(TYPES) if name in names)


def _quick(kernel: int) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator of a function that is called only for operands that the core does not accept at once."""
    every_pair = (_bits(TYPES),) * len(TYPES)
    return lambda general: update_wrapper(_core.Function(kernel, general, every_pair), general)


class Operator(OpVersion):
    """An operator version. ``print`` shows its page, and a call computes.

    Example:
        >>> import halfulp as hu
        >>> op = hu.op("onnx.Pow-1")
        >>> op(np.full((2, 3), 2.0), np.array([1.0, 3.0]), axis=0, broadcast=1)
        array([[2., 2., 2.],
               [8., 8., 8.]])
    """

    def __call__(self, /, *inputs: Any, out: Array | None = None, **attributes: Any) -> Array:
        """Return the operator's output for these inputs.

        Args:
            *inputs: array-likes of the types and shapes that the version allows. A Python number has no
                type of its own. If the document requires the first input's type, the number gets that type
                (if it fits). As an exponent of any type it counts exactly.
            out: an array for the result, of any strides and byte order. It may share memory with an input.
            **attributes: attributes, spelled as in the document.

        Returns:
            An array of the document's type and shape; ``out`` if that is given.

        Raises:
            SpecError: the document does not allow it.
        """
        if not attributes and self._quick is not None and len(inputs) == 2:
            result: Array | None = self._quick(*inputs, out=out)
            if result is not None:
                return result
        with _core.DefaultEnvironment():  # for NumPy's own operations on numbers
            if len(inputs) == len(self.inputs) == 2:
                arrays: tuple[Array, ...] = self.as_arrays(*inputs)
            else:
                arrays = tuple(map(as_array, inputs))
            values = self.check_attributes(attributes)
            plan = _plan(self, tuple(map(tensor_type, arrays)), tuple(values.items()))
            # The plan does not include the exponent, because plans are cached for equal values, and 0.0
            # equals -0.0.
            y = arrays[1] if len(arrays) == 2 else np.array(values["Exponent"], np.float32)
            return _compute(self, plan, arrays[0], y.reshape(plan.y_shape), out, values.get("ScaleBias"))

    @cached_property
    def _quick(self) -> Any:
        """The call of two arrays that need no plan: broadcast by NumPy's rule, as the core does."""
        rule = UNIDIRECTIONAL if self.kernel == "prelu" else NUMPY
        if self.attributes or self.ranks is not None or self.broadcasting is not rule:
            return None
        bases, exponents = (self.type_variables[port.type] for port in self.inputs)
        is_mixed = self.inputs[0].type != self.inputs[1].type
        pairs = {base: _bits(exponents if is_mixed else {base}) for base in bases}
        return _core.Function(_KERNELS[self.kernel], None, tuple(pairs.get(name, 0) for name in TYPES))

    def as_arrays(self, x: Any, y: Any, as_array: Callable[[Any], Any] = as_array) -> tuple[Any, Any]:
        """Return two operands as arrays.

        A Python number gets the other operand's type. The first of two numbers gets the type that NumPy gives
        it. If base and exponent may have different types, an exponent counts exactly. A float base with
        integer exponents is a float64. If both operands are numbers and the power is not an integer, the base
        is a float64, too. ``as_array`` returns an array, or anything else with a dtype, for any other operand.

        Raises:
            SpecError: the number does not fit the type.
        """
        is_mixed = self.inputs[0].type != self.inputs[1].type
        if is_number(x) and not is_number(y):
            y = as_array(y)
            return self._number(0, x, base_dtype(x, y.dtype) if is_mixed else y.dtype), y
        if is_mixed and is_number(x) and (type(y) is float or y < 0):
            x = float(x)
        x = as_array(x)
        if not is_number(y):
            return x, as_array(y)
        if is_mixed:
            return x, exponent_array(y)
        return x, self._number(1, y, x.dtype, exactly=self.kernel != "prelu")

    def _number(self, index: int, number: Number, dtype: np.dtype[Any], *, exactly: bool = False) -> Array:
        if (array := number_array(number, dtype, exactly=exactly)) is None:
            port = self.inputs[index]
            message = f"{port.name} does not fit the type {dtype.name}"
            raise self.error(f"type {port.type}", message, got=number)
        return array

    def check_output(self, output: TensorType, out: Any, is_writeable: bool) -> None:
        """Refuse an array for the output that has another type or shape, or is read-only."""
        if (got := tensor_type(out)) != output:
            raise self.error("output", "out must have the output's type and shape", expected=output, got=got)
        if not is_writeable:
            raise self.error("output", "out must be writeable", expected=output, got="a read-only array")

    def __str__(self) -> str:
        from halfulp.pages import page, text  # lazily, because computing does not need it

        return text(page(self))

    def _repr_html_(self) -> str:
        from halfulp.pages import html, page

        return html(page(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return op, (self.id,)


def base_dtype(number: Number, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of a Python number as the base of exponents of a type: beside integers, a float is a float64."""
    is_float_beside_integers = type(number) is float and dtype.kind != "f" and dtype.name in INTEGERS
    return _FLOAT64 if is_float_beside_integers else dtype


def number_array(number: Number, dtype: np.dtype[Any], *, exactly: bool = False) -> Array | None:
    """Return a Python number as a read-only 0-d array of a type; None if it does not fit. It is kept for later calls.

    With ``exactly``, a number that would be rounded does not fit. Integer types never round.
    """
    # The key must distinguish -0.0 from 0.0, because they are equal.
    return _kept_number(number, isinstance(number, float) and math.copysign(1, number), dtype, exactly)


@lru_cache(maxsize=1024, typed=True)
def _kept_number(number: Number, sign: float, dtype: np.dtype[Any], exactly: bool) -> Array | None:
    row = TYPES.get(dtype.name)
    with _core.DefaultEnvironment(), np.errstate(all="ignore"):
        if row is None:
            array = np.array(number)  # the clause on types refuses the other operand
        elif row.kind != "float":
            least, largest = integer_range(row.name)
            if number % 1 != 0 or not least <= number <= largest:  # infinity % 1 is NaN
                return None
            array = np.array(int(number), np.int64 if least else np.uint64).astype(dtype)
        else:
            try:
                value = np.float64(number)
            except OverflowError:
                return None
            # Every step but the last rounds to odd, so that the result is as if rounded once.
            if dtype != _FLOAT64 and value.item() != number:
                value = to_odd(value, number)
            # ml_dtypes converts via float32. (A copy of a dtype is never builtin, so that the row's dtype is asked.)
            if row.dtype.isbuiltin != 1:
                value = to_odd(np.float32(value), value)
            array = np.array(value).astype(dtype)
            if exactly and number == number and array.astype(np.float64).item() != number:
                return None
    array.flags.writeable = False
    return array


# For other modules, which do not import the core themselves.
instruction_set = _core.instruction_set
thread_count = _core.thread_count
share_threads_of = _core.share_threads_of
xla_handlers = _core.xla_handlers
powers_of = _core.powers_of
torch_kernels = _core.torch_kernels
power_ufunc = _core.power_ufunc
replace_numpy_power = _core.replace_numpy_power


class _OfArrays(Operator):
    """The operator of a function, whose errors speak of arrays. They have a clause, but do not cite it."""

    def error(self, check: str, message: str, **shown: object) -> SpecError:
        output, given = shown.get("expected"), shown.get("got")
        if isinstance(output, TensorType) and isinstance(given, TensorType) and check == "output":
            parts = (given, output) if output.type == given.type else (given.type, output.type)
            message, shown = "out is {}, the result {}".format(*parts), {}
        return _uncited(super().error(check, message.replace("unidirectionally ", ""), **shown))


def _uncited(error: SpecError, hint: str | None = None) -> SpecError:
    """Return an error with a hint behind its message, whose text does not cite the clause."""
    message = error.message if hint is None else f"{error.message}; {hint}"
    plain = SpecError(error.clause, message, **error.shown)
    plain.args = (format_error("", message, None, error.shown),)
    return plain


@cache
def _operator(row: OpVersion, kind: type[Operator] = Operator) -> Operator:
    return kind(**{field.name: getattr(row, field.name) for field in fields(row) if field.init})


@lru_cache(maxsize=4096)
def _plan(row: OpVersion, types: tuple[TensorType, ...], values: tuple[tuple[str, Hashable], ...]) -> Plan:
    return row.plan(*types, **dict(values))


def _compute(
    row: Operator, plan: Plan, x: Array, y: Array, out: Array | None, scale_bias: ScaleBias | None
) -> Array:
    output, kernel = plan.output, _KERNELS[row.kernel]
    if out is not None:
        if not isinstance(out, ndarray):
            raise row.error("output", "out must be an array", expected=output, got=type(out).__name__)
        if _interop.is_masked(out):
            message = "out must not have masked elements"
            raise row.error("output", message, expected=output, got="a masked array")
        target = np.asarray(out)
        row.check_output(output, target, target.flags.writeable)
        if _core.apply(kernel, x, y, target, scale_bias) is not None:
            return out
    result = _core.apply(kernel, x, y, None, scale_bias)
    assert result is not None, f"{row.id} accepts types that the core refuses: {x.dtype}, {y.dtype}"
    if out is None:
        return result
    np.copyto(target, result)  # out may share memory with an operand, other than element by element
    return out


def op(id: str) -> Operator:
    """Return the operator version of an id. A number between two versions selects the one then in force.

    Args:
        id: such as ``"onnx.Pow-13"``; ``ops()`` lists them.

    Raises:
        UnsupportedError: the operator is unknown, or its first version is later.

    Example:
        >>> op("onnx.Pow-14")
        <onnx.Pow-13>
        >>> op("onnx.Pow-14")([1, 2, 3], 2.0)
        array([1, 4, 9])
    """
    return _operator(find(id))


def ops() -> tuple[str, ...]:
    """Return the id of every operator version.

    Example:
        >>> "onnx.PRelu-16" in ops()
        True
    """
    return ids()


# The two functions' operators: they take every type of the table, not only those that ONNX allows.
_ANY = tuple(TYPES)
POW = replace(_operator(find("onnx.Pow-15"), _OfArrays), type_variables={"T": _ANY, "T1": _ANY})
PRELU = replace(_operator(find("onnx.PRelu-16"), _OfArrays), type_variables={"T": _ANY})


def _call(compute: Callable[..., Array], ufunc: Ufunc, x: Any, y: Any, out: Any) -> Any:
    """Return an operand's own result, or that of ``compute`` in the operands' class, as NumPy's ufuncs do."""
    if isinstance(out, tuple) and len(out) == 1:  # __array_ufunc__ passes a tuple
        (out,) = out
    if any(map(_interop.is_on_cuda, (x, y, out))):
        from halfulp.cuda import apply  # lazily, because few callers need it

        if not isinstance(compute, Operator):
            only = "hu.pow without integers='raise', and hu.prelu"
            raise HalfulpError(f"arrays on a CUDA device have only {only}")
        return apply(compute, x, y, out)
    try:
        result = _interop.overriding_result(ufunc, x, y, out)
    except TypeError:
        if isinstance(compute, Operator):
            _explain(compute, x, y)
        raise
    if result is NotImplemented:
        try:
            first, second, into = map(_interop.without_mask, (x, y, out))
            result = compute(first, second, out=into)
        except SpecError as error:
            raise _with_help(error, compute, x, y) from None
        result = _interop.like_operands(x, y, out, result if out is None else out)  # joins the masks
    return result


def _with_help(error: SpecError, compute: Callable[..., Array], x: Any, y: Any) -> SpecError:
    """Return an error that names a replacement for the operands, if one is known."""
    x, y = (a if is_number(a) else as_array(_interop.without_mask(a)) for a in (x, y))
    for name, operand in (("X", x), ("slope" if compute is PRELU else "Y", y)):
        if error.message.startswith(f"{name} must have a type") and (why := _interop.not_numbers(operand)):
            return _uncited(SpecError(error.clause, f"{name}: {why}"))
    if compute is PRELU and isinstance(x, ndarray) and isinstance(y, ndarray):
        if x.dtype != y.dtype:
            return _uncited(error, f"pass slope.astype({x.dtype.name!r})")
        if x.ndim > 2 and y.shape == x.shape[1:2]:
            shape = f"-1{', 1' * (x.ndim - 2)}"
            return _uncited(error, f"for one along dim 1, the channels, pass slope.reshape({shape})")
    return error


def _explain(operator: Operator, x: Any, y: Any) -> None:
    """If a library declined because of the operands' types, raise the SpecError, which dask drops."""
    if all(is_number(a) or isinstance(getattr(a, "dtype", None), np.dtype) for a in (x, y)):
        operator.infer(*operator.as_arrays(x, y, lambda a: SimpleNamespace(dtype=a.dtype, shape=None)))


_T = TypeVar("_T", bound=np.generic)
ArrayLike: TypeAlias = Any  # an array of NumPy or another library, a list or a number
_Scalar: TypeAlias = np.generic | Number
_Operand: TypeAlias = NDArray[Any] | _Scalar
Integers = Literal["wrap", "raise"]


@overload
def pow(x: NDArray[_T], y: _Operand, /, *, out: None = None, integers: Integers = "wrap") -> NDArray[_T]: ...
@overload
def pow(x: _T, y: NDArray[Any], /, *, out: None = None, integers: Integers = "wrap") -> NDArray[_T]: ...
@overload
def pow(x: _T, y: _Scalar, /, *, out: None = None, integers: Integers = "wrap") -> _T: ...
@overload
def pow(x: int, y: NDArray[_T], /, *, out: None = None, integers: Integers = "wrap") -> NDArray[_T]: ...
@overload
def pow(x: int, y: _T, /, *, out: None = None, integers: Integers = "wrap") -> _T: ...
@overload
def pow(
    x: Any, y: Any, /, *, out: Any = None, where: Any = True, dtype: Any = None, integers: Integers = "wrap"
) -> Any: ...
@_quick(_core.POW)
def pow(
    x: Any, y: Any, /, *, out: Any = None, where: Any = True, dtype: Any = None, integers: Integers = "wrap"
) -> ArrayLike:
    """Return x to the power y, elementwise, correctly rounded: ONNX Pow-15 for every element type.

    The result has x's type, also for integers: 2^-1 and 2^0.5 of an integer array are 0 and 1, and powers
    that are too large wrap. ``integers="raise"`` refuses these, and ``float_power`` computes them as float64.

    It treats other libraries' arrays as NumPy's ufuncs do, and also accepts arrays with DLPack.

    Args:
        x: the base, an array-like of any type of the type table. A Python number gets y's type; a float
            beside integers is a float64. A power of two Python integers that int64 cannot hold is refused.
        y: the exponent, of any type of the table. It is broadcast with x by NumPy's rule. A Python number
            counts exactly: an integer of any size is that integer, a float is that double.
        out: an array of the result's type and shape for the result. It may share memory with x or y.
        where: an array of bool, broadcast with x and y. Where it is False, the result has out's element, or 0 without
            ``out``. Arrays of other libraries become NumPy's.
        dtype: the type to which x is converted first, and which the result has.
        integers: whether powers that x's integer type cannot hold wrap, as ONNX specifies, or are refused.

    Returns:
        An array of x's type and the broadcast shape; a scalar if it has no axes. Floating types: the
        exact value rounded once, to nearest, ties to even. Integer types: the exact integer modulo 2^n for
        an integer y >= 0; otherwise the exact value truncated and saturated.

    Raises:
        SpecError: a type is not in the table, or the shapes do not broadcast (onnx.Pow-15).
        HalfulpError: with ``integers="raise"`` and an integer type, an exponent is negative or not an
            integer, or a power overflows. The error names the first. ``dtype`` would truncate x.

    Example:
        >>> pow(np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.int64))
        array([  1.,  32., 729.], dtype=float32)
        >>> pow(np.array([3, 0], np.int64), np.array([39, -1]))
        array([4052555153018976267, 9223372036854775807])
        >>> pow(10.0, np.array([-1, 0, 1]))
        array([ 0.1,  1. , 10. ])
    """
    if dtype is not None:
        return pow(_base_as(x, np.dtype(dtype)), y, out=out, where=where, integers=integers)
    if where is not True:
        return _pow_where(x, y, out, np.asarray(where), integers)
    if integers != "wrap":
        if integers != "raise":
            raise HalfulpError("integers must be 'wrap' or 'raise'", got=repr(integers)[:80])
        return checked_pow(x, y, out=out)
    if type(x) is int and type(y) is int and out is None:  # they have no type that would wrap
        return checked_pow(x, y)
    if type(y) is ndarray and is_number(x):
        result = _core.apply(_core.POW, number_array(x, base_dtype(x, y.dtype)), y, out, None)
        if result is not None:
            return result[()] if out is None and y.ndim == 0 else result
    return _call(POW, POW_UFUNC, x, y, out)


def _base_as(x: Any, dtype: np.dtype[Any]) -> Any:
    if is_number(x):
        return POW._number(0, x, dtype)[()]
    x = x if hasattr(x, "astype") else as_array(x)
    if getattr(x, "dtype", dtype).kind == "f" and dtype.kind in "iu":
        raise HalfulpError(f"dtype={dtype.name} would truncate a base of type {x.dtype.name}")
    return x.astype(dtype)


def _pow_where(x: Any, y: Any, out: Any, mask: Array, integers: Integers) -> Any:
    x, y = POW.as_arrays(x, y)
    shape: Any = POW.infer(x, y).shape
    try:
        np.broadcast_shapes(mask.shape, shape)
    except ValueError:
        raise HalfulpError("where can't be broadcast with x and y", got=tensor_type(mask)) from None
    y = np.where(mask, y, y.dtype.type(1))  # a power that is not chosen raises no error
    powers = pow(x, y, integers=integers)
    result = np.zeros_like(powers) if out is None else out
    POW.check_output(tensor_type(powers), np.asarray(result), np.asarray(result).flags.writeable)
    np.copyto(result, powers, where=mask)
    return result[()] if out is None else result


def checked_pow(x: Any, y: Any, /, *, out: Any = None) -> Any:
    """Return the result of ``pow`` with ``integers="raise"``. Elements that a mask hides are not checked."""
    (base, hides_base), (exponent, hides_exponent) = map(_interop.hidden_elements, (x, y))
    if not (np.any(hides_base) or np.any(hides_exponent)):
        return _call(_checked_pow, CHECKED_UFUNC, x, y, out)
    base, exponent = POW.as_arrays(base, exponent)
    POW.infer(base, exponent)  # before the masks are broadcast
    _checked_pow(base, np.where(hides_base | hides_exponent, exponent.dtype.type(1), exponent))
    return pow(x, y, out=out)


def _checked_pow(x: Any, y: Any, *, out: Array | None = None) -> Array:
    with _core.DefaultEnvironment():
        x, y = POW.as_arrays(x, y)
        POW.infer(x, y)
        _check_powers(x, y)
    return POW(x, y, out=out)


def _check_powers(x: Array, y: Array) -> None:
    """Refuse powers of which an integer type loses something: the exponent is negative or no integer, or it overflows.

    The error names the first such element. Bases of other types pass.
    """
    row = TYPES[type_name(x.dtype)]
    if row.kind == "float":
        return
    exact = np.dtype(y.dtype.newbyteorder("=") if y.dtype.kind in "iu" else np.float64)
    least, largest = integer_range(row.name)
    shape = np.broadcast(x, y).shape
    bases, exponents = ((a if a.shape == shape else np.broadcast_to(a, shape)).reshape(-1) for a in (x, y))
    piece = 1 << 16  # elements, so that what is made of them stays small
    for start in range(0, bases.size, piece):
        base, exponent = (each[start : start + piece] for each in (bases, exponents))
        exponent = exponent.astype(exact, copy=False)  # one number for all stays so, which is faster
        is_whole = (exponent >= 0) & (exponent < np.inf) & (exponent == np.floor(exponent))
        # Rounding to float64 moves no power from 2 on across these bounds: none is so near to 2^63 or 2^64.
        powers = POW(base.astype(_FLOAT64), exponent)
        is_lost = ~is_whole | (exponent > 1) & ((powers < least) | (powers >= largest + 1))
        if is_lost.any():
            first = int(is_lost.argmax())
            place = list(map(int, np.unravel_index(start + first, shape)))
            at = f" at index {place}" if place else ""
            overflow = f"{row.name} overflows{at}: {base[first]} to the power {exponent[first]}"
            not_whole = f"the exponent {exponent[first]}{at} is negative or not an integer"
            fault = overflow if is_whole[first] else not_whole
            raise HalfulpError(f"{fault}; hu.float_power(x, y) gives a float64")


@overload
def float_power(x: _Scalar, y: _Scalar, /, *, out: None = None) -> np.float64: ...
@overload
def float_power(x: NDArray[Any], y: _Operand, /, *, out: None = None) -> NDArray[np.float64]: ...
@overload
def float_power(x: _Scalar, y: NDArray[Any], /, *, out: None = None) -> NDArray[np.float64]: ...
@overload
def float_power(x: Any, y: Any, /, *, out: Any = None) -> Any: ...
def float_power(x: ArrayLike, y: ArrayLike, /, *, out: ArrayLike = None) -> ArrayLike:
    """Return x to the power y as float64, elementwise, correctly rounded: ``np.float_power`` for every element type.

    Integers count exactly, also those that float64 cannot represent. Powers of such bases are computed one by
    one, at some microseconds each. Other libraries' arrays are treated as in ``pow``.

    Args:
        x: the base, an array-like of a type of the type table, or of bool.
        y: the exponent, of such a type. It is broadcast with x by NumPy's rule.
        out: a float64 array of the result's shape for the result. It may share memory with x or y.

    Returns:
        A float64 array of the broadcast shape; a scalar if both are scalars.

    Raises:
        SpecError: a type is not allowed, or the shapes do not broadcast (onnx.Pow-15).

    Example:
        >>> float_power(np.array([10, 2, 3]), np.array([-1, 0.5, 2]))
        array([0.1       , 1.41421356, 9.        ])
        >>> float_power(3, -1)
        np.float64(0.3333333333333333)
    """
    return _call(_float_power, FLOAT_POWER_UFUNC, x, y, out)


def _float_power(x: Any, y: Any, *, out: Array | None = None) -> Array:
    with _core.DefaultEnvironment():
        x = as_array(x)
        y = exponent_array(y) if is_number(y) else as_array(y)
        if y.dtype.kind == "b":
            y = y.astype(np.int8)
        base = x.astype(np.float64) if x.dtype.kind == "b" or type_name(x.dtype) in TYPES else x
        _plan(POW, (tensor_type(base), tensor_type(y)), ())  # before _corrections, which takes numbers only
        exact = _corrections(x, y)  # before the result is written, because it may share the operands' memory
        result = POW(base, y, out=out)
        if exact is not None:
            where, powers = exact
            np.asarray(result)[where] = powers
    return result


def _corrections(x: Array, y: Array) -> tuple[Array, list[float]] | None:
    """Return the float64 powers that a base gets wrong if it is rounded to float64: their positions and values."""
    if x.dtype.kind not in "iu" or x.dtype.itemsize < 8:
        return None
    if not x.size or (x.min() >= -(2**53) and x.max() <= 2**53):
        return None
    # Both halves are exact in float64, and so is the difference of the rounded integer and the upper half.
    is_rounded = x.astype(_FLOAT64) - (x >> 32) * 2.0**32 != x & 0xFFFFFFFF
    y = y if y.dtype.kind in "iu" else y.astype(_FLOAT64)
    # Other powers overflow, vanish or are NaN, whether the base was rounded or not: |x| > 2^53.
    where = is_rounded & (y >= -64) & (y <= 64) & ((x > 0) | (y == np.floor(y)))
    bases, exponents = (np.broadcast_to(a, where.shape)[where].tolist() for a in (x, y))
    return where, [_power(base, exponent) for base, exponent in zip(bases, exponents, strict=True)]


def _power(x: int, y: int | float) -> float:
    """Return the float64 nearest to an integer's power that is a number; |x| > 1, and y is finite."""
    numerator, denominator = y.as_integer_ratio()
    while denominator > 1 and math.isqrt(x) ** 2 == x:
        x, denominator = math.isqrt(x), denominator // 2
    if denominator == 1:
        try:
            # Python rounds an integer, and a quotient of integers, once.
            return float(x**numerator) if numerator >= 0 else 1 / x**-numerator
        except OverflowError:
            return -math.inf if x < 0 and numerator % 2 else math.inf
    digits = 40
    while True:  # an irrational power has more digits taken until both ends round to one number
        with decimal.localcontext(decimal.Context(digits, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)):
            # |y log x| < 10^4, and each of the three operations errs by half a unit of its last digit.
            power = (decimal.Decimal(x).ln() * decimal.Decimal(numerator / denominator)).exp()
            error = power.scaleb(6 - digits)
            low, high = float(power - error), float(power + error)
        if low == high:
            return low
        digits *= 2


@overload
def prelu(x: NDArray[_T], slope: NDArray[_T] | _T | Number, /, *, out: None = None) -> NDArray[_T]: ...
@overload
def prelu(x: _T, slope: _T | Number, /, *, out: None = None) -> _T: ...
@overload
def prelu(x: Number, slope: _T, /, *, out: None = None) -> _T: ...
@overload
def prelu(x: Any, slope: Any, /, *, out: Any = None) -> Any: ...
@_quick(_core.PRELU)
def prelu(x: ArrayLike, slope: ArrayLike, /, *, out: ArrayLike = None) -> ArrayLike:
    """Return slope * x where x < 0, else x: ONNX PRelu-16 for every element type.

    It treats other libraries' arrays as NumPy's ufuncs do, and also accepts arrays with DLPack.

    Args:
        x: an array-like of any type of the type table.
        slope: the slope, of x's type and a shape that broadcasts to x's own. A Python number gets x's type.
        out: an array of x's type and shape for the result. It may share memory with x or slope.

    Returns:
        An array of x's type and shape; a scalar if both are scalars. Floating types: the product rounded
        once; NaN and zeros in x are returned bit for bit. Integer types: the product modulo 2^n.

    Raises:
        SpecError: the types differ or are not in the table, or the slope would enlarge x (onnx.PRelu-16).

    Example:
        >>> prelu(np.array([-2.0, -0.0, 3.0]), 0.25)
        array([-0.5, -0. ,  3. ])
    """
    is_scalar = isinstance(x, generic) and out is None
    if is_number(slope) and (type(x) is ndarray or is_scalar):
        result = _core.apply(_core.PRELU, asarray(x), number_array(slope, x.dtype), out, None)
        if result is not None:
            return result[()] if out is None and x.ndim == 0 else result
    return _call(PRELU, PRELU_UFUNC, x, slope, out)


# Passed to libraries with an __array_ufunc__. Defined at module level, because they are pickled by name.
POW_UFUNC = Ufunc(pow, "POW_UFUNC")
CHECKED_UFUNC = Ufunc(checked_pow, "CHECKED_UFUNC")
FLOAT_POWER_UFUNC = Ufunc(float_power, "FLOAT_POWER_UFUNC")
PRELU_UFUNC = Ufunc(prelu, "PRELU_UFUNC")
