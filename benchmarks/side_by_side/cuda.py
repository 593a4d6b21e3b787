"""Times on a CUDA device: halfulp beside a copy of the same bytes, torch, and CuPy and JAX if installed.

All take turns in one run on the same operands, which torch keeps in the device's memory. The device's own
clock (events in the stream) times every library except JAX, which has its own streams.
"""

from __future__ import annotations

import statistics
import time
from functools import partial
from typing import Any, NamedTuple

import torch

import halfulp as hu
from halfulp.benchmark.comparison import Call, in_turns
from halfulp.errors import HalfulpError
from halfulp.installed import has_module


class Row(NamedTuple):
    """One computation on elements of a type: a power, or a PReLU if it has channels, each with a slope.

    Each element has its own exponent if the exponent is None.
    """

    label: str
    type: str
    exponent: float | None = None
    channels: int = 0

    @property
    def bytes(self) -> int:
        """The number of bytes read and written for each element."""
        operands = 3 if self.exponent is None and not self.channels else 2
        return operands * int(getattr(torch, self.type).itemsize)


ROWS = (
    *(Row(f"{t} ** {t}", t) for t in ("float32", "float64", "float16", "bfloat16")),
    *(Row(f"{t} ** {e:g}", t, e) for t in ("float32", "float16") for e in (2, 0.5)),
    *(Row(f"float32 ** {e:g}", "float32", e) for e in (3, 2.5)),
    Row("float64 ** 2.5", "float64", 2.5),
    *(Row(f"PRelu {t}", t, channels=64) for t in ("float32", "bfloat16")),
)


class Line(NamedTuple):
    """The median seconds of a row for a copy of the same bytes and for each library.

    ``misrounded`` is the share of each library's results that differ from halfulp's. All NaNs count as equal.
    """

    row: Row
    copy: float
    seconds: dict[str, float]
    misrounded: dict[str, float]


def require_device() -> None:
    """Refuse a machine on which torch finds no device."""
    if not torch.cuda.is_available():
        raise HalfulpError(f"torch {torch.__version__} finds no CUDA device")


def measure(row: Row, size: int, turns: int, device: str = "cuda") -> Line:
    """Measure a row of a number of elements. The first turn of each library is not counted."""
    generator = torch.Generator(device).manual_seed(1)
    dtype = getattr(torch, row.type)
    x, y = (_operand(kind, row, size, dtype, generator, device) for kind in "xy")
    out = torch.empty_like(x)
    calls = {"copy": lambda: out.copy_(x), **_calls(row, x, y, out)}
    by_events = {name: device == "cuda" and name != "jax" for name in calls}
    samples = {name: partial(_seconds, call, by_events=by_events[name]) for name, call in calls.items()}
    taken = in_turns(samples, 0, turns + 1)
    medians = {name: statistics.median(times[1:]) for name, times in taken.items()}
    ours = (hu.prelu if row.channels else hu.pow)(x, y)
    misrounded = {name: _share(ours, calls[name]()) for name in medians if name not in ("copy", "halfulp")}
    return Line(row, medians.pop("copy") * row.bytes / (2 * dtype.itemsize), medians, misrounded)


def _operand(kind: str, row: Row, size: int, dtype: Any, generator: Any, device: str) -> Any:
    normal = torch.empty(size, device=device).normal_(generator=generator)
    if row.channels:
        if kind == "y":
            return torch.rand(row.channels, 1, generator=generator, device=device).to(dtype)
        return normal.to(dtype).reshape(-1, row.channels, 1 << 10)
    if kind == "x":
        return normal.mul_(2).exp_().to(dtype)
    return normal.mul_(3).to(dtype) if row.exponent is None else row.exponent


def _calls(row: Row, x: Any, y: Any, out: Any) -> dict[str, Call]:
    if row.channels:
        prelu, slopes = torch.nn.functional.prelu, y.reshape(-1)
        return {"halfulp": lambda: hu.prelu(x, y, out=out), "torch": lambda: prelu(x, slopes)}
    calls = {"halfulp": lambda: hu.pow(x, y, out=out), "torch": lambda: torch.pow(x, y, out=out)}
    if has_module("cupy") and row.type != "bfloat16":
        calls["cupy"] = _cupy(x, y, out)
    if _jax_computes_on(x.device.type):
        calls["jax"] = _jax(x, y)
    return calls


def _jax_computes_on(device: str) -> bool:
    """Whether JAX is installed with support for the device."""
    if not has_module("jax"):
        return False
    import jax

    try:
        return bool(jax.devices(device))
    except RuntimeError:
        return False


def _cupy(x: Any, y: Any, out: Any) -> Call:
    import cupy

    a, to = cupy.from_dlpack(x), cupy.from_dlpack(out)
    b = y if isinstance(y, float | int) else cupy.from_dlpack(y)
    stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)

    def call() -> Any:
        with stream:
            cupy.power(a, b, out=to)
        return out

    return call


def _jax(x: Any, y: Any) -> Call:
    import jax

    jax.config.update("jax_enable_x64", True)
    a = jax.dlpack.from_dlpack(x)
    b = y if isinstance(y, float | int) else jax.dlpack.from_dlpack(y)
    power = jax.jit(jax.numpy.power)
    return lambda: power(a, b).block_until_ready()


def _seconds(call: Call, *, by_events: bool) -> float:
    """Return the time of a call in the device's stream, or else until it returns."""
    if not by_events:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        return time.perf_counter() - start
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    call()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1000


def _share(ours: Any, theirs: Any) -> float:
    theirs = theirs if isinstance(theirs, torch.Tensor) else torch.from_dlpack(theirs)
    differ = (ours != theirs) & ~(ours.isnan() & theirs.isnan())
    return float(differ.sum().item()) / int(ours.numel())
