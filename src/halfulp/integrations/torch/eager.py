"""The short way: where values, or their first derivatives, are all that is asked for.

It leaves out torch's dispatcher, whose way into Python costs more than small tensors do. Where more is going on, a
transform, a mode or a trace, and for tensors that the dispatcher has to look at, the operators are called.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.overrides import TorchFunctionMode

import halfulp as hu
from halfulp._args import Number
from halfulp.integrations.torch.operators import (
    as_array,
    compute,
    exponent_tensor,
    is_transformed,
    pow_gradients,
    power,
    prelu_gradients,
)
from halfulp.operators import share_threads_of

# The operator that torch's own backward is; it takes no other types.
_both_gradients: Any = getattr(torch.ops.aten, "_prelu_kernel_backward", None)
_DTYPES_OF_BOTH = (
    () if _both_gradients is None else (torch.float64, torch.float32, torch.float16, torch.bfloat16)
)


class Replacing(TorchFunctionMode):
    """A mode that puts our functions in the place of torch's, and need not see them called."""


def pow_or_none(x: Tensor | Number, y: Tensor | Number) -> Tensor | None:
    """Return ``hu.pow`` of the operands; None where that takes the operator."""
    if torch.compiler.is_compiling() or not (_is_plain(x) and _is_plain(y)) or _is_watched():
        return None
    if not (_wants_gradient(x) or _wants_gradient(y)):
        return _direct(hu.pow, x, y)
    if not isinstance(x, Tensor) or not x.is_floating_point():
        return None
    result: Tensor | None = None
    if isinstance(y, Tensor):
        result = _Power.apply(x, y)
    elif isinstance(y, float) or abs(y) < 1 << 53:  # a double holds it, and the number below
        result = _PowerByNumber.apply(x, y)
    return result


def prelu_or_none(x: Tensor | Number, slope: Tensor | Number) -> Tensor | None:
    """Return ``hu.prelu`` of the operands; None where that takes the operator."""
    if torch.compiler.is_compiling() or not (_is_plain(x) and _is_plain(slope)) or _is_watched():
        return None
    if not (_wants_gradient(x) or _wants_gradient(slope)):
        return _direct(hu.prelu, x, slope)
    result: Tensor | None = None
    if isinstance(x, Tensor) and isinstance(slope, Tensor):
        result = _Prelu.apply(x, slope)
    return result


def module_prelu_or_none(x: Tensor, weight: Tensor) -> Tensor | None:
    """Return what ``nn.PReLU`` with this weight makes of x; None where that takes the operator."""
    if torch.compiler.is_compiling() or type(x) is not Tensor or _has_other_modes():
        return None
    with torch._C.DisableTorchFunction():  # a mode would see each look at a tensor
        slope = weight if weight.numel() == 1 else weight.reshape(-1, *[1] * (x.dim() - 2))
        return prelu_or_none(x, slope)


def _direct(function: Any, x: Tensor | Number, y: Tensor | Number) -> Tensor | None:
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        return compute(function, x, y)
    tensor = x if isinstance(x, Tensor) else y
    if not isinstance(tensor, Tensor):
        return None
    out = torch.empty_like(tensor)
    arrays = [as_array(operand) if isinstance(operand, Tensor) else operand for operand in (x, y)]
    function(*arrays, out=as_array(out))
    return out


def _by_number(x: Tensor, y: Number) -> Tensor:
    result = _direct(hu.pow, x, y)
    return power(x, exponent_tensor(y, x.device)) if result is None else result


class _Power(torch.autograd.Function):
    """Tensors to the power of tensors."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return compute(hu.pow, x, y)

    backward = staticmethod(pow_gradients)


class _PowerByNumber(torch.autograd.Function):
    """Tensors to the power of a number."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Number) -> Tensor:
        ctx.save_for_backward(x)
        ctx.exponent = y
        return _by_number(x, y)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        y = ctx.exponent
        if y == 0:
            return torch.zeros_like(gradient), None
        below = pow_or_none(x, y - 1)
        if below is None:
            below = _by_number(x, y - 1)
        return gradient * (y * below), None


class _Prelu(torch.autograd.Function):
    """PReLU with torch's own kernel for both derivatives."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(x, slope)
        return compute(hu.prelu, x, slope)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, slope = ctx.saved_tensors
        if torch.is_grad_enabled() or not all(ctx.needs_input_grad) or x.dtype not in _DTYPES_OF_BOTH:
            return prelu_gradients(ctx, gradient)
        by_x, by_slope = _both_gradients(gradient, x, slope)
        return by_x, by_slope.sum_to_size(slope.shape)


def _is_plain(operand: Any) -> bool:
    """Whether it is a number, or a tensor of torch's own whose elements are in the processor's memory.

    A lazy negation and a scale of quantisation are kept beside the memory. The dispatcher resolves or refuses them.
    """
    kind = type(operand)
    if kind is not Tensor and kind is not Parameter:
        return kind is int or kind is float
    if not operand.is_cpu or operand.layout is not torch.strided:
        return False
    return not (operand.is_neg() or operand.is_quantized or operand.is_nested or operand._is_zerotensor())


def _wants_gradient(operand: Any) -> bool:
    return isinstance(operand, Tensor) and operand.requires_grad and torch.is_grad_enabled()


def _is_watched() -> bool:
    """Whether anything would see a call of the operator, or it can't be told."""
    try:
        return (
            is_transformed()
            or torch._C._len_torch_dispatch_stack() > 0
            or _has_other_modes()
            or torch._C._get_tracing_state() is not None
            or torch._C._autograd._profiler_enabled()
        )
    except AttributeError:  # private names of torch
        return True


def _has_other_modes() -> bool:
    try:
        modes = [torch._C._get_function_stack_at(i) for i in range(torch._C._len_torch_function_stack())]
    except AttributeError:  # as above
        return True
    return not all(isinstance(mode, Replacing) for mode in modes)


# Threads: torch's, whose own wait for work in a loop, so that others would hardly get a processor.


def _share_threads() -> None:
    """Compute on the threads of torch's OpenMP runtime, if it has one with GCC's interface."""
    for library in Path(torch.__file__).parent.glob("lib/libtorch_cpu.*"):
        try:
            # Loaded already; what it was linked with is looked through, too.
            runtime = ctypes.CDLL(str(library))
            addresses = [
                ctypes.cast(getattr(runtime, name), ctypes.c_void_p).value
                for name in ("GOMP_parallel", "omp_get_max_threads")
            ]
        except (OSError, AttributeError):
            continue
        share_threads_of(*(address for address in addresses if address is not None))


_share_threads()
