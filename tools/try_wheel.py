"""Try a wheel on a machine without a compiler: install it, run the pages' commands and examples, and quick tests.
Checks that the wheel contains its bill of materials.

    python tools/try_wheel.py dist/halfulp-0.1.0-*.whl

PATH is only the new environment's folder, so that nothing can be compiled. The exit status is 1 if something failed or
the wheel is larger than 6 MB.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
LARGEST = 6_000_000  # bytes
TESTS = ["tests/core", "tests/house/test_pages.py"]

FIRST_EXAMPLE = """
import numpy as np, halfulp as hu
print(hu.pow(np.array([3, -2, 0], np.int64), np.array([39, 63, -1], np.int64)))
from halfulp.cuda import KERNELS
assert KERNELS is not None, "the wheel has no kernels for CUDA"
import json
from importlib.metadata import files
(bill,) = [file for file in files("halfulp") if file.match("*.dist-info/sboms/halfulp.cdx.json")]
parts = {part["name"]: part["version"] for part in json.loads(bill.read_text())["components"]}
assert {"nanobind", "robin-map"} < set(parts), parts
"""
EXPECTED = "[ 4052555153018976267 -9223372036854775808  9223372036854775807]\n"


def main() -> None:
    """Try it and print the sizes and times."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("tests", nargs="*", default=TESTS, help=f"for pytest (default {' '.join(TESTS)})")
    arguments = parser.parse_args()
    wheel = arguments.wheel.resolve()
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size / 1e6:.2f} MB")
    if size > LARGEST:
        raise SystemExit(f"larger than {LARGEST / 1e6:.0f} MB")
    with tempfile.TemporaryDirectory(prefix="halfulp-wheel-") as folder:
        home = Path(folder)
        venv.create(home / "venv", with_pip=True)
        bin_folder = home / "venv" / ("Scripts" if os.name == "nt" else "bin")
        environment = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        environment |= {"PATH": str(bin_folder), "HOME": folder}

        def run(*command: str | Path) -> str:
            done = subprocess.run(
                [bin_folder / command[0], *command[1:]],
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
                check=False,
            )
            if done.returncode:
                raise SystemExit(f"{done.stdout}\nfailed: {' '.join(map(str, command))}")
            return done.stdout

        start = time.perf_counter()
        run("python", "-m", "pip", "install", "--quiet", f"{wheel}[models]")
        installed = time.perf_counter() - start
        found = run("python", "-c", FIRST_EXAMPLE)
        print(
            f"installed in {installed:.1f} s, the README's first example after {time.perf_counter() - start:.1f} s"
        )
        if found != EXPECTED:
            raise SystemExit(f"another result: {found}")
        print(run("halfulp", "spec", "onnx.Pow-15").splitlines()[0])
        run("python", "-m", "pip", "install", "--quiet", "pytest", "pytest-xdist", "gmpy2", "hypothesis")
        options = ["-q", "-n", "auto", f"--rootdir={ROOT}", "-c", str(ROOT / "pyproject.toml")]
        tests = [str(ROOT / test) for test in arguments.tests]
        print(run("python", "-m", "pytest", *options, *tests).splitlines()[-1])


if __name__ == "__main__":
    main()
