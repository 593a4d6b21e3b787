"""The operands of a call as arrays: array-likes, Python numbers, ``out``, and other libraries' arrays.

A library with ``__array_ufunc__`` (dask, pandas, xarray and others) is asked for the result, as NumPy's ufuncs ask
it. A subclass of ndarray wraps the result (masked arrays, memory maps). A library that exports its memory by DLPack
(JAX, CuPy, torch) gets an array of its own.
"""

import sys
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfulp.errors import HalfulpError

Array = NDArray[Any]
Number = int | float


class Ufunc:
    """``hu.pow`` or ``hu.prelu`` with the interface of a NumPy ufunc, for libraries that expect one.

    Its name is not one of NumPy's: a library could mistake it for NumPy's ufunc and compute something else. It is
    pickled by the name of the variable in the function's module that holds it.
    """

    nin, nout, nargs, ntypes = 2, 1, 3, 0
    signature = identity = None
    types: tuple[str, ...] = ()

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        update_wrapper(self, function)
        self.function, self.__name__, self.__qualname__ = function, f"halfulp_{function.__name__}", name

    def __call__(self, x: Any, y: Any, /, out: Any = None, dtype: Any = None, **keywords: Any) -> Any:
        if dtype is not None:  # Polars names the type of its memory for the result
            x = np.asarray(x).astype(dtype, casting="same_kind")
        return self.function(x, y, out=out, **keywords)

    def __repr__(self) -> str:
        return f"<ufunc '{self.__name__}'>"

    def __reduce__(self) -> str:
        return self.__qualname__

    def __dask_tokenize__(self) -> str:
        return f"{self.__module__}.{self.__qualname__}"


def overriding_result(ufunc: Ufunc, x: Any, y: Any, out: Any) -> Any:
    """Return the result of an operand's own ``__array_ufunc__``, as for a NumPy ufunc; NotImplemented if none has it.

    Subclasses come before their bases; otherwise the order is that of the operands. A TypeError says that an operand
    forbids ufuncs (``__array_ufunc__ = None``), or that all overrides decline.
    """
    if out is None and (result := _of_frames(ufunc, x, y)) is not None:
        return result
    check_frame(x)
    check_frame(y)
    overriding = _overriding((x, y, out))
    keywords = {} if out is None else {"out": (out,)}
    for operand in overriding:
        dtype = getattr(operand, "dtype", None)
        # pandas itself converts such an operand to float64.
        if type(dtype).__name__ == "ArrowDtype" and _has_missing_values(operand):
            raise HalfulpError(f"{dtype} with missing values (pandas.NA); pass x.convert_dtypes()")
        result = type(operand).__array_ufunc__(operand, ufunc, "__call__", x, y, **keywords)
        if result is not NotImplemented:
            return result
    # A library that does not know the function may still export its memory.
    if any(not is_foreign(operand) for operand in overriding):
        names = ", ".join(type(operand).__name__ for operand in overriding)
        raise TypeError(f"{ufunc.__name__} is not implemented by the operands' types: {names}")
    return NotImplemented


def _overriding(operands: tuple[Any, Any, Any]) -> list[Any]:
    """Return the operands with an ``__array_ufunc__`` of their own, in the order in which NumPy asks them."""
    overriding: list[Any] = []
    for operand in operands:
        kind = type(operand)
        override = getattr(kind, "__array_ufunc__", np.ndarray.__array_ufunc__)
        if override is np.ndarray.__array_ufunc__ or issubclass(kind, np.generic):
            continue
        if override is None:
            raise TypeError(f"operand of type {kind.__name__} does not support ufuncs")
        if any(type(other) is kind for other in overriding):
            continue
        places = (place for place, other in enumerate(overriding) if issubclass(kind, type(other)))
        overriding.insert(next(places, len(overriding)), operand)
    return overriding


def is_frame(operand: Any) -> bool:
    """Whether an operand is a pandas DataFrame, whose columns have types of their own.

    Its ``__array_ufunc__`` combines the columns into one array, and turns a number into an array with a type.
    """
    return isinstance(operand, getattr(sys.modules.get("pandas"), "DataFrame", ()))


def _of_frames(ufunc: Ufunc, x: Any, y: Any) -> Any:
    """Return the result for two DataFrames, or for one and a number; None for other operands."""
    if is_frame(x) and is_frame(y):
        return _by_types(ufunc, x, y)
    if is_frame(x) and isinstance(y, int | float | np.generic):
        return _by_blocks(x, lambda block: ufunc(block, y))
    if is_frame(y) and isinstance(x, int | float | np.generic):
        return _by_blocks(y, lambda block: ufunc(x, block))
    return None


def _by_blocks(frame: Any, function: Callable[[Any], Any]) -> Any:
    """Return the frame of a function's results: one call for the columns of a type, as pandas keeps them."""
    vars(function).update(nin=1, nout=1)  # as a ufunc of one operand
    return frame.__array_ufunc__(function, "__call__", frame)


def _by_types(ufunc: Ufunc, x: Any, y: Any) -> Any:
    """Return the frame of results for two frames: one call for the columns that pandas keeps together in both."""
    if not (x.index.equals(y.index) and x.columns.equals(y.columns)):  # align() is slower for equal labels
        x, y = x.align(y)
    if (results := _of_blocks(ufunc, x, y)) is not None:
        return _by_blocks(x, lambda _: results.pop(0))
    result = x.copy()
    for place in range(x.shape[1]):  # because several columns may have one name
        result.isetitem(place, ufunc(x.iloc[:, place], y.iloc[:, place]))
    return result


def _of_blocks(ufunc: Ufunc, x: Any, y: Any) -> list[Any] | None:
    """Return the results for x's blocks, the arrays in which pandas keeps the columns of a type as rows.

    None if a column of NumPy's types is beside one of pandas' own.
    """
    own, other = x._mgr, y._mgr
    if x.empty or not hasattr(own, "blknos"):  # pandas may also keep each column by itself
        return None
    # For each column its block and its row there, by number, in either frame.
    places = np.transpose([own.blknos, own.blklocs, other.blknos, other.blklocs]).tolist()
    pairs: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for number, row, other_number, other_row in sorted(places):
        pairs.setdefault((number, other_number), []).append((row, other_row))
    results: dict[int, Any] = {}
    for (number, other_number), rows in pairs.items():
        base, exponent = own.blocks[number].values, other.blocks[other_number].values
        if isinstance(base, np.ndarray) != isinstance(exponent, np.ndarray):
            return None
        own_rows, other_rows = map(list, zip(*rows, strict=True))
        powers = ufunc(_rows(base, own_rows), _rows(exponent, other_rows))
        if isinstance(base, np.ndarray) and len(rows) < len(base):
            results.setdefault(number, np.empty(base.shape, powers.dtype))[own_rows] = powers
        else:
            results[number] = powers
    return list(results.values())


def _rows(block: Any, rows: list[int]) -> Any:
    """Return rows of a block, without a copy if they follow one another; a column of pandas' own is one row."""
    if not isinstance(block, np.ndarray):
        return block
    chosen = slice(rows[0], rows[-1] + 1)
    return block[chosen if rows == [*range(rows[0], rows[-1] + 1)] else rows]


def check_frame(operand: Any) -> None:
    """Refuse a pandas DataFrame with columns of several types, which pandas would convert to one."""
    types = sorted({str(dtype) for dtype in operand.dtypes}) if is_frame(operand) else []
    if len(types) > 1:
        raise HalfulpError("a DataFrame: its columns have several types; pass each column", got=types)


def is_foreign(operand: Any) -> bool:
    """Whether an operand is another library's array with DLPack."""
    return not isinstance(operand, np.ndarray | np.generic) and hasattr(type(operand), "__dlpack__")


# DLPack's numbers of device types.
_PROCESSORS = (1, 3, 11)  # the processor's memory, or memory that it shares with devices of CUDA or ROCm
_CUDA = (2, 13)  # CUDA's memory: a device's, or managed


def device_type(operand: Any) -> int | None:
    """Return DLPack's number of an array's device type; None if the array does not know."""
    ask = getattr(type(operand), "__dlpack_device__", None)
    if ask is None:
        return _CUDA[0] if hasattr(type(operand), "__cuda_array_interface__") else None
    try:
        return int(ask(operand)[0])
    except Exception:  # for example of JAX's tracers, which have no memory
        return None


def is_on_cuda(operand: Any) -> bool:
    """Whether an array is in the memory of a CUDA device."""
    return not isinstance(operand, np.ndarray | np.generic) and device_type(operand) in _CUDA


def from_foreign(operand: Any) -> Array:
    """Return another library's array as an ndarray of the same memory, unless elements must be resolved.

    The library's own ``__array__`` decides. If it refuses, DLPack is not tried: it may ignore a part of the array,
    such as a sign or scale that torch stores beside the memory. A HalfulpError names the way to convert the array.
    """
    if (torch := torch_of(operand)) is not None:
        operand = plain_tensor(operand, torch)
    elif (jax := sys.modules.get("jax")) is not None and isinstance(operand, jax.core.Tracer):
        raise HalfulpError("a JAX tracer: it has no elements yet; halfulp.integrations.jax takes tracers")
    device = device_type(operand)
    if device is not None and device not in _PROCESSORS:
        raise BufferError(f"it is in a device's memory (DLPack's type {device}); copy it to the processor's")
    if not hasattr(type(operand), "__array__"):
        return np.from_dlpack(operand)  # does not support bfloat16 and float8
    try:
        return np.asarray(operand)
    except TypeError as error:
        hint = "" if torch is None else "; halfulp.integrations.torch takes more types"
        raise TypeError(f"{error}{hint}") from None


def torch_of(operand: Any) -> Any:
    """Return the module torch if an operand is one of its tensors, else None."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(operand, getattr(torch, "Tensor", ())) else None


def plain_tensor(tensor: Any, torch: Any) -> Any:
    """Return a torch tensor whose memory holds its elements: a negative bit is resolved.

    A tensor whose elements are not in its memory, or whose gradients would be lost, is refused.
    """
    kind = type(tensor)
    if refusal := tensor_refusal(tensor, torch):
        pass
    elif tensor.device.type == "meta":
        refusal = "a tensor on the meta device: it has no elements"
    elif torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        refusal = "a tensor in a torch.func transform: halfulp.integrations.torch takes such tensors"
    elif kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        rule = "this subclass of torch.Tensor does not keep its elements in its own memory"
        refusal = f"a {kind.__name__}: {rule}; pass a plain tensor, or call halfulp.integrations.torch"
    elif tensor.requires_grad and torch.is_grad_enabled():
        hint = "call halfulp.integrations.torch.pow or .prelu, which have derivatives; x.detach() drops them"
        refusal = f"a tensor that requires gradients: {hint}"
    if refusal:
        raise HalfulpError(refusal)
    if tensor.requires_grad:
        tensor = tensor.detach()
    # A ZeroTensor has no memory; its copy has.
    return tensor.clone() if tensor._is_zerotensor() else tensor.resolve_conj().resolve_neg()


def tensor_refusal(tensor: Any, torch: Any) -> str | None:
    """Return why the kernels do not accept a torch tensor, and how to convert it; None if they accept it."""
    if tensor.is_nested:
        return "a nested tensor: it is not one array; pass the tensors of x.unbind(), or x.to_padded_tensor(value)"
    if isinstance(tensor, torch.masked.MaskedTensor):
        return "a MaskedTensor: its mask would be lost; pass x.to_tensor(value)"
    if tensor.is_quantized:
        return f"a quantised tensor ({tensor.dtype}): its elements are not numbers; pass x.dequantize()"
    if tensor.layout is not torch.strided:
        return f"a tensor of layout {tensor.layout}: it is not dense; pass x.to_dense()"
    return None


def torch_type_refusal(dtype: Any) -> str:
    """Return why a type of torch's that is not in the table has no powers, and how to convert it if there is a way."""
    if dtype.is_complex:
        return f"a complex tensor ({dtype}); torch.pow has complex powers"
    way_out = "; pass x.to(torch.int8)" if str(dtype) == "torch.bool" else ""
    return f"no element type {dtype}{way_out}"


def like_operands(x: Any, y: Any, out: Any, result: Array) -> Any:
    """Return the result in the class that NumPy's ufuncs return for such operands.

    This is the operands' ndarray subclass of the highest priority, another library's array if it can hold the result's
    type, or a scalar if the result has no axes.
    """
    operands = (x, y)
    takers = operands if out is None else (out,)
    if subclassed := [a for a in takers if isinstance(a, np.ndarray) and type(a) is not np.ndarray]:
        chosen = max(subclassed, key=lambda a: a.__array_priority__)
        # Masked arrays look their ufunc up in a table: with np.power they join the operands' masks, and no more.
        return chosen.__array_wrap__(result, (np.power, operands, 0), False)
    if out is not None:
        return out
    like = next(filter(is_foreign, operands), None)
    if like is None:
        return result[()] if result.ndim == 0 else result
    if hasattr(type(like), "__array_namespace__"):
        namespace = like.__array_namespace__()
    else:
        namespace = torch_of(like) or sys.modules[type(like).__module__.partition(".")[0]]
    try:
        converted = namespace.asarray(result)
    except (AttributeError, TypeError):
        return result
    # JAX without 64-bit types would make float32 of float64.
    return converted if str(converted.dtype).rpartition(".")[2] == result.dtype.name else result


# --- operands as arrays of NumPy ----------------------------------------------------------------------


def is_number(operand: object) -> bool:
    """Whether an operand is a Python number, which has a value but no element type."""
    return type(operand) is int or type(operand) is float


def as_array(operand: Any) -> Array:
    """Return an operand as a plain ndarray, without a copy if it is an array, or refuse it."""
    if type(operand) is np.ndarray:
        return operand
    name = type(operand).__name__
    kind = f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
    if hasattr(type(operand), "todense"):  # SciPy's sparse arrays, JAX's, CuPy's and others
        raise HalfulpError(f"{kind}: it is not dense; pass x.todense()")
    check_frame(operand)
    if _has_missing_values(operand):
        raise HalfulpError(f"{kind}: it has missing values (pandas.NA); pass x.fillna(value)")
    try:
        array = from_foreign(operand) if is_foreign(operand) else np.asanyarray(operand)
    except HalfulpError:
        raise
    except (TypeError, ValueError, OverflowError, RuntimeError, BufferError) as error:
        raise HalfulpError(f"not an array: {error}") from None
    if is_masked(array) or isinstance(getattr(operand, "_meta", None), np.ma.MaskedArray):  # Dask's arrays
        raise HalfulpError("a masked array: its mask would be lost; pass x.filled(value)")
    return np.asarray(array)


def not_numbers(operand: Number | Array) -> str:
    """Return why an operand has no powers, and a replacement; empty for any element type of the table."""
    if not isinstance(operand, np.ndarray):
        return "a Python integer of more than 64 bits; pass float(value)"
    dtype = operand.dtype
    if dtype.kind in "OUST":
        return _not_numbers_of_objects(operand)
    if dtype.kind == "f" and dtype.itemsize > 8:
        return f"of type {dtype.name}; pass .astype('float64')"
    return _WITHOUT_POWERS.get(dtype.kind, "").format(dtype.name)


_WITHOUT_POWERS = {
    **dict.fromkeys("mM", "dates or times ({}), which have no powers; .astype('int64') counts their units"),
    "c": "complex ({}); np.power has complex powers",
    "b": "of type bool; pass .astype('int8'), or call hu.float_power",
}
"""Why the types of a kind have no powers, by NumPy's letter of the kind."""


def _not_numbers_of_objects(operand: Array) -> str:
    if not operand.size:
        return f"an empty array of type {operand.dtype.name}; pass .astype(float)"
    first = operand.reshape(-1)[:1].tolist()[0]
    if set(map(type, operand.flat)) <= {int, float}:
        meant = np.array(operand.tolist()).dtype
        if meant.kind in "iuf":
            return f"an array of Python numbers; pass .astype({meant.name!r})"
        return "integers of more than 64 bits; pass .astype(float)"
    if operand.ndim == 0 and hasattr(first, "__float__"):
        return f"of type {type(first).__name__}; pass float(value)"
    if operand.ndim == 0:
        return f"not a number: {first!r}"[:80]
    what = "text" if operand.dtype.kind in "UST" else "Python objects"
    return f"an array of {what} (the first: {repr(first)[:80]}); convert it, for instance by .astype(float)"


def _has_missing_values(operand: Any) -> bool:
    """Whether pandas.NA, which NumPy would convert to NaN, is an element of a pandas object or a wrapper of one."""
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return False
    dtypes = operand.dtypes if is_frame(operand) else [getattr(operand, "dtype", None)]
    if all(getattr(dtype, "na_value", None) is not pandas.NA for dtype in dtypes):
        return False
    find = operand.isna if hasattr(operand, "isna") else operand.isnull  # xarray has the latter
    return bool(np.asarray(find()).any())


def is_masked(array: Array | np.generic) -> bool:
    """Whether an array hides elements by a mask."""
    return type(array) is not np.ndarray and array.dtype.fields is None and bool(np.ma.is_masked(array))


def without_mask(operand: Any) -> Any:
    """Return a masked array's elements, masked ones too, as an array; any other operand unchanged."""
    is_masked = isinstance(operand, np.ndarray) and hasattr(operand, "mask")
    return operand.view(np.ndarray) if is_masked else operand


def hidden_elements(operand: Any) -> tuple[Any, Any]:
    """Return an operand without its mask, and where that hides elements, or False. Elements that pandas lacks are 1."""
    arrays = getattr(sys.modules.get("pandas"), "arrays", None)
    if arrays is not None and isinstance(operand, arrays.IntegerArray | arrays.FloatingArray):
        return operand.to_numpy(operand.dtype.numpy_dtype, na_value=1), operand.isna()
    hides = np.ma.getmaskarray(operand) if isinstance(operand, np.ndarray) and is_masked(operand) else False
    return without_mask(operand), hides


def exponent_array(number: Number) -> Array:
    """Return a Python number as a 0-d array with the same powers in every type.

    A float is that double. An integer outside the 64-bit range becomes one within it with equal results in every type:
    with an exponent of 2^63, a base other than 0 and +-1 overflows or underflows every floating type, and only sign and
    parity count; modulo 2^n with n <= 64, powers of an odd base repeat after 2^62.
    """
    if isinstance(number, float):
        return np.array(number, np.float64)
    if -(2**63) <= number < 2**63:
        return np.array(number, np.int64)
    if number > 0:
        return np.array(number if number < 2**64 else number % 2**63 + 2**63, np.uint64)
    return np.array(-(2**63) + number % 2, np.int64)
