"""How a verdict is shown: a sign and words, so that colour is never all that tells two verdicts apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from halfulp.conformance.judge import VERDICTS


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

assert set(SHOWN) == set(VERDICTS), "a verdict without a row here, or a row without a verdict"


def severity(verdict: str) -> int:
    """Return a number that is greater the worse a verdict is.

    Example:
        >>> severity("wrong") > severity("within")
        True
    """
    return VERDICTS.index(verdict)


def worst(verdicts: Iterable[str]) -> str | None:
    """Return the worst of some verdicts, None of none.

    Example:
        >>> worst(["exact", "refused", "within"])
        'refused'
    """
    return max(verdicts, key=severity, default=None)
