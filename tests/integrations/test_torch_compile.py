"""torch.compile on our kernels: compiled programs have the bits of eager ones, or a warning says that they do not."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import halfulp as hu

torch = pytest.importorskip("torch")

import halfulp.integrations.torch as htorch  # noqa: E402
from halfulp.integrations.torch import kernels  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:torch")

RNG = np.random.default_rng(3)
X = np.exp(RNG.uniform(-3, 3, 10_007)).astype(np.float32)
Y = RNG.uniform(-9, 9, X.size).astype(np.float32)
EXPONENTS = (2, 3, 4, 5, 7, 0.5, -1, -2, -0.5, 1.5, 2.5, 1 / 3)
RIGHT = [hu.pow(X, Y), *(hu.pow(np.float32(x), Y) for x in (2, 10)), *(hu.pow(X, y) for y in EXPONENTS)]


@pytest.fixture(autouse=True)
def of_scalars() -> Iterator[None]:
    """Inductor would compile six programs to know the processor's vectors, and torch's headers beforehand."""
    from torch._inductor import config

    with config.patch({"cpp.vec_isa_ok": False, "cpp_cache_precompile_headers": False}):
        yield


def powers(x: Any, y: Any) -> list[Any]:
    return [x**y, 2.0**y, torch.pow(10, y), *(x**exponent for exponent in EXPONENTS)]


def wrong(results: list[Any]) -> int:
    return sum(int((result.numpy() != right).sum()) for result, right in zip(results, RIGHT, strict=True))


def test_compiled_is_eager_is_right():
    x, y = torch.from_numpy(X), torch.from_numpy(Y)
    compiled = torch.compile(powers)
    before = [each.numpy().tobytes() for each in compiled(x, y)]
    with htorch.exact():
        assert wrong(powers(x, y)) == wrong(compiled(x, y)) == 0  # not the program from outside
        base = x.clone().requires_grad_()
        torch.compile(lambda x: (x**2.7).sum())(base).backward()
        assert base.grad.numpy().tobytes() == (np.float32(2.7) * hu.pow(X, 2.7 - 1)).tobytes()
        count = len(kernels._programs())
    with htorch.exact():
        assert wrong(compiled(x, y)) == 0
        assert len(kernels._programs()) == count  # it is not compiled again
    torch._dynamo.reset()
    assert [each.numpy().tobytes() for each in compiled(x, y)] == before
    with htorch.exact():
        assert wrong(compiled(x, y)) == 0


def test_inductor_that_is_loaded_later(python):
    """enable() does not load it."""
    code = """
import sys, torch, numpy as np, halfulp as hu, halfulp.integrations.torch as htorch
with htorch.exact():
    assert "torch._inductor.lowering" not in sys.modules and "torch._dynamo" not in sys.modules
    from torch._inductor import lowering
    print(lowering.lowerings[torch.ops.aten.pow.Scalar].__module__)
print(lowering.lowerings[torch.ops.aten.pow.Scalar].__module__, len(sys.meta_path))
with htorch.exact(): ...
print(len(sys.meta_path))
"""
    inside, outside, count = python(code).splitlines()
    assert inside == "halfulp.integrations.torch.kernels"
    assert outside == f"torch._inductor.lowering {count}"


def test_where_programs_keep_torchs_powers_a_warning_says_so(monkeypatch):
    from torch._inductor import lowering

    x = torch.rand(5)
    with (
        htorch.exact(),
        pytest.warns(hu.HalfulpWarning, match="keeps torch's own powers in C\\+\\+ wrappers"),
    ):
        torch.compile(lambda x: 2.7**x, options={"cpp_wrapper": True})(x)
    own = SimpleNamespace(get_device=lambda: torch.device("cuda"))
    monkeypatch.setitem(lowering.lowerings, torch.ops.aten.pow.Tensor_Tensor, lambda *operands: operands)
    rule = kernels._calling(lowering, torch.ops.aten.pow.Tensor_Tensor)
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "_open_triton", lambda: False)
        with pytest.warns(
            hu.HalfulpWarning, match="in programs for cuda; call halfulp.integrations.torch.pow"
        ):
            assert rule(own, 2) == (own, 2)
    mps = SimpleNamespace(get_device=lambda: torch.device("mps"))
    in_cpp = SimpleNamespace(graph=SimpleNamespace(cpp_wrapper=True))
    for operand, open_triton in ((mps, pytest.fail), (own, lambda: True)):
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "_open_triton", open_triton)
            patch.setattr(lowering, "V", in_cpp)
            with pytest.warns(hu.HalfulpWarning, match="in programs for"):
                assert rule(operand, 2) == (operand, 2)
    monkeypatch.delattr(lowering, "fallback_handler")  # as in another version of torch
    with (
        pytest.warns(hu.HalfulpWarning, match=f"in torch {torch.__version__}".replace("+", "\\+")),
        htorch.exact(),
    ):
        assert lowering.lowerings[torch.ops.aten.pow.Tensor_Tensor](1, 2) == (1, 2)


def program_for_cuda(f: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the program that Inductor writes for a function of two tensors on CUDA: without a device, from fakes."""
    from torch._dynamo.device_interface import CudaInterface
    from torch._guards import TracingContext, tracing
    from torch._inductor import graph, scheduler
    from torch._inductor.debug import DebugContext
    from torch._inductor.virtualized import V
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    device = SimpleNamespace(major=8, minor=0, multi_processor_count=108, warp_size=32, name="A100")
    device.max_threads_per_multi_processor, device.regs_per_multiprocessor = 2048, 65536
    device.max_threads_per_block = 1024
    for place in (torch.cuda, CudaInterface):
        monkeypatch.setattr(place, "get_device_properties", lambda *_: device)
    monkeypatch.setattr(CudaInterface, "get_compute_capability", lambda *_: 80)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(scheduler, "has_triton", lambda *_: True)
    with FakeTensorMode() as mode:
        x, y = (torch.empty(1000, device="cuda", dtype=getattr(torch, name)) for _ in "xy")
        program = graph.GraphLowering(make_fx(f)(x, y))
        contexts = (
            V.set_graph_handler(program),
            V.set_fake_mode(mode),
            DebugContext(),
            tracing(TracingContext(mode)),
        )
        with contexts[0], contexts[1], contexts[2], contexts[3]:
            program.run(x, y)
            return program.codegen()[0].value


def test_programs_for_cuda_call_libdevice_with_our_powers(monkeypatch):
    from torch._inductor import config
    from torch.utils import _triton

    calls: list[str] = []
    threads = config.compile_threads
    monkeypatch.setattr(_triton, "triton_hash_with_backend", lambda: "key")
    monkeypatch.setattr(kernels.triton, "BITCODE", "powers.bc")
    monkeypatch.setattr(kernels.triton, "enable", lambda: calls.append("in"))
    monkeypatch.setattr(kernels.triton, "disable", lambda: calls.append("out"))

    def programs(x: Any, y: Any) -> list[Any]:
        return [x**y, x**3, 2.0**y, x**0.5]

    assert program_for_cuda(programs, "float32", monkeypatch).count("libdevice.pow") == 1
    for place, name, value in ((kernels.triton, "BITCODE", None), (torch.version, "hip", "6.2")):
        with monkeypatch.context() as patch, htorch.exact():
            patch.setattr(place, name, value)
            with pytest.warns(hu.HalfulpWarning, match="in programs for cuda"):
                program_for_cuda(lambda x, y: [x**y], "float32", monkeypatch)
    assert calls == []
    with htorch.exact():
        text = program_for_cuda(programs, "float32", monkeypatch)
        assert text.count("libdevice.pow") == 4
        assert "'key halfulp'" in text
        assert (calls, config.compile_threads) == (["in"], 1)
        # A number that float32 lacks, and a type that libdevice lacks.
        for name, f in (("float32", lambda x, _: [x**2.7]), ("float16", lambda x, _: [x**2])):
            with pytest.warns(hu.HalfulpWarning, match="in programs for cuda"):
                program_for_cuda(f, name, monkeypatch)
    assert (calls, config.compile_threads) == (["in", "out"], threads)
    assert _triton.triton_hash_with_backend() == "key"
