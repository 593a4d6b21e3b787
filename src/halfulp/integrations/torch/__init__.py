"""PyTorch: ``pow`` and ``prelu`` as operators that autograd, torch.func and torch.compile know.

The operators are ``torch.ops.halfulp.pow`` and ``torch.ops.halfulp.prelu``. Call them by the functions here,
which take numbers, too, and have forward-mode derivatives. Tensors on the CPU and on CUDA's devices are computed where
they lie, without a copy, on CUDA in torch's current stream; ``replace`` puts both into a module that exists.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._ops import HigherOrderOperator

from halfulp._args import Number
from halfulp.errors import HalfulpError
from halfulp.integrations.torch.eager import Replacing, module_prelu_or_none, pow_or_none, prelu_or_none
from halfulp.integrations.torch.operators import (
    DTYPES,
    exponent_tensor,
    home_of_numbers,
    leaky,
    number_tensor,
    power,
)
from halfulp.operators import number_array

__all__ = ["PReLU", "pow", "prelu", "replace"]


def pow(x: Tensor | Number, y: Tensor | Number, /) -> Tensor:
    """Return x to the power y, elementwise, correctly rounded, as ``hu.pow`` does.

    Args:
        x: the base, of any type that halfulp and torch both have. A number takes y's type.
        y: the exponent, of any such type, broadcast with x. A number counts exactly: a float is that double.

    Returns:
        A tensor of x's type and the broadcast shape.

    Raises:
        SpecError: shapes that do not broadcast, a type that the table lacks.
        HalfulpError: a number that does not fit the type that it takes.

    Example:
        >>> x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        >>> pow(x, torch.tensor([4, 5, 6])).sum().backward()
        >>> x.grad
        tensor([   4.,   80., 1458.])
    """
    if (result := pow_or_none(x, y)) is not None:
        return result
    if not isinstance(x, Tensor):
        if not isinstance(y, Tensor):
            raise TypeError("one of the operands must be a tensor")
        x = _number(_scalar(x), y.dtype, y.device)
    if not isinstance(y, Tensor):
        y = exponent_tensor(_scalar(y), x.device)
    return power(x, y)


def prelu(x: Tensor, slope: Tensor | Number, /) -> Tensor:
    """Return slope * x where x < 0, else x, as ``hu.prelu`` does.

    Args:
        x: a tensor of any type that halfulp and torch both have.
        slope: of x's type, of a shape that broadcasts to x's own. (``nn.PReLU`` has a slope for each channel:
            reshape its weight to ``(C, 1, 1)`` for images.) A number takes x's type.

    Returns:
        A tensor of x's type and shape.

    Raises:
        SpecError: types that differ, a slope that would enlarge x.
        HalfulpError: a number that does not fit x's type.

    Example:
        >>> prelu(torch.tensor([[-2.0, 3.0]]), torch.tensor([0.25, 0.5]))
        tensor([[-0.5000,  3.0000]])
    """
    if (result := prelu_or_none(x, slope)) is not None:
        return result
    if not isinstance(x, Tensor):
        raise TypeError("x must be a tensor")
    if not isinstance(slope, Tensor):
        slope = _number(_scalar(slope), x.dtype, x.device)
    return leaky(x, slope)


def replace(module: nn.Module) -> nn.Module:
    """Put our pow and prelu into a module, in place; call it as before.

    Each ``nn.PReLU`` in it becomes ours. While the module runs, every ``torch.pow``, ``**`` and
    ``torch.prelu`` of real numbers in it is ours, with torch's rule for the result's type. Parameters,
    ``state_dict``, hooks, copying and pickling stay as they are; ``torch.onnx.export`` writes plain Pow and
    PRelu nodes. ``torch.compile`` and ``torch.export.export(strict=True)`` do not reach powers inside ``torch.cond``
    and other control flow, and warn: call ``pow`` there.

    Returns:
        The same module.

    Example:
        >>> module = replace(nn.Sequential(nn.Linear(2, 2), nn.PReLU()))
        >>> module(torch.ones(1, 2)).shape
        torch.Size([1, 2])
    """
    for part in module.modules():
        if type(part) is nn.PReLU:
            part.__class__ = PReLU
    kind: Any = type(module)
    if kind is not PReLU and not hasattr(kind, "_before_replace"):
        module.__class__ = _running_ours(kind)
    return module


# Numbers.


def _scalar(operand: Any) -> Number:
    """Return what is no tensor as a number. (torch would make a tensor of a list or an array, cut to integers.)"""
    if isinstance(operand, np.generic):
        operand = operand.item()
    if not isinstance(operand, int | float | torch.SymInt | torch.SymFloat):
        raise TypeError(f"an operand must be a tensor or a number, not {type(operand).__name__}")
    return operand


def _number(number: Number, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a number as a tensor of a type: rounded once, or refused where an integer type can't hold it."""
    device = home_of_numbers(device)
    if dtype.is_floating_point and torch.compiler.is_compiling():
        return _rounded_once(number_tensor(number, torch.float64, device), dtype)
    return number_tensor(_fitting(number, dtype), dtype, device)


@torch.compiler.assume_constant_result
def _fitting(number: Number, dtype: torch.dtype) -> Number:
    array = number_array(number, DTYPES[dtype]) if dtype in DTYPES else None
    if array is None:
        raise HalfulpError(f"the number does not fit the type {dtype}", got=number)
    return array.astype(np.float64).item() if dtype.is_floating_point else array.item()


def _rounded_once(wide: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a float64 tensor as one of a type, in steps that the compiler knows.

    torch goes to the small types by way of float32. That step rounds to odd here: to the neighbour whose last
    bit is set, which leaves the second one the only one that counts.
    """
    if dtype in (torch.float64, torch.float32):
        return wide.to(dtype)
    nearest = wide.to(torch.float32)
    back = nearest.to(torch.float64)
    away = (back.abs() > wide.abs()).to(torch.int32)
    odd = (nearest.view(torch.int32) - away) | (back != wide).to(torch.int32)
    return odd.view(torch.float32).to(dtype)


# Modules: torch's functions with torch's rules for types and shapes, computed by ours.


def _torch_pow(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    # The compiler cannot ask for the type alone; the product is dead code to it.
    dtype = (input * exponent).dtype if torch.compiler.is_compiling() else torch.result_type(input, exponent)
    if dtype not in DTYPES:
        return torch.pow(input, exponent, out=out)
    base = input.to(dtype) if isinstance(input, Tensor) else _number(input, dtype, exponent.device)
    result = pow(base, exponent)
    return result if out is None else out.resize_(result.shape).copy_(result)


def _torch_prelu(input: Tensor, weight: Tensor) -> Tensor:
    if weight.numel() == 1:
        return prelu(input, weight.reshape(()))
    return prelu(input, weight.reshape(-1, *[1] * (input.dim() - 2)))


# By name, because one of torch's functions has several identities: torch.pow, Tensor.pow, Tensor.__pow__.
_OURS = {
    "pow": _torch_pow,
    "__rpow__": lambda exponent, input: _torch_pow(input, exponent),
    "pow_": lambda input, exponent: input.copy_(_torch_pow(input, exponent)),
    "prelu": _torch_prelu,
}


class _Ours(Replacing):
    def __init__(self) -> None:
        super().__init__()
        self.is_traced = torch.compiler.is_dynamo_compiling()  # the module's own forward, by torch.compile

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if isinstance(func, HigherOrderOperator):  # of control flow: it calls its branches without this mode
            if not torch.compiler.is_dynamo_compiling():
                args = tuple(_in_mode(a) if callable(a) else a for a in args)
            elif self.is_traced:
                _warn_of_branches(func.__name__)
        return _OURS.get(func.__name__, func)(*args, **(kwargs or {}))


def _in_mode(branch: Any) -> Any:
    def run(*args: Any) -> Any:
        with _Ours():
            return branch(*args)

    return run


@torch.compiler.assume_constant_result
def _warn_of_branches(name: str) -> None:
    warnings.warn(
        f"halfulp.integrations.torch.replace: torch.compile and strict export keep torch's own powers inside {name}; "
        "call halfulp.integrations.torch.pow there",
        stacklevel=2,
    )


class PReLU(nn.PReLU):
    """``nn.PReLU`` on our kernel."""

    def forward(self, input: Tensor) -> Tensor:
        result = module_prelu_or_none(input, self.weight)
        return _torch_prelu(input, self.weight) if result is None else result


@cache
def _running_ours(kind: Any) -> Any:
    """Return a module's class with a forward that runs on our functions."""

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _Ours():
            return kind.forward(self, *args, **kwargs)

    def reduce(self: Any, protocol: Any) -> Any:
        return _new, (kind,), self.__getstate__()

    members = {
        "forward": forward,
        "__reduce_ex__": reduce,
        "_before_replace": kind,
        "__module__": kind.__module__,
    }
    return type(kind.__name__, (kind,), members)


def _new(kind: Any) -> nn.Module:
    replaced = _running_ours(kind)
    return replaced.__new__(replaced)
