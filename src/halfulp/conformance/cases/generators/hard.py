"""The hard cases of data/worst_cases: powers that lie very near a boundary between two results."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from halfulp.conformance.case import Case, Mode
from halfulp.conformance.cases.generators.build import Types, elementwise
from halfulp.conformance.cases.generators.pairs import Pairs
from halfulp.conformance.floats import from_codes
from halfulp.specs import OpVersion

_PACKAGE = Path(__file__).parents[3]
# The build copies them into the package; the source tree, and with it an editable install, has the originals.
FOLDER = _PACKAGE / "worst_cases"
if not FOLDER.is_dir():
    FOLDER = _PACKAGE.parents[1] / "data" / "worst_cases"


def hard(row: OpVersion, types: Types, mode: Mode) -> Iterator[Case]:
    """Yield the hard cases of these types, if there are any."""
    if row.kernel != "prelu" and len(types) == 2:
        pairs = hard_pairs(*types)
        if len(pairs.x):
            yield from elementwise(row, types, "hard", "0", pairs, with_open=mode == "full")


@cache
def hard_pairs(x_name: str, y_name: str) -> Pairs:
    """Return all hard cases of these types; a line of a file is: x's bits, y's type, y's bits, # where it is from."""
    file = FOLDER / f"{x_name}.txt"
    fields = [line.split("#")[0].split() for line in file.read_text("ascii").splitlines()]
    found = [(int(part[0], 16), int(part[2], 16)) for part in fields if part and part[1] == y_name]
    return Pairs(
        from_codes([x for x, _ in found], x_name),
        from_codes([y for _, y in found], y_name),
    )
