"""Other libraries' arrays: the protocols by which they take part in a call, and get their own kind back.

A library that implements ``__array_ufunc__`` (dask, pandas, xarray and others) is asked to make the
result, as NumPy's ufuncs ask it; a subclass of ndarray wraps the result (masked arrays, memory maps);
what exports its memory by DLPack (JAX, CuPy, torch) gets an array of its own library.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfulp.errors import HalfulpError

Array = NDArray[Any]


class Ufunc:
    """``hu.pow`` or ``hu.prelu`` in the shape of a NumPy ufunc, for libraries that expect one.

    Its name is not one of NumPy's. Otherwise a library could mistake it for the ufunc of that name and compute
    something else.

    Args:
        function: takes two operands and ``out``.
        name: of the variable, in the function's module, that holds this object; how it is pickled.
    """

    nin, nout, nargs, ntypes = 2, 1, 3, 0
    signature = None
    identity = None
    types: tuple[str, ...] = ()

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function = function
        self.__name__ = f"halfulp_{function.__name__}"
        self.__module__ = function.__module__
        self.__qualname__ = name
        self.__doc__ = function.__doc__

    def __call__(self, *operands: Any, out: Any = None) -> Any:
        return self.function(*operands, out=out)

    def __repr__(self) -> str:
        return f"<ufunc '{self.__name__}'>"

    def __reduce__(self) -> str:
        return self.__qualname__

    def __dask_tokenize__(self) -> str:
        return f"{self.__module__}.{self.__qualname__}"


def overriding_result(ufunc: Ufunc, x: Any, y: Any, out: Any) -> Any:
    """Return the result of an operand's own ``__array_ufunc__``, as for a NumPy ufunc.

    Subclasses come before their bases, otherwise the order is the operands'. NotImplemented if no operand has one.

    Raises:
        TypeError: an operand forbids ufuncs (``__array_ufunc__ = None``), or all overrides decline.
        HalfulpError: pandas would give the columns of a frame one type.
    """
    if out is None and is_frame(x) and isinstance(y, int | float | np.generic):
        return x.apply(lambda column: ufunc(column, y))
    if out is None and is_frame(y) and isinstance(x, int | float | np.generic):
        return y.apply(lambda column: ufunc(x, column))
    for frame in filter(is_frame, (x, y)):
        check_frame(frame)
    asked: list[Any] = []
    for operand in (x, y, out):
        kind = type(operand)
        override = getattr(kind, "__array_ufunc__", np.ndarray.__array_ufunc__)
        if override is np.ndarray.__array_ufunc__ or issubclass(kind, np.generic):
            continue
        if override is None:
            raise TypeError(f"operand of type {kind.__name__} does not support ufuncs")
        if any(type(other) is kind for other in asked):
            continue
        place = next((i for i, other in enumerate(asked) if issubclass(kind, type(other))), len(asked))
        asked.insert(place, operand)
    keywords = {} if out is None else {"out": (out,)}
    for operand in asked:
        result = type(operand).__array_ufunc__(operand, ufunc, "__call__", x, y, **keywords)
        if result is not NotImplemented:
            return result
    # A library that does not know the function may still export its memory.
    if any(not is_foreign(operand) for operand in asked):
        names = ", ".join(type(operand).__name__ for operand in asked)
        raise TypeError(f"{ufunc.__name__} is not implemented by the operands' types: {names}")
    return NotImplemented


def is_frame(operand: Any) -> bool:
    """Whether an operand is a pandas DataFrame, whose columns have types of their own.

    Its ``__array_ufunc__`` makes one array of them all, and of a number an array that has a type, too.
    """
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(operand, pandas.DataFrame)


def check_frame(frame: Any) -> None:
    """Check that all columns of a pandas DataFrame have one type.

    Raises:
        HalfulpError: they have several, of which pandas would make one.
    """
    types = sorted({str(dtype) for dtype in frame.dtypes})
    if len(types) > 1:
        raise HalfulpError("a DataFrame: its columns have several types; pass each column", got=types)


def is_foreign(operand: Any) -> bool:
    """Whether an operand is another library's array with DLPack."""
    return not isinstance(operand, np.ndarray | np.generic) and hasattr(type(operand), "__dlpack__")


# DLPack's numbers of device types.
_PROCESSORS = (1, 3, 11)  # memory of the processor: its own, or shared with devices of CUDA or ROCm
_CUDA = (2, 13)  # memory of CUDA's devices: their own, or managed


def device_type(operand: Any) -> int | None:
    """Return DLPack's number of the type of device that an array lies on; None where it does not say."""
    ask = getattr(type(operand), "__dlpack_device__", None)
    if ask is None:
        return _CUDA[0] if hasattr(type(operand), "__cuda_array_interface__") else None
    try:
        return int(ask(operand)[0])
    except Exception:  # as of JAX's tracers, which lie nowhere
        return None


def is_on_cuda(operand: Any) -> bool:
    """Whether an array lies in the memory of a CUDA device."""
    return not isinstance(operand, np.ndarray | np.generic) and device_type(operand) in _CUDA


def from_foreign(operand: Any) -> Array:
    """Return another library's array as an ndarray: of the same memory, unless elements are still to be resolved.

    The library's own ``__array__`` decides. Where that refuses, DLPack is not asked: it may know less of the array, as
    of a sign or a scale that torch keeps beside the memory.

    Raises:
        HalfulpError: it is a kind of array that has to be converted first, and the error says how.
        TypeError, ValueError, RuntimeError, BufferError: it cannot be exported for another reason.
    """
    if (torch := torch_of(operand)) is not None:
        operand = plain_tensor(operand, torch)
    elif _is_tracer(operand):
        raise HalfulpError("a JAX tracer: it has no elements yet; halfulp.integrations.jax takes tracers")
    device = device_type(operand)
    if device is not None and device not in _PROCESSORS:
        raise BufferError(f"it is in a device's memory (DLPack's type {device}); copy it to the processor's")
    if not hasattr(type(operand), "__array__"):
        return np.from_dlpack(operand)  # which lacks bfloat16 and the float8 types, as JAX's arrays may have
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
    """Return a torch tensor as one whose memory holds its elements: with its negative bit, if any, resolved.

    Raises:
        HalfulpError: its elements are elsewhere or in another form, or its gradients would be lost.
    """
    refusal = tensor_refusal(tensor, torch)
    kind = type(tensor)
    if refusal is None and tensor.device.type == "meta":
        refusal = "a tensor on the meta device: it has no elements"
    if refusal is None and torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        refusal = "a tensor inside a torch.func transform: halfulp.integrations.torch takes such tensors"
    if refusal is None and kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        refusal = (
            f"a {kind.__name__}: this subclass of torch.Tensor does not keep its elements in its own memory; "
            "pass a plain tensor, or call halfulp.integrations.torch"
        )
    if refusal is None and tensor.requires_grad and torch.is_grad_enabled():
        refusal = (
            "a tensor that requires gradients: call halfulp.integrations.torch.pow or .prelu, which have derivatives;"
            " x.detach() drops them"
        )
    if refusal is not None:
        raise HalfulpError(refusal)
    if tensor.requires_grad:
        tensor = tensor.detach()
    # A ZeroTensor has no memory; its copy has.
    return tensor.clone() if tensor._is_zerotensor() else tensor.resolve_conj().resolve_neg()


def tensor_refusal(tensor: Any, torch: Any) -> str | None:
    """Return why no kernel takes a torch tensor of this kind, and how to convert it; None for all other kinds."""
    if tensor.is_nested:
        return "a nested tensor: it is not one array; pass the tensors of x.unbind(), or x.to_padded_tensor(value)"
    if isinstance(tensor, torch.masked.MaskedTensor):
        return "a MaskedTensor: its mask would be lost; pass x.to_tensor(value)"
    if tensor.is_quantized:
        return f"a quantised tensor ({tensor.dtype}): its elements are not numbers; pass x.dequantize()"
    if tensor.layout is not torch.strided:
        return f"a tensor of layout {tensor.layout}: it is not dense; pass x.to_dense()"
    return None


def _is_tracer(operand: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(operand, jax.core.Tracer)


def like_operands(x: Any, y: Any, out: Any, result: Array) -> Any:
    """Return the result as what NumPy's ufuncs return for such operands.

    That is the ndarray subclass among them that has the highest priority; the other library's array
    where that can hold the result's type; a scalar where both are scalars.
    """
    operands = (x, y)
    subclassed = [a for a in operands if isinstance(a, np.ndarray) and type(a) is not np.ndarray]
    if out is not None:
        subclassed = [out] if type(out) is not np.ndarray else []
    if subclassed:
        chosen = max(subclassed, key=lambda a: a.__array_priority__)
        # Masked arrays look their ufunc up in a table: with np.power they join the operands' masks, and no more.
        return chosen.__array_wrap__(result, (np.power, operands, 0), False)
    if out is not None:
        return out
    for operand in operands:
        if is_foreign(operand):
            return to_foreign(operand, result)
    if all(isinstance(a, int | float | np.generic) for a in operands):
        return result[()]
    return result


def to_foreign(like: Any, result: Array) -> Any:
    """Return the result as an array of another library, or unchanged if that would change its type."""
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
