"""halfulp's kernels in place of torch's own for ``pow`` and ``prelu`` on the CPU, while that is enabled.

torch's dispatcher calls the kernels for tensors without Python, by torch's stable ABI. That ABI has no Python numbers:
the overloads with a number are written here, as are operands that must be converted first. Both call the kernels in
turn. Derivatives, batching, autocast and so on are torch's own: they are above the CPU's kernels.
"""

import math
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, partial
from importlib.abc import MetaPathFinder
from typing import Any

import numpy as np
import torch
from torch import Tensor

import halfulp.operators as hu
from halfulp.errors import HalfulpError, HalfulpWarning
from halfulp.integrations import Replacement, triton
from halfulp.integrations.torch.operators import DTYPES, LIBRARY, compute, connect, constant, registered

_FLOATS = frozenset(dtype for dtype in DTYPES if dtype.is_floating_point)
_LEAST = {dtype: -math.inf if dtype in _FLOATS else 0 for dtype in DTYPES}  # exponents that are integers

LIBRARY.define("_other_prelu(Tensor x, Tensor slope) -> Tensor")


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


# torch.compile: Inductor calls torch's operator for powers, and on CUDA libdevice.

_LOWERING = "torch._inductor.lowering"
_POWERS = [getattr(torch.ops.aten.pow, name) for name in ("Tensor_Tensor", "Tensor_Scalar", "Scalar")]


class _Finder(MetaPathFinder):
    """Replaces Inductor's rules for powers when Inductor is loaded: to load it takes seconds."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec: Any = next(filter(None, others), None) if name == _LOWERING else None
        if spec is not None:
            load = spec.loader.exec_module

            def load_and_replace(module: Any) -> None:
                load(module)
                if self in sys.meta_path:
                    _replace_rules(module)

            spec.loader.exec_module = load_and_replace
        return spec


def _replace_rules(lowering: Any) -> None:
    try:
        from torch._inductor import codecache

        key, rules, decompositions = codecache.torch_key, lowering.lowerings, lowering.decompositions
        before = {op: rules[op] for op in _POWERS}
        decomposed = {op: decompositions.pop(op) for op in _POWERS if op in decompositions}
        rules |= {op: _calling(lowering, op) for op in _POWERS}
    except (AttributeError, ImportError, KeyError, TypeError):
        _warn(f"torch {torch.__version__}")
        return
    process = os.urandom(8)
    # Programs on the disk that were compiled without the kernels, or with a warning, are not taken.
    codecache.torch_key = lambda: key() + process
    _REMOVALS.callback(setattr, codecache, "torch_key", key)
    _REMOVALS.callback(decompositions.update, decomposed)
    _REMOVALS.callback(rules.update, before)


@cache
def _open_triton() -> bool:
    """Let programs for CUDA link halfulp's powers from now on, and return whether they do."""
    if triton.BITCODE is None or torch.version.hip:
        return False
    triton.enable()
    _REMOVALS.callback(triton.disable)
    # Workers are other processes.
    _REMOVALS.enter_context(torch._inductor.config.patch(compile_threads=1))
    _triton, key = torch.utils._triton, torch.utils._triton.triton_hash_with_backend
    # It is part of a kernel's source, so that one from outside is not taken.
    _triton.triton_hash_with_backend = lambda: f"{key()} halfulp"
    _REMOVALS.callback(setattr, _triton, "triton_hash_with_backend", key)
    return True


def _programs() -> list[Any]:
    """Return references to the programs that torch.compile has made."""
    codes = getattr(sys.modules.get("torch._dynamo.convert_frame"), "output_codes", None)
    return [] if codes is None else list(codes.seen)


def _calling(lowering: Any, op: Any) -> Any:
    """Return Inductor's rule to call an operator on the CPU, where halfulp's kernels are, or libdevice's on CUDA."""
    call, own = lowering.fallback_handler(op, add_to_fallback_set=False), lowering.lowerings[op]

    def lower(*operands: Any) -> Any:
        devices = {operand.get_device().type for operand in operands if hasattr(operand, "get_device")}
        if devices <= {"cpu"} and not lowering.V.graph.cpp_wrapper:
            return call(*operands)
        if devices == {"cuda"} and _open_triton() and not lowering.V.graph.cpp_wrapper:
            kind = lowering.ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
            powers = lowering.pow_native(*lowering.transform_args(list(operands), {}, True, kind, False)[0])
            real: Any = {torch.float32: np.float32, torch.float64: np.float64}.get(powers.get_dtype())
            numbers = [operand for operand in operands if not hasattr(operand, "get_dtype")]
            if real and all(isinstance(n, float | int) and float(real(n)) == n for n in numbers):
                return powers
        _warn("C++ wrappers" if devices <= {"cpu"} else f"programs for {', '.join(sorted(devices))}")
        return own(*operands)

    return lower


def _warn(where: str) -> None:
    line = f"torch.compile keeps torch's own powers in {where}; call halfulp.integrations.torch.pow there"
    warnings.warn(line, HalfulpWarning, stacklevel=3)


_FINDER, _REMOVALS = _Finder(), ExitStack()
_kept: list[Any] = []  # the programs that existed when the kernels were taken out


def _put_in() -> None:
    addresses = connect()
    for name in (*addresses, *_WITH_NUMBERS):
        _torchs[name] = torch.library.get_kernel(f"aten::{name}", "CPU")
    library = torch.library.Library("aten", "IMPL")
    _REMOVALS.callback(library._destroy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says once that a kernel is overridden
        for name, kernel in _WITH_NUMBERS.items():
            library.impl(name, kernel, "CPU", allow_override=True)
    _REMOVALS.callback(registered("aten", addresses))  # after these: it would say so where nothing hears it
    if list(map(id, _programs())) != list(map(id, _kept)):
        sys.modules["torch._dynamo"].reset_code_caches()  # the new ones contain Inductor's powers
    if _LOWERING in sys.modules:
        _replace_rules(sys.modules[_LOWERING])
    sys.meta_path.insert(0, _FINDER)
    _REMOVALS.callback(sys.meta_path.remove, _FINDER)
    _REMOVALS.callback(_open_triton.cache_clear)


def _take_out() -> None:
    _kept[:] = _programs()
    _REMOVALS.close()


_KERNELS = Replacement(_put_in, _take_out)
disable = _KERNELS.disable


# torch's own kernels, by their operators.
_torchs: dict[str, Any] = {}
_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


def _pow(name: str, x: Any, y: Any, out: Tensor | None = None) -> Tensor:
    """Compute a power of any operands by torch's rules for types; by torch's kernel if halfulp's do not take them."""
    target: Any = x if name.startswith("pow_.") else out
    result = _power(x, y)
    if result is not None and target is None:
        return result
    if result is not None and torch.can_cast(result.dtype, target.dtype):
        if out is not None and out.shape != result.shape:  # as torch resizes it
            out.resize_(result.shape).as_strided_(result.shape, result.stride())
        if target.shape == result.shape:
            return target.copy_(result)
    # torch's kernel raises torch's own error, unless it knows these types. That for numbers cannot be called by itself.
    if not isinstance(x, Tensor):
        dtype = torch.result_type(x, y)
        x, y = torch.tensor(x).to(dtype), y.contiguous() if x != 1 else y.new_zeros(y.shape)
        name = name.replace("Scalar", "Tensor_Tensor")
    return _torchs[name].call_boxed(_CPU, x, y, **({} if out is None else {"out": out}))


def _power(x: Any, y: Any) -> Tensor | None:
    dtype = torch.result_type(x, y)
    if dtype not in DTYPES:
        return None
    try:  # an integer may be one that torch wraps around, shapes may not broadcast
        base = x.to(dtype) if isinstance(x, Tensor) else constant(x, dtype)
        torch.broadcast_shapes(base.shape, y.shape if isinstance(y, Tensor) else ())
    except (HalfulpError, RuntimeError):
        return None
    is_long = isinstance(y, int) and y >= 1 << 63  # torch takes it beside floats, as a float
    if isinstance(y, float) or (is_long and dtype in _FLOATS):
        return _OF_FLOAT(base, float(y))
    if not isinstance(y, Tensor):
        return None if is_long or (y < 0 and dtype not in _FLOATS) else _OF_INT(base, y)
    y = y if y.dtype in DTYPES else y.to(dtype)
    return _POWER(base, y if isinstance(x, Tensor) else y.contiguous())


# Their _op is the call without a function of torch's in Python around it, which takes a fifth of the time.
_POWER = torch.ops.halfulp.pow.default._op
_OF_FLOAT = torch.ops.halfulp._power_of_float.default._op
_OF_INT = torch.ops.halfulp._power_of_int.default._op


def _with_number(name: str) -> Callable[..., Tensor]:
    """Return the kernel of an operator whose exponent is a number, by the kernels for either kind."""
    ending = "_" if name.startswith("pow_.") else ""
    overload = "out" if name.endswith("_out") else "default"
    packets = [getattr(torch.ops.halfulp, f"_power_of_{kind}{ending}") for kind in ("float", "int")]
    of_float, of_int = (getattr(packet, overload)._op for packet in packets)

    def kernel(x: Tensor, y: Any, **out: Tensor) -> Tensor:
        try:
            if type(y) is float and x.dtype in _FLOATS:
                return of_float(x, y, **out)
            if type(y) is int and y >= _LEAST.get(x.dtype, math.inf):
                return of_int(x, y, **out)
        except RuntimeError:  # out has another type, or must be resized
            pass
        return _pow(name, x, y, **out)

    return kernel


def _of_base(x: Any, y: Tensor) -> Tensor:
    if type(x) is float and y.dtype in _FLOATS:
        return _POWER(constant(x, y.dtype), y.contiguous())
    return _pow("pow.Scalar", x, y)


_WITH_NUMBERS: dict[str, Any] = {"pow.Scalar": _of_base, "pow.Scalar_out": partial(_pow, "pow.Scalar_out")}
for _name in ("pow.Tensor_Scalar", "pow.Tensor_Scalar_out", "pow_.Scalar"):
    _WITH_NUMBERS[_name] = _with_number(_name)


def _prelu(x: Tensor, slope: Tensor) -> Tensor:
    if x.dtype not in DTYPES or slope.dtype != x.dtype:
        return _torchs["_prelu_kernel"].call_boxed(_CPU, x, slope)
    return compute(hu.prelu, x, slope)


LIBRARY.impl("_other_pow", partial(_pow, "pow.Tensor_Tensor"), "CPU")
LIBRARY.impl("_other_pow.out", partial(_pow, "pow.Tensor_Tensor_out"), "CPU")
LIBRARY.impl("_other_pow_", partial(_pow, "pow_.Tensor"), "CPU")
LIBRARY.impl("_other_prelu", _prelu, "CPU")
