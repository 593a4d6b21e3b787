"""The report of a run, and its vacuous outputs.

The report has the engine, the operands' types and the time of each node. A vacuous output verifies nothing:
different computations agree on it, so that equal outputs of two models prove nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from halfulp.errors import printable
from halfulp.models.graph import describe
from halfulp.types import type_name

Engine = Literal["halfulp", "onnx reference", "onnxruntime", "openvino"]


@dataclass(slots=True)
class NodeRun:
    """All calls of one node. A node inside a loop or a function may run more than once.

    ``seconds`` is the node's own time, without that of the nodes in its subgraphs or function body. The types
    are those of the last call.
    """

    label: str
    operator: str
    engine: Engine
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    seconds: float = 0.0
    calls: int = 0


@dataclass(slots=True)
class RunReport:
    """The nodes of a run in the order of their first call.

    ``lost`` has the Pow and PRelu nodes with results that are infinite or NaN though the operands are finite:
    the number of such results, and the number of all results.
    """

    nodes: list[NodeRun] = field(default_factory=list)
    lost: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """The time of all nodes."""
        return sum(run.seconds for run in self.nodes)

    @property
    def share(self) -> float:
        """The share of that time, from 0 to 1, in halfulp's own operators."""
        seconds = sum(run.seconds for run in self.nodes if run.engine == "halfulp")
        return seconds / self.seconds if self.seconds else 0.0


def lost(operands: Sequence[Any], result: Any) -> int:
    """Return how many results of a Pow or PRelu are infinite or NaN though the operands are finite."""
    unsound = ~finite(result)
    for operand in operands if unsound.any() else ():
        sound = np.asarray(finite(operand))
        if not sound.all():
            try:
                unsound = unsound & np.broadcast_to(sound, unsound.shape)
            except ValueError:  # shapes that broadcast only by the rules of an older version
                return 0
    return int(unsound.sum())


def losses(lost: Mapping[str, tuple[int, int]]) -> list[str]:
    """Return a line for each node that loses results."""
    told = "results are infinite or NaN though the operands are finite"
    return [f"{label}: {count} of {size} {told}" for label, (count, size) in lost.items()]


def show(value: Any) -> str:
    """Return the type and shape of a run-time value as tables show it."""
    if isinstance(value, np.ndarray):
        return describe(type_name(value.dtype), value.shape)
    if isinstance(value, list):
        return f"sequence of {len(value)}"
    return "absent" if value is None else type(value).__name__


def vacuous(outputs: Mapping[str, Any]) -> dict[str, str]:
    """Return the outputs that verify nothing, by name, each with the reason."""
    return {name: reason for name, value in outputs.items() if (reason := _reason(value))}


def sentence(name: str, reason: str) -> str:
    """Return the text about a vacuous output."""
    told = "little" if is_usable(reason) else "nothing"
    return f"output {printable(name)!r} is {reason}: it verifies {told}"


def is_usable(reason: str) -> bool:
    """Return whether an output has elements, and numbers among them."""
    return reason.startswith("all equal")


def finite(value: Any) -> Any:
    """Return where an array's elements are finite. Text and integers are finite everywhere."""
    if value.dtype.kind not in "fc" and "float" not in value.dtype.name:  # as those of ml_dtypes are called
        return np.ones(value.shape, bool)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return np.isfinite(value)


def _reason(value: Any) -> str:
    if isinstance(value, list):
        reasons = [_reason(item) for item in value] or ["empty"]
        return reasons[0] if all(reasons) else ""
    if not isinstance(value, np.ndarray):
        return ""
    if not value.size:
        return "empty"
    if not finite(value).any():
        nans = int(np.count_nonzero(value != value))
        return {0: "all infinite", int(value.size): "all NaN"}.get(nans, "all NaN or infinite")
    first = value.reshape(-1)[0]
    return f"all equal ({printable(str(first))})" if value.size > 1 and bool((value == first).all()) else ""
