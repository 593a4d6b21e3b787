"""PyTorch: ``pow`` and ``prelu`` as operators that autograd, torch.func and torch.compile know.

The operators are ``torch.ops.halfulp.pow`` and ``torch.ops.halfulp.prelu``. Call them by the functions here, which also
take numbers and have forward-mode derivatives. Tensors on the CPU and on CUDA's devices are computed there, without a
copy, on CUDA in torch's current stream. ``replace`` puts both into an existing module.
"""

import copy
import warnings
from functools import cache, wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._ops import HigherOrderOperator
from torch.overrides import TorchFunctionMode

from halfulp._interop import Number, tensor_refusal
from halfulp.errors import HalfulpError
from halfulp.integrations.torch import operators
from halfulp.integrations.torch.kernels import disable, enable, exact

__all__ = ["PReLU", "disable", "enable", "exact", "pow", "prelu", "replace", "restore"]
__dir__ = __all__.copy


def pow(x: Tensor | Number, y: Tensor | Number, /) -> Tensor:
    """Return x to the power y, elementwise, correctly rounded, as ``hu.pow`` does.

    Args:
        x: the base, of any type that halfulp and torch both have. A number gets y's type; a float beside integers gets
            torch's default type, as in ``torch.pow``.
        y: the exponent, of any such type, broadcast with x. A number is exact: a float is that double.

    Returns:
        A tensor of x's type and the broadcast shape.

    Raises:
        SpecError: shapes that do not broadcast, or a type that the table lacks.
        HalfulpError: a number that does not fit its type.

    Example:
        >>> x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        >>> pow(x, torch.tensor([4, 5, 6])).sum().backward()
        >>> x.grad
        tensor([   4.,   80., 1458.])
    """
    if type(x) is float and isinstance(y, Tensor) and not y.is_floating_point():
        x = operators.rounded(x, torch.get_default_dtype(), y.device)
    if _is_symbolic(x, y):
        return torch.overrides.handle_torch_function(pow, (x, y), x, y)
    if not isinstance(x, Tensor):
        if not isinstance(y, Tensor):
            raise TypeError("one of the operands must be a tensor")
        x = operators.rounded(_scalar(x), y.dtype, y.device)
    if not isinstance(y, Tensor):
        y = operators.exponent_tensor(_scalar(y), x.device)
    return operators.power(x, y)


def prelu(x: Tensor, weight: Tensor | Number, /) -> Tensor:
    """Return weight * x where x < 0, else x: ``torch.nn.functional.prelu``, for every type.

    Args:
        x: a tensor of any type that halfulp and torch both have.
        weight: of x's type, of one element, or with an element for each channel, that is for dim 1 of x. A number takes
            x's type. (``hu.prelu`` aligns a slope with x's last dims, as ONNX does.)

    Returns:
        A tensor of x's type and shape.

    Raises:
        HalfulpError: types that differ, a weight of another shape (a RuntimeError, too, as torch's own), a number that
            does not fit x's type.

    Example:
        >>> prelu(torch.tensor([[[-2.0, 3.0], [-2.0, 3.0]]]), torch.tensor([0.25, 0.5]))
        tensor([[[-0.5000,  3.0000],
                 [-1.0000,  3.0000]]])
    """
    if isinstance(x, Tensor) and isinstance(weight, Tensor):
        weight = _along_channels(x, weight)
    if _is_symbolic(x, weight):
        return torch.overrides.handle_torch_function(prelu, (x, weight), x, weight)
    if not isinstance(x, Tensor):
        raise TypeError("x must be a tensor")
    if not isinstance(weight, Tensor):
        weight = operators.rounded(_scalar(weight), x.dtype, x.device)
    return operators.leaky(x, weight)


def _is_symbolic(*operands: Any) -> bool:
    """Whether an operand only stands for a tensor, as torch.fx's do, and so records the call."""
    others = (type(operand) for operand in operands if not isinstance(operand, (Tensor, float, int)))
    return any(hasattr(kind, "__torch_function__") for kind in others)


class TorchError(HalfulpError, RuntimeError):
    """An operand that torch's own function refuses, too."""


def _along_channels(x: Tensor, weight: Tensor) -> Tensor:
    """Return the weight of a PReLU, if torch takes it, in the shape that ONNX's broadcasting puts along dim 1 of x."""
    if weight.dtype == x.dtype and weight.dim() <= 1:
        if weight.numel() == 1:
            return weight.reshape(())
        if not x.is_nested and x.dim() > 1 and weight.numel() == x.size(1):
            return weight.reshape(-1, *[1] * (x.dim() - 2))
    if any(tensor_refusal(operand, torch) for operand in (x, weight)):
        operators.refuse(x, weight)
    if weight.dtype != x.dtype:
        rule = "x and weight must have the same type; write weight.to(x.dtype)"
        raise TorchError(f"prelu: {rule}", x=x.dtype, weight=weight.dtype)
    rule = "the weight must have one element, or one for each channel (dim 1 of x), in one dim"
    hint = "hu.prelu aligns a slope with the last dims"
    raise TorchError(f"prelu: {rule}; {hint}", x=list(x.shape), weight=list(weight.shape))


def replace(module: nn.Module) -> nn.Module:
    """Put halfulp's pow and prelu into a module, in place; call it as before.

    Each ``nn.PReLU`` in it becomes halfulp's. While the module runs, so do ``torch.pow``, ``**`` and ``torch.prelu`` of
    real numbers, with torch's rule for the result's type. Parameters, ``state_dict``, hooks, copying and pickling do
    not change, and ``torch.onnx.export`` writes plain Pow and PRelu nodes. ``torch.compile`` and
    ``torch.export.export(strict=True)`` do not reach powers inside ``torch.cond`` and other control flow, and warn:
    call ``pow`` there.

    Returns:
        The same module.

    Example:
        >>> module = replace(nn.Sequential(nn.Linear(2, 2), nn.PReLU()))
        >>> module(torch.ones(1, 2)).shape
        torch.Size([1, 2])
    """
    if not isinstance(module, nn.Module):
        raise HalfulpError("replace takes an nn.Module", got=repr(module)[:80])
    for part in module.modules():
        if type(part) is nn.PReLU:
            part.__class__ = PReLU
    kind: Any = type(module)
    if "_before_replace" not in vars(kind):
        module.__class__ = _running_ours(kind)
    return module


def restore(module: nn.Module) -> nn.Module:
    """Undo ``replace``, in place: the module and its parts compute as torch does.

    Returns:
        The same module.

    Example:
        >>> restore(replace(nn.PReLU())).__class__
        <class 'torch.nn.modules.activation.PReLU'>
    """
    for part in module.modules():
        if before := vars(type(part)).get("_before_replace"):
            part.__class__ = before
    return module


def _scalar(operand: Any) -> Number:
    """Return an operand that is not a tensor as a number. (torch would convert a list or an array to integers.)"""
    if isinstance(operand, np.generic):
        operand = operand.item()
    if not isinstance(operand, (float, int, torch.SymInt, torch.SymFloat)):
        raise TypeError(f"an operand must be a tensor or a number, not {type(operand).__name__}")
    return operand


# Modules: torch's functions with torch's rules for types and shapes, computed by the functions above.


def _torch_pow(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    if _is_symbolic(input, exponent):
        return torch.overrides.handle_torch_function(_torch_pow, (input, exponent), input, exponent, out=out)
    # The compiler has no function for the type alone. It removes the product as dead code.
    dtype = (input * exponent).dtype if torch.compiler.is_compiling() else torch.result_type(input, exponent)
    if dtype not in operators.DTYPES:
        return torch.pow(input, exponent, out=out)
    base = input.to(dtype) if isinstance(input, Tensor) else operators.rounded(input, dtype, exponent.device)
    result = pow(base, exponent)
    return result if out is None else out.resize_(result.shape).copy_(result)


def _torch_prelu(x: Tensor, weight: Tensor) -> Tensor:
    if isinstance(x, Tensor) and x.dtype in _AUTOCAST and torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        x, weight = x.to(dtype), weight.to(dtype)
    return prelu(x, weight)


_AUTOCAST = (torch.float32, torch.float16, torch.bfloat16)  # the types that autocast converts

# The keys are names, because one of torch's functions is several objects: torch.pow, Tensor.pow, Tensor.__pow__.
_OURS = {
    "pow": _torch_pow,
    "__rpow__": lambda exponent, input: _torch_pow(input, exponent),
    "pow_": lambda input, exponent: input.copy_(_torch_pow(input, exponent)),
    "prelu": _torch_prelu,
}


class _Ours(TorchFunctionMode):
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


def _in_mode(function: Any) -> Any:
    def run(*args: Any, **kwargs: Any) -> Any:
        with _Ours():
            return function(*args, **kwargs)

    return run


@operators.constant_when_compiled
def _warn_of_branches(name: str) -> None:
    fact = f"torch.compile and strict export keep torch's own powers inside {name}"
    warnings.warn(f"{__name__}.replace: {fact}; call {__name__}.pow there", stacklevel=2)


class PReLU(nn.PReLU):
    """``nn.PReLU`` on halfulp's kernel."""

    _before_replace = nn.PReLU

    def forward(self, input: Tensor) -> Tensor:
        if torch.jit.is_scripting():  # torch.jit.script compiles this branch only
            weight = self.weight.squeeze()
            if weight.dim() == 1:
                weight = weight.reshape([-1] + [1] * (input.dim() - 2))
            return torch.ops.halfulp.prelu(input, weight)
        else:  # noqa: RET505 (without it the rest would be compiled too)
            # A mode would see each access to them.
            if torch.overrides.has_torch_function((input, self.weight)):
                operands = input, self.weight
                return torch.overrides.handle_torch_function(_torch_prelu, operands, *operands)
            return _torch_prelu(input, self.weight)


@cache
def _running_ours(kind: Any) -> Any:
    """Return a module's class with a forward that runs on halfulp's functions."""

    def prepare_scriptable(self: Any) -> nn.Module:
        line = f"torch.jit.script keeps torch's own powers: call the result in {__name__}.exact()"
        warnings.warn(line, stacklevel=2)
        module = copy.copy(self)
        module.__class__ = kind
        module._modules = dict(self._modules)  # torch replaces the parts of the module that it gets
        return module

    members = {
        "forward": wraps(kind.forward)(_in_mode(kind.forward)),  # for torch.fx, which looks at the arguments
        "__prepare_scriptable__": prepare_scriptable,
        "__reduce_ex__": lambda self, protocol: (_new, (kind,), self.__getstate__()),
        "_before_replace": kind,
        "__module__": kind.__module__,
    }
    return type(kind.__name__, (kind,), members)


def _new(kind: Any) -> nn.Module:
    replaced = _running_ours(kind)
    return replaced.__new__(replaced)
