"""Run the proofs and print a line for each step. Exit with 1 if a step fails, and with 2 if a program is missing."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from proofs import gappa
from proofs.step import CORE, MissingProgram, Step, Unproved

PARTS = [
    "fast",
    "pairs",
    "fast_by_table",
    "singles",
    "fast_float64",
    "fast_float32",
    "fast_sixteenths",
    "double_double",
    "triple_double",
    "exact_phase",
    "rounding",
    "special_values",
    "exact_cases",
    "integers",
    "prelu",
]


def steps_of(part: str, core: Path) -> list[Step]:
    found: list[Step] = importlib.import_module(f"proofs.{part}").steps(core)
    return found


def outcome(step: Step) -> tuple[bool, str]:
    """Return whether the step is proved, and its line."""
    begin = time.monotonic()
    try:
        found, proved = step.prove(), True
    except Unproved as error:
        found, proved = str(error), False
    return (
        proved,
        f"{'proved ' if proved else 'FAILED '} {time.monotonic() - begin:6.1f} s  {step.statement}: {found}",
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m proofs", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(PARTS)}; all by default")
    parser.add_argument("--core", type=Path, default=CORE, help="prove this copy of core/")
    parser.add_argument("--quick", action="store_true", help="skip the steps that take minutes")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only the steps whose statement contains it"
    )
    parser.add_argument("--coq", action="store_true", help="check each of Gappa's proofs by Coq")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"unknown part {unknown[0]}: expected one of {', '.join(PARTS)}")
    gappa.by_coq = options.coq
    failed = 0
    with ThreadPoolExecutor(options.workers) as pool:
        for part in options.parts or PARTS:
            print(part, flush=True)
            try:
                steps = steps_of(part, options.core.resolve())
            except Unproved as error:  # the core does not compile
                print(f"  FAILED  {error}", flush=True)
                failed += 1
                continue
            wanted = [s for s in steps if (s.quick or not options.quick) and options.only in s.statement]
            for proved, line in pool.map(outcome, wanted):
                print(f"  {line}", flush=True)
                failed += not proved
    print("all proved" if not failed else f"{failed} steps failed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MissingProgram as error:
        print(f"python -m proofs: {error}", file=sys.stderr)
        sys.exit(2)
