"""torch.compile on our kernels: compiled programs have the bits of eager ones, or a warning says that they do not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import halfulp as hu

torch = pytest.importorskip("torch")

import halfulp.integrations.torch as htorch  # noqa: E402
from halfulp.integrations.torch import inductor  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:torch")

RNG = np.random.default_rng(3)
X = np.exp(RNG.uniform(-3, 3, 10_007)).astype(np.float32)
Y = RNG.uniform(-9, 9, X.size).astype(np.float32)
EXPONENTS = (2, 3, 4, 5, 7, 0.5, -1, -2, -0.5, 1.5, 2.5, 1 / 3)
RIGHT = [hu.pow(X, Y), *(hu.pow(np.float32(x), Y) for x in (2, 10)), *(hu.pow(X, y) for y in EXPONENTS)]


def powers(x: Any, y: Any) -> list[Any]:
    return [x**y, 2.0**y, torch.pow(10, y), *(x**exponent for exponent in EXPONENTS)]


def wrong(results: list[Any]) -> int:
    return sum(int((result.numpy() != right).sum()) for result, right in zip(results, RIGHT, strict=True))


def test_compiled_is_eager_is_right() -> None:
    x, y = torch.from_numpy(X), torch.from_numpy(Y)
    compiled = torch.compile(powers)
    before = [each.numpy().tobytes() for each in compiled(x, y)]
    with htorch.exact():
        assert wrong(powers(x, y)) == wrong(compiled(x, y)) == 0  # not the program from outside
        base = x.clone().requires_grad_()
        torch.compile(lambda x: (x**2.7).sum())(base).backward()
        assert base.grad.numpy().tobytes() == (np.float32(2.7) * hu.pow(X, 2.7 - 1)).tobytes()
        count = len(inductor._programs())
    with htorch.exact():
        assert wrong(compiled(x, y)) == 0
        assert len(inductor._programs()) == count  # it is not compiled again
    torch._dynamo.reset()
    assert [each.numpy().tobytes() for each in compiled(x, y)] == before
    with htorch.exact():
        assert wrong(compiled(x, y)) == 0


def test_inductor_that_is_loaded_later(python: Any) -> None:
    """enable() does not load it."""
    code = """
import sys, torch, numpy as np, halfulp as hu, halfulp.integrations.torch as htorch
x = torch.rand(1000) + 0.5
with htorch.exact():
    assert "torch._inductor.lowering" not in sys.modules and "torch._dynamo" not in sys.modules
    print((torch.compile(lambda x: x**3)(x).numpy() == hu.pow(x.numpy(), 3)).all())
from torch._inductor import codecache, lowering
print([lowering.lowerings[op].__module__ for op in (torch.ops.aten.pow.Scalar,)], len(sys.meta_path))
with htorch.exact(): ...
print(len(sys.meta_path))
"""
    told = python(code).splitlines()
    assert told[0] == "True"
    assert told[1].startswith("['torch._inductor.lowering']")
    assert told[1].endswith(told[2])


def test_where_programs_keep_torchs_powers_a_warning_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import lowering

    x = torch.rand(5)
    with (
        htorch.exact(),
        pytest.warns(hu.HalfulpWarning, match="keeps torch's own powers in C\\+\\+ wrappers"),
    ):
        torch.compile(lambda x: 2.7**x, options={"cpp_wrapper": True})(x)
    rule = inductor._calling(lowering, torch.ops.aten.pow.Tensor_Tensor)
    own = SimpleNamespace(get_device=lambda: torch.device("cuda"))
    monkeypatch.setitem(lowering.lowerings, torch.ops.aten.pow.Tensor_Tensor, lambda *operands: operands)
    rule = inductor._calling(lowering, torch.ops.aten.pow.Tensor_Tensor)
    with pytest.warns(hu.HalfulpWarning, match="in programs for cuda; call halfulp.integrations.torch.pow"):
        assert rule(own, 2) == (own, 2)
    monkeypatch.delattr(lowering, "fallback_handler")  # as in another version of torch
    with (
        pytest.warns(hu.HalfulpWarning, match=f"in torch {torch.__version__}".replace("+", "\\+")),
        htorch.exact(),
    ):
        assert lowering.lowerings[torch.ops.aten.pow.Tensor_Tensor](1, 2) == (1, 2)
