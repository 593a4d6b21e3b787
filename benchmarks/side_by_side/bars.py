"""The bars: the promised ratios as data, and whether a run meets them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from side_by_side import worst
from side_by_side.line import Line
from side_by_side.memory import ORDINARY, STREAMING
from side_by_side.peers import PEERS
from side_by_side.rows import AVX2, IN_CACHE, ONE, OUT_OF_CACHE, TWO, Setting
from side_by_side.worker import ADDITION, BESIDE
from side_by_side.worst import FLOATS

FASTEST, MEMORY, ONE_THREAD, MICROSECOND = "the fastest peer", "memory", "one thread", "a microsecond"
_ARRAYS = tuple(f"{name} ** {name}" for name in FLOATS)


@dataclass(frozen=True)
class Bar:
    """One bar: halfulp's time in some rows, divided by another time.

    Attributes:
        what: the rows, in words.
        group, labels: the rows' group and labels. Without labels, all rows of the group count.
        against: the divisor: a library's time, BESIDE, ADDITION, MEMORY (the faster kind of stores), FASTEST,
            ONE_THREAD, or a MICROSECOND per element.
        reach: the maximum ratio that meets the bar; None if there is only an aim.
        aim: the ratio that we would like.
        beside: a description of BESIDE, in words.
        places, setting: the rows' places and setting.
    """

    what: str
    group: str
    labels: tuple[str, ...]
    against: str
    reach: float | None
    aim: float | None
    beside: str = ""
    places: tuple[str, ...] = (IN_CACHE, OUT_OF_CACHE)
    setting: Setting = ONE

    @property
    def reference(self) -> str:
        """The divisor, in words."""
        return self.beside if self.against == BESIDE else self.against


@dataclass(frozen=True)
class Outcome:
    """The state of a bar at one place: the worst ratio and its row; None if no row was measured."""

    bar: Bar
    place: str
    ratio: float | None
    worst: str

    @property
    def met(self) -> bool | None:
        """Whether the bar is met; None if nothing was measured or there is only an aim."""
        return None if self.ratio is None or self.bar.reach is None else self.ratio <= self.bar.reach


def _constants(*texts: str, of: Sequence[str] = ("float32",)) -> tuple[str, ...]:
    return tuple(f"{name} ** {text}" for name in of for text in texts)


_F32, _F64 = _ARRAYS[:1], _ARRAYS[1:2]
_F32_4096, _F64_4096 = (f"{_F32[0]}, 4096 elements",), (f"{_F64[0]}, 4096 elements",)
_F32_GROWTH, _F64_GROWTH = (f"{_F32[0]}, growth",), (f"{_F64[0]}, growth",)
_OUT, _IN, _NOWHERE = (OUT_OF_CACHE,), (IN_CACHE,), ("",)
_ORDINARY = "ordinary data of the types"
_ALL_CONSTANTS = ("2", "3", "4", "0.5", "-0.5", "-1", "-2", "1.5", "1/3", "2.5")
_SVML, _CHAIN = "SVML la", ", each after the last"
_SMALL = tuple(f"{name}, {count} returned" for name in FLOATS[:3] for count in (1, 4, 16))
_16_BIT = _constants("2", "0.5", "-0.5", "2.5", "1/3", of=FLOATS[2:])

BARS = (
    Bar("float32 arrays", "arrays", _F32, "numpy", 0.95, 0.87, places=_IN),
    Bar("float32 arrays", "arrays", _F32, "numpy", 1.0, 0.95, places=_OUT),
    Bar("float32 arrays", "arrays", _F32, "torch", 0.27, None, places=_IN),
    Bar("float32 arrays", "arrays", _F32, "torch", 0.4, None, places=_OUT),
    Bar("float32 arrays", "arrays", _F32, "onnxruntime", 0.3, None),
    Bar("float32 arrays", "arrays", _F32, "openvino", 0.3, None),
    Bar("float32 arrays, two threads", "arrays", _F32, FASTEST, 1.0, None, places=_OUT, setting=TWO),
    Bar("float32 arrays, AVX2", "instruction sets", _F32, "onnxruntime", 0.45, 0.33,
        places=_IN, setting=AVX2),
    Bar("float32 arrays, AVX2", "instruction sets", _F32, "numba", 0.45, 0.33,
        places=_IN, setting=AVX2),
    Bar("constant 3, AVX2", "instruction sets", _constants("3"), "torch", 1.2, None, setting=AVX2),
    Bar("int64, exponents 0 to 10, AVX2", "instruction sets", ("int64 ** int64",), "numpy", 0.2, None, setting=AVX2),
    Bar("float64 arrays", "arrays", _F64, "numpy", 0.85, 0.75),
    Bar("float64 arrays", "arrays", _F64, "torch", 0.4, 0.3),
    Bar("float64 arrays", "arrays", _F64, "onnxruntime", 0.5, None),
    Bar("float64 arrays, AVX2, 4096 elements", "vector libraries", _F64_4096, _SVML, 0.75, 0.66,
        places=_IN, setting=AVX2),
    Bar("float64 arrays, AVX2", "vector libraries", _F64, _SVML, 0.85, None, setting=AVX2),
    Bar("growth, float64, AVX2", "vector libraries", _F64_GROWTH, _SVML, 0.85, None, places=_IN, setting=AVX2),
    Bar("float32 arrays, AVX2, 4096 elements", "vector libraries", _F32_4096, _SVML, 1.0, 0.93,
        places=_IN, setting=AVX2),
    Bar("float32 arrays, AVX2", "vector libraries", _F32, _SVML, 1.0, None, places=_IN, setting=AVX2),
    Bar("growth, float32, AVX2", "vector libraries", _F32_GROWTH, _SVML, 1.1, None, places=_IN, setting=AVX2),
    Bar("one float32 in C", "one number in C", (*_F32, _F32[0] + _CHAIN), "libm", 1.5, 1.2, places=_NOWHERE),
    Bar("one float64 in C", "one number in C", (*_F64, _F64[0] + _CHAIN), "libm", 1.15, 0.95, places=_NOWHERE),
    Bar("growth, float32", "arrays", _F32_GROWTH, "numpy", 1.5, 1.0),
    Bar("growth, float64", "arrays", _F64_GROWTH, "numpy", 1.2, 0.85),
    Bar("float16 and bfloat16 arrays", "arrays", _ARRAYS[2:], BESIDE, 1.0, None, "our float32"),
    Bar("float16 and bfloat16 arrays", "arrays", _ARRAYS[2:], "torch", 0.3, None),
    Bar("constants 2, 0.5, -1", "constants", _constants("2", "0.5", "-1"), MEMORY, 1.3, 1.2, places=_OUT),
    Bar("constants 3, 4, -0.5, -2, 1.5", "constants", _constants("3", "4", "-0.5", "-2", "1.5"), MEMORY, 2.0, 1.2,
        places=_OUT),
    Bar("constants 1/3, 2.5", "constants", _constants("1/3", "2.5"), BESIDE, 1.0, None, "our array of exponents"),
    Bar("constants 1/3, 2.5", "constants", _constants("1/3", "2.5"), MEMORY, None, 1.2, places=_OUT),
    Bar("constants, float16 and bfloat16", "constants", _16_BIT, MEMORY, 2.0, 1.2, places=_OUT),
    Bar("integers, exponents 0 to 10", "integers", (), FASTEST, 1.0, 0.5),
    Bar("mixed types", "mixed", (), BESIDE, 1.3, 1.1, "our float32 (float64 for a float64 base)"),
    Bar("PRelu", "PRelu", (), MEMORY, 1.3, 1.1),
    Bar("broadcast or transposed operand", "strides", (), BESIDE, 1.2, 1.05, "the same, contiguous"),
    Bar("operands whose axes lie in opposite orders", "layouts", (), ADDITION, 4.0, None),
    Bar("two threads, not bound by memory", "arrays", _ARRAYS, ONE_THREAD, 1 / 1.8, None, places=_OUT, setting=TWO),
    Bar("16 elements", "calls", ("16 elements",), "numpy", 1.2, None, places=_NOWHERE),
    Bar("16 elements into out", "calls", ("16 elements into out",), "numpy", 1.0, None, places=_NOWHERE),
    Bar("two Python floats, AVX2", "calls", ("two Python floats",), "numpy", 0.25, None, places=_NOWHERE, setting=AVX2),
    Bar("1 to 16 elements, AVX2", "calls", _SMALL, "numpy", 0.6, None, places=_NOWHERE, setting=AVX2),
    Bar("zeros, ones, NaN, infinities", "worst data", worst.labels(worst.SPECIAL), BESIDE, worst.SPECIAL, None,
        _ORDINARY, places=_IN),
    Bar("ties, exact cases, subnormals, huge exponents", "worst data", worst.labels(worst.FEW_BITS), BESIDE,
        worst.FEW_BITS, None, _ORDINARY, places=_IN),
    Bar("integers with float exponents", "worst data", worst.labels(worst.INTEGER), BESIDE, worst.INTEGER, None,
        _ORDINARY, places=_IN),
    Bar("hard cases", "worst data", worst.labels(worst.HARD), BESIDE, worst.HARD, 10.0, _ORDINARY, places=_IN),
    Bar("constructed cases", "worst data", worst.labels(worst.CONSTRUCTED), MICROSECOND, 1.0, None, places=_IN),
    Bar("import halfulp", "calls", ("import",), "numpy", 1.5, 1.2, places=_NOWHERE),
)  # fmt: skip


def outcomes(lines: Sequence[Line], bars: Sequence[Bar] = BARS) -> list[Outcome]:
    """Return the state of each bar at each place."""
    return [_outcome(bar, place, lines) for bar in bars for place in bar.places]


def _outcome(bar: Bar, place: str, lines: Sequence[Line]) -> Outcome:
    wanted = [
        line
        for line in lines
        if line.group == bar.group
        and (not bar.labels or line.label in bar.labels)
        and line.place == place
        and Setting(line.threads, line.isa) == bar.setting
        and line.ns is not None
    ]
    ratios = []
    for row in dict.fromkeys(line.row for line in wanted):
        members = {line.library: line for line in wanted if line.row == row}
        found = _against(bar.against)(members, lines)
        if found is not None:
            ratios.append((found, row[1]))
    if not ratios:
        return Outcome(bar, place, None, "")
    greatest, label = max(ratios)
    return Outcome(bar, place, greatest, label)


Against = Callable[[dict[str, Line], Sequence[Line]], float | None]


def _against(name: str) -> Against:
    if name == ONE_THREAD:
        return _one_thread
    if name == MICROSECOND:
        return _microseconds
    names = {MEMORY: (ORDINARY, STREAMING), FASTEST: PEERS}.get(name, (name,))

    def greatest(members: dict[str, Line], lines: Sequence[Line]) -> float | None:
        # halfulp's time divided by the minimum of the other times is the maximum of the ratios.
        return max((members[n].ratio or 0.0 for n in names if n in members), default=None)

    return greatest


def _one_thread(members: dict[str, Line], lines: Sequence[Line]) -> float | None:
    ours = members["halfulp"]
    alone = (*ours.row[:3], 1, ours.isa)
    for line in lines:
        if line.row == alone and line.library == "halfulp" and line.ns and ours.ns:
            return ours.ns / line.ns
    return None


def _microseconds(members: dict[str, Line], lines: Sequence[Line]) -> float | None:
    ns = members["halfulp"].ns
    return None if ns is None else ns / 1000
