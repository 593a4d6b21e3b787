"""What a proof consists of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORE = ROOT / "core"


class Unproved(Exception):
    """A step failed: what could not be proved, in a line."""


@dataclass(frozen=True)
class Step:
    """A statement and its proof. `prove` returns what it found, in a line, and raises Unproved where it fails."""

    statement: str
    prove: Callable[[], str]
    quick: bool = True  # takes seconds; else it is left to the full run
