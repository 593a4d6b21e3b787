"""The operators ``halfulp::pow`` and ``halfulp::prelu`` of PyTorch: kernels, shapes, batching, derivatives."""

import ctypes
import math
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch._C._functorch import TransformType
from torch._decomp import register_decomposition
from torch.autograd import forward_ad
from torch.nested._internal.nested_tensor import NestedTensor

import halfulp.operators as hu
from halfulp._interop import Number, exponent_array, tensor_refusal, torch_type_refusal
from halfulp.errors import HalfulpError
from halfulp.types import TYPES

# torch has the same names. Its types of 4 bits are packed two to a byte, unlike those of the table.
DTYPES = {
    getattr(torch, name): row.dtype for name, row in TYPES.items() if row.bits >= 8 and hasattr(torch, name)
}
CPU = torch.device("cpu")


def _in_form(operator: Any, with_tangent: Any, row: hu.Operator, x: Tensor, y: Tensor) -> Tensor:
    """Return the operator's result, by its form for the transforms or the compilation around the call."""
    if torch._C._get_tracing_state() is not None:
        register_symbolics()
    if torch.compiler.is_compiling():
        return operator(x, y)
    try:
        if _is_transformed() and not _is_functionalized():
            return with_tangent.apply(x, y)
        return operator._op(x, y)  # takes a tenth less time than the operator, which calls it
    except RuntimeError:  # of a kernel, which does not say what is wrong
        row.infer(*((_dtype(operand.dtype), tuple(operand.shape)) for operand in (x, y)))
        raise


def home_of_numbers(device: torch.device) -> torch.device:
    """Return the device of numbers beside a device's tensors: the processor for CUDA, except in a graph."""
    return CPU if device.type == "cuda" and not torch.compiler.is_compiling() else device


def exponent_tensor(number: Number, device: torch.device) -> Tensor:
    """Return a number as a tensor without a loss."""
    if isinstance(number, int) and not -(2**63) <= number < 2**63:
        return torch.from_numpy(exponent_array(number)).to(home_of_numbers(device))
    dtype = torch.int64 if isinstance(number, int | torch.SymInt) else torch.float64
    return number_tensor(number, dtype, device)


def number_tensor(number: Number, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a number as a 0-d tensor of a type: rounded once; in a graph, of a type that holds it."""
    device = home_of_numbers(device)
    if not torch.compiler.is_compiling():
        if device == CPU and not _is_watched():
            return constant(number, dtype)
        fits = isinstance(number, torch.SymInt | torch.SymFloat)
        return torch.scalar_tensor(number if fits else fitting(number, dtype), dtype=dtype, device=device)
    # While tracing it is the result of operators, because torch loses constants inside control flow.
    terms: tuple[Number, ...] = (number,)
    if torch.compiler.is_exporting() and dtype is torch.float64 and not isinstance(number, torch.SymFloat):
        terms = _float32_terms(float(number))  # the exporter to ONNX rounds an argument of full to float32
    if not terms:
        return torch.scalar_tensor(number, dtype=dtype, device=device)
    return reduce(torch.add, (torch.full((), term, dtype=dtype, device=device) for term in terms))


def rounded(number: Number, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a number as a tensor of a type: rounded once, or refused if an integer type can't hold it."""
    if not torch.compiler.is_compiling():
        return number_tensor(number, dtype, device)
    if not dtype.is_floating_point:
        return number_tensor(fitting(number, dtype), dtype, device)
    wide = number_tensor(number, torch.float64, device)
    if dtype in (torch.float64, torch.float32):
        return wide.to(dtype)
    # torch converts to the small types via float32. Here that step, by what the compiler knows, rounds to odd
    # (to the neighbour whose last bit is set), so that the result is as if rounded once.
    nearest = wide.to(torch.float32)
    back = nearest.to(torch.float64)
    away = (back.abs() > wide.abs()).to(torch.int32)
    odd = (nearest.view(torch.int32) - away) | (back != wide).to(torch.int32)
    return odd.view(torch.float32).to(dtype)


def constant_when_compiled(function: Any) -> Any:
    """Mark a function as torch.compiler.assume_constant_result does, which loads all of torch.compile for it."""
    vars(function)["_dynamo_marked_constant"] = True
    return function


@constant_when_compiled
def fitting(number: Number, dtype: torch.dtype) -> Number:
    """Return a number rounded once to a type. One that an integer type can't hold is refused."""
    array = hu.number_array(number, _dtype(dtype))
    if array is None:
        raise HalfulpError(f"the number does not fit the type {dtype}", got=number)
    return array.astype(np.float64).item() if dtype.is_floating_point else array.item()


def constant(number: Number, dtype: torch.dtype) -> Tensor:
    """Return a number as a 0-d tensor in the processor's memory, rounded once. It is kept: nothing may change it."""
    return (_constant if number else _constant.__wrapped__)(number, dtype)  # zeros are not: -0.0 equals 0.0


@lru_cache(maxsize=256)
def _constant(number: Number, dtype: torch.dtype) -> Tensor:
    with torch.inference_mode(False), torch._C.DisableTorchFunction():
        return torch.scalar_tensor(fitting(number, dtype), dtype=dtype, device=CPU)


@constant_when_compiled
def _float32_terms(number: float) -> tuple[float, ...]:
    """Return float32 numbers whose sum is a number; empty if there are no such numbers."""
    with np.errstate(over="ignore"):
        terms = [float(np.float32(number))]
        while math.isfinite(terms[-1]) and (rest := number - math.fsum(terms)) != 0 and len(terms) < 4:
            terms.append(float(np.float32(rest)))
    return tuple(terms) if math.fsum(terms) == number else ()


def _dtype(dtype: torch.dtype) -> np.dtype[Any]:
    if dtype not in DTYPES:
        raise HalfulpError(torch_type_refusal(dtype))
    return DTYPES[dtype]


def as_array(tensor: Tensor) -> NDArray[Any]:
    dtype, tensor = _dtype(tensor.dtype), tensor.detach()
    if dtype.isbuiltin == 1:
        return tensor.numpy()
    return tensor.view({1: torch.int8, 2: torch.int16}[tensor.itemsize]).numpy().view(dtype)


def _empty(x: Tensor, y: Tensor) -> Tensor:
    """Return a result's memory, with torch's own layout for such operands. The compiler relies on it."""
    return torch.empty_like(x.float() * y.float(), dtype=x.dtype)


def compute(function: Any, x: Tensor, y: Tensor) -> Tensor:
    """Return ``hu.pow`` or ``hu.prelu`` of tensors in the processor's memory, as the kernels without Python do."""
    try:
        out = _empty(x, y)
    except RuntimeError:
        return function(as_array(x), as_array(y))  # raises halfulp's error about the shapes
    function(as_array(x), as_array(y), out=as_array(out))
    return out


def refuse(*tensors: Tensor) -> Tensor:
    """Raise HalfulpError for tensors on a device, or of a kind, without a kernel."""
    for tensor in tensors:
        if (refusal := tensor_refusal(tensor, torch)) is not None:
            raise HalfulpError(refusal)
    kinds = " and ".join(sorted({f"{t.device.type}, {t.layout}" for t in tensors}))
    raise HalfulpError(f"no kernels for tensors on {kinds}: only strided ones, on the cpu or on cuda")


def compute_on_cuda(function: Any, x: Tensor, y: Tensor) -> Tensor:
    """Return ``hu.pow`` or ``hu.prelu`` of a device's tensors; a 0-d tensor may be in the processor's memory."""
    return function(*(as_array(t) if t.is_cpu and t.dim() == 0 else t.detach() for t in (x, y)))


# The operators: nested tensors, batching.

LIBRARY = torch.library.Library("halfulp", "DEF")


def _of_nested(operator: Any, x: Tensor, y: Tensor) -> Tensor:
    """Compute on the parts of nested tensors: two of the same structure, or one and a number."""
    if not x.is_nested or not (y.is_nested or y.numel() == 1):
        rule = "the other operand must be nested in the same way, or be one number"
        raise HalfulpError(f"a nested tensor: {rule}")
    if x.layout is torch.jagged:
        if y.is_nested and y.shape != x.shape:
            raise HalfulpError("nested tensors: their offsets differ", x=tuple(x.shape), y=tuple(y.shape))
        values = operator(x.values(), y.values() if y.is_nested else y.reshape(()))
        return torch.nested.nested_tensor_from_jagged(values, x.offsets(), x.lengths())
    parts = y.unbind() if y.is_nested else [y.reshape(())] * x.size(0)
    return torch.nested.as_nested_tensor([operator(*pair) for pair in zip(x.unbind(), parts, strict=True)])


def _vmap(operator: Any, info: Any, dims: Sequence[int | None], x: Tensor, y: Tensor) -> tuple[Tensor, int]:
    """Compute with the batches in front, and between them and the other axes as many as align these."""
    if dims[0] is None:  # a batched slope must not enlarge an x without a batch
        x, dims = x.expand(info.batch_size, *x.shape), (0, dims[1])
    operands = list(zip((x, y), dims, strict=True))
    rank = max(t.dim() - (dim is not None) for t, dim in operands)
    aligned = (
        t if dim is None else t.movedim(dim, 0)[(slice(None), *[None] * (rank + 1 - t.dim()))]
        for t, dim in operands
    )
    return operator(*aligned), 0


# Derivatives. They consist of differentiable operations, so that they have derivatives too.


def _is_number(operand: Tensor) -> bool:
    """Whether a derivative may look at the value, as at a number's in a call."""
    is_one = type(operand) is Tensor and operand.dim() == 0 and operand.is_cpu
    return is_one and not (operand.requires_grad or _is_watched())


def _pow_by_x(d: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return d y x^(y-1). If y is 0, the power is constant, whatever x is."""
    base = torch.where((y == 0) & ((x == 0) | x.isnan()), 1, x)
    wide = y.to(torch.float64 if y.is_floating_point() else torch.int64)
    factor = y if y.is_floating_point() else wide.to(torch.float64)
    return d * (factor * power(base, wide - 1))


def _pow_by_y(d: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return d x^y log x; 0 if x is 0 and y is not negative."""
    base = x if _is_number(x) and x.item() else torch.where((x == 0) & (y >= 0), 1, x)
    return d * (power(base, y) * base.log())


def pow_gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
    x, y = ctx.saved_tensors
    if _is_number(y):  # the general operations take several times as long
        number = y.item()
        if not number:
            return torch.zeros_like(gradient), None  # also for an infinite gradient
        # Multiplying by a tensor of the same type takes a quarter of the time. A smaller type would round the factor.
        is_large = x.dtype in (torch.float32, torch.float64)
        factor = constant(float(number), x.dtype) if is_large else float(number)
        return gradient * (power(x, exponent_tensor(number - 1, CPU)) * factor), None
    needs_x, needs_y = ctx.needs_input_grad[:2]
    by_x = _pow_by_x(gradient, x, y).to(x.dtype).sum_to_size(x.shape) if needs_x else None
    return by_x, _pow_by_y(gradient, x, y).to(y.dtype).sum_to_size(y.shape) if needs_y else None


def prelu_gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
    x, slope = ctx.saved_tensors
    if not ctx.needs_input_grad[1]:
        return _prelu_by_x(gradient, x, slope), None
    by_x, by_slope = torch.ops.aten._prelu_kernel_backward(gradient, x, slope)
    return by_x, by_slope.sum_to_size(slope.shape)


def _prelu_by_x(d: Tensor, x: Tensor, slope: Tensor) -> Tensor:
    return torch.where(x > 0, d, slope * d)  # at 0 as torch has it


def _with_tangent(operator: Any, gradients: Any, products: Sequence[Any]) -> Any:
    """Return the operator with a forward-mode derivative. (Operators can't have one: it would silently be 0.)

    The compiler refuses such functions, and they are slower, so that it is used only if needed. ``products`` are
    functions of a tangent and the operands: the tangent times the derivative by each operand.
    """

    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)
        ctx.set_materialize_grads(False)  # 0 times an infinite derivative would be NaN

    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor | None:
        # The saved operands without this level's tangents, but with those of outer levels. torch disables forward mode
        # while it calls a jvp, and so would lose the outer levels' derivatives.
        with forward_ad._set_fwd_grad_enabled(True):
            x, y = (forward_ad.unpack_dual(tensor).primal for tensor in ctx.saved_tensors)
            terms = [by(d, x, y) for by, d in zip(products, tangents, strict=True) if d is not None]
            # Integers have no tangents, nor has such a power.
            return reduce(torch.add, terms).to(x.dtype) if terms and x.is_floating_point() else None

    def backward(ctx: Any, gradient: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        return (None, None) if gradient is None else gradients(ctx, gradient)

    functions = {"forward": operator, "setup_context": setup_context, "backward": backward, "jvp": jvp}
    members = {name: staticmethod(function) for name, function in functions.items()}
    return type("WithTangent", (torch.autograd.Function,), {"generate_vmap_rule": True, **members})


def _autograd_kernel(operator: Any, gradients: Any) -> Any:
    """Return the operator's kernel above those of devices; torch.library.register_autograd's takes twice the time."""
    redispatch, below = operator._handle.redispatch_boxed, torch._C._after_autograd_keyset

    def forward(ctx: Any, x: Tensor, y: Tensor, keyset: Any) -> Tensor:
        ctx.save_for_backward(x, y)
        return redispatch(keyset & below, x, y)

    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return *gradients(ctx, gradient), None

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    function: Any = type("WithGradient", (torch.autograd.Function,), members)
    apply = super(torch.autograd.Function, function).apply  # function.apply without what torch.func needs

    def kernel(keyset: Any, x: Tensor, y: Tensor) -> Tensor:
        if (x.requires_grad or y.requires_grad) and torch.is_grad_enabled():
            return (function.apply if _is_transformed() else apply)(x, y, keyset)
        return redispatch(keyset & below, x, y)

    return kernel


def _is_transformed() -> bool:
    """Whether forward-mode differentiation or a torch.func transform is active; also True if that is not known."""
    try:
        return torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0
    except AttributeError:  # private names of torch
        return True


def _is_watched() -> bool:
    """Whether a transform or a mode sees the operations."""
    return _is_transformed() or torch._C._len_torch_dispatch_stack() > 0


def _is_functionalized() -> bool:
    """Whether torch.func.functionalize is active, which has no rule for _Pow and _Prelu; refuse derivatives then."""
    levels = [level.key() for level in torch._C._functorch.get_interpreter_stack() or ()]
    if TransformType.Functionalize not in levels:
        return False
    if {TransformType.Grad, TransformType.Jvp}.intersection(levels) or forward_ad._current_level >= 0:
        raise HalfulpError("torch.func.functionalize: torch cannot combine it with derivatives; leave it out")
    return True


@cache
def register_symbolics() -> None:
    """Tell torch.onnx.export(dynamo=False) the operators' nodes. It must be loaded for that, which takes long."""
    for row in (hu.POW, hu.PRELU):
        torch.onnx.register_custom_op_symbolic(
            f"halfulp::{row.name.lower()}",
            lambda graph, x, y, name=row.name: graph.op(name, x, y).setType(x.type()),
            opset_version=12,
        )


def _defined(row: hu.Operator, gradients: Any, products: Sequence[Any]) -> Callable[[Tensor, Tensor], Tensor]:
    """Define an operator, with all that is not the CPU's kernel, and return a function that calls it."""
    name, second = row.name.lower(), row.inputs[1].name.lower()
    operator = f"halfulp::{name}"
    LIBRARY.define(f"{name}(Tensor x, Tensor {second}) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
    overload = getattr(torch.ops.halfulp, name).default
    LIBRARY.impl(name, partial(compute_on_cuda, getattr(hu, name)), "CUDA")
    LIBRARY.impl(name, refuse, "CompositeExplicitAutograd")
    of_nested = partial(_of_nested, overload)
    for key in ("NestedTensorCPU", "NestedTensorCUDA"):
        LIBRARY.impl(name, of_nested, key)
    for kind, kernel in ((NestedTensor, of_nested), (torch.masked.MaskedTensor, refuse)):
        torch.library.register_torch_dispatch(
            operator, kind, lambda cls, func, types, args, kwargs, kernel=kernel: kernel(*args), lib=LIBRARY
        )
    torch.library.register_vmap(operator, partial(_vmap, overload), lib=LIBRARY)
    LIBRARY.impl(name, _autograd_kernel(overload, gradients), "Autograd", with_keyset=True)

    @torch.library.register_fake(operator, lib=LIBRARY)
    def fake(x: Tensor, y: Tensor) -> Tensor:
        # Inductor should call the operator although it has a decomposition, which only the exporter can use. With the
        # environment variable CI set, Inductor refuses such an operator unless it is in this list. Inductor is loaded
        # when it traces, and too large to be imported before.
        if lowering := sys.modules.get("torch._inductor.lowering"):
            lowering.FALLBACK_ALLOW_LIST.add(operator)
        return _empty(x, y)

    # torch.onnx.export decomposes operators by torch's table, also in branches and bodies of control flow. Other users
    # of the table keep the operator. An entry of the type "meta" keeps fake tensors of symbolic sizes from using it.
    @register_decomposition(overload)
    def node(x: Tensor, y: Tensor) -> Any:
        if not torch.onnx.is_in_onnx_export():
            return NotImplemented
        shape = torch.broadcast_shapes(x.shape, y.shape)
        return torch.onnx.ops.symbolic(row.name, (x, y), dtype=x.dtype, shape=shape)

    register_decomposition(overload, type="meta")(fake)
    return partial(_in_form, overload, _with_tangent(overload, gradients, products), row)


power = _defined(hu.POW, pow_gradients, (_pow_by_x, _pow_by_y))
leaky = _defined(hu.PRELU, prelu_gradients, (_prelu_by_x, lambda d, x, _: torch.where(x > 0, 0, d * x)))


# The kernels for the CPU: torch's dispatcher calls them without Python, by torch's stable ABI.

for _name, _kind in (("_other_pow", "Tensor"), ("_power_of_float", "float"), ("_power_of_int", "int")):
    LIBRARY.define(f"{_name}(Tensor x, {_kind} y) -> Tensor")
    LIBRARY.define(f"{_name}.out(Tensor x, {_kind} y, *, Tensor(a!) out) -> Tensor(a!)")
    LIBRARY.define(f"{_name}_(Tensor(a!) x, {_kind} y) -> Tensor(a!)")


RUNTIME: Any = None  # torch's kernels for the CPU, and the libraries that these are linked with
for _path in Path(torch.__file__).parent.glob("lib/*torch_cpu.*"):
    with suppress(OSError):
        RUNTIME = ctypes.CDLL(str(_path))  # it is loaded already


def _address_of(name: str) -> int:
    """Return the address of a function of torch's, or raise an AttributeError."""
    return ctypes.cast(getattr(RUNTIME, name), ctypes.c_void_p).value  # type: ignore[return-value]


@cache
def connect() -> dict[str, int]:
    """Return the kernels for torch's own operators, and register those for halfulp's."""
    try:
        names = [dtype.name for dtype in DTYPES.values()]
        dtypes = {getattr(RUNTIME, f"aoti_torch_dtype_{name}")(): list(TYPES).index(name) for name in names}
        kernels = hu.torch_kernels(_address_of, dtypes).items()
    except AttributeError:
        lack = "this build of torch has no stable ABI (aoti_torch_library_impl)"
        raise HalfulpError(lack, got=torch.__version__) from None
    aten, own = (
        {name.removeprefix(space): at for name, at in kernels if name.startswith(space)}
        for space in ("aten::", "halfulp::")
    )
    registered("halfulp", own | {"pow": own.pop("_power"), "prelu": aten["_prelu_kernel"]})  # for ever
    return aten


def registered(namespace: str, kernels: dict[str, int]) -> Callable[[], object]:
    """Register kernels for the CPU, and return a function that removes them."""
    handle, where = ctypes.c_void_p(), (namespace.encode(), b"CPU", b"halfulp", ctypes.c_uint32(0))
    failed = RUNTIME.aoti_torch_library_init_impl(*where, ctypes.byref(handle))
    for name, address in kernels.items():
        failed = failed or RUNTIME.aoti_torch_library_impl(handle, name.encode(), ctypes.c_void_p(address))
    if failed:
        raise HalfulpError(f"torch does not take kernels for {namespace}", got=torch.__version__)
    return partial(RUNTIME.aoti_torch_delete_library_object, handle)


try:
    connect()
except HalfulpError:  # without the ABI only `enable` is refused
    LIBRARY.impl("pow", partial(compute, hu.pow), "CPU")
    LIBRARY.impl("prelu", partial(compute, hu.prelu), "CPU")

# Threads: torch's own. They spin while they wait for work, so that other threads would get little CPU time. Its OpenMP
# runtime has GCC's interface, or its threads are not used.
with suppress(AttributeError):
    hu.share_threads_of(_address_of("GOMP_parallel"), _address_of("omp_get_max_threads"))
