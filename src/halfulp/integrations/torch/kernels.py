"""halfulp's kernels in place of torch's own for ``pow`` and ``prelu`` on the CPU, while that is enabled.

torch's dispatcher calls the kernels for tensors without Python, by torch's stable ABI. That ABI has no Python numbers:
the overloads with a number are written here, as are operands that must be converted first. Both call the kernels in
turn. Derivatives, batching, autocast and so on are torch's own: they are above the CPU's kernels.
"""

from __future__ import annotations

import ctypes
import math
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, lru_cache, partial
from typing import Any

import torch
from torch import Tensor

import halfulp.operators as hu
from halfulp._interop import Number
from halfulp.errors import HalfulpError
from halfulp.integrations.replacement import Replacement
from halfulp.integrations.torch.inductor import Inductor
from halfulp.integrations.torch.operators import (
    DTYPES,
    LIBRARY,
    address_of,
    compute,
    fitting,
    torch_libraries,
)
from halfulp.operators import torch_kernels
from halfulp.types import TYPES

_FLOATS = frozenset(dtype for dtype in DTYPES if dtype.is_floating_point)
_INTEGERS = frozenset(DTYPES) - _FLOATS

# The operators that the kernels call for other operands, and those by which Python calls the kernels.
LIBRARY.define("_other_prelu(Tensor x, Tensor slope) -> Tensor")
LIBRARY.define("_power(Tensor x, Tensor y) -> Tensor")
for _name, _kind in (("_other_pow", "Tensor"), ("_power_of_float", "float"), ("_power_of_int", "int")):
    LIBRARY.define(f"{_name}(Tensor x, {_kind} y) -> Tensor")
    LIBRARY.define(f"{_name}.out(Tensor x, {_kind} y, *, Tensor(a!) out) -> Tensor(a!)")
    LIBRARY.define(f"{_name}_(Tensor(a!) x, {_kind} y) -> Tensor(a!)")


def exact() -> Replacement:
    """Return a context in which torch's own powers are halfulp's: see ``enable``.

    Example:
        >>> with exact():
        ...     torch.tensor([1.1, 2.3]) ** 2.5
        tensor([1.2691, 8.0227])
    """
    return _KERNELS


def enable() -> None:
    """Let every ``x ** y``, ``torch.pow`` and PReLU of the process on the CPU be correctly rounded, until ``disable``.

    This holds in all threads, modules, optimisers and derivatives, for each type that halfulp has; torch computes
    others (complex numbers) as before. torch's rules for the result's type and shape, autograd, torch.func, ``out=``
    and autocast stay. torch.compile's programs call the kernels; where they cannot (on CUDA, in C++ wrappers), it gives
    a HalfulpWarning. Enable it before other threads compute: torch does not lock its table of kernels.

    Raises:
        HalfulpError: this build of torch has no stable ABI.
    """
    _KERNELS.enable()


def disable() -> None:
    """Put torch's own kernels back, once it is called as often as ``enable``.

    Raises:
        HalfulpError: the kernels are not enabled.
    """
    _KERNELS.disable()


_INDUCTOR = Inductor()
_REMOVALS = ExitStack()


def _put_in() -> None:
    runtime, addresses = connect()
    _torchs.update({name: torch.library.get_kernel(name, "CPU") for name in (*addresses, *_WITH_NUMBERS)})
    library = torch.library.Library("aten", "IMPL")
    _REMOVALS.callback(library._destroy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says once that a kernel is overridden
        for name, kernel in _WITH_NUMBERS.items():
            library.impl(name.removeprefix("aten::"), kernel, "CPU", allow_override=True)
    handle = _registered(runtime, "aten", addresses)
    _INDUCTOR.put_in()
    _REMOVALS.callback(_INDUCTOR.take_out)
    _REMOVALS.callback(lambda: runtime.aoti_torch_delete_library_object(handle))


_KERNELS = Replacement(_put_in, _REMOVALS.close)


@cache
def connect() -> tuple[Any, dict[str, int]]:
    """Return torch's library and the kernels for its own operators, and register those for halfulp's."""
    for runtime in torch_libraries():
        try:
            dtypes = {
                getattr(runtime, f"aoti_torch_dtype_{dtype.name}")(): list(TYPES).index(dtype.name)
                for dtype in DTYPES.values()
            }
            kernels = torch_kernels(partial(address_of, runtime), dtypes)
        except AttributeError:
            continue
        own = {name: address for name, address in kernels.items() if name.startswith("halfulp::")}
        _registered(runtime, "halfulp", own)  # for ever
        return runtime, {name: kernels[name] for name in kernels.keys() - own.keys()}
    raise HalfulpError(
        "this build of torch has no stable ABI (aoti_torch_library_impl)", got=torch.__version__
    )


def _registered(runtime: Any, namespace: str, kernels: dict[str, int]) -> ctypes.c_void_p:
    """Register kernels for the CPU, and return the object that holds them in place."""
    handle = ctypes.c_void_p()
    failed = runtime.aoti_torch_library_init_impl(
        namespace.encode(), b"CPU", b"halfulp", ctypes.c_uint32(0), ctypes.byref(handle)
    )
    for name, address in kernels.items():
        overload = name.removeprefix(f"{namespace}::").encode()
        failed = failed or runtime.aoti_torch_library_impl(handle, overload, ctypes.c_void_p(address))
    if failed:
        raise HalfulpError(f"torch does not take kernels for {namespace}", got=torch.__version__)
    return handle


# torch's own kernels, by their operators.
_torchs: dict[str, Any] = {}
_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


def _pow(name: str, x: Any, y: Any, out: Tensor | None = None) -> Tensor:
    """Compute a power of any operands by torch's rules for types; by torch's kernel if halfulp's do not take them."""
    target = x if name.startswith("aten::pow_.") else out
    result = _power(x, y)
    if result is not None and target is None:
        return result
    if result is not None and target is not None and torch.can_cast(result.dtype, target.dtype):
        if out is not None and out.shape != result.shape:
            out.resize_(result.shape).as_strided_(result.shape, result.stride())
        if target.shape == result.shape:
            return target.copy_(result)
    if not isinstance(x, Tensor):  # torch's kernel for numbers cannot be called by itself
        dtype = torch.result_type(x, y)
        x, y = torch.tensor(x, dtype=dtype), y.contiguous() if x != 1 else y.new_zeros(y.shape)
        name = name.replace("Scalar", "Tensor_Tensor")
    # It raises torch's own error, unless it knows these types.
    return _torchs[name].call_boxed(_CPU, x, y, **({} if out is None else {"out": out}))


def _power(x: Any, y: Any) -> Tensor | None:
    dtype = torch.result_type(x, y)
    if dtype not in DTYPES:
        return None
    base = x.to(dtype) if isinstance(x, Tensor) else _base(x, math.copysign(1, x), dtype)
    if isinstance(y, float):
        return _OF_FLOAT(base, y)
    if not isinstance(y, Tensor):
        return _OF_INT(base, y) if y >= 0 or dtype in _FLOATS else None
    try:
        torch.broadcast_shapes(base.shape, y.shape)
    except RuntimeError:
        return None
    y = y if y.dtype in DTYPES else y.to(dtype)
    return _POWER(base, y if isinstance(x, Tensor) else y.contiguous())


@lru_cache(maxsize=256)
def _base(number: Number, sign: float, dtype: torch.dtype) -> Tensor:
    """Return a number as a tensor of a type, rounded once. The key has the sign because -0.0 equals 0.0."""
    return torch.tensor(fitting(number, dtype), dtype=dtype, device="cpu")


# Their _op is the call without a function of torch's in Python around it, which takes a fifth of the time.
_POWER = torch.ops.halfulp._power.default._op
_OF_FLOAT = torch.ops.halfulp._power_of_float.default._op
_OF_INT = torch.ops.halfulp._power_of_int.default._op


def _with_number(name: str, ending: str, overload: str) -> Callable[..., Tensor]:
    """Return the kernel of an operator whose exponent is a number, by the kernels for either kind."""
    of_float = getattr(getattr(torch.ops.halfulp, f"_power_of_float{ending}"), overload)._op
    of_int = getattr(getattr(torch.ops.halfulp, f"_power_of_int{ending}"), overload)._op

    def kernel(x: Tensor, y: Any, **out: Tensor) -> Tensor:
        try:
            if type(y) is float and x.dtype in _FLOATS:
                return of_float(x, y, **out)
            if type(y) is int and (x.dtype in _FLOATS or (y >= 0 and x.dtype in _INTEGERS)):
                return of_int(x, y, **out)
        except RuntimeError:  # out has another type, or must be resized
            pass
        return _pow(name, x, y, **out)

    return kernel


def _of_base(x: Any, y: Tensor) -> Tensor:
    if type(x) is float and y.dtype in _FLOATS:
        return _POWER(_base(x, math.copysign(1, x), y.dtype), y.contiguous())
    return _pow("aten::pow.Scalar", x, y)


_WITH_NUMBERS: dict[str, Callable[..., Tensor]] = {
    "aten::pow.Tensor_Scalar": _with_number("aten::pow.Tensor_Scalar", "", "default"),
    "aten::pow.Tensor_Scalar_out": _with_number("aten::pow.Tensor_Scalar_out", "", "out"),
    "aten::pow_.Scalar": _with_number("aten::pow_.Scalar", "_", "default"),
    "aten::pow.Scalar": _of_base,
    "aten::pow.Scalar_out": partial(_pow, "aten::pow.Scalar_out"),
}


def _prelu(x: Tensor, slope: Tensor) -> Tensor:
    if x.dtype not in DTYPES or slope.dtype != x.dtype:
        return _torchs["aten::_prelu_kernel"].call_boxed(_CPU, x, slope)
    return compute(hu.prelu, x, slope)


LIBRARY.impl("_other_pow", partial(_pow, "aten::pow.Tensor_Tensor"), "CPU")
LIBRARY.impl("_other_pow.out", partial(_pow, "aten::pow.Tensor_Tensor_out"), "CPU")
LIBRARY.impl("_other_pow_", partial(_pow, "aten::pow_.Tensor"), "CPU")
LIBRARY.impl("_other_prelu", _prelu, "CPU")
