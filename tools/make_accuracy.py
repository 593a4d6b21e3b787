"""Make docs/accuracy.md: measure runtimes, each in an environment of its own, since they do not fit into one.

    python tools/make_accuracy.py                   # all of them: gigabytes to install, some minutes each
    python tools/make_accuracy.py tract ncnn libm   # some of them; the others keep their results

A runtime that this Python has is measured here. For another one a virtual environment is made below build/accuracy.
Each result is a file there, NAME.json, and the page is made of all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from halfulp.conformance.accuracy import table, worst_pairs
from halfulp.conformance.targets import BUILT_IN, TargetSpec
from halfulp.installed import has_module

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/accuracy.md"
NEEDS = ("numpy", "ml_dtypes", "onnx", "typer", "rich", "gmpy2", "jinja2")
LEFT_OUT = ("onnx-converter", "openvino-native", "cupy")

TEXT = """# How exact runtimes' powers are

`make accuracy` makes this page: it measures each runtime in an environment of its own by `halfulp accuracy`. Exponents
have the type of the bases. A correctly rounded power is at most 0.5 ulp from x^y, and none is misrounded.

- **ordinary**: {count:,} bases from 0.01 to 10 with exponents from -4 to 4. **wide**: as many bases of all sizes,
  with powers of all sizes. **hard**: the hard cases of `data/worst_cases`, of which nearly exact code misrounds half.
- **worst ulp**: the greatest error of all these and of a search that climbs from the worst of them, in units in the
  last place of x^y, by MPFR. It is a lower bound: a longer search (`--rounds`) may find more.
- **special values wrong**: of the pairs of zeros, infinities, NaN, 1, -1, subnormal and other special numbers, those
  whose power is not that of IEEE 754, or farther off than 4 representable values.
- **bits depend on**: the same operands give other bits elsewhere in an array, in an array of another length, with
  another number of threads, with a scalar exponent, or as constants.

{table}

The worst pairs, with their bits:

{worst}

Measured on {machine}, {dates}. Again: `make accuracy`, or one of them: `pip install ...; halfulp accuracy NAME`.
"""


def main() -> None:
    """Measure the runtimes that are named, or all, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [name for name in BUILT_IN if name not in LEFT_OUT]
    parser.add_argument(
        "targets", nargs="*", choices=[*names, []], metavar="TARGET", help=f"of {', '.join(names)}"
    )
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build/accuracy", help="environments and results"
    )
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.targets or names:
        measure(BUILT_IN[name], arguments.folder)
    write(arguments.folder)


def measure(spec: TargetSpec, folder: Path) -> None:
    """Measure a runtime in this environment if it is here, and otherwise in one of its own."""
    python, variables = Path(sys.executable), {"PYTHONPATH": str(ROOT / "src")}
    if not has_module(spec.package):
        environment = folder / spec.name
        python = environment / "bin/python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
            packages = [*NEEDS, *(spec.pip.split() or [spec.package])]
            subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
        # Some wheels expect their libraries on the loader's path.
        variables["LD_LIBRARY_PATH"] = ":".join(
            map(str, environment.glob("lib/python*/site-packages/mlx_cpu.libs"))
        )
    command = [str(python), "-m", "halfulp", "accuracy", spec.name, "--json", f"{folder / spec.name}.json"]
    print(spec.name, file=sys.stderr)
    subprocess.run(command, env=os.environ | variables, check=False)  # one that fails keeps its last result


def write(folder: Path) -> None:
    """Write the page of all results."""
    order = list(BUILT_IN)
    files = sorted(folder.glob("*.json"), key=lambda path: order.index(path.stem))
    documents = [document for path in files for document in json.loads(path.read_text("utf-8"))]
    headers, *rows = table(documents)
    lines = [headers, ["---"] * len(headers), *rows]
    dates = sorted({document["run"]["date"] for document in documents})
    counts = [
        entry["ranges"]["wide"]["elements"]
        for document in documents
        for entry in document["types"]
        if entry["ranges"]
    ]
    text = TEXT.format(
        count=max(counts),
        table="\n".join(f"| {' | '.join(line)} |" for line in lines),
        worst="\n".join(f"- {line}" for line in worst_pairs(documents)),
        machine=", ".join(sorted({document["run"]["machine"] for document in documents})),
        dates=" to ".join(dict.fromkeys((dates[0], dates[-1]))),
    )
    PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
