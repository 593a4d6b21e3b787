"""PyTorch: our bits in every type, derivatives of every kind, compilation, modules and export."""

import contextlib
import copy
import io
import math
import os
import pickle
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import halfulp as hu

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import halfulp.integrations.torch as htorch  # noqa: E402
from halfulp.integrations.torch import operators  # noqa: E402
from halfulp.integrations.torch.operators import DTYPES, as_array  # noqa: E402

nn = torch.nn

pytestmark = [
    # What torch itself warns of, in its own use of itself.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

TYPES = sorted(DTYPES, key=str)
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def values(dtype: Any, *shape: int, seed: int = 0) -> Any:
    """A tensor of values whose powers are mostly finite."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return (torch.rand(shape, generator=generator) * 3 + 0.1).to(dtype)
    return torch.randint(0, 5, shape, generator=generator).to(dtype)


def raw(tensor: Any) -> bytes:
    """The bytes of a tensor's elements in order."""
    return tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()


def array(tensor: Any) -> np.ndarray:
    """A copy of a tensor as an array, by a way of its own: through bytes."""
    name = str(tensor.dtype).removeprefix("torch.")
    return np.frombuffer(raw(tensor), hu.types.TYPES[name].dtype).reshape(tensor.shape)


def assert_same(tensor: Any, expected: np.ndarray) -> None:
    """Shape, type and bits are equal."""
    assert tuple(tensor.shape) == expected.shape
    assert str(tensor.dtype) == f"torch.{expected.dtype.name}"
    assert raw(tensor) == np.ascontiguousarray(expected).tobytes()


class Of(nn.Module):  # type: ignore[name-defined,misc]
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *operands: Any) -> Any:
        return self.function(*operands)


class TestValues:
    @pytest.mark.parametrize("y_dtype", TYPES, ids=str)
    @pytest.mark.parametrize("x_dtype", TYPES, ids=str)
    def test_pow_of_every_pair_of_types(self, x_dtype, y_dtype):
        x, y = values(x_dtype, 5, 300), values(y_dtype, 300, seed=1)
        expected = hu.pow(array(x), array(y))
        assert_same(htorch.pow(x, y), expected)
        assert_same(torch.ops.halfulp.pow(x, y), expected)

    @pytest.mark.parametrize("dtype", TYPES, ids=str)
    def test_prelu_of_every_type(self, dtype):
        x, slope = values(dtype, 2, 3, 50), values(dtype, 3, 1, seed=1)
        expected = hu.prelu(array(x), array(slope))
        assert_same(htorch.prelu(x, slope[:, 0]), expected)
        assert_same(torch.ops.halfulp.prelu(x, slope), expected)

    @pytest.mark.parametrize("dtype", FLOATS, ids=str)
    def test_numbers_count_exactly(self, dtype):
        x = values(dtype, 1000)
        for number in (2, -3, 0.1, 2.5, 10**30, -(10**30) - 1, float("inf")):
            assert_same(htorch.pow(x, number), hu.pow(array(x), number))
        for number in (2, 0.1, 1.00390625000001):
            assert_same(htorch.pow(number, x), hu.pow(number, array(x)))
            assert_same(htorch.prelu(-x, number), hu.prelu(-array(x), number))
            mapped = torch.func.vmap(lambda x, number=number: htorch.pow(number, x))(x)
            assert_same(mapped, hu.pow(number, array(x)))

    def test_tensors_of_numbers_are_kept_for_the_processor(self):
        cpu = torch.device("cpu")
        for way in (
            operators.exponent_tensor,
            lambda n, device: operators.rounded(n, torch.float64, device),
        ):
            assert all(way(number, cpu) is way(number, cpu) for number in (3, 2.5, 1e300))
        assert operators.number_tensor(2, torch.float32, torch.device("meta")).is_meta

    def test_where_numbers_are(self, monkeypatch):
        for in_a_graph, homes in ((False, ["cpu", "cpu", "meta"]), (True, ["cpu", "cuda", "meta"])):
            monkeypatch.setattr(torch.compiler, "is_compiling", lambda value=in_a_graph: value)
            devices = map(torch.device, ("cpu", "cuda", "meta"))
            assert [str(operators.home_of_numbers(device)) for device in devices] == homes

    def test_layouts(self):
        images = values(torch.float32, 2, 3, 8, 8).to(memory_format=torch.channels_last)
        exponents = values(torch.float32, 3, 1, 1, seed=1)
        result = htorch.pow(images, exponents)
        assert result.is_contiguous(memory_format=torch.channels_last)
        assert_same(result, hu.pow(array(images), array(exponents)))
        x = values(torch.bfloat16, 40, 30)
        for view in (x.T, x[::2, ::3], x[:, 3], x.expand(2, 40, 30), x[:0], x[1, 1]):
            assert_same(htorch.pow(view, 1.7), hu.pow(array(view), 1.7))
            assert_same(htorch.prelu(-view, 0.3), hu.prelu(-array(view), 0.3))

    def test_no_copy(self):
        for name in ("float64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "uint16", "uint64"):
            x = values(getattr(torch, name), 10)
            assert as_array(x).__array_interface__["data"][0] == x.data_ptr()

    def test_a_result_does_not_depend_on_its_place_or_on_threads(self):
        x, y = values(torch.float32, 4000), values(torch.float32, 4000, seed=1)
        before = torch.get_num_threads()
        whole, torchs = htorch.pow(x, y), torch.pow(x, y)
        differ = 0
        try:
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                for start in range(0, 3900, 13):
                    part = slice(start, start + 7)
                    assert raw(htorch.pow(x[part], y[part])) == raw(whole[part])
                    differ += raw(torch.pow(x[part], y[part])) != raw(torchs[part])
        finally:
            torch.set_num_threads(before)
        assert differ > 0, "torch's own depend on it, or these operands don't tell"

    def test_a_float_beside_integers_has_the_default_type(self):
        integers = torch.tensor([-1, 0, 1, 3])
        for base in (10.0, 2.3):
            result = htorch.pow(base, integers)
            assert result.dtype == torch.pow(base, integers).dtype == torch.float32
            assert_same(result, hu.pow(np.float32(base), integers.numpy()))
        assert htorch.pow(2**53 + 1, torch.tensor([1])).tolist() == [2**53 + 1]

    def test_inductor_calls_the_operators(self, monkeypatch):
        """Inductor refuses what it could decompose where CI is set; a cached graph would hide that."""
        monkeypatch.setenv("CI", "1")
        integers, x, slope = torch.tensor([-1, 0, 1, 3]), torch.tensor([-2.0, 3.0]), torch.tensor([0.1])
        # It would compile six programs to know the processor, and torch's headers beforehand.
        quick = {"compile_threads": 1, "cpp.vec_isa_ok": False, "cpp_cache_precompile_headers": False}
        with torch._inductor.config.patch(force_disable_caches=True, **quick):
            compiled = torch.compile(lambda y, x, slope: (htorch.pow(10.0, y), htorch.prelu(x, slope)))
            powers, rectified = compiled(integers, x, slope)
        assert_same(powers, htorch.pow(10.0, integers).numpy())
        assert_same(rectified, htorch.prelu(x, slope).numpy())

    def test_what_is_refused(self):
        x = torch.ones(2, 3)
        with pytest.raises(hu.SpecError, match=r"^X and Y must be broadcastable"):
            htorch.pow(x, torch.ones(4))
        with pytest.raises(RuntimeError, match="slope must be broadcastable to X"):
            torch.ops.halfulp.prelu(x, torch.ones(4))
        for z in (x.to(torch.complex64), x.to(torch.complex128).requires_grad_()):
            message = f"a complex tensor ({z.dtype}); torch.pow has complex powers"
            for call in (
                lambda z=z: htorch.pow(z, x),
                lambda z=z: htorch.pow(2.5, z),
                lambda z=z: htorch.prelu(z, 2),
            ):
                with pytest.raises(hu.HalfulpError, match=f"^{re.escape(message)}$"):
                    call()
        with pytest.raises(hu.HalfulpError, match=r"^no element type torch.bool; pass x\.to\(torch\.int8\)$"):
            htorch.pow(x.to(torch.bool), x)
        for y in (torch.ones(2, dtype=torch.int8), torch.ones(2, 2, dtype=torch.int8).T):
            with pytest.raises(hu.HalfulpError, match=r"does not fit the type torch.int8\s+got: 300"):
                htorch.pow(300, y)
        for number in (2, 2.5):
            with pytest.raises(TypeError, match="one of the operands must be a tensor"):
                htorch.pow(number, 3)
        with pytest.raises(TypeError, match="x must be a tensor"):
            htorch.prelu(np.ones(3), x)

    @pytest.mark.parametrize("operand", [np.array([2.5] * 3), np.array(2.5), [2.5] * 3, None, "2", 1j])
    @pytest.mark.parametrize("requires_grad", [False, True])
    def test_what_is_no_number(self, operand, requires_grad):
        x = torch.ones(3, requires_grad=requires_grad)
        message = f"an operand must be a tensor or a number, not {type(operand).__name__}"
        for call in (htorch.pow, htorch.prelu, lambda x, y: htorch.pow(y, x)):
            with pytest.raises(TypeError, match=message):
                call(x, operand)

    @pytest.mark.parametrize("number", [np.float32(2.5), np.float64(2.5), np.float16(2.5), np.int64(3)])
    def test_a_scalar_of_numpys_is_its_value(self, number):
        x = torch.tensor([1.5, 2.0, 3.0])
        assert torch.equal(htorch.pow(x, number), htorch.pow(x, number.item()))
        assert torch.equal(htorch.prelu(-x, number), htorch.prelu(-x, number.item()))


class TestPreluIsTorchs:
    """``htorch.prelu`` follows ``F.prelu``: a weight for each channel, which is dim 1."""

    @pytest.mark.parametrize("weight", [(), (1,), (3,)])
    @pytest.mark.parametrize("shape", [(2, 3), (2, 3, 3), (1, 3, 3, 3), (3, 3, 2), (0, 3, 2)])
    def test_values_and_derivatives(self, shape, weight):
        found = []
        for function in (htorch.prelu, torch.nn.functional.prelu):
            x = (values(torch.float32, *shape) - 1.5).requires_grad_()
            w = values(torch.float32, *weight, seed=1).requires_grad_()
            result = function(x, w)
            (result * torch.arange(result.numel()).reshape(shape)).sum().backward()
            with torch.no_grad():
                plain = function(x, w)
            assert raw(plain) == raw(result.detach())
            assert result is not x
            assert result.data_ptr() != x.data_ptr() or not x.numel()
            found.append((result.detach(), x.grad, w.grad))
        for ours, theirs in zip(*found, strict=True):
            assert ours.shape == theirs.shape
            torch.testing.assert_close(ours, theirs)

    @pytest.mark.parametrize("shape", [(), (3,), (0,)])
    def test_without_channels(self, shape):
        x = values(torch.float32, *shape) - 1.5
        for weight in (torch.tensor(0.25), torch.tensor([0.25])):
            assert raw(htorch.prelu(x, weight)) == raw(torch.nn.functional.prelu(x, weight))

    @pytest.mark.parametrize(
        ("x", "weight"),
        [
            (torch.ones(3), torch.ones(3)),
            (torch.ones(()), torch.ones(3)),
            (torch.ones(2, 3), torch.ones(2)),
            (torch.ones(1, 3, 4, 4), torch.ones(4)),
            (torch.ones(1, 3, 4, 4), torch.ones(3, 1, 1)),
            (torch.ones(1, 3), torch.ones(1, 1)),
            (torch.ones(2, 3), torch.ones(3, dtype=torch.float64)),
        ],
    )
    @pytest.mark.parametrize("is_watched", [False, True])
    def test_refuses_what_torch_refuses(self, x, weight, is_watched):
        with pytest.raises(RuntimeError):
            torch.nn.functional.prelu(x, weight)
        words = r"prelu: .*; " + (r"hu\.prelu aligns" if x.dtype == weight.dtype else r"write weight\.to")
        with (
            Recorded() if is_watched else contextlib.nullcontext(),
            pytest.raises(hu.HalfulpError, match=words) as caught,
        ):
            htorch.prelu(x, weight)
        assert isinstance(caught.value, RuntimeError)

    def test_onnx_alignment_is_that_of_hu(self):
        x, slope = -torch.ones(1, 3, 3), torch.tensor([1.0, 2.0, 3.0])
        assert hu.prelu(x, slope)[0, 0].tolist() == [-1, -2, -3]
        assert htorch.prelu(x, slope)[0, 0].tolist() == [-1, -1, -1]


class Recorded(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


class TestWhoeverWatches:
    """The operator is what a mode, a profile and a trace see."""

    x = torch.tensor([1.5, 2.0])

    @pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
    @pytest.mark.parametrize("y", [2, torch.tensor(2.5)], ids=["number", "tensor"])
    def test_sees_the_operator(self, y):
        plain = htorch.pow(self.x, y)
        with Recorded() as recorded:
            watched = htorch.pow(self.x, y)
        assert "halfulp::pow" in recorded.names
        with torch.autograd.profiler.profile(use_cpu=True) as profiled:
            htorch.pow(self.x, y)
        assert "halfulp::pow" in {event.name for event in profiled.function_events}
        traced = torch.jit.trace(lambda x: htorch.pow(x, y), self.x)
        assert "halfulp::pow" in str(traced.graph)
        for result in (watched, traced(self.x)):
            assert raw(result) == raw(plain)

    def test_is_told_of_gradients_only_where_they_are_on(self):
        x = self.x.clone().requires_grad_()
        assert htorch.pow(x, 2).requires_grad
        assert htorch.prelu(x, 0.5).requires_grad
        assert htorch.pow(nn.Parameter(self.x), 2).requires_grad
        with torch.no_grad():
            assert not htorch.pow(x, 2).requires_grad

    def test_a_size_as_exponent(self):
        """A table of decompositions keeps the operator."""
        options = {"tracing_mode": "symbolic", "decomposition_table": torch._decomp.decomposition_table}
        traced = make_fx(lambda x: htorch.pow(x, x.shape[0]), **options)(self.x)
        assert "halfulp.pow" in traced.code
        assert_same(traced(torch.ones(3) * 1.5), hu.pow(np.full(3, 1.5, np.float32), 3))

    def test_a_number_first_met_there_is_a_plain_one_afterwards(self):
        """The numbers' tensors are kept: none may be of the mode or the transform that was active."""

        def both(x: Any, number: float) -> Any:
            return htorch.pow(x, number) + htorch.pow(number, x)

        def gradient(x: Any, number: float) -> Any:
            leaf = x.detach().requires_grad_()
            return torch.autograd.grad(both(leaf, number).sum(), leaf)[0]

        with torch.inference_mode():
            both(self.x, 1.375)
        torch.func.vmap(torch.func.grad(lambda x: both(x, 1.4375)))(self.x)
        torch.func.functionalize(both)(self.x, 1.4375)
        with FakeTensorMode() as mode:
            both(mode.from_tensor(self.x), 1.625)
        traced = make_fx(lambda x: gradient(x, 1.6875))(self.x)
        assert raw(traced(self.x + 1)) == raw(gradient(self.x + 1, 1.6875))
        for number in (1.375, 1.4375, 1.625, 1.6875):
            same = torch.tensor(number, dtype=torch.float64)
            assert raw(both(self.x, number)) == raw(
                htorch.pow(self.x, same) + htorch.pow(same.float(), self.x)
            )
            assert gradient(self.x, number).shape == self.x.shape

    def test_zeros_of_both_signs(self):
        for zero in (-0.0, 0.0, -0.0):
            assert htorch.pow(zero, -torch.ones(1)).item() == math.copysign(math.inf, zero)


def grad_operands() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Functions and operands in float64, for numerical differentiation."""

    def leaf(*shape: int, low: float, high: float, seed: int) -> Any:
        generator = torch.Generator().manual_seed(seed)
        tensor = torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low
        return tensor.requires_grad_()

    x, y = leaf(3, 2, low=0.5, high=2, seed=1), leaf(2, low=-2, high=2, seed=2)
    larger = leaf(3, 1, low=-2, high=2, seed=7)
    negative = leaf(5, low=-2, high=-0.5, seed=3)
    signed = leaf(2, 3, 2, low=-2, high=2, seed=4)
    slope = leaf(3, low=0.1, high=2, seed=5)
    return {
        "pow": (htorch.pow, (x, y)),
        "pow, x smaller": (htorch.pow, (leaf(2, low=0.5, high=2, seed=6), larger)),
        "pow, a number": (lambda x: htorch.pow(x, 2.5), (x,)),
        "pow, 0 and 1": (lambda x: htorch.pow(x, 0) + htorch.pow(x, 1), (x,)),
        "pow, a number as base": (lambda y: htorch.pow(1.5, y), (y,)),
        "pow, 0-d": (htorch.pow, (leaf(low=0.5, high=2, seed=8), leaf(low=1, high=2, seed=9))),
        "pow, 1-d": (lambda x: htorch.pow(x, torch.tensor([2.5])), (leaf(low=1, high=2, seed=8),)),
        "pow, integers": (lambda x: htorch.pow(x, torch.tensor([3, 2, 1, 0, -1])), (negative,)),
        "prelu": (htorch.prelu, (signed, slope)),
        "prelu, a number": (lambda x: htorch.prelu(x, 0.25), (signed,)),
    }


class TestDerivatives:
    @pytest.mark.parametrize("name", grad_operands())
    def test_against_numerical_differentiation(self, name):
        function, operands = grad_operands()[name]
        forward = {"check_forward_ad": True, "check_batched_forward_grad": True}
        assert torch.autograd.gradcheck(function, operands, check_batched_grad=True, **forward)
        assert torch.autograd.gradgradcheck(
            function, operands, check_fwd_over_rev=True, check_batched_grad=True
        )

    def test_every_order_and_mode_agrees_with_torchs(self):
        func = torch.func
        x = torch.tensor([0.7, 1.3, 2.1], dtype=torch.float64)
        chains = [
            lambda f: func.jacfwd(f),
            lambda f: func.jacrev(f),
            lambda f: func.hessian(f),
            lambda f: func.jacfwd(func.jacfwd(f)),
            lambda f: func.jacrev(func.jacfwd(f)),
            lambda f: func.jacfwd(func.jacfwd(func.jacfwd(f))),
            lambda f: func.jacfwd(func.jacrev(func.jacfwd(f))),
            lambda f: func.vmap(func.jacfwd(func.jacfwd(f))),
            lambda f: func.vmap(func.jacrev(func.jacrev(f))),
        ]
        for chain in chains:
            for exponent in (3.5, x.flip(0)):
                ours = chain(lambda t, y=exponent: htorch.pow(t, y))(x)
                torchs = chain(lambda t, y=exponent: torch.pow(t, y))(x)
                torch.testing.assert_close(ours, torchs)
            ours = chain(lambda t: htorch.prelu(t - 1, 0.25) ** 2)(x)
            torchs = chain(lambda t: torch.where(t < 1, 0.25 * (t - 1), t - 1) ** 2)(x)
            torch.testing.assert_close(ours, torchs)

    def test_tangents_of_one_operand(self):
        """The other's derivative, infinite or NaN, has no part in them."""
        low, weight = torch.tensor([-math.inf, -1.0, 2.0]), torch.tensor([0.25])
        base, exponent = torch.tensor([-2.0, 0.0, 2.0]), torch.tensor([3.0, 0.5, 2.0])
        by_where = (htorch.prelu, lambda x, slope: torch.where(x > 0, x, slope * x))
        for pair, x, y in (((htorch.pow, torch.pow), base, exponent), (by_where, low, weight)):
            of_x, of_y = (
                [torch.func.jvp(call, (at,), (torch.ones_like(at),))[1] for call in calls]
                for at, calls in (
                    (x, [lambda t, f=f, y=y: f(t, y) for f in pair]),
                    (y, [lambda t, f=f, x=x: f(x, t) for f in pair]),
                )
            )
            torch.testing.assert_close(*of_x)
            torch.testing.assert_close(*of_y, equal_nan=True)

    def test_a_tangent_of_zero_has_its_sign(self):
        x = torch.tensor([0.0])
        _, tangent = torch.func.jvp(lambda x: htorch.pow(x, torch.tensor([2.0])), (x,), (-torch.ones(1),))
        assert math.copysign(1, tangent.item()) == -1

    def test_powers_of_integers_have_no_tangent(self):
        x, y = torch.tensor([1, 2, 3]), torch.tensor([1.0, 2.0, 3.0])
        powers, tangents = torch.func.jvp(lambda y: htorch.pow(x, y), (y,), (torch.ones(3),))
        assert (powers.tolist(), tangents.tolist()) == ([1, 4, 27], [0, 0, 0])

    def test_the_operator_itself_has_no_rule_for_transforms(self):
        with pytest.raises(RuntimeError, match="functorch transforms"):
            torch.func.grad(lambda x: torch.ops.halfulp.pow(x, torch.tensor(3.0)).sum())(torch.ones(2))

    def test_a_device_whose_numbers_cannot_be_read(self):
        x = torch.ones(3, device="meta", requires_grad=True)
        htorch.pow(x, torch.tensor(2.0, device="meta")).sum().backward()
        assert x.grad.shape == (3,)

    def test_where_the_power_is_constant_or_0(self):
        x = torch.tensor([0.0, 0.0, 0.0, float("nan"), 2.0, 0.0, -2.0], requires_grad=True)
        y = torch.tensor([0.0, 1.0, 2.0, 0.0, 0.0, 0.5, 2.0], requires_grad=True)
        htorch.pow(x, y).sum().backward()
        torch.testing.assert_close(x.grad, torch.tensor([0, 1, 0, 0, 0, float("inf"), -4]))
        by_y = y.grad.tolist()
        assert by_y[:3] == [0, 0, 0]
        assert by_y[5] == 0
        assert np.isnan(by_y[6])
        y = torch.tensor([0.0, 2.0], requires_grad=True)
        htorch.pow(torch.tensor(0.0), y).sum().backward()
        assert y.grad.tolist() == [0, 0]

    @pytest.mark.parametrize("dtype", FLOATS, ids=str)
    def test_gradients_have_the_operands_types(self, dtype):
        x, y = values(dtype, 3, 4).requires_grad_(), values(torch.float32, 4, seed=1).requires_grad_()
        htorch.pow(x, y).sum().backward()
        assert (x.grad.dtype, x.grad.shape) == (dtype, (3, 4))
        assert (y.grad.dtype, y.grad.shape) == (torch.float32, (4,))

    def test_vmap(self):
        x, y = values(torch.float64, 3, 4), values(torch.float64, 3, 4, seed=1)
        vmap = torch.func.vmap
        assert raw(vmap(htorch.pow)(x, y)) == raw(htorch.pow(x, y))
        assert raw(vmap(htorch.pow, (None, 0))(x, y)) == raw(htorch.pow(x[None], y[:, None]))
        assert raw(vmap(htorch.pow, (1, None))(x, 2.5)) == raw(htorch.pow(x.T, 2.5))
        assert raw(vmap(htorch.pow, (0, 1))(x[:, :3], y[:, :3])) == raw(htorch.pow(x[:, :3], y[:, :3].T))
        nested = vmap(vmap(htorch.pow, (None, 0)), (0, None))(x[:, 0], y[0])
        assert raw(nested) == raw(htorch.pow(x[:, :1], y[:1]))
        # A batch of slopes for one x, a batch of both, and slopes of a lower rank than x.
        images, prelu = -x.reshape(1, 3, 4), torch.nn.functional.prelu
        for function, dims, operands in (
            (vmap, (None, 0), (-x, y)),
            (vmap, (0, 0), (-x[:, None], y[:, :1])),
            (vmap, (2, 1), (images, y[:, :4])),
            (vmap, (0, None), (images[None], y[:, 0])),
        ):
            assert raw(function(htorch.prelu, dims)(*operands)) == raw(function(prelu, dims)(*operands))


NEGATED = {
    "the imaginary part of a conjugate": lambda t: torch.complex(t, t).conj().imag,
    "a view": lambda t: torch._neg_view(t),
}


class TestNegativeBit:
    """A tensor whose sign is beside its memory."""

    x = torch.tensor([3.0, 4.0, 0.5])

    @pytest.mark.parametrize("negated", NEGATED.values(), ids=NEGATED)
    def test_counts(self, negated):
        t, minus = negated(self.x), -array(self.x)
        assert t.is_neg()
        slope = torch.tensor([0.25])
        for pow in (hu.pow, htorch.pow):
            assert_same(pow(t, 3), hu.pow(minus, 3))
            assert_same(pow(2, t), hu.pow(2, minus))
            assert_same(pow(self.x, t), hu.pow(array(self.x), minus))
        for prelu in (hu.prelu, htorch.prelu):
            assert_same(prelu(t, slope), hu.prelu(minus, np.float32([0.25])))
            assert_same(prelu(-self.x[None], t), hu.prelu(minus[None], minus))
            assert_same(prelu(t, 0.25), hu.prelu(minus, 0.25))
        operator = hu.op("onnx.Pow-15")
        assert operator(t, np.float32(3)).tobytes() == operator(minus, np.float32(3)).tobytes()
        assert_same(torch.ops.halfulp.pow(t, torch.tensor(3.0)), hu.pow(minus, 3))
        assert_same(torch.ops.halfulp.prelu(t, slope), hu.prelu(minus, np.float32([0.25])))
        short = torch._neg_view(self.x.bfloat16())
        assert_same(htorch.pow(short, 3), hu.pow(-array(self.x.bfloat16()), 3))

    @pytest.mark.parametrize("negated", NEGATED.values(), ids=NEGATED)
    def test_in_modules_derivatives_and_graphs(self, negated):
        minus = -array(self.x)
        with torch.no_grad():
            assert_same(htorch.replace(nn.PReLU())(negated(self.x)), hu.prelu(minus, 0.25))
        leaf = self.x.clone().requires_grad_()
        htorch.pow(negated(leaf), 3).sum().backward()
        torch.testing.assert_close(leaf.grad, -3 * self.x**2)
        torch._dynamo.reset()
        compiled = torch.compile(lambda x: htorch.pow(negated(x), 3), backend="aot_eager", fullgraph=True)
        assert_same(compiled(self.x), hu.pow(minus, 3))

    def test_a_tensor_without_memory_is_zero(self):
        zeros = torch._efficientzerotensor(2)
        for pow in (hu.pow, htorch.pow):
            assert_same(pow(zeros, 3), np.zeros(2, np.float32))
            assert_same(pow(2, zeros), np.ones(2, np.float32))


class TestFunctionalize:
    x = torch.tensor([2.0, 3.0])

    def test_values(self):
        functionalize, vmap = torch.func.functionalize, torch.func.vmap
        expected = hu.pow(array(self.x), 2.5)
        for wrapped in (
            functionalize(lambda x: htorch.pow(x, 2.5)),
            functionalize(vmap(lambda x: htorch.pow(x, 2.5))),
            vmap(functionalize(lambda x: htorch.pow(x, 2.5))),
        ):
            assert_same(wrapped(self.x), expected)
        assert_same(functionalize(lambda x: htorch.prelu(x, 0.5))(-self.x), hu.prelu(-array(self.x), 0.5))

    def test_derivatives_are_refused(self):
        grad = torch.func.grad(lambda x: htorch.pow(x, 2.5).sum())
        refused = pytest.raises(hu.HalfulpError, match="cannot combine it with derivatives; leave it out")
        with refused:
            torch.func.functionalize(grad)(self.x)
        with refused, forward_ad.dual_level():
            torch.func.functionalize(lambda x: htorch.pow(x, 2.5))(self.x)


class TestCompilation:
    @pytest.mark.parametrize(("name", "dtype"), [("pow", torch.bfloat16), ("prelu", torch.float32)])
    def test_opcheck(self, name, dtype):
        operator = getattr(torch.ops.halfulp, name).default
        x, y = values(dtype, 3, 4), values(dtype, 4, seed=1)
        images = values(dtype, 2, 3, 8, 8).to(memory_format=torch.channels_last)
        for operands in ((x, y), (values(dtype, 8, 4)[::2, ::2], y[:2]), (images, y[:3].reshape(3, 1, 1))):
            torch.library.opcheck(operator, operands)
        torch.library.opcheck(operator, (x.requires_grad_(), y.requires_grad_()))

    @pytest.mark.parametrize("dynamic", [pytest.param(False, marks=pytest.mark.exhaustive), True])
    def test_without_a_graph_break(self, dynamic):
        def function(x: Any, y: Any) -> Any:
            powers = htorch.pow(x, y) + htorch.pow(2.3, x) + htorch.pow(x, 0.1) + htorch.pow(x, 3)
            return powers + htorch.prelu(x - 1, 0.25) + htorch.prelu(x - 1, y[:1])

        torch._dynamo.reset()
        compiled = torch.compile(function, fullgraph=True, dynamic=dynamic, backend="aot_eager")
        for dtype in (torch.float32, torch.bfloat16):
            for length in (16, 5):
                x, y = values(dtype, length).requires_grad_(), values(dtype, length, seed=1)
                assert raw(compiled(x, y)) == raw(function(x, y))
                (ours,) = torch.autograd.grad(compiled(x, y).sum(), x)
                torch.testing.assert_close(ours, torch.autograd.grad(function(x, y).sum(), x)[0])

    @pytest.mark.parametrize("dtype", [torch.float16], ids=str)
    def test_numbers_that_change_from_call_to_call(self, dtype):
        def function(x: Any, number: float) -> Any:
            return htorch.pow(x, number), htorch.pow(number, x), htorch.prelu(-x, number)

        torch._dynamo.reset()
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        x = values(dtype, 200)
        for number in (0.1, 0.3, 1.00390625000001, 1.00048828125001, 1e-45, 1e39, 2, 3, 5):
            for ours, eager in zip(compiled(x, number), function(x, number), strict=True):
                assert raw(ours) == raw(eager), number

    def test_fake_tensors(self):
        with FakeTensorMode():
            x = torch.empty(2, 3, dtype=torch.bfloat16)
            result = htorch.pow(x, torch.empty(4, 1, 3))
            assert (result.shape, result.dtype) == ((4, 2, 3), torch.bfloat16)

    def test_export(self):
        operands = values(torch.float32, 3, 4), values(torch.int64, 4, seed=1)
        program = torch.export.export(Of(htorch.pow), operands)
        assert torch.ops.halfulp.pow.default in [node.target for node in program.graph.nodes]
        assert raw(program.module()(*operands)) == raw(htorch.pow(*operands))
        sizes = ((({0: torch.export.Dim("N")}),),)
        by_size = Of(lambda x: htorch.pow(x, x.shape[0] * 0.5))
        program = torch.export.export(by_size, (values(torch.float32, 5),), dynamic_shapes=sizes)
        x = values(torch.float32, 7)
        assert raw(program.module()(x)) == raw(htorch.pow(x, 3.5))

    @pytest.mark.parametrize(
        ("number", "graph"),
        [
            *((number, ["full"]) for number in (3, 2.5, 2**53 + 1)),
            (0.1, ["full", "full", "add", "full", "add"]),
            *((number, ["scalar_tensor"]) for number in (1e300, 1e-50, math.nan)),
        ],
    )
    def test_a_number_in_an_exported_graph(self, number, graph):
        """The exporter to ONNX rounds an argument of full to float32."""
        power, x = Of(lambda x: htorch.pow(x, number)), 1 + torch.arange(3, dtype=torch.float64) / 2**52
        program = torch.export.export(power, (x,))
        assert raw(program.module()(x)) == raw(htorch.pow(x, number))
        calls = [node.target for node in program.graph.nodes if node.op == "call_function"]
        assert [call.name().partition("::")[2].partition(".")[0] for call in calls] == [*graph, "pow"]
        graphs: list[Any] = []
        torch._dynamo.reset()
        torch.compile(power, backend=lambda graph, _: graphs.append(graph) or graph)(x)
        assert str(graphs[0].graph).count("torch.full") == 1


class Network(nn.Module):
    """A network with every way to write a power."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 3, 3)
        self.activation = nn.PReLU(3)
        self.exponent = nn.Parameter(torch.tensor(2.2))

    def forward(self, x: Any) -> Any:
        x = self.activation(self.convolution(x)).abs() + 0.1
        x = x**self.exponent + x**2.5 + 2**x + torch.pow(x, 3) + x.pow(0.5)
        return torch.nn.functional.prelu(-x, self.activation.weight)


class Powers(nn.Module):
    """Powers only: what they give can be compared bit for bit."""

    def forward(self, x: Any) -> Any:
        inplace = x.clone()
        inplace.pow_(1.7)
        out = torch.empty(0)
        torch.pow(x, 2.3, out=out)
        return (
            *(x**2.3, 2.3**x, torch.pow(2, x), inplace, out, x.pow(2.5), x.to(torch.int32) ** 2),
            x.to(torch.int32) ** 0.5,
        )


class TestReplace:
    def test_a_mode_sees_the_call_only(self, monkeypatch):
        called: list[Any] = []
        monkeypatch.setattr(torch.overrides, "has_torch_function", lambda operands: True)
        monkeypatch.setattr(torch.overrides, "handle_torch_function", lambda f, *_: called.append(f))
        htorch.replace(nn.PReLU())(torch.ones(2))
        assert called == [htorch._torch_prelu]

    def test_types_that_are_torchs(self):
        for x in (torch.tensor([1 + 2j]), torch.tensor([True])):
            assert torch.equal(htorch.replace(Of(lambda x: x**2))(x), x**2)
        with torch.autocast("cpu"):
            double = htorch.replace(nn.PReLU(dtype=torch.float64))(torch.ones(2, dtype=torch.float64))
        assert double.dtype == torch.float64

    def test_a_module_stays_what_it_was(self):
        torch.manual_seed(0)
        plain = Network()
        module = htorch.replace(copy.deepcopy(plain))
        assert htorch.replace(module) is module
        assert isinstance(module, Network)
        assert isinstance(module.activation, nn.PReLU)
        assert list(module.state_dict()) == list(plain.state_dict())
        module.load_state_dict(plain.state_dict())
        x = torch.randn(2, 1, 8, 8)
        expected = module(x)
        torch.testing.assert_close(expected, plain(x))
        buffer = io.BytesIO()
        torch.save(module, buffer)
        buffer.seek(0)
        for again in (
            pickle.loads(pickle.dumps(module)),
            copy.deepcopy(module),
            torch.load(buffer, weights_only=False),
        ):
            assert raw(again(x)) == raw(expected)
            assert type(again) is type(module)

    def test_compiled_without_a_graph_break(self):
        module = htorch.replace(Network())
        graphs = []

        def backend(graph: Any, _: Any) -> Any:
            graphs.append(graph)
            return graph.forward

        torch._dynamo.reset()
        x = torch.randn(2, 1, 8, 8)
        compiled = torch.compile(module, fullgraph=True, backend=backend)
        assert raw(compiled(x)) == raw(module(x))
        (graph,) = graphs
        targets = [str(node.target) for node in graph.graph.nodes]
        assert targets.count("halfulp.pow.default") == 5
        assert targets.count("halfulp.prelu.default") == 2
        assert not [t for t in targets if "pow" in t and "halfulp" not in t]


class TestOnnx:
    def export(self, module: Any, operands: tuple[Any, ...], **options: Any) -> Any:
        pytest.importorskip("onnxscript")
        import onnx

        model = torch.onnx.export(module, operands, dynamo=True, verbose=False, **options).model_proto
        onnx.checker.check_model(model)
        return model

    def test_plain_nodes(self):
        module = htorch.replace(Network()).eval()
        x = torch.randn(2, 1, 8, 8)
        for source in (torch.export.export(module, (x,)), module):  # the former was exported before
            model = self.export(source, (x,))
            operators = [node.op_type for node in model.graph.node]
            assert (operators.count("Pow"), operators.count("PRelu")) == (5, 2)
            assert {node.domain for node in model.graph.node} <= {"", "ai.onnx"}
        (result,) = hu.run(model, {model.graph.input[0].name: x.numpy()}).values()
        np.testing.assert_allclose(result, module(x).detach().numpy(), rtol=1e-4, atol=1e-5)

    def test_same_bits_from_the_model(self):
        def functions(x: Any, y: Any, slope: Any) -> Any:
            return htorch.pow(x, y), htorch.pow(x, 2.3), htorch.pow(2.5, x), htorch.prelu(x - 1, slope)

        kinds = ((torch.float32, 3, 40), (torch.int64, 40), (torch.float32, 40))
        operands = tuple(values(*kind, seed=seed) for seed, kind in enumerate(kinds))
        model = self.export(
            Of(functions), operands, dynamic_shapes=(({0: torch.export.Dim("N")}, None, None),)
        )
        ours = [node.op_type for node in model.graph.node if node.op_type in ("Pow", "PRelu")]
        assert ours == ["Pow", "Pow", "Pow", "PRelu"]
        feeds = {value.name: t.numpy() for value, t in zip(model.graph.input, operands, strict=True)}
        for result, expected in zip(hu.run(model, feeds).values(), functions(*operands), strict=True):
            assert_same(expected, result)


class Branches(nn.Module):
    """Powers and a PReLU inside control flow."""

    def __init__(self) -> None:
        super().__init__()
        self.activation = nn.PReLU()

    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x**2.3, lambda x: self.activation(x).pow(2), (x,))


class Loop(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.while_loop(lambda i, x: i < 1, lambda i, x: (i + 1, x**2.3), (torch.tensor(0), x))[1]


class Mapped(nn.Module):
    def forward(self, x: Any) -> Any:
        from torch._higher_order_ops.scan import scan

        return scan(lambda carry, row: (carry + 1, row**2.3), torch.zeros(x.shape[1:]), x)[1]


class TestControlFlow:
    x = values(torch.float32, 20, 100)
    expected = hu.pow(array(x), 2.3)

    @pytest.mark.parametrize("kind", [Branches, Loop, pytest.param(Mapped, marks=pytest.mark.exhaustive)])
    def test_powers_inside_are_ours(self, kind):
        torch._dynamo.reset()
        assert raw(kind()(self.x)) != self.expected.tobytes(), "these operands tell the two powers apart"
        module = htorch.replace(kind())
        assert_same(module(self.x), self.expected)
        assert_same(torch.export.export(module, (self.x,)).module()(self.x), self.expected)
        leaf = self.x.clone().requires_grad_()
        module(leaf).sum().backward()
        torch.testing.assert_close(leaf.grad, 2.3 * self.x**1.3)

    @pytest.mark.parametrize("kind", [Branches, Loop])
    def test_export_to_onnx(self, kind):
        torch._dynamo.reset()
        module = htorch.replace(kind())
        model = TestOnnx().export(module, (self.x,))
        assert {node.domain for node in model.graph.node} <= {"", "ai.onnx"}
        (control,) = [n for n in model.graph.node if any(a.HasField("g") for a in n.attribute)]
        inside = [n.op_type for a in control.attribute if a.HasField("g") for n in a.g.node]
        assert inside.count("Pow") == (2 if kind is Branches else 1)
        assert inside.count("PRelu") == (kind is Branches)

    def test_the_compiler_warns_of_what_it_leaves_to_torch(self):
        torch._dynamo.reset()
        compiled = torch.compile(htorch.replace(Branches()), fullgraph=True, backend="eager")
        with pytest.warns(UserWarning, match=r"torch's own powers inside cond; call halfulp\.integrations"):
            compiled(self.x)


class TestThreads:
    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
    def test_a_forked_child_has_its_own(self, python):
        """OpenMP's would hang there."""
        program = """
import os, numpy as np, torch, halfulp as hu, halfulp.integrations.torch
x = np.linspace(0.1, 9, 1 << 20)
before = hu.pow(x, x)
torch.pow(torch.from_numpy(x), 2.5)
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(hu.pow(x, x), before) else 1)
print(os.waitpid(child, 0)[1])
"""
        assert python(program) == "0\n"


class TestTraining:
    """Derivatives by fewer operations than the general ones."""

    def test_prelu_has_the_bits_of_torchs_derivatives(self):
        for dtype in FLOATS:
            x = torch.tensor([[-2.5, -0.0, 0.0], [3.1, -1e-3, 7.0]], dtype=dtype).reshape(1, 2, 3)
            gradients = []
            for module in (nn.PReLU(2, dtype=dtype), htorch.replace(nn.PReLU(2, dtype=dtype))):
                leaf = x.clone().requires_grad_()
                (module(leaf) * torch.arange(1, 7).reshape(1, 2, 3).to(dtype)).sum().backward()
                gradients.append((raw(leaf.grad), raw(module.weight.grad)))
            assert gradients[0] == gradients[1]

    @pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, 0.5, 2.5, 0.0, 1 << 60])
    def test_powers_by_numbers_to_the_second_derivative(self, exponent):
        x = torch.tensor([0.5, 1.0, 1.25], dtype=torch.float64)
        found = []
        for function in (torch.pow, htorch.pow):
            leaf = x.clone().requires_grad_()
            (first,) = torch.autograd.grad(function(leaf, exponent).sum(), leaf, create_graph=True)
            second = torch.autograd.grad(first.sum(), leaf)[0] if first.requires_grad else torch.zeros_like(x)
            found.append((first.detach(), second))
        for theirs, ours in zip(*found, strict=True):
            torch.testing.assert_close(ours.expand_as(x), theirs.expand_as(x), rtol=1e-12, atol=0)

    @pytest.mark.parametrize("dtype", FLOATS, ids=str)
    @pytest.mark.parametrize("shape", [(), (37,)])
    def test_by_numbers_with_the_bits_of_the_product(self, dtype, shape):
        x = torch.linspace(0.1, 2, math.prod(shape)).reshape(shape).to(dtype)
        for number in (2.7, 3, -1.3, 1e300):
            leaf = x.clone().requires_grad_()
            htorch.pow(leaf, number).sum().backward()
            assert raw(leaf.grad) == raw(htorch.pow(leaf.detach(), number - 1) * float(number))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
    def test_by_tensors_with_the_bits_of_the_product(self, dtype):
        x, y = values(torch.float32, 100).requires_grad_(), values(dtype, 100, seed=1)
        gradient = values(torch.float32, 100, seed=2)
        htorch.pow(x, y).backward(gradient)
        factor = y if y.is_floating_point() else y.double()
        assert raw(x.grad) == raw((gradient * (factor * htorch.pow(x.detach(), y.double() - 1))).float())


@pytest.mark.parametrize("exponent", [0, 0.0, -0.0])
def test_a_constant_power_has_no_derivative_to_an_infinite_gradient(exponent):
    leaf = torch.tensor([1.0, 2.0], requires_grad=True)
    htorch.pow(leaf, exponent).backward(torch.tensor([math.inf, 1.0]))
    assert leaf.grad.tolist() == [0.0, 0.0]


def test_replace_takes_a_module():
    with pytest.raises(hu.HalfulpError, match=r"replace takes an nn\.Module"):
        htorch.replace(3)


@pytest.mark.parametrize("fails", ["aoti_torch_library_init_impl", "aoti_torch_library_impl"])
def test_a_torch_that_takes_no_kernels(fails, monkeypatch):
    names = ("aoti_torch_library_init_impl", "aoti_torch_library_impl")
    runtime = SimpleNamespace(**{name: lambda *_, name=name: name == fails for name in names})
    monkeypatch.setattr(operators, "RUNTIME", runtime)
    with pytest.raises(hu.HalfulpError, match=r"^torch does not take kernels for aten\s+got: "):
        operators.registered("aten", {"aten::pow": 1, "aten::pow_": 2})
