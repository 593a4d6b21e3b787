"""A network in every runtime that is installed: what would our kernels gain?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from halfulp.benchmark.exactness import Exactness
from halfulp.benchmark.networks import onnxruntime
from halfulp.benchmark.networks.contender import Contender, Network, Prepare, difference
from halfulp.benchmark.networks.subject import release
from halfulp.benchmark.timing import Call, InterleavedRuns, Summary, ratio, summary
from halfulp.errors import HalfulpError
from halfulp.models.run.report import vacuous
from halfulp.models.source import format_of

Progress = Callable[[str], None]

RUNTIMES = ("onnxruntime", "openvino")


@dataclass(frozen=True)
class Timed:
    """A contender, and how long its runs took; or why it does not run.

    Attributes:
        contender: what ran, if it did.
        times: seconds of each run, in turns with all others.
        refused: why it does not run; empty if it does.
    """

    contender: Contender | None = None
    times: list[float] = field(default_factory=list)
    refused: str = ""

    @property
    def summary(self) -> Summary:
        """The median of its times, and the quartiles."""
        return summary(self.times)


@dataclass(frozen=True)
class InRuntime:
    """A network in one runtime.

    Attributes:
        runtime, version: its name and version.
        own: with its own Pow and PRelu.
        ours: with halfulp's.
    """

    runtime: str
    version: str
    own: Timed
    ours: Timed

    @property
    def ratio(self) -> float | None:
        """The time with ours to that with its own, the median over the turns; None if one of them does not run."""
        both = self.own.contender and self.ours.contender
        return ratio(self.ours.times, self.own.times) if both else None

    @property
    def difference(self) -> Exactness | None:
        """How far the outputs with its own nodes are from those with ours."""
        own, ours = self.own.contender, self.ours.contender
        return difference(own.outputs, ours.outputs) if own and ours else None

    @property
    def vacuous(self) -> dict[str, str]:
        """The outputs whose comparison shows nothing, by name, and why."""
        found = self.ours.contender or self.own.contender
        return vacuous(found.outputs) if found else {}


def compare(
    network: Network, runtimes: Sequence[str], seconds: float, progress: Progress = lambda told: None
) -> list[InRuntime]:
    """Run a network in each of these runtimes, with its own Pow and PRelu and with halfulp's.

    Args:
        network: an ONNX model, or one in OpenVINO's IR.
        runtimes: of :func:`runtimes_of`.
        seconds: how long to measure, in all.
        progress: is told each step before it begins.
    """
    rows = []
    for runtime in runtimes:
        rows.append(_in_runtime(runtime, network, seconds / len(runtimes), progress))
        release()
    return rows


def _in_runtime(runtime: str, network: Network, seconds: float, progress: Progress) -> InRuntime:
    """Run a network in a runtime, and let go of both sessions."""
    found: dict[str, Contender | str] = {}
    calls: dict[str, Call] = {}
    labels = (runtime, f"{runtime} with halfulp")
    try:
        progress(f"{runtime}: reading")
        prepare = _preparer(runtime, network)
    except HalfulpError as error:
        found = dict.fromkeys(labels, error.message)
    else:
        for ours, label in enumerate(labels):
            progress(f"{label}: preparing")
            try:
                found[label], calls[label] = prepare(bool(ours))
            except HalfulpError as error:
                found[label] = error.message
        del prepare
    progress(f"{runtime}: measuring")
    times = InterleavedRuns(calls).take(seconds) if calls else {}
    own, ours_too = (
        Timed(refused=each) if isinstance(each, str) else Timed(each, times[label])
        for label, each in found.items()
    )
    return InRuntime(runtime, version(runtime), own, ours_too)


def runtimes_of(path: Path) -> tuple[str, ...]:
    """Return the runtimes that are installed and read a file's format."""
    readers = {"openvino": ("openvino",), "directml": ()}.get(format_of(path), RUNTIMES)
    return tuple(name for name in readers if find_spec(name))


def _preparer(runtime: str, network: Network) -> Prepare:
    if runtime == "openvino":
        from halfulp.benchmark.networks import openvino  # it imports OpenVINO

        return openvino.preparer(network)
    return onnxruntime.preparer(network)
