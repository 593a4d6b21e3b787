"""Measure halfulp on a CUDA device, and write what was found to docs/performance-gpu.md: the second half of `make gpu`.

    python benchmarks/gpu.py [--size N] [--turns N] [--docs]

2^28 elements a row, beside a copy of the same bytes on the device, torch.pow, CuPy and JAX.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import torch

from halfulp.cuda import undecided
from halfulp.errors import HalfulpError
from halfulp.installed import version_of
from side_by_side.cuda import ROWS, Line, measure, require_device

PAGE = Path(__file__).parents[1] / "docs" / "performance-gpu.md"
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"
PEERS = ("torch", "cupy", "jax")


def tables(lines: list[Line], size: int) -> str:
    """Return the page's text about a run."""
    properties = torch.cuda.get_device_properties(0)
    versions = ", ".join(f"{name} {found}" for name in ("halfulp", *PEERS) if (found := _version(name)))
    bandwidth = max(line.row.bytes * size / line.copy for line in lines)
    head = [
        f"{properties.name}, {properties.multi_processor_count} multiprocessors; {versions}; {size:,} elements a row.",
        f"A copy moves {bandwidth / 1e12:.2f} TB/s.",
        "",
        "| | ps an element | times a copy | "
        + " | ".join(f"{name}, times a copy; misrounded" for name in PEERS)
        + " |",
        "|---|---|---|" + "---|" * len(PEERS),
    ]
    return "\n".join([*head, *(_row(line, size) for line in lines)])


def _row(line: Line, size: int) -> str:
    ours = line.seconds["halfulp"]
    cells = [line.row.label, f"{ours / size * 1e12:.2f}", f"{ours / line.copy:.2f}"]
    for name in PEERS:
        if name in line.seconds:
            cells.append(f"{line.seconds[name] / line.copy:.2f}; {100 * line.misrounded[name]:.2g} %")
        else:
            cells.append("-")
    return "| " + " | ".join(cells) + " |"


def _version(name: str) -> str | None:
    packages = (name, f"{name}-cuda13x", f"{name}-cuda12x")
    return next(filter(None, map(version_of, packages)), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=1 << 28, help="elements a row")
    parser.add_argument("--turns", type=int, default=21, help="of each library")
    parser.add_argument("--docs", action="store_true", help=f"write {PAGE.name}, too")
    arguments = parser.parse_args()
    try:
        require_device()
    except HalfulpError as error:
        print(error, file=sys.stderr)
        return 1
    lines = []
    for row in ROWS:
        lines.append(measure(row, arguments.size, arguments.turns))
        print(_row(lines[-1], arguments.size), flush=True)
    text = tables(lines, arguments.size)
    print(text)
    if arguments.docs:
        page = PAGE.read_text()
        PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n\n{text}\n\n{END}", page, flags=re.S))
    return 1 if undecided(0) else 0


if __name__ == "__main__":
    sys.exit(main())
