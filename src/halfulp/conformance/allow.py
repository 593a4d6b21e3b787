"""Findings that are known and allowed: a list of cases by pattern, with the verdicts and a reason for each.

As text, a line for each entry; the lines after ``[NAME]`` are for the target of that name alone::

    # known in 1.31
    [onnxruntime]
    onnx.Pow-*/bfloat16,*      refused   no bfloat16 kernels
    onnx.Pow-15/int64,*/edge/* wrong     computed in double

As JSON, a list of objects with ``case``, ``verdict``, ``reason`` and, if it is for one target, ``target``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from halfulp.conformance.judge import FAULTS
from halfulp.errors import HalfulpError
from halfulp.models.files import read_text

FINDINGS = (*FAULTS, "differs")  # that can be allowed: verdicts, and bits that are not reproducible
_LARGEST = 1 << 24
_Listed = tuple[int, str, str, str, str | None]


@dataclass(frozen=True)
class Entry:
    """One allowed kind of finding."""

    pattern: str  # of the ids of cases, with * for any text and ? for any character
    verdicts: frozenset[str]  # the findings that are allowed
    reason: str
    target: str | None = None  # the target's name; None for any
    line: int = 0  # its number in the file

    def __str__(self) -> str:
        target = f"[{self.target}] " if self.target else ""
        return f"{target}{self.pattern} {','.join(sorted(self.verdicts))} {self.reason}"

    def covers(self, target: str, case: str) -> bool:
        """Tell whether it is about this case of this target."""
        return self.target in (None, target) and fnmatchcase(case, self.pattern)


@dataclass
class Allowed:
    """The entries of a file, and those that have allowed a finding."""

    entries: list[Entry] = field(default_factory=list)
    _used: set[Entry] = field(default_factory=set)

    def allows(self, target: str, case: str, finding: str) -> bool:
        """Tell whether a finding is allowed, and remember the entries that say so."""
        found = [e for e in self.entries if finding in e.verdicts and e.covers(target, case)]
        self._used.update(found)
        return bool(found)

    def stale(self, target: str, cases: Sequence[str]) -> list[Entry]:
        """Return the entries that cover cases of this run, given by their ids, but have allowed no finding."""
        unused = [entry for entry in self.entries if entry not in self._used]
        return [entry for entry in unused if any(entry.covers(target, id) for id in cases)]


def load(path: Path | str) -> Allowed:
    """Read a file of allowed findings; raises HalfulpError, which names the line, if an entry is broken."""
    path = Path(path)
    text = read_text(path, _LARGEST)
    is_json = text.lstrip().startswith("[") and not text.lstrip().partition("\n")[0].rstrip().endswith("]")
    listed = _from_json(text, path) if path.suffix == ".json" or is_json else _from_text(text, path)
    entries = []
    for line, pattern, verdicts, reason, target in listed:
        found = frozenset(verdicts.split(","))
        for unknown in sorted(found - {*FINDINGS}):
            message = f"{path}, {line}: {unknown[:40]!r} is not a finding that can be allowed"
            raise HalfulpError(message, expected=", ".join(FINDINGS))
        entries.append(Entry(pattern, found, reason, target, line))
    return Allowed(entries)


def _from_text(text: str, path: Path) -> Iterator[_Listed]:
    target = None
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if line.startswith("[") and line.endswith("]"):
            target = line[1:-1].strip()
        elif line and not line.startswith("#"):
            words = line.split(maxsplit=2)
            if len(words) < 3:
                message = f"{path}, line {number}: an entry is CASES VERDICTS REASON"
                raise HalfulpError(message, got=line[:100])
            pattern, verdicts, reason = words
            yield number, pattern, verdicts, reason, target


def _from_json(text: str, path: Path) -> Iterator[_Listed]:
    try:
        listed: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HalfulpError(f"{path}: not JSON: {str(error)[:100]}") from None
    if not isinstance(listed, list):
        raise HalfulpError(f"{path}: expected a list of allowed findings", got=type(listed).__name__)
    for number, item in enumerate(listed, 1):
        if not isinstance(item, dict) or not item.keys() <= {"case", "verdict", "reason", "target"}:
            message = f"{path}, entry {number}: expected an object with case, verdict, reason and target"
            raise HalfulpError(message, got=str(item)[:100])
        values = [item.get(key) for key in ("case", "verdict", "reason")]
        target = item.get("target")
        if not all(isinstance(v, str) and v for v in values) or not isinstance(target, str | None):
            message = f"{path}, entry {number}: case, verdict and reason must be texts"
            raise HalfulpError(message, got=str(item)[:100])
        pattern, verdicts, reason = map(str, values)
        yield number, pattern, verdicts, reason, target
