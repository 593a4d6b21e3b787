"""Find inputs whose power is very near a rounding boundary, and write data/worst_cases/<type>.txt.

    python tools/find_hard_cases.py float32 --seconds 60 --seed 1
    python tools/find_hard_cases.py all
    python tools/find_hard_cases.py all --phases    # adds to the files, after a change of the phases' error bounds

--seconds limits the searches for float32 and float64. The others end by themselves (float16 and bfloat16 try
all pairs, in two minutes each). Needs gmpy2 and a C++20 compiler. The modules of tools/hard_cases/ describe the
searches.
"""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

import numpy as np

from halfulp.types import TYPES
from hard_cases import (
    exhaustive_16,
    lattice_float32,
    lattice_float64,
    nearest_exponent,
    phase_boundaries,
    scan_float32,
    squares_float64,
)
from hard_cases.case import Case, hardest

FOLDER = Path(__file__).parents[1] / "data" / "worst_cases"

HEADER = """\
# Hard cases of x^y for x, and so the result, of type {name}.
# Each line: the bits of x; the type and the bits of y; as a comment the distance of the exact power from
# the nearest {boundary}, measured by MPFR,
# and the search that found it. None is exact or a tie. Made by: python tools/find_hard_cases.py
# {name} --seconds {seconds:g} --seed {seed} on {date}.
"""


def main() -> None:
    """Search for one type, or for all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("type", choices=[*TYPES, "all"])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--phases", action="store_true", help="only the boundaries of phases; keep the rest")
    arguments = parser.parse_args()
    for name in TYPES if arguments.type == "all" else [arguments.type]:
        if arguments.phases:
            add(name, phase_boundaries.search(name, np.random.default_rng(arguments.seed)))
            continue
        cases = search(name, arguments.seconds, np.random.default_rng(arguments.seed))
        write(name, cases, arguments.seconds, arguments.seed)


def search(name: str, seconds: float, rng: np.random.Generator) -> list[Case]:
    """Run every search for the type, and return the hardest cases of each."""
    row = TYPES[name]
    if row.kind != "float":
        return [
            case
            for y_type in ("float64", "float32", "float16")
            for case in hardest(nearest_exponent.near_integers(name, y_type, 20_000, rng), 150)
        ]
    cases: list[Case] = []
    cases += phase_boundaries.search(name, rng)
    if name == "float64":
        cases += by_kind(lattice_float64.search(seconds, rng), 15)
        cases += by_kind(squares_float64.search(), 40)
    elif name == "float32":
        cases += by_kind(scan_float32.search(0.75 * seconds, rng), 160)
        cases += by_kind(lattice_float32.search(0.25 * seconds, rng), 160)
    elif row.bits == 16:
        cases += hardest(exhaustive_16.search(name), 400)
    for y_type in ("float64", "float32", "float16"):
        if row.bits < TYPES[y_type].bits:
            cases += hardest(nearest_exponent.near_midpoints(name, y_type, 20_000, rng), 200)
    if name != "float64":
        cases += by_kind(nearest_exponent.near_thresholds(name, "float32", 50_000, rng), 60)
    return cases


def by_kind(cases: list[Case], count: int) -> list[Case]:
    """Return the hardest cases of each kind."""
    kinds = sorted({case.kind for case in cases})
    return [case for kind in kinds for case in hardest([c for c in cases if c.kind == kind], count)]


def write(name: str, cases: list[Case], seconds: float, seed: int) -> None:
    """Write the file of a type, and print a summary."""
    boundary = (
        "midpoint of two neighbours in units of the last place" if TYPES[name].kind == "float" else "integer"
    )
    header = HEADER.format(
        name=name, boundary=boundary, seconds=seconds, seed=seed, date=datetime.date.today().isoformat()
    )
    lines = {case.line(name): case for case in cases}
    text = "\n".join(sorted(lines, key=lambda line: (lines[line].kind, line)))
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.txt").write_text(header + text + "\n")
    least = min(abs(case.distance) for case in cases)
    print(f"{name}: {len(lines)} cases, the nearest 2^{np.log2(least):.1f}")


def add(name: str, cases: list[Case]) -> None:
    """Add cases to the file of a type."""
    path = FOLDER / f"{name}.txt"
    known = set(path.read_text().splitlines())
    lines = sorted({case.line(name) for case in cases} - known)
    path.write_text(path.read_text() + "".join(f"{line}\n" for line in lines))
    print(f"{name}: {len(lines)} cases added")


if __name__ == "__main__":
    main()
