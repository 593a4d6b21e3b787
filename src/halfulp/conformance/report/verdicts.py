"""How a verdict is shown: a sign and words, so that colour is never all that tells two verdicts apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from halfulp.conformance.verdict.judge import VERDICTS


@dataclass(frozen=True)
class Shown:
    """A verdict as a person sees it.

    Attributes:
        name: the verdict's name in the documents; ``page.css`` has its colours under ``--<name>``.
        sign: one character.
        meaning: what it says of a runtime.
        style: the terminal's, as rich spells it.
        fault: whether it is the runtime's fault, with which ``check`` fails.
    """

    name: str
    sign: str
    meaning: str
    style: str
    fault: bool


_ROWS = (
    Shown("exact", "=", "every result is the correctly rounded one", "green", False),
    Shown(
        "within", "≈", "not always the nearest value, but never farther off than the limit", "yellow", False
    ),
    Shown(
        "wrong", "≠", "a result farther off than the limit, or a special value gone wrong", "bold red", True
    ),
    Shown("refused", "⊘", "a valid model that the runtime does not take", "blue", True),
    Shown("accepted", "!", "an invalid model that the runtime takes", "magenta", True),
    Shown("crashed", "✕", "the runtime's process died", "bold red", True),
    Shown("hung", "…", "no result within the time limit", "bold red", True),
    Shown("rejected", "✓", "an invalid model that the runtime refuses, as it must", "green", False),
    Shown("unspecified", "?", "the document leaves it open; recorded, not judged", "dim", False),
)
SHOWN: Mapping[str, Shown] = {row.name: row for row in _ROWS}
"""The verdicts in the order of a table's columns."""

_URGENT_FIRST = (
    *("crashed", "hung", "wrong", "accepted", "refused"),
    *("within", "unspecified", "exact", "rejected"),
)

assert set(SHOWN) == set(_URGENT_FIRST) == set(VERDICTS), (
    "a verdict without a row here, or a row without a verdict"
)


def severity(verdict: str) -> int:
    """Return a number that is greater the worse a verdict is, of which a row has the worst."""
    return VERDICTS.index(verdict)


def urgency(verdict: str) -> int:
    """Return a number that is greater the sooner a person wants to see a finding.

    A wrong result hides, a refusal doesn't.
    """
    return _URGENT_FIRST[::-1].index(verdict)
