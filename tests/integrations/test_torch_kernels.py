"""torch's own operators on our kernels: bits, torch's rules for all else, and that nothing of it stays."""

import io
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import halfulp as hu

torch = pytest.importorskip("torch")

from tests.integrations.test_torch import assert_same  # noqa: E402

import halfulp.integrations.torch as htorch  # noqa: E402
from halfulp.integrations.torch import kernels  # noqa: E402
from halfulp.integrations.torch.operators import DTYPES, as_array  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::UserWarning"
)  # torch's, of itself

F = torch.nn.functional
RNG = np.random.default_rng(3)
X = torch.from_numpy(RNG.uniform(0.2, 4, (3, 4, 500)).astype(np.float32))
Y = torch.from_numpy(RNG.uniform(-3, 3, (4, 500)).astype(np.float32))


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    with htorch.exact():
        yield


def test_every_form_has_our_bits():
    x, y = X.numpy(), Y.numpy()
    power = hu.pow(x, y)
    assert_same(X**Y, power)
    assert_same(torch.pow(X, Y, out=torch.empty_like(X)), power)
    assert_same(X.clone().pow_(Y), power)
    for number in (2.7, 3, -2):
        power = hu.pow(x, number)
        assert_same(X**number, power)
        assert_same(torch.pow(X, number, out=torch.empty_like(X)), power)
        assert_same(X.clone().pow_(number), power)
    assert_same(2.7**X, hu.pow(np.float32(2.7), x))
    assert_same(torch.pow(2, X, out=torch.empty_like(X)), hu.pow(np.float32(2), x))
    assert_same(torch.pow(-0.0, torch.tensor([1.0])), np.float32([-0.0]))
    assert_same(torch.pow(0.0, torch.tensor([1.0])), np.float32([0.0]))
    assert_same(F.prelu(X - 2, Y[:, 0]), hu.prelu(x - 2, y[:, :1]))
    assert_same(torch._foreach_pow([X], 2.7)[0], hu.pow(x, 2.7))


def test_numbers_wrap_around_as_torchs_do():
    bytes_ = torch.tensor([1, 2, 3], dtype=torch.uint8)
    assert ((-1) ** bytes_).tolist() == [255, 1, 255]
    assert torch.pow(300, bytes_).tolist() == [44, 44**2 % 256, 44**3 % 256]
    assert (200 ** bytes_.to(torch.int8)).tolist() == [-56, 64, 0]
    assert (torch.tensor([2.0, 0.5, -1.0]) ** 2**63).tolist() == [math.inf, 0, 1]
    with pytest.raises(RuntimeError, match="without overflow"):  # torch's own
        torch.tensor([2, 3]) ** 2**63


@pytest.mark.parametrize("dtype", sorted(DTYPES, key=str), ids=str)
def test_every_type(dtype):
    x, y = X[0].to(dtype), X[1].to(dtype)
    assert_same(x**y, hu.pow(as_array(x), as_array(y)))
    assert_same(x**3, hu.pow(as_array(x), 3))


def test_the_usual_calls_take_the_short_way(monkeypatch):
    monkeypatch.setattr(kernels, "_pow", lambda *operands, **_: operands)
    integers = torch.tensor([2, 3])
    for x, y in ((X, 2.7), (X, 3), (X, -2), (integers, 3)):
        assert_same(torch.pow(x, y), hu.pow(x.numpy(), y))
    assert_same(2.7**X, hu.pow(np.float32(2.7), X.numpy()))


def test_exponents_that_the_type_of_the_base_lacks():
    x = np.float64([1 + 2**-52])
    assert_same(torch.from_numpy(x) ** (2**53 + 1), hu.pow(x, 2**53 + 1))
    assert_same(X ** torch.tensor(2.1, dtype=torch.float64), hu.pow(X.numpy(), 2.1))
    for number in (-2, 2.7):
        assert_same(torch.pow(X, number, out=torch.empty(0)), hu.pow(X.numpy(), number))
    small = torch.tensor([2, 300], dtype=torch.uint16)
    assert torch.pow(small, 2, out=torch.empty(0, dtype=torch.uint16)).tolist() == [4, 300**2 % 2**16]


@pytest.mark.parametrize(
    "shape", ["contiguous", "transposed", "channels_last", "sliced", "expanded", "empty", "0-d", "70 dims"]
)
def test_layouts_are_torchs(shape):
    image = X.reshape(3, 4, 20, 25)
    x = {
        "contiguous": image,
        "transposed": image.transpose(1, 3),
        "channels_last": image.to(memory_format=torch.channels_last),
        "sliced": image[:, ::2, 1::3],
        "expanded": image[:1, :, :1].expand(3, 4, 7, 25),
        "empty": image[:0],
        "0-d": image[0, 0, 0, 0],
        "70 dims": X[0, :2, :3].reshape([1] * 40 + [2, 3] + [1] * 28).transpose(40, 41),
    }[shape]
    for function in (
        lambda x: x**x,
        lambda x: x**2.7,
        lambda x: 2.7**x,
        lambda x: torch.pow(2, x),
        lambda x: 2j**x,
        lambda x: torch.pow(x, 2.7, out=x.new_empty(0)),
        lambda x: F.prelu(x, x.new_tensor(0.5)),
    ):
        ours = function(x)
        htorch.disable()
        assert (ours.shape, ours.stride()) == (function(x).shape, function(x).stride())
        htorch.enable()
    flat = x.reshape(-1).numpy()
    assert_same((x**x).reshape(-1), hu.pow(flat, flat))


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.arange(4) ** 0.5,
        lambda: torch.arange(4) ** torch.rand(4),
        lambda: torch.rand(4, dtype=torch.float64) ** torch.rand(4),
        lambda: torch.rand(4) ** torch.tensor(2.0, dtype=torch.float64),
        lambda: torch.tensor([True, False]) ** 2,
        lambda: torch.rand(4) ** True,
        lambda: 2 ** torch.arange(4),
        lambda: 2.5 ** torch.arange(4),
        lambda: torch.rand(4) ** 2j,
        lambda: (torch.rand(4) * 1j) ** torch.rand(4),
        lambda: 2.0 ** torch.tensor([1 + 2j, 3 - 1j]),
        lambda: (1 + 2j) ** torch.tensor([1 + 2j, 3 - 1j]),
        lambda: 1 ** torch.tensor([1 + 2j, complex("nan")]),
        lambda: 2j ** torch.rand(4),
        lambda: 2j ** torch.arange(4),
        lambda: torch.pow(2, torch.tensor([2j]), out=torch.empty(1, dtype=torch.complex64)),
        lambda: torch.pow(2j, torch.rand(4), out=torch.empty(4)),
        lambda: (torch.rand([0] * 70) ** 2.5).reshape(0),
        lambda: torch.pow(torch.arange(4), 2, out=torch.empty(4)),
        lambda: torch.pow(torch.rand(4), torch.rand(4), out=torch.empty(4, dtype=torch.float64)),
        lambda: torch.pow(torch.rand(4), torch.rand(4), out=torch.empty(0)),
        lambda: torch.pow(torch.rand(4), torch.rand(4), out=torch.empty(4, dtype=torch.int32)),
        lambda: torch.pow(torch.ones(3, 4), 2, out=(z := torch.zeros(3, 8).double())[:, ::2]) * 0 + z[:, :4],
        lambda: torch.pow(torch.ones(3, 4), 2.5, out=torch.zeros(4, 3).double().T).stride(),
        lambda: torch.rand(2) ** torch.tensor([True, False]),
        lambda: torch.arange(4).pow_(0.5),
        lambda: torch.rand(4).pow_(torch.rand(3, 4)),
        lambda: torch.rand(4) ** torch.rand(3),
        lambda: torch.arange(4) ** -2,
        lambda: F.prelu(torch.rand(4), torch.rand(1, dtype=torch.float64)),
    ],
)
def test_types_shapes_and_errors_are_torchs(call):
    def outcome() -> Any:
        torch.manual_seed(1)
        try:
            return call()
        except RuntimeError as error:
            return str(error)

    ours = outcome()
    htorch.disable()
    torchs = outcome()
    htorch.enable()
    if isinstance(torchs, str):
        assert ours == torchs
    else:
        torch.testing.assert_close(ours, torchs, rtol=1e-5, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.pow(x, 2.5, out=torch.empty(0)),
        lambda x: torch.pow(torch.ones(8), 2, out=x.double()),
        lambda x: torch.pow(torch.ones(8, dtype=torch.float64), 2.5, out=x),
        lambda x: torch.pow(x[:-1], 2.5, out=x[1:]),
        lambda x: torch.pow(x, x[:3]),
        lambda x: torch.pow(x, x[:3], out=x),
        lambda x: x[:1].expand(8).pow_(2.5),
        lambda x: x[:1].expand(8).pow_(x),
        lambda x: x.pow_(x.reshape(2, 4)),
        lambda x: torch.ops.halfulp._power_of_float.out(x, 2.5, out=torch.empty(3)),
        lambda x: torch.ops.halfulp.pow(x, x[:3]),
        lambda x: F.prelu(x, x[:3]),
        lambda x: 2j**x,
    ],
)
def test_a_call_keeps_no_reference(call):
    x = torch.ones(8)
    counts = [x._use_count(), torch._C._storage_Use_Count(x.untyped_storage()._cdata)]
    for _ in range(3):
        with suppress(RuntimeError):
            call(x)
    assert [x._use_count(), torch._C._storage_Use_Count(x.untyped_storage()._cdata)] == counts


def test_operands_that_overlap():
    line = torch.rand(100) + 0.5
    before = line.clone()
    line[1:].pow_(line[:-1])
    assert_same(line[1:], hu.pow(before[1:].numpy(), before[:-1].numpy()))


def test_derivatives_transforms_and_autocast():
    x, y = X[0, 0].double().requires_grad_(), Y[0].double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: (x**y) + 2.7**y + x**3, (x[:5], y[:5]))
    (slope,) = torch.autograd.grad((x**2.7).sum(), x)
    np.testing.assert_array_equal(slope.numpy(), 2.7 * hu.pow(x.detach().numpy(), 2.7 - 1))
    assert_same(torch.func.vmap(torch.pow)(X, X), hu.pow(X.numpy(), X.numpy()))
    result, tangent = torch.func.jvp(lambda x: x**3, (X,), (torch.ones_like(X),))
    assert_same(result, hu.pow(X.numpy(), 3))
    assert_same(tangent, np.float32(3) * hu.pow(X.numpy(), 2))
    with torch.autocast("cpu"):
        assert torch.nn.PReLU()(X).dtype is torch.bfloat16
    assert_same(torch._neg_view(X) ** 3, hu.pow(-X.numpy(), 3))
    assert_same((X.to_sparse() ** 3).to_dense(), hu.pow(X.numpy(), 3))
    nested = torch.nested.nested_tensor([X[0], X[1, :2]], layout=torch.jagged)
    assert_same((nested**3).values(), hu.pow(nested.values().numpy(), 3))


def test_contexts_count_and_leave_nothing():
    names = ("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow_.Scalar", "pow.Scalar_out", "_prelu_kernel")
    with htorch.exact():
        assert_same(X**2.7, hu.pow(X.numpy(), 2.7))
    assert_same(X**2.7, hu.pow(X.numpy(), 2.7))
    htorch.disable()
    try:
        assert not np.array_equal((X**2.7).numpy(), hu.pow(X.numpy(), 2.7))
        for name in names:
            assert "RegisterCPU" in repr(torch.library.get_kernel(f"aten::{name}", "CPU"))
        with pytest.raises(hu.HalfulpError, match="not enabled"):
            htorch.disable()
    finally:
        htorch.enable()


def test_torch_tells_nobody_that_its_kernels_are_overridden(python):
    """It says so once in a process, on the stream of errors or as a warning."""
    program = "import os; os.dup2(1, 2); import halfulp.integrations.torch as htorch; htorch.enable(); print('enabled')"
    assert python(program) == "enabled\n"


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.PReLU(4), torch.nn.PReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x) + torch.pow(x.abs(), 2.7)


def test_replaced_modules_in_other_programs(recwarn):
    x = torch.randn(5, 4)
    network = htorch.replace(Network())
    expected = network(x)
    htorch.disable()
    try:
        assert torch.equal(torch.fx.symbolic_trace(network)(x), expected)
        scripted = torch.jit.script(network)
        assert any("torch.jit.script keeps torch's own powers" in str(w.message) for w in recwarn)
        with torch.autocast("cpu"):
            assert network(x).dtype == Network()(x).dtype
            assert network.layers(x).dtype is torch.bfloat16
        onnx = pytest.importorskip("onnx")
        file = io.BytesIO()
        torch.onnx.export(network, (x,), file, dynamo=False)
        nodes = [node.op_type for node in onnx.load_from_string(file.getvalue()).graph.node]
        assert nodes.count("PRelu") == 2
        assert nodes.count("Pow") == 1
        restored = htorch.restore(network)
        assert type(restored) is Network
        assert {type(part) for part in restored.layers} == {torch.nn.Linear, torch.nn.PReLU}
    finally:
        htorch.enable()
    assert torch.equal(scripted(x), expected)


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided], ids=str)
def test_nested_tensors(layout):
    x = torch.nested.nested_tensor([X[0], X[1, :2]], layout=layout)
    for part, whole in zip(htorch.pow(x, x).unbind(), x.unbind(), strict=True):
        assert_same(part, hu.pow(whole.numpy(), whole.numpy()))
    for part, whole in zip(htorch.prelu(x, torch.tensor([0.3])).unbind(), x.unbind(), strict=True):
        assert_same(part, hu.prelu(whole.numpy(), np.float32(0.3)))
    for operands in ((x, X[0]), (X[0], x)):
        with pytest.raises(hu.HalfulpError, match="nested in the same way, or be one number"):
            htorch.pow(*operands)
    with pytest.raises(hu.HalfulpError, match=r"a nested tensor: .*x\.unbind"):
        htorch.prelu(x, X[0, :2, 0])


def test_nested_tensors_of_the_same_size_as_a_whole():
    x, y = (torch.nested.nested_tensor([X[0, :n], X[1, n:]], layout=torch.jagged) for n in (1, 3))
    with pytest.raises(hu.HalfulpError, match="their offsets differ"):
        htorch.pow(x, y)
