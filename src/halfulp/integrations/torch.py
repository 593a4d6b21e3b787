"""PyTorch: ``pow`` and ``prelu`` as operators that autograd, torch.func and torch.compile know.

The operators are ``torch.ops.halfulp.pow`` and ``torch.ops.halfulp.prelu``. Call them by the functions here,
which take numbers, too, and have forward-mode derivatives. Tensors on the CPU are computed where they lie,
without a copy; ``replace`` puts both into a module that exists.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode

import halfulp as hu
from halfulp.errors import HalfulpError
from halfulp.operands import exponent_array, number_as
from halfulp.types import TYPES

Number = int | float

# torch's names are ours; its types of 4 bits are packed two to a byte, which ours are not.
_DTYPES = {
    getattr(torch, name): row.dtype for name, row in TYPES.items() if row.bits >= 8 and hasattr(torch, name)
}


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
    if not isinstance(x, Tensor):
        if not isinstance(y, Tensor):
            raise TypeError("one of the operands must be a tensor")
        x = _number(x, y.dtype, y.device)
    if not isinstance(y, Tensor):
        y = _exponent(y, x.device)
    if torch.compiler.is_compiling():
        if torch.onnx.is_in_onnx_export():
            return _onnx_node("Pow", x, y)
        return _pow(x, y)
    return _Pow.apply(x, y) if _is_transformed() else _pow(x, y)


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
    if not isinstance(slope, Tensor):
        slope = _number(slope, x.dtype, x.device)
    if torch.compiler.is_compiling():
        if torch.onnx.is_in_onnx_export():
            return _onnx_node("PRelu", x, slope)
        return _prelu(x, slope)
    return _Prelu.apply(x, slope) if _is_transformed() else _prelu(x, slope)


def replace(module: nn.Module) -> nn.Module:
    """Put our pow and prelu into a module, in place; call it as before.

    Each ``nn.PReLU`` in it becomes ours. While the module runs, every ``torch.pow``, ``**`` and
    ``torch.prelu`` of real numbers in it is ours, with torch's rule for the result's type. Parameters,
    ``state_dict``, hooks, copying and pickling stay as they are; ``torch.onnx.export`` writes plain Pow and
    PRelu nodes.

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


# Memory: a tensor's as an ndarray and back.


def _as_array(tensor: Tensor) -> NDArray[Any]:
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None:
        raise HalfulpError(f"no element type {tensor.dtype}")
    tensor = tensor.detach()
    if dtype.isbuiltin == 1:
        return tensor.numpy()
    return tensor.view(_WORDS[tensor.itemsize]).numpy().view(dtype)


def _as_tensor(array: NDArray[Any], dtype: torch.dtype) -> Tensor:
    if _DTYPES[dtype].isbuiltin == 1:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(f"i{array.itemsize}")).view(dtype)


_WORDS = {1: torch.int8, 2: torch.int16}


def _empty(x: Tensor, y: Tensor) -> Tensor:
    """Return a result's memory: laid out as the operand that has its shape. The compiler relies on it."""
    shape = torch.broadcast_shapes(x.shape, y.shape)
    if x.shape == shape:
        return torch.empty_like(x)
    if y.shape == shape:
        return torch.empty_like(y, dtype=x.dtype)
    return x.new_empty(shape)


def _compute(function: Any, x: Tensor, y: Tensor) -> Tensor:
    arrays = _as_array(x), _as_array(y)
    if x.is_contiguous() and y.is_contiguous():
        return _as_tensor(function(*arrays), x.dtype)
    out = _empty(x, y) if function is hu.pow else torch.empty_like(x)
    function(*arrays, out=_as_array(out))
    return out


def _number(number: Number, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a number as a tensor of a type: rounded once, or refused where an integer type can't hold it."""
    return torch.tensor(_fitting(number, dtype), dtype=dtype, device=device)


@torch.compiler.assume_constant_result
def _fitting(number: Number, dtype: torch.dtype) -> Number:
    array = (
        number_as(number, _DTYPES[dtype], exactly=not dtype.is_floating_point) if dtype in _DTYPES else None
    )
    if array is None:
        raise HalfulpError(f"{number} does not fit the type {dtype}")
    return array.astype(np.float64).item() if dtype.is_floating_point else array.item()


def _exponent(number: Number, device: torch.device) -> Tensor:
    """Return a number as a tensor without a loss."""
    if isinstance(number, int) and not -(2**63) <= number < 2**63:
        return torch.from_numpy(exponent_array(number)).to(device)
    return torch.tensor(
        number, dtype=torch.float64 if isinstance(number, float) else torch.int64, device=device
    )


# The operators: kernels for the CPU, shapes for the compiler, batching.

_LIBRARY = torch.library.Library("halfulp", "DEF")
for _schema in ("pow(Tensor x, Tensor y) -> Tensor", "prelu(Tensor x, Tensor slope) -> Tensor"):
    _LIBRARY.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))
_LIBRARY.impl("pow", lambda x, y: _compute(hu.pow, x, y), "CPU")
_LIBRARY.impl("prelu", lambda x, slope: _compute(hu.prelu, x, slope), "CPU")
_pow = torch.ops.halfulp.pow.default
_prelu = torch.ops.halfulp.prelu.default


@torch.library.register_fake("halfulp::pow", lib=_LIBRARY)
def _pow_fake(x: Tensor, y: Tensor) -> Tensor:
    return _empty(x, y)


@torch.library.register_fake("halfulp::prelu", lib=_LIBRARY)
def _prelu_fake(x: Tensor, slope: Tensor) -> Tensor:
    return torch.empty_like(x)


def _batch_first(tensor: Tensor, dim: int | None, rank: int) -> Tensor:
    """Return a batched tensor with the batch first and the rest aligned to a rank; another one as it is."""
    if dim is None:
        return tensor
    tensor = tensor.movedim(dim, 0)
    return tensor.reshape(tensor.shape[:1] + (1,) * (rank + 1 - tensor.dim()) + tensor.shape[1:])


@torch.library.register_vmap("halfulp::pow", lib=_LIBRARY)
def _pow_vmap(_: Any, dims: tuple[int | None, int | None], x: Tensor, y: Tensor) -> tuple[Tensor, int]:
    rank = max(t.dim() - (dim is not None) for t, dim in zip((x, y), dims, strict=True))
    return _pow(_batch_first(x, dims[0], rank), _batch_first(y, dims[1], rank)), 0


@torch.library.register_vmap("halfulp::prelu", lib=_LIBRARY)
def _prelu_vmap(
    info: Any, dims: tuple[int | None, int | None], x: Tensor, slope: Tensor
) -> tuple[Tensor, int]:
    rank = x.dim() - (dims[0] is not None)
    x = x.expand(info.batch_size, *x.shape) if dims[0] is None else x.movedim(dims[0], 0)
    return _prelu(x, _batch_first(slope, dims[1], rank)), 0


# Derivatives, made of differentiable operations, so that they have derivatives of their own.


def _pow_by_x(x: Tensor, y: Tensor) -> Tensor:
    """Return y x^(y-1); where y is 0 the power is constant, and x does not matter."""
    base = torch.where((y == 0) & ((x == 0) | x.isnan()), 1, x)
    wide = y.to(torch.float64 if y.is_floating_point() else torch.int64)
    factor = y if y.is_floating_point() else wide.to(torch.float64)
    return factor * pow(base, wide - 1)


def _pow_by_y(x: Tensor, y: Tensor) -> Tensor:
    """Return x^y log x; 0 where x is 0 and y is not negative."""
    base = torch.where((x == 0) & (y >= 0), 1, x)
    return pow(base, y) * base.log()


def _pow_gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
    x, y = ctx.saved_tensors
    by_x = by_y = None
    if ctx.needs_input_grad[0]:
        by_x = (gradient * _pow_by_x(x, y)).to(x.dtype).sum_to_size(x.shape)
    if ctx.needs_input_grad[1]:
        by_y = (gradient * _pow_by_y(x, y)).to(y.dtype).sum_to_size(y.shape)
    return by_x, by_y


def _prelu_gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
    x, slope = ctx.saved_tensors
    by_x = by_slope = None
    if ctx.needs_input_grad[0]:
        by_x = torch.where(x < 0, slope * gradient, gradient)
    if ctx.needs_input_grad[1]:
        by_slope = torch.where(x < 0, x * gradient, 0).sum_to_size(slope.shape)
    return by_x, by_slope


def _save(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)
    ctx.save_for_forward(*inputs)


def _save_for_backward(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


torch.library.register_autograd(
    "halfulp::pow", _pow_gradients, setup_context=_save_for_backward, lib=_LIBRARY
)
torch.library.register_autograd(
    "halfulp::prelu", _prelu_gradients, setup_context=_save_for_backward, lib=_LIBRARY
)


def _primals(ctx: Any) -> list[Tensor]:
    """Return the saved operands without this level's tangents; an outer level's, if there is one, stay.

    torch turns forward mode off while it calls a ``jvp``, and so would lose the outer levels' derivatives.
    """
    return [forward_ad.unpack_dual(tensor).primal for tensor in ctx.saved_tensors]


class _Pow(torch.autograd.Function):
    """The operator with a forward-mode derivative, which operators cannot have (it would be silently 0).

    The compiler refuses such functions, and they cost more, so it stands in only where it is needed.
    """

    generate_vmap_rule = True
    forward = staticmethod(_pow)
    setup_context = staticmethod(_save)
    backward = staticmethod(_pow_gradients)

    @staticmethod
    def jvp(ctx: Any, x_tangent: Tensor | None, y_tangent: Tensor | None) -> Tensor | None:
        parts = []
        with forward_ad._set_fwd_grad_enabled(True):
            x, y = _primals(ctx)
            if x_tangent is not None:
                parts.append(x_tangent * _pow_by_x(x, y))
            if y_tangent is not None and y.is_floating_point():
                parts.append(y_tangent * _pow_by_y(x, y))
            return sum(parts).to(x.dtype) if parts else None


class _Prelu(torch.autograd.Function):
    """As _Pow."""

    generate_vmap_rule = True
    forward = staticmethod(_prelu)
    setup_context = staticmethod(_save)
    backward = staticmethod(_prelu_gradients)

    @staticmethod
    def jvp(ctx: Any, x_tangent: Tensor | None, slope_tangent: Tensor | None) -> Tensor:
        with forward_ad._set_fwd_grad_enabled(True):
            x, slope = _primals(ctx)
            x_tangent = torch.zeros_like(x) if x_tangent is None else x_tangent
            negative = slope * x_tangent
            if slope_tangent is not None:
                negative = negative + slope_tangent * x
            return torch.where(x < 0, negative, x_tangent)


def _is_transformed() -> bool:
    """Whether forward-mode differentiation or a torch.func transform is in progress, or it can't be told."""
    try:
        return torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0
    except AttributeError:  # private names of torch
        return True


def _onnx_node(name: str, x: Tensor, y: Tensor) -> Tensor:
    shape = torch.broadcast_shapes(x.shape, y.shape)
    return torch.onnx.ops.symbolic(name, (x, y), dtype=x.dtype, shape=shape)


# Modules: torch's functions with torch's rules for types and shapes, computed by ours.


def _torch_pow(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    # The compiler cannot ask for the type alone; the product is dead code to it.
    dtype = (input * exponent).dtype if torch.compiler.is_compiling() else torch.result_type(input, exponent)
    if dtype not in _DTYPES:
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


class _Ours(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _OURS.get(func.__name__, func)(*args, **(kwargs or {}))


class PReLU(nn.PReLU):
    """``nn.PReLU`` on our kernel."""

    def forward(self, input: Tensor) -> Tensor:
        return _torch_prelu(input, self.weight)


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
