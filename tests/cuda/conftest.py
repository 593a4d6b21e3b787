"""Fixtures of CUDA's tests."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from tests.cuda.build import Driver, ptx_file

from halfulp import _interop, cuda

_driver: list[Driver] = []
STREAM = 42


@pytest.fixture
def driver() -> Driver:
    """The fake driver, with an empty log."""
    if not _driver:
        _driver.append(Driver())
    _driver[0].log()
    return _driver[0]


@pytest.fixture
def kernels(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in an installation that was built with the kernels."""
    monkeypatch.setattr(cuda, "KERNELS", ptx_file())
    cuda.core.cache_clear()
    yield
    cuda.core.cache_clear()


@pytest.fixture
def torch_on_device(kernels: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's tensors are taken for a device's, and its current stream is STREAM."""
    torch = pytest.importorskip("torch")
    for module in (_interop, cuda):
        asks = module.is_on_cuda
        monkeypatch.setattr(module, "is_on_cuda", lambda a, asks=asks: isinstance(a, torch.Tensor) or asks(a))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: SimpleNamespace(cuda_stream=STREAM))
