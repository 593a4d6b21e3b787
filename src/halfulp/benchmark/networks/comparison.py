"""A network in every runtime that is installed: what would our kernels gain?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from halfulp.benchmark.exactness import Exactness
from halfulp.benchmark.networks import onnxruntime
from halfulp.benchmark.networks.contender import Contender, Network, difference
from halfulp.benchmark.timing import InterleavedRuns, Summary, ratio, summary
from halfulp.errors import HalfulpError
from halfulp.models.run.vacuous import vacuous
from halfulp.models.source import format_of

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


def compare(network: Network, runtimes: Sequence[str], seconds: float) -> list[InRuntime]:
    """Run a network in each of these runtimes, with its own Pow and PRelu and with ours.

    Args:
        network: an ONNX model, or one in OpenVINO's IR.
        runtimes: of :func:`runtimes_of`.
        seconds: how long to measure, in all.
    """
    prepared = {
        (runtime, ours): _prepared(runtime, network, ours=ours)
        for runtime in runtimes
        for ours in (False, True)
    }
    calls = {key: found.call for key, found in prepared.items() if isinstance(found, Contender)}
    names = {str(key): key for key in calls}
    taken = InterleavedRuns({name: calls[key] for name, key in names.items()}).take(seconds) if calls else {}
    times = {names[name]: found for name, found in taken.items()}

    def timed(key: tuple[str, bool]) -> Timed:
        found = prepared[key]
        return Timed(refused=found) if isinstance(found, str) else Timed(found, times[key])

    return [
        InRuntime(runtime, version(runtime), timed((runtime, False)), timed((runtime, True)))
        for runtime in runtimes
    ]


def runtimes_of(path: Path) -> tuple[str, ...]:
    """Return the runtimes that are installed and read a file's format."""
    readers = {"openvino": ("openvino",), "directml": ()}.get(format_of(path), RUNTIMES)
    return tuple(name for name in readers if find_spec(name))


def _prepared(runtime: str, network: Network, *, ours: bool) -> Contender | str:
    """Return a contender, or why it does not run."""
    try:
        if runtime == "openvino":
            from halfulp.benchmark.networks import openvino  # it imports OpenVINO

            return openvino.prepare(network, ours=ours)
        return onnxruntime.prepare(network, ours=ours)
    except HalfulpError as error:
        return error.message
